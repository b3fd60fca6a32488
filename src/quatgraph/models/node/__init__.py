"""Node classifiers, one per file."""

from quatgraph.models.node.base import HiddenOptions, NodeModel, NodeOptions
from quatgraph.models.node.deep_qgnn import DeepQGNN
from quatgraph.models.node.gat import GAT
from quatgraph.models.node.gcn import GCN
from quatgraph.models.node.gcnii import GCNII
from quatgraph.models.node.hgcn import HGCN
from quatgraph.models.node.linear import Linear
from quatgraph.models.node.mlp import MLP
from quatgraph.models.node.phm import PHM
from quatgraph.models.node.qgnn import QGNN
from quatgraph.models.node.sgc import SGC

MODELS: dict[str, type[NodeModel]] = {
    "qgnn": QGNN,
    "deep-qgnn": DeepQGNN,
    "gcn": GCN,
    "gcnii": GCNII,
    "gat": GAT,
    "hgcn": HGCN,
    "sgc": SGC,
    "mlp": MLP,
    "linear": Linear,
    "phm": PHM,
}

__all__ = [
    "GAT",
    "GCN",
    "GCNII",
    "HGCN",
    "MLP",
    "MODELS",
    "PHM",
    "QGNN",
    "SGC",
    "DeepQGNN",
    "HiddenOptions",
    "Linear",
    "NodeModel",
    "NodeOptions",
]
