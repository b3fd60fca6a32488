"""What a task says of itself; :mod:`quatgraph.tasks.runs` and ``job`` do the rest for all alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from quatgraph import presets
from quatgraph.training.loop import Fit, Plan


class Config(Protocol):
    """Everything that decides a number of a task, besides split and seed: a frozen dataclass."""

    @property
    def protocol(self) -> presets.Protocol: ...
    @property
    def seeds(self) -> int: ...
    @property
    def data(self) -> Any: ...
    @property
    def model(self) -> Any: ...
    @property
    def train(self) -> Any: ...

    def identity(self) -> dict[str, Any]:
        """What two runs must share to be runs of one configuration."""


@dataclass(frozen=True, slots=True)
class Member:
    """One run: a configuration, a split (of graphs: a fold) and a seed."""

    config: Any
    """The task's own :class:`Config`."""
    split: int
    seed: int

    @property
    def key(self) -> int:
        """What the run's random draws are keyed by: its seed, and its split in the upper 32 bits.
        Torch's generator reads the lower 32, so all splits of a seed start from equal weights."""
        return self.seed + (self.split << 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as hooks. ``config``, ``data`` and ``problem`` are the task's own types."""

    name: str
    config: type[Any]
    """The class of its configurations, a :class:`Config`."""
    varying: tuple[str, ...]
    """Settings, as ``train.lr``, in which the members of one ensemble may differ."""
    models: Mapping[str, Callable[..., nn.Module]]
    """Its models by name."""
    load: Callable[[Any], Any]
    """``(config)`` -> data: the dataset a config names; it has a ``name``, a ``digest`` and
    ``notes``, what a person should know of it: sentences."""
    members: Callable[[Any, Any], list[Member]]
    """``(config, data)``: the runs of a config, its splits and seeds."""
    prepare: Callable[[Any, Any, torch.device], Any]
    """``(data, config, device)`` -> problem: the data as the models take it."""
    build: Callable[[Any, Any], nn.Module]
    """``(config, problem)``: a new model."""
    train: Callable[[Sequence[Member], Any, Plan, Callable[[int, int], None]], Fit]
    """``(members, problem, plan, progress)``: trains runs as one ensemble."""
    plan: Callable[..., Plan]
    """``(members, **others)``: how long to train them and what to keep; others as they are."""
    members_at_once: Callable[[Any, Any, torch.device], int]
    """``(problem, config, device)``: how many members train well together."""
    card: Callable[[Any, Any, Any], dict[str, Any]]
    """``(config, data, problem)``: what predicting needs of a bundle's card beyond what every
    card has; see :func:`quatgraph.tasks.runs.bundle_of`."""
    validates: Callable[[Any, Any], bool] = lambda config, data: True
    """``(config, data)``: whether its runs have validation data to choose by."""
    answers_together: bool = False
    """Whether a bundle holds all runs of the chosen configuration, whose answers are averaged, or
    the best of them only."""
    said: Callable[[Mapping[str, Any]], list[str]] = lambda card: []
    """``(card)``: sentences that a person who trained the bundle wants to read."""
    curves: Callable[[Any], Sequence[str]] = lambda config: ()
    """``(config)``: names of the metrics whose values by evaluation a record always keeps."""
    kept: Callable[[Any, Sequence[Any]], Mapping[str, Tensor]] = lambda data, configs: {}
    """``(data, configs)``: the tensors of the data that members of these configs need to predict; a
    bundle holds them as ``data.<name>``."""
    explain_overflow: Callable[[Any, Any], str] = lambda data, problem: ""
    """``(data, problem)``: names the input that is so large that a network overflows, as ``node 'a'
    has 1e+30 in the feature 'age'``; empty where there is none."""
    told: tuple[str, ...] = ("accuracy",)
    """The metrics of the test part that a person is told."""
