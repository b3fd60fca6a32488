"""What the predictors of all tasks share: members, training data, evaluation."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.data.labels import Label, restore_labels
from quatgraph.data.splits import PARTS
from quatgraph.errors import UserError
from quatgraph.metrics.classification import CLASSIFICATION_METRICS
from quatgraph.metrics.report import Report, classification_report
from quatgraph.predictors.embeddings import Embeddings
from quatgraph.predictors.labelled import labels_of, match_labels
from quatgraph.predictors.members import Cache, TrainedMember, combine_logits
from quatgraph.predictors.predictions import Known, refuse_not_finite
from quatgraph.tasks.runs import count_classes
from quatgraph.training.bundle import Bundle

Config = TypeVar("Config")
SHOWN = ("test/accuracy", "test/mrr")
"""Metrics that a representation shows."""


def check_part(part: object, parts: Sequence[str], remedy: str = "") -> None:
    """Raises a UserError unless ``part`` is one of ``parts``; ``remedy`` is added if it is not a
    string, for example if labels were passed."""
    known = f"{', '.join(parts[:-1])} or {parts[-1]}"
    if not isinstance(part, str):
        raise UserError(f"part must be {known}, not {type(part).__name__}{remedy}")
    if part not in parts:
        raise UserError(f"part must be {known}, got {part!r}")


class Predictor(ABC, Generic[Config]):
    """Trained models out of a bundle, which predict as one; safe to call from several threads.

    Attributes:
        card: The bundle's card.
        members: The models, in the order of the card.
    """

    config_class: ClassVar[type[Any]]

    def __init__(self, bundle: Bundle, device: torch.device) -> None:
        self.card = bundle.card
        self.device = device
        self.members: list[TrainedMember[Config]] = []
        for index, entry in enumerate(self.card["members"]):
            config = configs.build(self.config_class, entry["config"])
            tensors = bundle.select_tensors(f"members.{index}")
            model, preparation = self._build(config, self.card | entry, tensors)
            model.to(device).eval()
            self.members.append(
                TrainedMember(
                    config, entry["split"], entry["seed"], entry["weight"], model, preparation
                )
            )
        self._cache = Cache()

    @property
    def config(self) -> Config:
        """The configuration of the first member; all members share its data."""
        return self.members[0].config

    @property
    def notes(self) -> list[str]:
        """What was inferred from the training data: sentences for the user. After a training also
        which runs diverged."""
        notes: list[str] = self.card.get("notes", [])  # older bundles have none
        return notes

    @abstractmethod
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Predictions for the training data, or for the data that is given first."""

    @abstractmethod
    def embed(self, *args: Any, **kwargs: Any) -> Embeddings:
        """The vectors from which the models predict, of the training data or of the data that is
        given first."""

    @property
    def model_names(self) -> str:
        """The members' models: ``tfidf, 2 textqgnn``."""
        models = Counter(entry["config"]["model"]["name"] for entry in self.card["members"])
        return ", ".join(
            name if count == 1 else f"{count} {name}" for name, count in models.items()
        )

    def __repr__(self) -> str:
        metrics = self.card["metrics"].items()
        found = [f"{name} {value:.3f}" for name, value in metrics if name in SHOWN and value]
        about = [repr(self.card["data"]["name"]), self.model_names, *found[:1]]
        return f"{type(self).__name__}({', '.join(about)})"

    def _choose_members(self, member: int | None) -> list[TrainedMember[Config]]:
        """All members, or the one at a place."""
        if member is None:
            return self.members
        if not 0 <= member < len(self.members):
            raise UserError(f"member must be from 0 to {len(self.members) - 1}, got {member}")
        return [self.members[member]]

    @abstractmethod
    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Recomputes the bundle's metrics; pass the training data if it was moved."""

    @abstractmethod
    def report(self, data: Any = None, part: str = "test") -> Any:
        """Measures the model on a part of its data, or on new data with labels."""

    def adopt(self, data: Any) -> bool:
        """Whether data, wherever it lies, has the digest of the training data. If so, it is used as
        such from now on; a bundle that holds its data needs none."""
        return False

    def _refuse_refitted(self) -> None:
        """Checks that the bundle has held-out data to be measured on."""
        if self.card.get("refit"):
            raise UserError(
                "the model was refitted on all labels, so no test data is left: evaluate it on new "
                "data; its card has the metrics from before"
            )

    @abstractmethod
    def _build(
        self, config: Config, card: Mapping[str, Any], tensors: dict[str, Tensor]
    ) -> tuple[nn.Module, Any]:
        """The model of a member with its weights, and what its inputs are prepared with."""


