"""Node classifiers, one per file."""

from quatgraph.models.node.base import HiddenOptions, NodeModel, NodeOptions
from quatgraph.models.node.gat import GAT
from quatgraph.models.node.gcn import GCN
from quatgraph.models.node.linear import Linear
from quatgraph.models.node.mlp import MLP
from quatgraph.models.node.phm import PHM
from quatgraph.models.node.qgnn import QGNN

MODELS: dict[str, type[NodeModel]] = {
    "qgnn": QGNN,
    "gcn": GCN,
    "gat": GAT,
    "mlp": MLP,
    "linear": Linear,
    "phm": PHM,
}

__all__ = [
    "GAT",
    "GCN",
    "MLP",
    "MODELS",
    "PHM",
    "QGNN",
    "HiddenOptions",
    "Linear",
    "NodeModel",
    "NodeOptions",
]
