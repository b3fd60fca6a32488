"""Graph classifiers, one per file."""

from quatgraph.models.graph.base import GraphModel, GraphOptions, LayeredOptions
from quatgraph.models.graph.capsgnn import GraphCapsGNN
from quatgraph.models.graph.dgcnn import GraphDGCNN
from quatgraph.models.graph.diffpool import GraphDiffPool
from quatgraph.models.graph.gat import GraphGAT
from quatgraph.models.graph.gcaps import GraphGCAPS
from quatgraph.models.graph.gcn import GraphGCN
from quatgraph.models.graph.gfn import GraphGFN
from quatgraph.models.graph.gin import GraphGIN
from quatgraph.models.graph.graphsage import GraphSAGE
from quatgraph.models.graph.iegn import GraphIEGN
from quatgraph.models.graph.ppgn import GraphPPGN
from quatgraph.models.graph.pscn import GraphPSCN
from quatgraph.models.graph.qgnn import GraphQGNN
from quatgraph.models.graph.sagpool import GraphSAGPool
from quatgraph.models.graph.structure_free import StructureFree
from quatgraph.models.graph.topk import GraphTopK
from quatgraph.models.graph.ugformer import GraphUGformer
from quatgraph.models.graph.ugformer1 import GraphUGformer1
from quatgraph.models.graph.wl import GraphWL

MODELS: dict[str, type[GraphModel]] = {
    "qgnn": GraphQGNN,
    "gcn": GraphGCN,
    "sage": GraphSAGE,
    "gat": GraphGAT,
    "gcaps": GraphGCAPS,
    "dgcnn": GraphDGCNN,
    "topk": GraphTopK,
    "sagpool": GraphSAGPool,
    "diffpool": GraphDiffPool,
    "ugformer": GraphUGformer,
    "ugformer1": GraphUGformer1,
    "capsgnn": GraphCapsGNN,
    "gin": GraphGIN,
    "iegn": GraphIEGN,
    "ppgn": GraphPPGN,
    "gfn": GraphGFN,
    "structure-free": StructureFree,
    "pscn": GraphPSCN,
    "wl": GraphWL,
}

__all__ = [
    "MODELS",
    "GraphCapsGNN",
    "GraphDGCNN",
    "GraphDiffPool",
    "GraphGAT",
    "GraphGCAPS",
    "GraphGCN",
    "GraphGFN",
    "GraphGIN",
    "GraphIEGN",
    "GraphModel",
    "GraphOptions",
    "GraphPPGN",
    "GraphPSCN",
    "GraphQGNN",
    "GraphSAGE",
    "GraphSAGPool",
    "GraphTopK",
    "GraphUGformer",
    "GraphUGformer1",
    "GraphWL",
    "LayeredOptions",
    "StructureFree",
]