class Classifier(Predictor[Config]):
    """A predictor of classes: the weighted mean of the members' probabilities.

    ``data`` is the task's own type, with labels ``y`` and a ``digest``.
    """

    trained_on: ClassVar[str]
    """What the training data is: ``graphs``."""
    id_field: ClassVar[str]
    """The attribute of the data that holds the ids: ``graph_ids``."""
    takes_pairs: ClassVar[bool] = True
    """Whether data may be a pair of a list and its labels."""

    def __init__(self, bundle: Bundle, device: torch.device, data: Any = None) -> None:
        found = bundle.select_tensors("data").items()
        self._bundled = {name: value.to(device) for name, value in found}
        super().__init__(bundle, device)
        self._data = data
        self._lock = RLock()

    def evaluate(self, data: Any = None) -> dict[str, float]:
        """Recomputes the bundle's metrics from its weights and the training data.

        Members of one split and seed are measured as one. The result is the mean over splits and
        seeds; metrics of a part without data are left out.

        Args:
            data: The training data, if it was moved or was in memory; a list and its labels as a
                pair.
        """
        known = self._load_held_out(data)
        groups: dict[tuple[int, int], list[TrainedMember[Config]]] = {}
        for member in self.members:
            groups.setdefault((member.split, member.seed), []).append(member)
        total = sum(member.weight for member in self.members)
        means: dict[str, float] = {}
        for members in groups.values():
            share = sum(member.weight for member in members) / total
            for name, value in self._measure(members, known).items():
                means[name] = means.get(name, 0.0) + share * value
        recorded = self.card["metrics"]
        return {n: value for n, value in means.items() if n in recorded and not math.isnan(value)}

    @property
    def classes(self) -> list[Label]:
        """The labels, in the type that training was given; text if it read files."""
        return restore_labels(self.card["labels"], self.card.get("label_type", "str"))

    @property
    def training_data(self) -> Any:
        """The data that the model was trained on, read once; refused if it is not at hand."""
        return self._load_training_data()

    def test_predictions(self, data: Any = None) -> tuple[Tensor, Tensor, Tensor]:
        """Places in the data, predicted and true classes of the test items, ``(N,)`` each.

        The members of a split predict its test items together; none of them has trained on these.

        Args:
            data: The training data, if it was moved or was in memory.
        """
        known = self._load_held_out(data)
        splits: dict[int, list[TrainedMember[Config]]] = {}
        for member in self.members:
            splits.setdefault(member.split, []).append(member)
        none = torch.empty(0, dtype=torch.int64)
        places, predicted = [none], [none]
        for members in splits.values():
            if len(test := self._parts(members[0], known)["test"].cpu()):
                places.append(test)
                predicted.append(self._log_probabilities(members, known, test).argmax(dim=1))
        place = torch.cat(places)
        return place, torch.cat(predicted), known.y[place]

    def report(self, data: Any = None, part: str = "test") -> Report:
        """Measures the predictions on labelled data: overall, by class, and as a confusion matrix.

        A label that the model does not know counts as a wrong prediction, with a note.

        Args:
            data: New data with labels, in any form that ``predict`` takes, a list of graphs or
                texts and its labels as a pair; the training data by default, or if it has the
                digest of the training data.
            part: ``train``, ``valid`` or ``test`` of the training data. Members of several folds
                are measured on their own, and their predictions are pooled.
        """
        pair = f"; give labels with their {self.trained_on}, as a pair"
        check_part(part, PARTS, pair * self.takes_pairs)
        classes = self.card["labels"]
        if data is not None and not self.adopt(data):
            source: Any = self.config.data  # type: ignore[attr-defined]
            if isinstance(data, Path | str) and str(Path(data).resolve()) == source.path:
                raise self._changed()
            new = self._read_new_data(data)
            found = match_labels(new, classes)
            scores = self._log_probabilities(self.members, new, found.places)
            notes = [*new.notes, *found.notes]
            return classification_report(scores, found.labels, found.classes, notes)
        self._refuse_refitted()
        known = self._load_training_data()
        groups: dict[tuple[int, ...], list[TrainedMember[Config]]] = {}
        for member in self.members:
            groups.setdefault(tuple(self._parts(member, known)[part].tolist()), []).append(member)
        groups.pop((), None)
        if not groups:
            raise UserError(f"the model has no {part} data")
        pooled = []
        for indices, members in groups.items():
            places = torch.tensor(indices)
            pooled.append((self._log_probabilities(members, known, places), known.y[places]))
        scores, labels = map(torch.cat, zip(*pooled, strict=True))
        return classification_report(scores, labels, classes)

    def adopt(self, data: Any) -> bool:
        try:
            return self._replace_data(self._read_training_data(data))
        except UserError:  # such data could not be trained on
            return False

    def _replace_data(self, data: Any) -> bool:
        if data.digest != self.card["data"]["digest"]:
            return False
        with self._lock:
            self._data, self._cache = data, Cache()
        return True

    def _is_training_data(self, data: Any) -> bool:
        """Whether data, wherever it lies, has the digest of the training data."""
        if data is self._data:
            return True
        known = self.card["data"]
        sizes = count_classes(data.y, len(data.label_names))
        # Most new data differs in the sizes of its classes, and then needs no digest.
        alike = known.get("class_sizes", sizes) == sizes  # older bundles may have none
        return alike and bool(data.digest == known["digest"])

    def _known(self, data: Any, places: Sequence[int] | Tensor) -> Known:
        """What is known of items: their labels and, in the training data, their split. Of several
        splits it is the first that a member has them in: an item that one was trained on is not
        for testing."""
        splits, chosen = None, torch.as_tensor(places, dtype=torch.long)  # also of none
        is_known = self._is_training_data(data)
        if is_known and self.card.get("refit"):
            splits = ["train" if y >= 0 else "" for y in data.y[chosen].tolist()]
        elif is_known:
            numbers = torch.full((len(data.y),), len(PARTS))
            for number, part in reversed(list(enumerate(PARTS))):
                for member in self.members:
                    numbers[self._parts(member, data)[part]] = number
            splits = [(*PARTS, "")[n] for n in numbers[chosen].tolist()]
        labels = labels_of(data, chosen)
        if labels is not None:
            typed = dict(zip(self.card["labels"], self.classes, strict=True))
            labels = [typed.get(label, label) for label in labels]
        return {"known_labels": labels, "splits": splits}

    def _measure(self, members: Sequence[TrainedMember[Config]], data: Any) -> dict[str, float]:
        """The metrics of members of one split and seed."""
        recorded = self.card["metrics"]
        parts = {
            part: places
            for part, places in self._parts(members[0], data).items()
            if any(name.startswith(f"{part}/") for name in recorded)
        }
        places = torch.cat(list(parts.values()))
        scores = self._log_probabilities(members, data, places)
        labels = data.y[places]
        found: dict[str, float] = {}
        sizes = [len(part) for part in parts.values()]
        for part, own, true in zip(parts, scores.split(sizes), labels.split(sizes), strict=True):
            for name, measure in CLASSIFICATION_METRICS.items():
                if f"{part}/{name}" in recorded:
                    found[f"{part}/{name}"] = measure(own, true)
            found[f"{part}/loss"] = -float(own.gather(1, true[:, None]).mean())
        return found

    def _log_probabilities(
        self, members: Sequence[TrainedMember[Config]], data: Any, places: Sequence[int] | Tensor
    ) -> Tensor:
        """The logarithms of the combined probabilities, float64 ``(N, C)``."""
        with torch.no_grad():
            logits = self._logits(members, data, places)
        return self._combine(members, logits, data, places)

    def _combine(
        self,
        members: Sequence[TrainedMember[Config]],
        logits: Tensor,
        data: Any,
        places: Sequence[int] | Tensor,
    ) -> Tensor:
        ids, combined = (
            getattr(data, self.id_field),
            combine_logits(logits, members, self.card.get("temperature", 1.0)),
        )
        refuse_not_finite(
            combined,
            lambda row: ids[int(places[row])],
            lambda row: self._explain_overflow(members[0], data, int(places[row])),
        )
        return combined

    def _load_held_out(self, data: Any) -> Any:
        """The training data, given again if it was moved, of a model with held-out data."""
        self._refuse_refitted()
        if data is not None and not self._replace_data(self._read_training_data(data)):
            raise self._changed()
        return self._load_training_data()

    def _load_training_data(self) -> Any:
        """The training data, read once."""
        with self._lock:
            if self._data is None:
                source: Any = self.config.data  # type: ignore[attr-defined]
                if not source.name and not source.path:
                    raise UserError(
                        f"the model was trained on data in memory: pass the {self.trained_on} again"
                    )
                if source.path and not Path(source.path).exists():
                    raise UserError(
                        f"the training data is no longer at {source.path}: pass its new path"
                    )
                self._data = self._read_training_data(None)
            if self._data.digest != self.card["data"]["digest"]:
                raise self._changed()
            return self._data

    def _changed(self) -> UserError:
        return UserError(
            f"the data of {self.card['data']['name']!r} is no longer what the model was trained "
            "on: restore it, or pass the path of the original"
        )

    @abstractmethod
    def _read_training_data(self, data: Any) -> Any:
        """Reads training data: what is given, or what the configuration names if None."""

    @abstractmethod
    def _read_new_data(self, data: Any) -> Any:
        """Reads data to predict, perhaps with labels; ``notes`` are about it."""

    @abstractmethod
    def _logits(
        self, members: Sequence[TrainedMember[Config]], data: Any, places: Sequence[int] | Tensor
    ) -> Tensor:
        """The logits of each member for some of the data, ``(M, N, C)``."""

    @abstractmethod
    def _parts(self, member: TrainedMember[Config], data: Any) -> dict[str, Tensor]:
        """Places of the member's training, validation and test data that are measured."""

    @abstractmethod
    def _explain_overflow(self, member: TrainedMember[Config], data: Any, place: int) -> str:
        """Names the input that overflows in the network; empty where there is none."""
