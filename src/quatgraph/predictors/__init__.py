"""Trained models that answer questions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from quatgraph.data.graph import AnyGraphs, from_any
from quatgraph.data.labels import missing_labels
from quatgraph.data.link import Triples, from_names, read
from quatgraph.data.node import from_data
from quatgraph.data.text import Documents, TextOptions, check_trainable
from quatgraph.data.text import from_list as documents_of
from quatgraph.errors import Mistake
from quatgraph.predictors.graph import GraphPredictor
from quatgraph.predictors.link import LinkPredictor
from quatgraph.predictors.node import NodePredictor
from quatgraph.predictors.predictions import Answer, Links, Predictions, TextPredictions
from quatgraph.predictors.text import TextPredictor
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.job import default_candidates, train_in_folder
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.task import AnyTask, Config
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import TextConfig
from quatgraph.tasks.text.problem import corpus_of
from quatgraph.training.bundle import Bundle, load_bundle
from quatgraph.training.context import Context
from quatgraph.training.runtime import resolve_device

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Predictor(Protocol):
    """What the predictors of all tasks can do; each says itself what more it takes."""

    card: dict[str, Any]
    """The bundle's."""

    def predict(self, *args: Any, **kwargs: Any) -> Answer:
        """Answers for the training data, or for what is given first."""

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """The bundle's metrics, computed again; first where the training data is, if it moved."""


PREDICTORS: dict[str, Callable[[Bundle, torch.device], Predictor]] = {
    "node": NodePredictor,
    "graph": GraphPredictor,
    "link": LinkPredictor,
    "text": TextPredictor,
}


def load(bundle: Path | str, *, device: str = "auto") -> Predictor:
    """Opens a bundle, ready to predict: a predictor of the bundle's task."""
    opened = load_bundle(Path(bundle))
    task = opened.card.get("task")
    if task not in PREDICTORS:
        raise Mistake(f"{bundle} is for the task {task!r}, which this version cannot predict")
    for name, tensor in opened.tensors.items():
        if not bool(tensor.isfinite().all()):
            raise Mistake(
                f"the weights {name} in {bundle} are not finite numbers, so its training diverged: "
                "train again with a lower train.lr"
            )
    return PREDICTORS[task](opened, resolve_device(device))


def train_nodes(
    data: "Data | Path | str",
    out: Path | str,
    *,
    config: NodeConfig | None = None,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
) -> NodePredictor:
    """Learns to classify the nodes of a graph and returns the predictor.

    Args:
        data: A PyG ``Data`` with ``y``, ``-1`` where unknown; ``x``, the masks and ``edge_weight``
            may be missing, other features of edges (``edge_attr``) are not used. Or a folder, see
            :func:`quatgraph.data.node.read`.
        out: Folder for the bundle.
        config: Settings; without them a few are tried and validation data decides.
        resume: Whether to go on with a training that ``out`` holds.
        overwrite: Whether to replace a training that ``out`` holds.
    """
    context = Context(resolve_device(device), resume=resume)
    if isinstance(data, Path | str):
        chosen = _located(config or NodeConfig(), data)
        tried = _candidates(NODE, chosen, search=config is None)
        return NodePredictor(*_trained(NODE, tried, None, out, context, overwrite))
    graph = from_data(data)
    tried = _candidates(NODE, config or NodeConfig(), search=config is None)
    return NodePredictor(*_trained(NODE, tried, graph, out, context, overwrite), graph)


def train_graphs(
    graphs: AnyGraphs,
    out: Path | str,
    *,
    config: GraphConfig | None = None,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
) -> GraphPredictor:
    """Learns to classify graphs and returns the predictor.

    Args:
        graphs: PyG graphs, each with ``edge_index`` and ``y``, ``-1`` or missing where unknown;
            perhaps ``x`` and ``tag``, see :func:`quatgraph.data.graph.from_list`. Weights and
            features of edges are not used. Or where graphs are, see
            :func:`quatgraph.data.graph.read`.
        out: Folder for the bundle.
        config: Settings; without them a few are tried and validation data decides.
        resume: Whether to go on with a training that ``out`` holds.
        overwrite: Whether to replace a training that ``out`` holds.
    """
    context = Context(resolve_device(device), resume=resume)
    if isinstance(graphs, Path | str):
        chosen = _located(config or GraphConfig(), graphs)
        tried = _candidates(GRAPH, chosen, search=config is None)
        return GraphPredictor(*_trained(GRAPH, tried, None, out, context, overwrite))
    known = from_any(graphs)
    tried = _candidates(GRAPH, config or GraphConfig(), search=config is None)
    return GraphPredictor(*_trained(GRAPH, tried, known, out, context, overwrite), known)


