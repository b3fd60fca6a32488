"""Trains on data in memory or in files: what ``train_nodes`` and the estimators share."""

import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quatgraph import config as configs
from quatgraph.callbacks import Event, progress_bar
from quatgraph.data.graph import AnyGraphs, from_any
from quatgraph.data.io.frame import is_frame, with_index
from quatgraph.data.io.store import find_dataset
from quatgraph.data.labels import missing_labels
from quatgraph.data.link import Triples, add_entities, from_names, read_entities
from quatgraph.data.link.entities import NAME_COLUMNS, NO_FEATURES, EntitySource
from quatgraph.data.node import from_any as graph_from_any
from quatgraph.data.text import Documents, check_trainable
from quatgraph.data.text import from_list as documents_of
from quatgraph.errors import UserError, printable
from quatgraph.predictors.graph import GraphPredictor
from quatgraph.predictors.keywords import apply_settings, split_keywords
from quatgraph.predictors.link import LinkPredictor
from quatgraph.predictors.node import NodePredictor
from quatgraph.predictors.text import TextPredictor
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.job import Job, train_in_folder
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.refit import refit
from quatgraph.tasks.task import AnyTask
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import TextConfig
from quatgraph.tasks.text.problem import corpus_of, text_options
from quatgraph.training.bundle import Bundle, load_bundle
from quatgraph.training.context import Context
from quatgraph.training.record import RunRecord
from quatgraph.training.runtime import resolve_device

Keywords = Mapping[str, object]
LOGGER = logging.getLogger("quatgraph")
"""Gets the notes of a training, as information."""


@dataclass(eq=False)
class Training:
    """Where and how to train, as keyword arguments give it."""

    task: AnyTask
    out: Path | str
    given: Any
    """A configuration, which is then the only candidate, or None."""
    keywords: Keywords

    def __post_init__(self) -> None:
        self.options, self.settings = split_keywords(self.task, self.keywords)
        self.config = apply_settings(self.task, self.given, self.settings)
        """The configuration, or the one that the candidates start from."""
        self.device = resolve_device(self.options.get("device", "auto"))

    def locate(self, data: Path | str) -> dict[str, str]:
        """The settings of ``data`` for the name of a dataset or a path."""
        dataset = find_dataset(data, self.task.name)
        if dataset is not None:
            return {"name": dataset.name, "path": ""}
        return {"name": "", "path": str(Path(data).resolve())}

    def run(self, data: Any) -> tuple[Job, Bundle, Any]:
        """Trains; the data is the task's own, a path, or the name of a dataset.

        Returns the result, the bundle, and the data if it is in memory.
        """
        candidates: list[Any] = [self.config]
        if self.given is None:
            candidates = default_candidates(self.task, self.settings)
        if isinstance(data, Path | str):
            source = self.locate(data)
            candidates = [replace(c, data=replace(c.data, **source)) for c in candidates]
            data = None
        options, callback = self.options, self.options.get("callback")
        bar: Any = progress_bar() if options.get("progress", False) else nullcontext()
        with bar as update:

            def report(title: str, done: int, total: int) -> None:
                if update is not None:
                    update(title, done, total)
                if callback is not None:
                    callback(Event(title, done, total))

            def log(message: str) -> None:
                LOGGER.info(message)
                if update is not None:
                    print(f"quatgraph: {printable(message)}", file=sys.stderr)

            context = Context(
                self.device,
                resume=options.get("resume", False),
                overwrite=options.get("overwrite", False),
                progress=report,
                log=log,
            )
            folder, combine = Path(self.out), self.given is None
            job = train_in_folder(
                self.task, candidates, folder, context, data=data, combine=combine
            )
            if options.get("refit", False):
                refit(self.task, folder, context, data)
        if callback is not None:
            for event in curve_events(job):
                callback(event)
        bundle = load_bundle(job.folder)
        return job, replace(bundle, card=bundle.card | {"notes": job.notes}), data


