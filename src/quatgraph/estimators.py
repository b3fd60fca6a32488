"""Estimators in scikit-learn's manner: ``fit``, ``predict``, ``score``.

They train like :func:`quatgraph.train_nodes` and its siblings, and hold the trained predictor in
``predictor_``. scikit-learn itself is not needed; ``sklearn.base.clone`` works on them.
"""

import inspect
import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from quatgraph.callbacks import Callback
from quatgraph.data.graph import AnyGraphs
from quatgraph.data.io.files import to_plain, to_word
from quatgraph.data.labels import list_labels
from quatgraph.errors import UserError
from quatgraph.metrics.classification import mean_std
from quatgraph.predictors.graph import GraphPredictor
from quatgraph.predictors.keywords import apply_settings, split_keywords
from quatgraph.predictors.link import Known, LinkPredictor
from quatgraph.predictors.node import NodePredictor
from quatgraph.predictors.predictions import Links, MissingLinks, Predictions, Table
from quatgraph.predictors.queries import AnyQueries, SingleQuery
from quatgraph.predictors.text import AnyTexts, TextPredictor
from quatgraph.predictors.training import (
    fit_graphs,
    fit_nodes,
    fit_texts,
    fit_triples,
)
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.job import Job
from quatgraph.tasks.link import LINK
from quatgraph.tasks.node import NODE
from quatgraph.tasks.task import AnyTask
from quatgraph.tasks.text import TEXT

PredictorT = TypeVar("PredictorT", NodePredictor, GraphPredictor, TextPredictor, LinkPredictor)
ClassifierT = TypeVar("ClassifierT", NodePredictor, GraphPredictor, TextPredictor)


