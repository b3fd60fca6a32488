"""Quaternion graph neural networks for PyTorch.

Public names are resolved on first use, so importing the package loads neither torch nor PyG.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from quatgraph.adjacency import Adjacency
    from quatgraph.errors import Mistake
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

_MODULE_OF = {
    "Adjacency": "adjacency",
    "Ensemble": "training.ensemble",
    "GraphPredictor": "predictors",
    "GraphQGNN": "models.graph",
    "LayerwiseReadout": "layers",
    "LinkPredictor": "predictors",
    "Mistake": "errors",
    "NodePredictor": "predictors",
    "QGNN": "models.node",
    "QGNNConv": "layers",
    "QuaternionDropout": "layers",
    "QuaternionLinear": "layers",
    "SimQGNN": "models.link",
    "SimplifiedQGNNConv": "layers",
    "TextPredictor": "predictors",
    "TextQGNN": "models.text",
    "aggregate": "ops",
    "backend": "ops",
    "hamilton_linear": "ops",
    "load": "predictors",
    "train_graphs": "predictors",
    "train_nodes": "predictors",
    "train_texts": "predictors",
    "train_triples": "predictors",
}

__all__ = [
    "QGNN",
    "Adjacency",
    "Ensemble",
    "GraphPredictor",
    "GraphQGNN",
    "LayerwiseReadout",
    "LinkPredictor",
    "Mistake",
    "NodePredictor",
    "QGNNConv",
    "QuaternionDropout",
    "QuaternionLinear",
    "SimQGNN",
    "SimplifiedQGNNConv",
    "TextPredictor",
    "TextQGNN",
    "aggregate",
    "backend",
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
