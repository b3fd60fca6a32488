"""The configuration of graph classification."""

from dataclasses import dataclass, field
from typing import Literal

from quatgraph import config as configs
from quatgraph.models.graph import MODELS, GraphOptions, GraphQGNN
from quatgraph.presets import Protocol
from quatgraph.training.loop import Select


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    name: str = ""
    """A dataset of the catalog or a built-in sample; empty for your own files."""
    path: str = ""
    """A folder in TU's raw format, or a file of graphs: ``.jsonl``, or DGCNN's ``.txt``."""
    missing: str | int = ""
    """Labels that count as missing, besides an empty one; several with commas: ``NA,?``."""
    features: Literal["auto", "tags", "degrees"] = "auto"
    """Input features of a node: its tag or its degree, one-hot; auto: tags if nodes differ in them.
    Real attributes, if any, are appended."""
    folds: Literal["stratified", "fixed"] = "stratified"
    """Stratified folds as of scikit-learn, or the published ones."""
    num_folds: int = 10
    """Number of folds; there are ten published ones."""
    fold_seed: int = 0
    """Seed of the folds and of the validation parts."""
    validation: float = 0.1
    """Share of each training fold that is held out for validation; 0 for none."""

    def __post_init__(self) -> None:
        if self.num_folds < 2:
            raise ValueError(f"data.num_folds must be at least 2, got {self.num_folds}")
        configs.check(self, "data", rates=("validation",))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    epochs: int = 100
    """An epoch has as many batches as fill the training fold, its validation part included."""
    lr: float = 0.01
    batch_size: int = 32
    """Graphs of a step, sampled anew each time."""
    weight_decay: float = 0.0
    """Adam's L2 penalty, on all weights."""
    smoothing: float = 0.1
    """Label smoothing: the share of the target that the other classes get."""
    clip: float | None = 0.5
    """Maximum gradient norm of a run."""
    select: Select = "best-valid"
    """Which epoch is selected: the last, or the one with the best validation accuracy; ties go to
    the lowest validation loss."""

    def __post_init__(self) -> None:
        configs.check(
            self,
            "train",
            positive=("epochs", "lr", "batch_size", "clip"),
            not_negative=("weight_decay",),
            rates=("smoothing",),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphConfig:
    """Everything that decides one graph-classification number, besides fold and seed."""

    protocol: Protocol = "honest"
    """``paper``: trained on the whole training fold, the epoch chosen on the test fold;
    ``honest``: all choices on a validation part of the training fold."""
    seeds: int = 1
    """Seeds per fold."""
    data: DataConfig = field(default_factory=DataConfig)
    model: GraphOptions = field(default_factory=GraphQGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        configs.check(self, "", counts=("seeds",))
        if self.train.select == "best-valid" and self.data.validation == 0:
            raise ValueError("train.select=best-valid needs data.validation above 0")

    def identity(self) -> configs.Values:
        """See :func:`quatgraph.config.identity`."""
        return configs.identity(self)
