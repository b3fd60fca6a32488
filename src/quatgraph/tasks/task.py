"""The base class of tasks; :mod:`quatgraph.tasks.runs` and ``job`` work with any of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.tasks.combination import ClassifierPool, Pool, TrainedRun
from quatgraph.tasks.config import Config
from quatgraph.tasks.selection import SELECTION_SCORE, selection_metric
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.loop import Fit, Plan
from quatgraph.training.optim import OPTIMIZERS, MemberOptimizer


class Dataset(Protocol):
    """The data of a task."""

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def notes(self) -> list[str]:
        """Messages for the user about what was read."""


class Problem(Protocol):
    """The data as the models take it, on a device."""

    @property
    def device(self) -> torch.device: ...


ConfigT = TypeVar("ConfigT", bound=Config)
DataT = TypeVar("DataT", bound=Dataset)
ProblemT = TypeVar("ProblemT", bound=Problem)
Card = dict[str, Any]
"""The content of a bundle's ``card.json``."""


@dataclass(frozen=True, slots=True)
class Member(Generic[ConfigT]):
    """One run: a configuration, a split (of graphs: a fold) and a seed."""

    config: ConfigT
    split: int
    seed: int

    @property
    def key(self) -> int:
        """The key of the run's random draws: its seed, and its split in the upper 32 bits.
        Torch's generator reads the lower 32, so all splits of a seed start from equal weights."""
        return self.seed + (self.split << 32)


