"""The settings that all tasks share."""

from dataclasses import dataclass
from typing import Literal

from quatgraph import config as configs
from quatgraph.metrics.classification import Metric
from quatgraph.models.common import Options
from quatgraph.presets import Protocol
from quatgraph.tasks.class_weights import parse_class_weights
from quatgraph.training.loop import Select
from quatgraph.training.optim import Optimizer
from quatgraph.training.schedule import Plateau


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    name: str = ""
    """A dataset of the catalog or a built-in sample; empty for your own files."""
    path: str = ""
    """Your own files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    epochs: int
    """Passes over the training data."""
    lr: float
    """The learning rate."""
    weight_decay: float = 0.0
    """The optimizer's L2 penalty, on all weights."""
    optimizer: Optimizer = configs.added("adam")
    """Adam, Adagrad, or Nesterov's method for convex losses of all data at once."""
    plateau_factor: float = configs.added(1.0)
    """Factor of the learning rate after more than ``plateau_patience`` validations without a metric
    that is better by a ten-thousandth; 1 for a constant rate."""
    plateau_patience: int = configs.added(10)
    """Validations without a better metric that leave the learning rate as it is."""
    clip: float | None = 0.5
    """Maximum gradient norm of a run."""
    select: Select = "best-valid"
    """Which epoch is selected: the last, or the one with the best validation metric; ties go to
    the lowest validation loss."""
    labels: Literal["train", "all"] = configs.internal("train")
    """What a run learns from: the training part, or all labels when a refit trains again."""

    def __post_init__(self) -> None:
        if self.labels == "all" and self.select != "last":
            raise ValueError("train.labels=all leaves nothing to select by: set train.select=last")
        positive = ("epochs", "lr", "clip", "patience", "evaluate_every", "plateau_factor")
        not_negative = ("weight_decay", "plateau_patience")
        configs.check(self, "train", positive=positive, not_negative=not_negative)
        if self.optimizer == "nesterov" and self.without_batches:
            raise ValueError(
                f"train.optimizer=nesterov takes steps on all data: set {self.without_batches}, or "
                "train.optimizer=adam"
            )
        if self.plateau_factor > 1:
            raise ValueError(f"train.plateau_factor must be at most 1, got {self.plateau_factor}")
        if self.plateau and self.select != "best-valid":
            raise ValueError(
                "train.plateau_factor needs validations: set train.select=best-valid, or the "
                "factor to 1"
            )

    @property
    def without_batches(self) -> str:
        """The setting that makes each step one on all data; empty if it is so already."""
        return "" if getattr(self, "batch_size", None) is None else "train.batch_size=none"

    @property
    def plateau(self) -> Plateau | None:
        """How the learning rate follows the validation metric; None if it is constant."""
        if self.plateau_factor == 1:
            return None
        return Plateau(self.plateau_factor, self.plateau_patience)

    @property
    def patience(self) -> int | None:
        """Evaluations without a better one after which a run stops."""
        return None

    @property
    def evaluate_every(self) -> int:
        """Epochs between two evaluations."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierSettings(TrainSettings):
    """The training of a classifier."""

    metric: Metric = configs.added("accuracy")
    """The validation metric that selects epochs and configurations."""
    class_weights: str = configs.added("none")
    """Weights of the classes in the loss: none, balanced (a class weighs as much as any other,
    however few its training items are), or by name: ``spam:3,ham:1``; others weigh 1."""

    def __post_init__(self) -> None:
        TrainSettings.__post_init__(self)
        parse_class_weights(self.class_weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that decides a number of a task, besides split and seed."""

    protocol: Protocol = "honest"
    """``paper``: what the paper and its code do; ``honest``: all choices on validation data."""
    seeds: int = 1
    """Runs of each split."""
    data: DataSettings
    """What is trained on, and how it is read and split."""
    model: Options
    """The model and its hyperparameters."""
    train: TrainSettings
    """How the model is trained."""

    def __post_init__(self) -> None:
        configs.check(self, "", counts=("seeds",))

    def identity(self) -> configs.Values:
        """The settings that two runs of one configuration share; see
        :func:`quatgraph.config.identity`."""
        return configs.identity(self)
