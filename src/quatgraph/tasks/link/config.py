"""The configuration of knowledge-graph completion."""

from dataclasses import dataclass, field
from typing import Literal

from quatgraph import config as configs
from quatgraph.data.io.columns import TRIPLE_COLUMNS
from quatgraph.data.link.entities import EntitySource
from quatgraph.data.link.tsv import Unseen
from quatgraph.models.link import MODELS, LinkOptions, SimQGNN
from quatgraph.tasks.config import Config, DataSettings, TrainSettings
from quatgraph.training.loop import Select


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig(DataSettings):
    path: str = ""
    """A folder with ``train.tsv`` and perhaps ``valid.tsv`` and ``test.tsv``, or one file; also as
    N-Triples or Turtle."""
    head: str = ""
    """Name of the column that holds the heads; detected by default."""
    relation: str = ""
    """Name of the column that holds the relations; detected by default."""
    tail: str = ""
    """Name of the column that holds the tails; detected by default."""
    header: bool | None = None
    """Whether the first line of each file names its columns; detected by default."""
    split_seed: int = 0
    """Seed for sampling the parts that have no file."""
    unseen: Unseen = "keep"
    """What to do with validation and test triples whose entities no training triple has."""
    reciprocal: bool = True
    """Whether to train inverse relations too; if not, training predicts tails only."""
    entities: str = configs.added("")
    """A table of entities: their names, labels and features; by default ``entities.csv`` (or in
    another format) of the folder. ``none`` leaves the features out."""
    entity: str = configs.added("")
    """Name of the column of that table that holds the names of entities; detected by default."""

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns by role, empty for those to detect."""
        return {role: getattr(self, role) for role in TRIPLE_COLUMNS}

    @property
    def entity_source(self) -> EntitySource:
        """Where the table of entities is."""
        return EntitySource(self.entities, self.entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(TrainSettings):
    epochs: int = 300
    lr: float = 0.01
    batch_size: int = 512
    """Queries of a step: pairs of a head and a relation."""
    loss: Literal["bce", "softmax", "kvsall"] = "softmax"
    """Binary cross-entropy over all entities, or softmax cross-entropy: of each true entity, or
    (kvsall) of each query, with the targets of bce divided by their sum."""
    smoothing: float = 0.1
    """Label smoothing: how far the target of a true entity is below 1; for bce and kvsall."""
    floor: Literal["none", "uniform"] = "uniform"
    """Added to all targets: nothing, or one over the number of entities; for bce and kvsall."""
    n3: float = 0.0
    """Weight of the N3 penalty."""
    relation_weight: float = configs.added(0.0)
    """Weight of an auxiliary loss: the softmax cross-entropy of the relation of each training
    triple, given its head and tail (Chen et al. 2021)."""
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    """Precision of matrix products in training, accumulated in float32. tf32 rounds factors to 10
    bits on a GPU. bfloat16 rounds the scores and their factors, the products of layers and the sums
    over neighbours to 7 bits, the rest as tf32."""
    select: Select = "best-valid"
    """Which epoch is selected: the last, or the first with the best validation ``monitor``."""
    monitor: Literal["mrr", "hits@1", "hits@3", "hits@10"] = "mrr"
    """The validation metric that selects epochs and configurations."""
    evaluate_every: int = 5
    """Epochs between two validations."""
    patience: int | None = 10
    """Validations without a better ``monitor`` after which a run stops."""

    def __post_init__(self) -> None:
        TrainSettings.__post_init__(self)
        weights = "n3", "relation_weight"
        configs.check(
            self, "train", positive=("batch_size",), not_negative=weights, rates=("smoothing",)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig(Config):
    """Everything that decides one number of knowledge-graph completion, besides the seed.

    Both protocols choose on validation data: ``paper`` with the paper's settings, ``honest`` with
    ours.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: LinkOptions = field(default_factory=SimQGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)

    def identity(self) -> configs.Values:
        """See :func:`quatgraph.config.identity`; names of columns and of the table of entities are
        left out too."""
        values = configs.identity(self)
        for name in (*TRIPLE_COLUMNS, "entities", "entity"):
            values["data"].pop(name, None)
        if self.data.unseen == "keep":
            values["data"]["unseen"] = "refuse"  # the default of older records, on equal data
        return values
