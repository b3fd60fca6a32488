"""The configuration of graph classification."""

from dataclasses import dataclass, field
from typing import Literal

from quatgraph import config as configs
from quatgraph.data.graph import Keys
from quatgraph.models.graph import MODELS, GraphOptions, GraphQGNN
from quatgraph.tasks.config import ClassifierSettings, Config, DataSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig(DataSettings):
    path: str = ""
    """A folder in TU's raw format, a file of graphs (JSON objects, or DGCNN's ``.txt``), or a table
    of molecules."""
    missing: str | int = configs.added("")
    """Labels that count as missing, besides an empty one; several with commas: ``NA,?``."""
    split: str = configs.added("")
    """Name of the key that says train, valid or test; ``split`` by default, if there is one. Then
    there is one split instead of folds."""
    group: str = configs.added("")
    """Name of the key whose groups folds keep whole; ``group`` by default, if there is one. For
    molecules, ``scaffold`` stands for Bemis-Murcko scaffolds, unless a column has that name."""
    smiles: str = configs.added("")
    """Name of the column of a table of molecules that holds SMILES; ``smiles`` by default."""
    label: str = configs.added("")
    """Name of the column of a table of molecules that holds labels; ``label`` by default."""
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

    @property
    def keys(self) -> Keys:
        """The names of keys and columns, as readers take them."""
        return {
            "split": self.split,
            "group": self.group,
            "smiles": self.smiles,
            "label": self.label,
        }

    def __post_init__(self) -> None:
        if self.num_folds < 2:
            raise ValueError(f"data.num_folds must be at least 2, got {self.num_folds}")
        configs.check(self, "data", rates=("validation",))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(ClassifierSettings):
    epochs: int = 100
    """An epoch has as many batches as fill the training fold, its validation part included."""
    lr: float = 0.01
    batch_size: int = 32
    """Graphs of a step, sampled anew each time."""
    smoothing: float = 0.1
    """Label smoothing: the share of the target that the other classes get."""

    def __post_init__(self) -> None:
        ClassifierSettings.__post_init__(self)
        configs.check(self, "train", positive=("batch_size",), rates=("smoothing",))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphConfig(Config):
    """Everything that decides one graph-classification number, besides fold and seed.

    Under ``paper`` runs train on the whole training fold and the epoch is chosen on the test fold;
    under ``honest`` all choices are made on a validation part of the training fold.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: GraphOptions = field(default_factory=GraphQGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        if self.train.select == "best-valid" and self.data.validation == 0:
            raise ValueError("train.select=best-valid needs data.validation above 0")

    def identity(self) -> configs.Values:
        """See :func:`quatgraph.config.identity`; names of keys are left out too."""
        values = configs.identity(self)
        for key in self.data.keys:
            values["data"].pop(key, None)
        return values