def train_triples(
    triples: Triples | Path | str | Iterable[Sequence[object]],
    out: Path | str,
    *,
    config: LinkConfig | None = None,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
) -> LinkPredictor:
    """Learns to complete the triples of a knowledge graph and returns the predictor.

    Args:
        triples: A knowledge graph; or where one is, see :func:`quatgraph.data.link.read`; or rows
            of names, see :func:`quatgraph.data.link.from_names`.
        out: Folder for the bundle.
        config: Settings; without them a few are tried and validation data decides.
        resume: Whether to go on with a training that ``out`` holds.
        overwrite: Whether to replace a training that ``out`` holds.
    """
    if isinstance(triples, Path | str):
        data = (config or LinkConfig()).data
        triples = read(
            Path(triples), header=data.header, split_seed=data.split_seed, unseen=data.unseen
        )
    known = triples if isinstance(triples, Triples) else from_names(triples)
    tried = _candidates(LINK, config or LinkConfig(), search=config is None)
    context = Context(resolve_device(device), resume=resume)
    return LinkPredictor(*_trained(LINK, tried, known, out, context, overwrite))


def train_texts(
    texts: Documents | Path | str | Iterable[str],
    labels: Iterable[object] | None,
    out: Path | str,
    *,
    config: TextConfig | None = None,
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
) -> TextPredictor:
    """Learns to classify texts and returns the predictor.

    Args:
        texts: A list of texts; or where texts with labels are, see
            :func:`quatgraph.data.text.read`; or documents.
        labels: Label of each text of a list, empty where it is unknown; None for the others.
        out: Folder for the bundle.
        config: Settings; without them a few are tried and validation data decides.
        resume: Whether to go on with a training that ``out`` holds.
        overwrite: Whether to replace a training that ``out`` holds.
    """
    if (labels is None) != isinstance(texts, Documents | Path | str):
        raise Mistake("labels belong to a list of texts; a path or documents have their own")
    chosen = TextConfig() if config is None else config
    data = chosen.data
    if isinstance(texts, Path | str):
        chosen, known = _located(chosen, texts), None
    else:
        if not isinstance(texts, Documents):
            texts = documents_of(
                texts,
                labels,
                TextOptions(
                    split_seed=data.draw_seed,
                    stop_words=data.stop_words,
                    min_count=data.min_count,
                    missing=missing_labels(data.missing),
                ),
            )
        check_trainable(texts, "the list of texts")
        known = corpus_of(texts, chosen)
    tried = _candidates(TEXT, chosen, search=config is None)
    context = Context(resolve_device(device), resume=resume)
    return TextPredictor(*_trained(TEXT, tried, known, out, context, overwrite), known)


def _located(config: Any, path: Path | str) -> Any:
    """The configuration with the data at a path."""
    place = str(Path(path).resolve())
    return replace(config, data=replace(config.data, name="", path=place))


def _candidates(task: AnyTask, config: Config, *, search: bool) -> list[Any]:
    """The configurations to train: one, or a few of which validation data chooses."""
    return default_candidates(task, config) if search else [config]


def _trained(
    task: AnyTask,
    candidates: list[Any],
    data: Any,
    out: Path | str,
    context: Context,
    overwrite: bool,
) -> tuple[Bundle, torch.device]:
    """A trained bundle, and its device."""
    job = train_in_folder(task, candidates, Path(out), context, data=data, overwrite=overwrite)
    return load_bundle(job.folder), context.device


__all__ = [
    "Answer",
    "GraphPredictor",
    "LinkPredictor",
    "Links",
    "NodePredictor",
    "Predictions",
    "Predictor",
    "TextPredictions",
    "TextPredictor",
    "load",
    "train_graphs",
    "train_nodes",
    "train_texts",
    "train_triples",
]
