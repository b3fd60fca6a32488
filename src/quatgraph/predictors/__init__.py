"""Trained models that predict."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from quatgraph.data.graph import AnyGraphs
from quatgraph.errors import UserError
from quatgraph.predictors.base import Predictor
from quatgraph.predictors.embeddings import Embeddings
from quatgraph.predictors.graph import GraphPredictor
from quatgraph.predictors.keywords import TrainOptions
from quatgraph.predictors.link import LinkPredictor
from quatgraph.predictors.node import NodePredictor
from quatgraph.predictors.predictions import AnyPredictions, Links, Predictions, TextPredictions
from quatgraph.predictors.text import TextPredictor
from quatgraph.predictors.training import (
    fit_graphs,
    fit_nodes,
    fit_texts,
    fit_triples,
)
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.text.config import TextConfig
from quatgraph.training.bundle import Bundle, load_bundle
from quatgraph.training.runtime import resolve_device

PREDICTORS: dict[str, Callable[[Bundle, torch.device], Predictor[Any]]] = {
    "node": NodePredictor,
    "graph": GraphPredictor,
    "link": LinkPredictor,
    "text": TextPredictor,
}


def load(bundle: Path | str, *, device: str | torch.device = "auto") -> Predictor[Any]:
    """Loads a bundle: the predictor of its task."""
    opened = load_bundle(Path(bundle))
    task = opened.card.get("task")
    if task not in PREDICTORS:
        raise UserError(f"{bundle} is for the task {task!r}, which this version cannot predict")
    for name, tensor in opened.tensors.items():
        if not bool(tensor.isfinite().all()):
            raise UserError(
                f"the weights {name} in {bundle} are not finite numbers, so its training diverged: "
                "train again with a lower train.lr"
            )
    return PREDICTORS[task](opened, resolve_device(device))


def train_nodes(
    data: Any,
    out: Path | str,
    *,
    config: NodeConfig | None = None,
    **options: object,
) -> NodePredictor:
    """Trains a classifier of the nodes of a graph.

    Args:
        data: A PyG ``Data`` with ``y``, ``-1`` where unknown; ``x``, the masks and ``edge_weight``
            may be missing, other features of edges (``edge_attr``) are not used. Or a folder, see
            :mod:`quatgraph.data.node.files`; or the name of a dataset. Or a pair of pandas or
            Polars frames ``(nodes, edges)``, a networkx graph, or NumPy and SciPy arrays
            ``(adjacency, x, y)``, see :func:`quatgraph.data.node.from_any`.
        out: Folder for the bundle.
        config: Settings; by default a few candidates are tried and validation data decides.
        options: Hyperparameters by their short names, such as ``lr=0.01`` or ``hidden_quats=32``,
            which all candidates share; and :class:`TrainOptions`.
    """
    return fit_nodes(data, out, config, options)[0]


def train_graphs(
    graphs: AnyGraphs,
    out: Path | str,
    *,
    labels: Iterable[object] | None = None,
    config: GraphConfig | None = None,
    **options: object,
) -> GraphPredictor:
    """Trains a classifier of graphs.

    Args:
        graphs: PyG graphs, each with ``edge_index`` and ``y``, ``-1`` or missing where unknown;
            perhaps ``x``, ``tag`` and ``edge_attr``, see :func:`quatgraph.data.graph.from_list`.
            Or networkx graphs, see :func:`quatgraph.data.graph.networkx.from_networkx`. Or a list
            of SMILES. Or a path, see :func:`quatgraph.data.graph.read`; or the name of a dataset.
        out: Folder for the bundle.
        labels: Label of each SMILES, or of each networkx graph, if ``graph.graph["label"]`` does
            not hold it.
        config: Settings; by default a few candidates are tried and validation data decides.
        options: Hyperparameters by their short names, such as ``lr=0.01`` or ``hidden_quats=32``,
            which all candidates share; and :class:`TrainOptions`.
    """
    return fit_graphs(graphs, labels, out, config, options)[0]


def train_triples(
    triples: Any,
    out: Path | str,
    *,
    entities: Any = None,
    config: LinkConfig | None = None,
    **options: object,
) -> LinkPredictor:
    """Trains a model that completes the triples of a knowledge graph.

    Args:
        triples: A knowledge graph; or a path, see :func:`quatgraph.data.link.read`; or the name of
            a dataset; or rows of names: a list, an array, or a frame of pandas or polars, whose
            columns ``config.data`` may name, see :func:`quatgraph.data.link.from_names`.
        out: Folder for the bundle.
        entities: Features of entities: a frame of pandas or polars with a column of their names, or
            else an index of pandas; or the path of such a table. See
            :mod:`quatgraph.data.link.entities`.
        config: Settings; by default a few candidates are tried and validation data decides.
        options: Hyperparameters by their short names, such as ``lr=0.01`` or ``hidden_quats=32``,
            which all candidates share; and :class:`TrainOptions`.
    """
    return fit_triples(triples, entities, out, config, options)[0]


def train_texts(
    texts: Any,
    labels: Iterable[object] | None,
    out: Path | str,
    *,
    config: TextConfig | None = None,
    **options: object,
) -> TextPredictor:
    """Trains a classifier of texts.

    Args:
        texts: A list or a column of texts; a path of texts with labels, see
            :func:`quatgraph.data.text.read`; the name of a dataset; a frame of pandas or polars
            with columns for text and label, which ``config.data`` may name; or documents.
        labels: Label of each text of a list, empty where unknown; None for all others.
        out: Folder for the bundle.
        config: Settings; by default a few candidates are tried and validation data decides.
        options: Hyperparameters by their short names, such as ``lr=0.01`` or ``hidden_quats=32``,
            which all candidates share; and :class:`TrainOptions`.
    """
    return fit_texts(texts, labels, out, config, options)[0]


__all__ = [
    "AnyPredictions",
    "Embeddings",
    "GraphPredictor",
    "LinkPredictor",
    "Links",
    "NodePredictor",
    "Predictions",
    "Predictor",
    "TextPredictions",
    "TextPredictor",
    "TrainOptions",
    "load",
    "train_graphs",
    "train_nodes",
    "train_texts",
    "train_triples",
]
