"""Trained models that predict."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from quatgraph.data.graph import AnyGraphs, from_any
from quatgraph.data.io.frame import is_frame
from quatgraph.data.labels import missing_labels
from quatgraph.data.link import Triples, from_names, read
from quatgraph.data.node import from_any as graph_from_any
from quatgraph.data.text import Documents, check_trainable
from quatgraph.data.text import from_list as documents_of
from quatgraph.errors import UserError, check_known
from quatgraph.predictors.base import Predictor
from quatgraph.predictors.graph import GraphPredictor
from quatgraph.predictors.link import LinkPredictor
from quatgraph.predictors.node import NodePredictor
from quatgraph.predictors.predictions import AnyPredictions, Links, Predictions, TextPredictions
from quatgraph.predictors.text import TextPredictor
from quatgraph.tasks.config import Config
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.job import train_in_folder
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.task import AnyTask
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import TextConfig
from quatgraph.tasks.text.problem import corpus_of, text_options
from quatgraph.training.bundle import Bundle, load_bundle
from quatgraph.training.context import Context
from quatgraph.training.runtime import resolve_device

PREDICTORS: dict[str, Callable[[Bundle, torch.device], Predictor[Any]]] = {
    "node": NodePredictor,
    "graph": GraphPredictor,
    "link": LinkPredictor,
    "text": TextPredictor,
}


class TrainOptions(TypedDict, total=False):
    """Options that all training functions take by keyword."""

    device: str
    """``auto``, ``cpu``, ``cuda`` or ``cuda:N``; ``auto`` by default."""
    resume: bool
    """Whether to continue a training that the folder holds."""
    overwrite: bool
    """Whether to replace a training that the folder holds."""


def load(bundle: Path | str, *, device: str = "auto") -> Predictor[Any]:
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
    **options: Unpack[TrainOptions],
) -> NodePredictor:
    """Trains a classifier of the nodes of a graph.

    Args:
        data: A PyG ``Data`` with ``y``, ``-1`` where unknown; ``x``, the masks and ``edge_weight``
            may be missing, other features of edges (``edge_attr``) are not used. Or a folder, see
            :mod:`quatgraph.data.node.files`. Or a pair of pandas or Polars frames ``(nodes,
            edges)``, a networkx graph, or NumPy and SciPy arrays ``(adjacency, x, y)``, see
            :func:`quatgraph.data.node.from_any`.
        out: Folder for the bundle.
        config: Settings; by default a few candidates are tried and validation data decides.
        options: See :class:`TrainOptions`.
    """
    settings = (config or NodeConfig()).data
    in_memory = not isinstance(data, Path | str)
    graph = graph_from_any(data, settings.read_options()) if in_memory else data
    return NodePredictor(*_train(NODE, graph, out, config, options))


def train_graphs(
    graphs: AnyGraphs,
    out: Path | str,
    *,
    labels: Iterable[object] | None = None,
    config: GraphConfig | None = None,
    **options: Unpack[TrainOptions],
) -> GraphPredictor:
    """Trains a classifier of graphs.

    Args:
        graphs: PyG graphs, each with ``edge_index`` and ``y``, ``-1`` or missing where unknown;
            perhaps ``x`` and ``tag``, see :func:`quatgraph.data.graph.from_list`. Weights and
            features of edges are not used. Or networkx graphs, see
            :func:`quatgraph.data.graph.networkx.from_networkx`. Or a path, see
            :func:`quatgraph.data.graph.read`.
        out: Folder for the bundle.
        labels: Label of each networkx graph, if ``graph.graph["label"]`` does not hold it.
        config: Settings; by default a few candidates are tried and validation data decides.
        options: See :class:`TrainOptions`.
    """
    known = graphs
    if not isinstance(graphs, Path | str):
        data = (config or GraphConfig()).data
        missing = missing_labels(data.missing)
        known = from_any(graphs, labels=labels, missing=missing, split=data.split, group=data.group)
    elif labels is not None:
        raise UserError("a list of labels is for networkx graphs; files have their own")
    return GraphPredictor(*_train(GRAPH, known, out, config, options))


def train_triples(
    triples: Any,
    out: Path | str,
    *,
    config: LinkConfig | None = None,
    **options: Unpack[TrainOptions],
) -> LinkPredictor:
    """Trains a model that completes the triples of a knowledge graph.

    Args:
        triples: A knowledge graph; or a path, see :func:`quatgraph.data.link.read`; or rows of
            names: a list, an array, or a frame of pandas or polars, whose columns ``config.data``
            may name, see :func:`quatgraph.data.link.from_names`.
        out: Folder for the bundle.
        config: Settings; by default a few candidates are tried and validation data decides.
        options: See :class:`TrainOptions`.
    """
    data = (config or LinkConfig()).data
    if isinstance(triples, Path | str):
        triples = read(
            Path(triples),
            header=data.header,
            split_seed=data.split_seed,
            unseen=data.unseen,
            columns=data.columns,
        )
    elif not isinstance(triples, Triples):
        triples = from_names(triples, split_seed=data.split_seed, columns=data.columns)
    bundle, device, _ = _train(LINK, triples, out, config, options)
    return LinkPredictor(bundle, device)


def train_texts(
    texts: Any,
    labels: Iterable[object] | None,
    out: Path | str,
    *,
    config: TextConfig | None = None,
    **options: Unpack[TrainOptions],
) -> TextPredictor:
    """Trains a classifier of texts.

    Args:
        texts: A list or a column of texts; a path of texts with labels, see
            :func:`quatgraph.data.text.read`; a frame of pandas or polars with columns for text and
            label, which ``config.data`` may name; or documents.
        labels: Label of each text of a list, empty where unknown; None for all others.
        out: Folder for the bundle.
        config: Settings; by default a few candidates are tried and validation data decides.
        options: See :class:`TrainOptions`.
    """
    if (labels is None) != (isinstance(texts, Documents | Path | str) or is_frame(texts)):
        raise UserError(
            "labels belong to a list of texts; a path, a frame or documents have their own"
        )
    if isinstance(texts, Path | str):
        return TextPredictor(*_train(TEXT, texts, out, config, options))
    settings = config or TextConfig()
    if not isinstance(texts, Documents):
        texts = documents_of(texts, labels, text_options(settings.data))
    check_trainable(texts, "the list of texts")
    bundle, device, _ = _train(TEXT, corpus_of(texts, settings), out, config, options)
    return TextPredictor(bundle, device, texts)


def _train(
    task: AnyTask, data: Any, out: Path | str, config: Config | None, options: TrainOptions
) -> tuple[Bundle, torch.device, Any]:
    """Trains on data in memory or at a path.

    Returns the bundle, the device to predict on, and the data if it is in memory.
    """
    candidates: list[Any] = default_candidates(task) if config is None else [config]
    if isinstance(data, Path | str):
        path, data = str(Path(data).resolve()), None
        candidates = [replace(c, data=replace(c.data, name="", path=path)) for c in candidates]
    for name in options:
        check_known(name, TrainOptions.__annotations__, f"unknown option {name!r}")
    device = resolve_device(options.get("device", "auto"))
    context = Context(
        device, resume=options.get("resume", False), overwrite=options.get("overwrite", False)
    )
    job = train_in_folder(task, candidates, Path(out), context, data=data, combine=config is None)
    return load_bundle(job.folder), device, data


__all__ = [
    "AnyPredictions",
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
