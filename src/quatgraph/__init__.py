"""Quaternion graph neural networks for PyTorch.

Public names are resolved on first use, so importing the package loads neither torch nor PyG.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from quatgraph.adjacency import Adjacency
    from quatgraph.comparison import Comparison, compare
    from quatgraph.errors import UserError
    from quatgraph.layers import (
        LayerwiseReadout,
        QGNNConv,
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
    from quatgraph.training.ensemble import Ensemble

_NAMES_IN = {
    "adjacency": "Adjacency",
    "comparison": "Comparison compare",
    "errors": "UserError",
    "layers": "LayerwiseReadout QGNNConv QuaternionDropout QuaternionLinear SimplifiedQGNNConv",
    "models.graph": "GraphQGNN",
    "models.link": "SimQGNN",
    "models.node": "QGNN",
    "models.text": "TextQGNN",
    "ops": "aggregate backend hamilton_linear",
    "predictors": "GraphPredictor LinkPredictor NodePredictor TextPredictor "
    "load train_graphs train_nodes train_texts train_triples",
    "training.ensemble": "Ensemble",
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}

__all__ = [
    "QGNN",
    "Adjacency",
    "Comparison",
    "Ensemble",
    "GraphPredictor",
    "GraphQGNN",
    "LayerwiseReadout",
    "LinkPredictor",
    "NodePredictor",
    "QGNNConv",
    "QuaternionDropout",
    "QuaternionLinear",
    "SimQGNN",
    "SimplifiedQGNNConv",
    "TextPredictor",
    "TextQGNN",
    "UserError",
    "aggregate",
    "backend",
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
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
