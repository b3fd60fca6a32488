"""The default portfolio: which configurations are tried on the user's own data, and how their runs
become one bundle."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Generic

import torch

from quatgraph import config as configs
from quatgraph.errors import UserError, check_known
from quatgraph.presets import protocols
from quatgraph.tasks.combination import (
    Pool,
    Score,
    Weights,
    fit_temperature,
    mean_score,
    select_bagged,
    select_single,
    select_weights,
)
from quatgraph.tasks.selection import RunGroup, rank_groups
from quatgraph.tasks.stored import RunStore, StoredRun, merge_runs
from quatgraph.tasks.task import ConfigT, DataT, Member, ProblemT, Task
from quatgraph.training.bundle import Bundle
from quatgraph.training.record import RunRecord

KEPT = 3
"""Configurations of a shape that may become members: the best on validation data."""
KEPT_NUMBERS = 1 << 28
"""Numbers of their outputs, over all configurations, splits and seeds, that are held at once."""
_MODEL = "model.name"
_FAST = "fast"


def default_candidates(
    task: Task[ConfigT, DataT, ProblemT],
    values: configs.Values | None = None,
    *,
    only: Sequence[str] = (),
    fast: bool = False,
) -> list[ConfigT]:
    """The configurations that are tried on the user's own data, in the order of the portfolio.

    Args:
        values: Settings that all of them have, as nested dictionaries. Models that do not read one
            of these settings are left out.
        only: Names of models; by default those of the portfolio.
        fast: Whether to try only the entries of the portfolio that are marked as fast.
    """
    values = values or {}
    given = configs.flatten(values)
    rules = protocols(task.name)
    entries: list[configs.Values] = rules["portfolio"]
    if only and given.get(_MODEL, only[0]) not in only:
        raise UserError(
            f"model.name={given[_MODEL]} is not among the models to try, {', '.join(only)}: leave "
            "out one of the two"
        )
    for name in only:
        remedy = "".join(  # for a decoder, such as complex
            f"; {name} is a {key} of {entry[_MODEL]}: --only {entry[_MODEL]} --set {key}={name}"
            for entry in entries
            for key, value in entry.items()
            if value == name
        )
        check_known(name, task.models, f"the task {task.name} has no model {name!r}", remedy)
    wanted = list(only) or ([given[_MODEL]] if _MODEL in given else [])
    known = {entry[_MODEL] for entry in entries}
    # A model outside the portfolio is tried with the task's own grid, or with one of the model.
    own = rules.get("own-models", {})
    others = [name for name in wanted if name not in known]
    entries = entries + [{_MODEL: name, **own.get(name, rules["own"])} for name in others]
    entries = [entry for entry in entries if not wanted or entry[_MODEL] in wanted]
    if fast and any(_FAST in entry for entry in entries):
        entries = [entry for entry in entries if _FAST in entry]
    found: dict[str, ConfigT] = {}
    for entry in entries:
        for config in _expand(task, values, rules.get("shared", {}) | entry):
            found.setdefault(configs.digest(config.identity()), config)
    # Where no model reads all settings, building one names the first that is unknown.
    named = {"model": {"name": wanted[0]}} if wanted else {}
    return list(found.values()) or [configs.build(task.config, configs.merge(named, values))]


def _expand(
    task: Task[ConfigT, DataT, ProblemT], values: configs.Values, entry: configs.Values
) -> list[ConfigT]:
    """The configurations of an entry of the portfolio; none if its model does not read all the
    settings that are given."""
    given = configs.flatten(values)
    if entry[_MODEL] not in task.models:
        return []
    plain = configs.build(task.config, {"model": {"name": entry[_MODEL]}})
    known = configs.to_dict(plain)
    if any(key.startswith("model.") and key not in configs.flatten(known) for key in given):
        return []
    axes = {
        axis: value if isinstance(value, list) else [value]
        for axis, value in entry.items()
        if axis == _MODEL or not any(key in given for key in axis.split())
    }
    grid = configs.restrict_grid(axes, known, fixed=())
    return [configs.build(task.config, made) for made in configs.expand_grid(values, grid)]


@dataclass(frozen=True)
class Bundler(Generic[ConfigT, DataT, ProblemT]):
    """Makes the bundle of a training from its finished configurations: those with a run for every
    split and seed."""

    task: Task[ConfigT, DataT, ProblemT]
    store: RunStore[ConfigT, DataT, ProblemT]
    members: Sequence[Member[ConfigT]]
    data: DataT
    combine: bool
    """Whether the bundle may hold several configurations."""

    @cached_property
    def _configs(self) -> dict[str, ConfigT]:
        return {configs.digest(m.config.identity()): m.config for m in self.members}

    @cached_property
    def _num_runs(self) -> Counter[str]:
        return Counter(configs.digest(m.config.identity()) for m in self.members)

    @cached_property
    def _shapes(self) -> dict[str, str]:
        return {digest: self.task.shape(config) for digest, config in self._configs.items()}

    def rank_finished(self, records: Sequence[RunRecord]) -> list[RunGroup]:
        """The finished configurations, the best mean on validation data first."""
        return [g for g in rank_groups(records) if len(g.runs) == self._num_runs[g.digest]]

    def bundle_best(self, records: Sequence[RunRecord]) -> Bundle | None:
        """Bundles the best configuration: its best run, or all of them if the task averages runs.
        None if no configuration is finished, or if the runs are not stored."""
        finished = self.rank_finished(records)
        if not finished or not finished[0].healthy:
            return None
        best = finished[0]
        wanted = best.healthy if self.task.averages_runs else [best.best]
        found = self.store.load_runs(wanted)
        if len(found) < len(wanted):
            return None
        return self._describe(merge_runs([(run, 1) for run in found]), finished)

    def bundle_combination(
        self, records: Sequence[RunRecord], device: torch.device
    ) -> Bundle | None:
        """Bundles the best combination of configurations; see :func:`combine_runs`.

        Its card reports, as ``selection``, the metrics of each split and seed with what is selected
        on its own validation data: of the ``single`` best run and of the ``combination``. The
        members of the bundle are no such estimate: other splits' validation data, which select them
        too, may be this split's test data.
        """
        if not self.combine or not self.store.holds_runs:
            return None
        finished = self.rank_finished(records)
        kept = [run for group in self._choose_kept(finished) for run in group.runs]
        made = combine_runs(self.task, self.store.load_runs(kept), self.data, device)
        if made is None:
            return None
        made.card["selection"] = [
            {"split": split, "seed": seed, **self._measure(finished, split, seed, device)}
            for split, seed in dict.fromkeys((run.split, run.seed) for run in kept)
        ]
        return self._describe(made, finished)

    def drop_runs(self, records: Sequence[RunRecord]) -> None:
        """Removes stored runs that no bundle will need."""
        finished = self.rank_finished(records)
        dropped = {group.digest for group in finished}
        if self.combine:
            splits = dict.fromkeys(run.split for run in records)
            for split in (None, *splits):
                dropped -= {group.digest for group in self._choose_kept(finished, split)}
        self.store.keep_runs(run for run in records if run.config_digest not in dropped)

    def _choose_kept(
        self, finished: Sequence[RunGroup], split: int | None = None
    ) -> list[RunGroup]:
        """Chooses the configurations that may become members, best on the validation data of a
        split, or of all, first: at most :data:`KEPT` of a shape, and as many as
        :data:`KEPT_NUMBERS` allow. What is left out stays so when more are finished. Configurations
        of which a run diverged are left out."""
        healthy = [group for group in finished if len(group.healthy) == len(group.runs)]
        if split is not None:
            runs = [run for group in healthy for run in group.runs if run.split == split]
            healthy = rank_groups(runs)
        kept: list[RunGroup] = []
        counts: Counter[str] = Counter()
        for group in healthy:
            numbers = self.task.num_outputs(self.data) * self._num_runs[group.digest]
            if kept and (len(kept) + 1) * numbers > KEPT_NUMBERS:
                break
            shape = self._shapes[group.digest]
            if counts[shape] < KEPT:
                counts[shape] += 1
                kept.append(group)
        return kept

    def _measure(
        self, finished: Sequence[RunGroup], split: int, seed: int, device: torch.device
    ) -> dict[str, dict[str, float]]:
        """The metrics of the single best run and of the best combination of a split and seed,
        selected on the validation data of the split."""
        groups = self._choose_kept(finished, split)
        stored = self.store.load_runs(r for group in groups for r in group.runs if r.seed == seed)
        pool = self.task.pool([run.as_trained() for run in stored], self.data, device)
        measured = {}
        for name, weights in (
            ("single", select_single(pool.score, len(stored))),
            ("combination", _select_combination(self.task, [pool], len(stored))),
        ):
            temperature = _fit_temperature([pool], weights)
            self.task.refine([pool], weights, temperature)
            measured[name] = pool.metrics(weights, temperature)
        return measured

    def _describe(self, bundle: Bundle, finished: Sequence[RunGroup]) -> Bundle:
        """The card of a training that goes on says how many configurations are finished."""
        count, total = len(finished), len(self._configs)
        if count < total:
            bundle.card["unfinished"] = {"configurations": count, "of": total}
        return bundle


def combine_runs(
    task: Task[ConfigT, DataT, ProblemT],
    stored: Sequence[StoredRun[ConfigT]],
    data: DataT,
    device: torch.device,
) -> Bundle | None:
    """Makes a bundle of stored runs; validation data selects its members.

    Every configuration has a run for each split and seed. The weights of the configurations are
    selected by the mean over splits and seeds. The bundle holds the runs of the split and seed that
    is best with them, or all if the task averages runs.

    Returns None if no configuration has a run for every split and seed, or without validation data.
    """
    groups: dict[tuple[int, int], dict[str, StoredRun[ConfigT]]] = {}
    for run in stored:
        groups.setdefault((run.entry["split"], run.entry["seed"]), {})[run.digest] = run
    if not groups:
        return None
    shared = [key for key in next(iter(groups.values())) if all(key in g for g in groups.values())]
    if not shared:
        return None
    pools = {
        key: task.pool([runs[digest].as_trained() for digest in shared], data, device)
        for key, runs in groups.items()
    }
    every = list(pools.values())
    if not all(pool.num_valid for pool in every):
        return None
    weights = _select_combination(task, every, len(shared))
    temperature = _fit_temperature(every, weights)
    best = max(pools, key=lambda key: pools[key].score(weights))
    bundled = list(pools) if task.averages_runs else [best]
    merged = merge_runs(
        [
            (groups[key][digest], weight)
            for key in bundled
            for digest, weight in zip(shared, weights, strict=True)
            if weight
        ]
    )
    refined = task.refine(every, weights, temperature)
    measured = [pools[key].metrics(weights, temperature) for key in bundled]
    merged.card["metrics"] = {name: fmean(each[name] for each in measured) for name in measured[0]}
    merged.card.update(refined, temperature=temperature)
    return merged


def _select_combination(
    task: Task[ConfigT, DataT, ProblemT], pools: Sequence[Pool], count: int
) -> Weights:
    """Selects the weights of ``count`` configurations by the mean score over the pools."""

    def score(weights: Weights) -> Score:
        return mean_score(pools, weights)

    if task.bags_selection:
        return select_bagged(score, count, sum(pool.num_valid for pool in pools))
    return select_weights(score, count)


def _fit_temperature(pools: Sequence[Pool], weights: Weights) -> float:
    found = [own for pool in pools if (own := pool.log_probabilities(weights)) is not None]
    if not sum(len(labels) for _, labels in found):
        return 1.0
    scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    return fit_temperature(scores, labels)
