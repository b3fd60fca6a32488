"""What decides a number of knowledge-graph completion, as typed configuration."""

from dataclasses import dataclass, field
from typing import Literal

from quatgraph import config as configs
from quatgraph.data.triple_folder import Unseen
from quatgraph.models.link import MODELS, LinkOptions, SimQGNN
from quatgraph.presets import Protocol
from quatgraph.training.loop import Select


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    name: str = ""
    """A dataset of the catalog or a built-in sample; empty for a person's own files."""
    path: str = ""
    """A folder with ``train.tsv`` and perhaps ``valid.tsv`` and ``test.tsv``, or one file."""
    header: bool | None = None
    """Whether the first line of each file names its columns; found out where it is left out."""
    split_seed: int = 0
    """Seed of the draw of parts that have no file."""
    unseen: Unseen = "refuse"
    """What becomes of a triple of valid or test with an entity that no training triple has."""
    reciprocal: bool = True
    """Whether inverse relations are relations of their own, which are learned too; if not, only
    tails are asked for in training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    epochs: int = 300
    lr: float = 0.01
    batch_size: int = 512
    """Pairs of a head and a relation in a step."""
    weight_decay: float = 0.0
    """Adam's L2 factor, on all weights."""
    loss: Literal["bce", "softmax"] = "softmax"
    """Binary cross-entropy of all entities, or softmax cross-entropy of each right one."""
    smoothing: float = 0.1
    """What the target of a right entity is short of 1; for bce."""
    floor: Literal["none", "uniform"] = "uniform"
    """What is added to all targets: nothing, or one over the number of entities; for bce."""
    n3: float = 0.0
    """Factor of the mean cube norm of a triple's three vectors."""
    clip: float | None = 0.5
    """Largest norm of a run's gradient."""
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    """To what the factors of products are rounded in training, which are summed in float32: not at
    all, to 10 bits on a GPU, or to 7 those of scores, the scores, a layer's and what is summed over
    neighbours, and the others to 10 on a GPU."""
    select: Select = "best-valid"
    """Which epoch is kept: the last, or the first with the best ``monitor`` on validation data."""
    monitor: Literal["hits@10", "mrr"] = "mrr"
    """What epochs and configurations are chosen by, on validation data."""
    evaluate_every: int = 5
    """Epochs from one validation to the next."""
    patience: int | None = 10
    """Validations without a better ``monitor`` after which a run is over."""

    def __post_init__(self) -> None:
        configs.check(
            self,
            "train",
            positive=("epochs", "lr", "batch_size", "clip", "evaluate_every", "patience"),
            not_negative=("weight_decay", "n3"),
            rates=("smoothing",),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """Everything that decides one number of knowledge-graph completion, besides the seed."""

    protocol: Protocol = "honest"
    """Both choose on validation data: ``paper`` with the paper's settings, ``honest`` with ours."""
    seeds: int = 1
    data: DataConfig = field(default_factory=DataConfig)
    model: LinkOptions = field(default_factory=SimQGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        configs.check(self, "", counts=("seeds",))

    def identity(self) -> configs.Values:
        """See :func:`quatgraph.config.identity`."""
        return configs.identity(self)


VARYING = ("model.dropout", "train.lr", "train.weight_decay", "train.n3")
"""Settings in which the members of one ensemble may differ."""