def curve_events(job: Job) -> Iterator[Event]:
    """The metrics of every run at every evaluation; at the selected epoch if it has no curves."""
    for record in job.records:
        title, total = describe_run(record, job), int(record.config["train"]["epochs"])
        epochs, curves = record.curve_epochs, record.curves
        if not curves:
            epochs = [record.best_epoch]
            curves = {name: [value] for name, value in record.metrics.items()}
        for place, epoch in enumerate(epochs):
            metrics = {name: values[place] for name, values in curves.items()}
            finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
            yield Event(title, epoch, total, finite)


def describe_run(record: RunRecord, job: Job) -> str:
    """Distinguishes a run from the others of its training."""
    flat = configs.flatten(record.config)
    varied = [f"{key.rpartition('.')[2]} {flat.get(key)}" for key in job.chosen_settings]
    return ", ".join([record.method, *varied, f"split {record.split}", f"seed {record.seed}"])


def fit_nodes(
    data: Any, out: Path | str, config: NodeConfig | None, keywords: Keywords
) -> tuple[NodePredictor, Job]:
    """See :func:`quatgraph.train_nodes`."""
    training = Training(NODE, out, config, keywords)
    if not isinstance(data, Path | str):
        data = graph_from_any(data, training.config.data.read_options())
    job, bundle, known = training.run(data)
    return NodePredictor(bundle, training.device, known), job


def fit_graphs(
    graphs: AnyGraphs,
    labels: Iterable[object] | None,
    out: Path | str,
    config: GraphConfig | None,
    keywords: Keywords,
) -> tuple[GraphPredictor, Job]:
    """See :func:`quatgraph.train_graphs`."""
    training = Training(GRAPH, out, config, keywords)
    given = graphs
    if labels is not None or not isinstance(graphs, Path | str):
        data = training.config.data
        missing = missing_labels(data.missing)
        given = from_any(graphs, labels=labels, missing=missing, **data.keys)
    job, bundle, known = training.run(given)
    return GraphPredictor(bundle, training.device, known), job


def fit_triples(
    triples: Any, entities: Any, out: Path | str, config: LinkConfig | None, keywords: Keywords
) -> tuple[LinkPredictor, Job]:
    """See :func:`quatgraph.train_triples`."""
    if isinstance(entities, Path | str):
        keywords, entities = {**keywords, "entities": str(entities)}, None
    training = Training(LINK, out, config, keywords)
    data = training.config.data
    if not isinstance(triples, Triples | Path | str):
        triples = from_names(triples, split_seed=data.split_seed, columns=data.columns)
    if isinstance(triples, Triples):
        table = data.entity_source if entities is None else EntitySource(data.entities)
        triples = read_entities(triples, table)
    if entities is not None:
        if isinstance(triples, Path | str):
            source = training.locate(triples) | {"entities": NO_FEATURES, "entity": ""}
            triples = LINK.load(replace(training.config, data=replace(data, **source)))
        names = (data.entity, *NAME_COLUMNS)
        frame = with_index(entities, "the frame of entities", names)
        triples = add_entities(triples, frame, data.entity)
    job, bundle, _ = training.run(triples)
    return LinkPredictor(bundle, training.device), job


def fit_texts(
    texts: Any,
    labels: Iterable[object] | None,
    out: Path | str,
    config: TextConfig | None,
    keywords: Keywords,
) -> tuple[TextPredictor, Job]:
    """See :func:`quatgraph.train_texts`."""
    has_own = isinstance(texts, Documents | Path | str) or is_frame(texts)
    if labels is None and not has_own:
        raise UserError("a list of texts needs a list of labels; give a label to each text")
    if labels is not None and has_own:
        raise UserError(
            "labels belong to a list of texts; a path, a frame or documents have their own"
        )
    training = Training(TEXT, out, config, keywords)
    if isinstance(texts, Path | str):
        job, bundle, _ = training.run(texts)
        return TextPredictor(bundle, training.device), job
    if not isinstance(texts, Documents):
        texts = documents_of(texts, labels, text_options(training.config.data))
    check_trainable(texts, "the list of texts")
    job, bundle, _ = training.run(corpus_of(texts, training.config))
    return TextPredictor(bundle, training.device, texts), job
