"""Quaternion graph neural networks for PyTorch.

Public names are resolved on first use, so importing the package loads neither torch nor PyG.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from quatgraph import callbacks
    from quatgraph.adjacency import Adjacency
    from quatgraph.client import Client
    from quatgraph.comparison import Comparison, compare
    from quatgraph.data.loader import NeighborLoader
    from quatgraph.errors import UserError
    from quatgraph.estimators import (
        GraphClassifier,
        NodeClassifier,
        TextClassifier,
        TripleCompleter,
    )
    from quatgraph.layers import (
        LayerwiseReadout,
        PHMLinear,
        QGATConv,
        QGINConv,
        QGNNConv,
        QSAGEConv,
        QuaternionDropout,
        QuaternionLinear,
        SimplifiedQGNNConv,
    )
    from quatgraph.models.graph import GraphQGNN
    from quatgraph.models.link import SimQGNN
    from quatgraph.models.node import QGNN
    from quatgraph.models.text import TextQGNN
    from quatgraph.ops import aggregate, backend, hamilton_linear
    from quatgraph.predictors import (
        GraphPredictor,
        LinkPredictor,
        NodePredictor,
        TextPredictor,
        load,
        train_graphs,
        train_nodes,
        train_texts,
        train_triples,
    )
    from quatgraph.sampling import NeighborSampler
    from quatgraph.training.ensemble import Ensemble

_NAMES_IN = {
    "adjacency": "Adjacency",
    "callbacks": "callbacks",
    "client": "Client",
    "comparison": "Comparison compare",
    "data.loader": "NeighborLoader",
    "errors": "UserError",
    "estimators": "GraphClassifier NodeClassifier TextClassifier TripleCompleter",
    "layers": "LayerwiseReadout PHMLinear QGATConv QGINConv QGNNConv QSAGEConv QuaternionDropout "
    "QuaternionLinear SimplifiedQGNNConv",
    "models.graph": "GraphQGNN",
    "models.link": "SimQGNN",
    "models.node": "QGNN",
    "models.text": "TextQGNN",
    "ops": "aggregate backend hamilton_linear",
    "predictors": "GraphPredictor LinkPredictor NodePredictor TextPredictor "
    "load train_graphs train_nodes train_texts train_triples",
    "sampling": "NeighborSampler",
    "training.ensemble": "Ensemble",
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}

__all__ = [
    "QGNN",
    "Adjacency",
    "Client",
    "Comparison",
    "Ensemble",
    "GraphClassifier",
    "GraphPredictor",
    "GraphQGNN",
    "LayerwiseReadout",
    "LinkPredictor",
    "NeighborLoader",
    "NeighborSampler",
    "NodeClassifier",
    "NodePredictor",
    "PHMLinear",
    "QGATConv",
    "QGINConv",
    "QGNNConv",
    "QSAGEConv",
    "QuaternionDropout",
    "QuaternionLinear",
    "SimQGNN",
    "SimplifiedQGNNConv",
    "TextClassifier",
    "TextPredictor",
    "TextQGNN",
    "TripleCompleter",
    "UserError",
    "aggregate",
    "backend",
    "callbacks",
    "compare",
    "hamilton_linear",
    "load",
    "train_graphs",
    "train_nodes",
    "train_texts",
    "train_triples",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULE_OF[name]}")
    return module if name == _MODULE_OF[name] else getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