@dataclass(frozen=True, repr=False)
class Report(Table):
    """The results of a training: a row for each split and seed."""

    results: list[dict[str, Any]]
    """See :attr:`quatgraph.tasks.job.Job.results`."""
    metrics: tuple[str, ...]
    """The metrics that are reported, the first one first: ``accuracy``."""
    num_configs: int
    """Number of configurations tried."""
    shares: Mapping[str, float]
    """The share of each model in the predictions, by its name."""

    @property
    def score(self) -> float:
        """The mean of the first metric on test data; NaN without any."""
        return self.mean_std(self.metrics[0])[0]

    def mean_std(self, metric: str) -> tuple[float, float]:
        """The mean and the sample standard deviation of a test metric over splits and seeds."""
        key = f"test/{metric}"
        return mean_std([each["combination"].get(key, math.nan) for each in self.results])

    def __repr__(self) -> str:
        found, count = [], len(self.results)
        for metric in self.metrics:
            mean, std = self.mean_std(metric)
            found.append(f"{metric} {mean:.4f}" + f" ± {std:.4f}" * (count > 1))
        over = f" over {count} splits and seeds" * (count > 1)
        models = ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.shares.items())
        tried = f"; of {self.num_configs} configurations: {models}" * (self.num_configs > 1)
        return f"Report(test {', '.join(found)}{over}{tried})"

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each split and seed, with all metrics; those of the best single model start
        with ``single-``."""
        for each in self.results:
            single = {f"single-{name}": value for name, value in each["single"].items()}
            yield {"split": each["split"], "seed": each["seed"], **each["combination"], **single}


class Estimator(ABC, Generic[PredictorT]):
    """What all estimators share.

    Args:
        model: Name of the model; by default a few candidates are tried and validation data decides.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``, or a device of torch.
        out: Folder for the bundle; by default a temporary one, which is removed together with the
            estimator.
        progress: Whether to print notes, and to show a progress bar on a terminal or in a notebook.
        callback: Called with the progress; see :mod:`quatgraph.callbacks`.
        options: Hyperparameters by their short names, such as ``lr=0.01`` or ``hidden_quats=32``;
            and ``refit``, ``resume`` and ``overwrite``, see
            :class:`quatgraph.predictors.TrainOptions`.

    Attributes:
        predictor_: The trained predictor.
        report_: The metrics of each split and seed; with ``refit`` from before it.
        notes_: What was inferred from the data, and which runs diverged: sentences.
    """

    task: ClassVar[AnyTask]
    predictor_: PredictorT
    report_: Report
    notes_: list[str]

    def __init__(
        self,
        *,
        model: str | None = None,
        device: str | torch.device = "auto",
        out: Path | str | None = None,
        progress: bool = False,
        callback: Callback | None = None,
        **options: object,
    ) -> None:
        self._params: dict[str, object] = {
            "model": model,
            "device": device,
            "out": out,
            "progress": progress,
            "callback": callback,
        }
        self._params |= options
        self._keywords()

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """The arguments of the constructor; ``deep`` is there for scikit-learn."""
        return dict(self._params)

    def set_params(self, **params: object) -> Self:
        """Replaces arguments of the constructor."""
        before, self._params = self._params, self._params | params
        try:
            self._keywords()
        except UserError:
            self._params = before
            raise
        return self

    def __repr__(self) -> str:
        signature = inspect.signature(Estimator).parameters
        defaults = {name: one.default for name, one in signature.items()}
        params = self._params.items()
        given = [f"{name}={value!r}" for name, value in params if value is not defaults.get(name)]
        return f"{type(self).__name__}({', '.join(given)})"

    def _keywords(self) -> dict[str, object]:
        """The arguments of a training; refuses unknown names and values of a wrong type."""
        given = {k: v for k, v in self._params.items() if k != "out" and (k, v) != ("model", None)}
        _, settings = split_keywords(self.task, given)
        apply_settings(self.task, None, settings)
        return given

    def _train(self, *data: Any) -> Self:
        out: Any = self._params["out"]
        if out is None:
            out = mkdtemp(prefix="quatgraph-")
            weakref.finalize(self, rmtree, out, ignore_errors=True)
        self.predictor_, job = self._fit(*data, out, None, self._keywords())
        self.notes_ = job.notes
        self.report_ = Report(
            job.results, self.task.metrics_to_report(job.chosen.config), job.num_configs, job.shares
        )
        return self

    @abstractmethod
    def _fit(self, *arguments: Any) -> tuple[PredictorT, Job]:
        """Trains on data; the last arguments are the folder, the configuration and keywords."""

    def _fitted(self) -> PredictorT:
        if not hasattr(self, "predictor_"):
            raise UserError(f"this {type(self).__name__} is not trained yet: call fit first")
        return self.predictor_

    def _test_score(self, labels: object = None) -> float:
        self._fitted()
        if labels is not None:
            raise UserError("labels belong to data: pass the data that they are of to score, too")
        if math.isnan(score := self.report_.score):
            raise UserError("the training data has no test part: pass labelled data to score")
        return score


class Classifier(Estimator[ClassifierT]):
    """What the classifiers share.

    Attributes:
        classes_: The labels, in the type that :meth:`fit` was given; ``(C,)``.
    """

    @property
    def classes_(self) -> NDArray[Any]:
        return np.array(self._fitted().classes)

    def predict(self, data: Any = None) -> NDArray[Any]:
        """The most probable label of each item, of the training data by default."""
        return np.array(self._predict(data).labels)

    def predict_proba(self, data: Any = None) -> NDArray[np.float32]:
        """The probabilities of all classes, ``(N, C)``, in the order of ``classes_``."""
        return self._predict(data).probabilities.numpy()

    def _predict(self, data: Any) -> Predictions:
        return self._fitted().predict(data)

    def _accuracy(self, names: Sequence[str], data: Any) -> float:
        """The accuracy on labelled items; ``names`` are those of their true labels, empty if
        unknown."""
        classes = self._fitted().card["labels"]
        places = self._predict(data).probabilities.argmax(dim=1).tolist()
        predicted = [classes[place] for place in places]
        if len(names) != len(predicted):
            raise UserError(
                f"there are {len(predicted)} items but {len(names)} labels; give one to each"
            )
        pairs = [(true, own) for true, own in zip(names, predicted, strict=True) if true]
        if not pairs:
            raise UserError("the data has no labels to compare with; pass labelled data to score")
        return sum(true == own for true, own in pairs) / len(pairs)


class NodeClassifier(Classifier[NodePredictor]):
    """Classifies the nodes of a graph. For arguments see :class:`Estimator`.

    Example:
        With a PyG ``Data``, or a folder::

            model = NodeClassifier(model="qgnn", hidden_quats=16, lr=0.01).fit(data)
            model.score()  # the mean accuracy on test nodes
            model.predict()
    """

    task = NODE

    def fit(self, data: Any) -> Self:
        """Trains; see :func:`quatgraph.train_nodes`."""
        return self._train(data)

    def score(self, data: Any = None) -> float:
        """The mean test accuracy over splits, or the accuracy on the labelled nodes of a graph."""
        if data is None:
            return self._test_score()
        graph = self._fitted()._read_new_data(data)
        names = [graph.label_names[code] if code >= 0 else "" for code in graph.y.tolist()]
        return self._accuracy(names, data)

    def _fit(self, *arguments: Any) -> tuple[NodePredictor, Job]:
        return fit_nodes(*arguments)


class GraphClassifier(Classifier[GraphPredictor]):
    """Classifies graphs. For arguments see :class:`Estimator`.

    Example:
        With a list of PyG ``Data``, or a path::

            model = GraphClassifier(model="gin", epochs=50).fit(graphs)
            model.score()  # the mean accuracy over folds
            model.predict(new_graphs)
    """

    task = GRAPH

    def fit(self, graphs: AnyGraphs, labels: Iterable[object] | None = None) -> Self:
        """Trains; see :func:`quatgraph.train_graphs`."""
        return self._train(graphs, labels)

    def score(
        self, graphs: "AnyGraphs | None" = None, labels: Iterable[object] | None = None
    ) -> float:
        """The mean test accuracy over folds, or the accuracy on labelled graphs; labels as in
        :meth:`fit`."""
        if graphs is None:
            return self._test_score(labels)
        known = self._fitted()._read_new_graphs(graphs, labels)
        names = [known.label_names[code] if code >= 0 else "" for code in known.y.tolist()]
        return self._accuracy(names, known)

    def _fit(self, *arguments: Any) -> tuple[GraphPredictor, Job]:
        return fit_graphs(*arguments)


class TextClassifier(Classifier[TextPredictor]):
    """Classifies texts. For arguments see :class:`Estimator`.

    Example:
        With lists, or the path of a file::

            model = TextClassifier(model="fasttext").fit(texts, labels)
            model.predict(["a charming little film"])
    """

    task = TEXT

    def fit(
        self,
        texts: Any,
        labels: Iterable[object] | None = None,
    ) -> Self:
        """Trains; see :func:`quatgraph.train_texts`."""
        return self._train(texts, labels)

    def score(self, texts: AnyTexts | None = None, labels: Iterable[object] | None = None) -> float:
        """The mean test accuracy over seeds, or the accuracy on texts with labels."""
        if texts is None:
            return self._test_score(labels)
        if labels is not None:
            given = list_labels(labels, "text")
            names = ["" if one is None else to_word(one) or "" for one in given]
            return self._accuracy(names, texts)
        known, _ = self._fitted()._read_documents(texts, labels_needed=True)
        names = [known.label_names[code] if code >= 0 else "" for code in known.y.tolist()]
        return self._accuracy(names, known)

    def _predict(self, data: Any) -> Predictions:
        texts = to_plain(data)
        return self._fitted().predict(list(texts) if isinstance(texts, Iterator) else texts)

    def _fit(self, *arguments: Any) -> tuple[TextPredictor, Job]:
        return fit_texts(*arguments)

    def __sklearn_tags__(self) -> Any:
        """Makes it a classifier for scikit-learn's ``cross_val_score``."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(string=True, two_d_array=False),
        )