class Task(ABC, Generic[ConfigT, DataT, ProblemT]):
    """A task: how its data is loaded, its models are built and trained, and its bundles described.

    A problem is the data as the models take it, on a device.
    """

    name: str
    config: type[ConfigT]
    """The class of its configurations."""
    varying: tuple[str, ...]
    """Settings, as ``train.lr``, in which the members of one ensemble may differ."""
    models: Mapping[str, Callable[..., nn.Module]]
    """Its models by name."""
    reported_metrics: tuple[str, ...] = ("accuracy",)
    """The test metrics that ``train`` always reports."""
    averages_runs: bool = False
    """Whether a bundle holds all runs of the chosen configuration, whose predictions are averaged,
    or only the best of them."""
    bags_selection: bool = True
    """Whether :func:`~quatgraph.tasks.combination.select_bagged` selects the weights of a
    combination, for validation data of few items."""
    monitor: str = SELECTION_SCORE
    """The metric that selects epochs."""
    evaluates_always: bool = False
    """Whether every epoch is evaluated even if the last one is selected."""

    @abstractmethod
    def load(self, config: ConfigT, *, labels_needed: bool = True) -> DataT:
        """Loads the dataset that a config names, or the user's own files, which may lack labels
        if these are not needed."""

    @abstractmethod
    def prepare(self, data: DataT, config: ConfigT, device: torch.device) -> ProblemT: ...

    @abstractmethod
    def build(self, config: ConfigT, problem: ProblemT) -> nn.Module:
        """Builds a new model."""

    @abstractmethod
    def train(self, members: Sequence[Member[ConfigT]], problem: ProblemT, plan: Plan) -> Fit:
        """Trains runs of one shape as one ensemble."""

    @abstractmethod
    def max_members(self, problem: ProblemT, config: ConfigT) -> int:
        """How many members train well in one ensemble: as many as fit into a third of the memory,
        by an estimate of what each holds. On a CPU fewer: beyond its cache, members slow each other
        down."""

    @abstractmethod
    def card(self, config: ConfigT, data: DataT, problem: ProblemT) -> Card:
        """What predictors need from a bundle's card, besides what every card has; see
        :func:`quatgraph.tasks.runs.bundle_of`."""

    def load_for(self, candidates: Sequence[ConfigT]) -> DataT:
        """Loads the data of configurations that share it, with all that any of them needs."""
        return self.load(candidates[0])

    def check_candidates(self, candidates: Sequence[ConfigT], data: DataT) -> list[str]:
        """Messages for the user about what candidates do not use of the data; refuses data that
        none of them can use."""
        return []

    def settle(
        self, candidates: Sequence[ConfigT], data: DataT, device: torch.device
    ) -> tuple[Sequence[ConfigT], list[str]]:
        """The candidates as they are trained on this data and device, and all messages for the user
        about both."""
        return candidates, [*data.notes, *self.check_candidates(candidates, data)]

    def trains_briefly(self, config: ConfigT) -> bool:
        """Whether a few epochs are worth their time to estimate that of all."""
        return True

    def pool(self, runs: Sequence[TrainedRun], data: DataT, device: torch.device) -> Pool:
        """Runs of one split and seed, to be combined."""
        return ClassifierPool(runs, runs[0].config.train.metric)

    def num_outputs(self, data: DataT) -> int:
        """Numbers that the outputs of one run hold; 0 if they are few."""
        return 0

    def shape(self, config: ConfigT) -> str:
        """A digest of what all members of an ensemble share."""
        flat = configs.flatten(config.identity())
        return configs.digest({key: flat[key] for key in flat if key not in self.varying})

    def problem_key(self, config: ConfigT) -> Hashable:
        """What :meth:`prepare` reads of a config: those with equal keys share a problem."""
        return self.shape(config)

    def refine(self, pools: Sequence[Pool], weights: Sequence[int], temperature: float) -> Card:
        """What else the card says about how a combination predicts, selected on validation data;
        the pools then measure it so."""
        return {}

    def num_splits(self, config: ConfigT, data: DataT) -> int:
        return 1

    def has_validation(self, config: ConfigT, data: DataT) -> bool:
        """Whether the runs of a config have validation data to select by."""
        return True

    def metrics_to_report(self, config: configs.Values) -> tuple[str, ...]:
        """The test metrics that ``train`` reports for a configuration, as records hold it: the one
        that selected it comes first."""
        return tuple(dict.fromkeys((selection_metric(config), *self.reported_metrics)))

    def summarize(self, card: Card) -> list[str]:
        """Sentences about a bundle for the user who trained it."""
        return []

    def recorded_curves(self, config: ConfigT) -> tuple[str, ...]:
        """The metrics whose curves a record always holds."""
        return ()

    def bundled_tensors(self, data: DataT, chosen: Sequence[ConfigT]) -> dict[str, Tensor]:
        """The tensors of the data that members of these configs need to predict; a bundle holds
        them as ``data.<name>``."""
        return {}

    def explain_overflow(self, data: DataT, problem: ProblemT) -> str:
        """Names the input that is too large for float32 arithmetic, as ``node 'a' has 1e+30 in the
        feature 'age'``; empty if there is none."""
        return ""

    def members(self, config: ConfigT, data: DataT) -> list[Member[ConfigT]]:
        """The runs of a config: one for each split and seed."""
        splits = range(self.num_splits(config, data))
        return [Member(config, split, seed) for seed in range(config.seeds) for split in splits]

    def plan(self, members: Sequence[Member[ConfigT]]) -> Plan:
        """Plans the training of an ensemble: its epochs and their selection."""
        train = members[0].config.train
        selects = train.select == "best-valid"
        every = train.evaluate_every if selects or self.evaluates_always else train.epochs
        return Plan(
            epochs=train.epochs,
            select=[member.config.train.select for member in members],
            monitor=self.monitor,
            patience=train.patience if selects else None,
            plateau=train.plateau,
            evaluate_every=every,
        )

    def num_parameters(self, config: ConfigT, problem: ProblemT) -> int:
        """Counts the parameters of one model."""
        with torch.device("meta"):
            return sum(p.numel() for p in self.build(config, problem).parameters())

    def build_ensemble(
        self, members: Sequence[Member[ConfigT]], problem: ProblemT
    ) -> tuple[Ensemble, MemberOptimizer]:
        """Builds the models of runs of one shape as one, and their optimizer."""
        builds = [partial(self.build, member.config, problem) for member in members]
        ensemble = Ensemble(builds, [member.key for member in members]).to(problem.device)
        settings = [member.config.train for member in members]
        weight_decay = torch.tensor([train.weight_decay for train in settings], dtype=torch.float64)
        for prefix, own in members[0].config.model.weight_decays.items():
            others = weight_decay.view(len(members), -1).to(problem.device)
            weight_decay = torch.where(ensemble.flat_mask(prefix), own, others)
        optimizer = OPTIMIZERS[settings[0].optimizer](
            ensemble.parameters(),
            lr=[train.lr for train in settings],
            weight_decay=weight_decay,
            clip=settings[0].clip,
        )
        return ensemble, optimizer


AnyTask = Task[Any, Any, Any]
