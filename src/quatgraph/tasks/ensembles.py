"""Groups runs into ensembles, and prepares their problems one at a time."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic

import torch

from quatgraph import config as configs
from quatgraph.tasks.task import AnyTask, ConfigT, DataT, Member, ProblemT, Task
from quatgraph.training.record import RunRecord

RunKey = tuple[str, int, int]
"""Identifies a run of a training: the digest of its configuration, its split and its seed."""


def key_of_member(member: Member[ConfigT]) -> RunKey:
    return configs.digest(member.config.identity()), member.split, member.seed


def key_of_record(record: RunRecord) -> RunKey:
    return record.config_digest, record.split, record.seed


@dataclass(slots=True)
class Problems(Generic[ConfigT, DataT, ProblemT]):
    """Prepares the problems of a task when they are needed, and holds one at a time."""

    task: Task[ConfigT, DataT, ProblemT]
    data: DataT
    device: torch.device
    _last: tuple[Hashable, ProblemT] | None = None

    def prepare(self, config: ConfigT) -> ProblemT:
        key = self.task.problem_key(config)
        if self._last is None or self._last[0] != key:
            self._last = None  # freed before the next one is prepared
            self._last = key, self.task.prepare(self.data, config, self.device)
        return self._last[1]

    def make_ensembles(
        self, members: Sequence[Member[ConfigT]], finished: Collection[RunKey] = ()
    ) -> list[list[Member[ConfigT]]]:
        """Groups runs into as few ensembles as shapes and memory allow.

        Args:
            finished: Runs that are left out. The others are in the ensembles that they would be in
                without these, so that a checkpoint stays valid.
        """
        ensembles = []
        for group in group_by_shape(self.task, members):
            if all(key_of_member(member) in finished for member in group):
                continue
            config = group[0].config
            size = self.task.max_members(self.prepare(config), config)
            for ensemble in split_group(group, size):
                missing = [m for m in ensemble if key_of_member(m) not in finished]
                ensembles += [missing] if missing else []
        return ensembles


def group_by_shape(
    task: AnyTask, members: Sequence[Member[ConfigT]]
) -> list[list[Member[ConfigT]]]:
    """Groups the runs that can be one ensemble: those that differ only in what may vary."""
    groups: dict[str, list[Member[ConfigT]]] = {}
    for member in members:
        groups.setdefault(task.shape(member.config), []).append(member)
    return list(groups.values())


def training_order(task: AnyTask, members: Sequence[Member[ConfigT]]) -> dict[RunKey, int]:
    """The place of each run, as one process trains them; a cluster finishes them in any order."""
    ordered = [member for group in group_by_shape(task, members) for member in group]
    return {key_of_member(member): place for place, member in enumerate(ordered)}


def split_group(group: Sequence[Member[ConfigT]], size: int) -> list[list[Member[ConfigT]]]:
    """Splits runs of one shape into ensembles of at most ``size`` runs. Runs of one configuration
    share an ensemble wherever they fit."""
    splits: list[list[Member[ConfigT]]] = [[]]
    for _, members in groupby(group, key=lambda member: member.config):
        own = list(members)
        if splits[-1] and len(splits[-1]) + len(own) > size:
            splits.append([])
        splits[-1].extend(own)
    return [split[at : at + size] for split in splits for at in range(0, len(split), size)]


def ensemble_key(task: AnyTask, members: Sequence[Member[ConfigT]]) -> str:
    """Identifies an ensemble in records and checkpoints: by its runs, in their order."""
    settings = [varying_settings(task, m) | m.config.identity() for m in members]
    return configs.digest({"members": settings})


def varying_settings(task: AnyTask, member: Member[ConfigT]) -> configs.Values:
    """The settings, split and seed that distinguish a member within its ensemble."""
    flat = configs.flatten(configs.to_dict(member.config))
    varying = {key: flat[key] for key in task.varying if key in flat}
    return varying | {"seed": member.seed, "split": member.split}