class TripleCompleter(Estimator[LinkPredictor]):
    """Completes the triples of a knowledge graph. For arguments see :class:`Estimator`.

    Example:
        With rows of names, or a path::

            model = TripleCompleter(epochs=200).fit(triples)
            model.score()  # the mean reciprocal rank of the test triples
            model.predict(head="Australia", relation="capital", top=3)
    """

    task = LINK

    def fit(self, triples: Any, entities: Any = None) -> Self:
        """Trains; see :func:`quatgraph.train_triples`."""
        return self._train(triples, entities)

    def predict(
        self,
        queries: AnyQueries | None = None,
        *,
        top: int = 10,
        known: Known = "mark",
        explain: bool = False,
        **single: Unpack[SingleQuery],
    ) -> Links:
        """See :meth:`quatgraph.LinkPredictor.predict`."""
        return self._fitted().predict(queries, top=top, known=known, explain=explain, **single)

    def predict_missing(
        self, relation: str | Sequence[str] | None = None, *, top: int = 1000, explain: bool = False
    ) -> MissingLinks:
        """See :meth:`quatgraph.LinkPredictor.predict_missing`."""
        return self._fitted().predict_missing(relation, top=top, explain=explain)

    def score(self, triples: AnyQueries | None = None) -> float:
        """The mean reciprocal rank of the test triples, or of triples of known names."""
        if triples is None:
            return self._test_score()
        ranks = self._fitted().predict(triples).ranks
        if bool(ranks.isnan().any()):
            raise UserError("score takes whole triples: give each row a head, relation and tail")
        return float((1 / ranks.double()).mean())

    def _fit(self, *arguments: Any) -> tuple[LinkPredictor, Job]:
        return fit_triples(*arguments)
