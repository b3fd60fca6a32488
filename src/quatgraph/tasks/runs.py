"""Trains runs of any task as few ensembles, and makes records and a bundle of the results."""

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Generic

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.tasks.selection import mark_diverged
from quatgraph.tasks.task import AnyTask, ConfigT, Dataset, DataT, Member, ProblemT, Task
from quatgraph.training.bundle import Bundle
from quatgraph.training.context import Context
from quatgraph.training.divergence import find_divergence
from quatgraph.training.loop import Fit, Plan
from quatgraph.training.record import RunRecord, compact_members
from quatgraph.training.runtime import Deadline, environment

LONG = 60.0
"""Seconds of training from which on the remaining time is logged."""
TOLD_FROM = 10.0
"""Seconds of all trainings from which on their estimate is logged."""
PROBED = 3
"""Epochs that are timed to estimate how long a training takes."""
EXPECTED_SHARE = 0.6
"""The share of its epochs that a training with early stopping typically runs."""
UNITS = {"h": 3600, "min": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ConfigT, ProblemT]):
    """A trained ensemble."""

    members: list[Member[ConfigT]]
    fit: Fit
    records: list[RunRecord]
    problem: ProblemT
    divergence: list[str]
    """Why each run diverged, empty for a healthy one; see
    :func:`quatgraph.training.divergence.find_divergence`."""

    def with_curves(self) -> "Outcome[ConfigT, ProblemT]":
        """The outcome with the curves of all metrics in its records."""
        fit = self.fit
        records = [
            replace(
                record,
                curves={name: curve[:, index].tolist() for name, curve in fit.curves.items()},
                curve_epochs=fit.curve_epochs,
            )
            for index, record in enumerate(self.records)
        ]
        return replace(self, records=records)


def run(
    task: Task[ConfigT, DataT, ProblemT],
    members: Sequence[Member[ConfigT]],
    data: DataT,
    context: Context,
    *,
    method: str | None = None,
    checkpoint: Callable[[str], Path] | None = None,
) -> Iterator[Outcome[ConfigT, ProblemT]]:
    """Trains runs in as few ensembles as shapes and memory allow, and yields each when it is done.

    Args:
        method: Name of the method in the records; the model's name by default.
        checkpoint: Gives the folder of an ensemble's checkpoint, by :func:`ensemble_key`.
    """
    pending = []
    for group in group_by_shape(task, members):
        problem = task.prepare(data, group[0].config, context.device)
        ensembles = split_group(group, task.max_members(problem, group[0].config))
        pending += [(ensemble, problem) for ensemble in ensembles]
    count = len(pending)
    if context.estimate and not context.resume and count > 1:  # a single one reports its own time
        seconds = estimate_seconds(task, pending, context.deadline)
        if seconds is not None and seconds >= TOLD_FROM:
            runs = f"{len(members)} runs in {count} ensembles"
            context.log(f"{runs}: {format_seconds(seconds)}")
    while pending:
        ensemble, problem = pending.pop(0)  # so that a problem is freed after its last ensemble
        config, key = ensemble[0].config, ensemble_key(task, ensemble)
        name = method or config.model.name
        runs = "1 run" if len(ensemble) == 1 else f"{len(ensemble)} runs"
        place = f" ({count - len(pending)} of {count})" if count > 1 else ""
        title = f"{data.name} {name}, {runs}{place}"
        more = f"; {len(pending)} more follow" if pending else ""
        plan = task.plan(ensemble)
        plan = replace(
            plan,
            checkpoint=checkpoint(key) if checkpoint else None,
            resume=context.resume,
            key=f"{key} on {data.digest}",
            deadline=context.deadline,
            progress=partial(context.progress, title),
            report_eta=partial(_report_eta, context, plan, title, more),
        )
        fit = task.train(ensemble, problem, plan)
        divergence = find_divergence(fit)
        parameters = task.num_parameters(config, problem)
        records = _make_records(task, ensemble, fit, data, name, parameters)
        records = [
            mark_diverged(record) if why else record
            for record, why in zip(records, divergence, strict=True)
        ]
        yield Outcome(ensemble, fit, records, problem, divergence)


def estimate_seconds(
    task: Task[ConfigT, DataT, ProblemT],
    ensembles: Sequence[tuple[list[Member[ConfigT]], ProblemT]],
    deadline: Deadline,
) -> float | None:
    """Estimates how long ensembles train, from :data:`PROBED` epochs of each; None if the deadline
    passes meanwhile."""
    total = 0.0
    for members, problem in ensembles:
        if deadline.passed():
            return None
        planned, marks = task.plan(members), [(0, time.monotonic())]

        def mark(done: int, epochs: int, marks: list[tuple[int, float]] = marks) -> None:
            marks.append((done, time.monotonic()))

        epochs = min(PROBED, planned.epochs)
        task.train(members, problem, replace(planned, epochs=epochs, progress=mark))
        end = time.monotonic()
        # The first epoch warms up. What follows the last one is done once.
        (before, begin), (done, last) = marks[1 if len(marks) > 2 else 0], marks[-1]
        epoch = (last - begin) / (done - before)
        expected = planned.epochs * (1.0 if planned.patience is None else EXPECTED_SHARE)
        total += expected * epoch + end - last
    return total


def format_seconds(seconds: float) -> str:
    """A rough time: ``about 3 min``."""
    unit, size = next((u, s) for u, s in UNITS.items() if seconds >= 1.5 * s or s == 1)
    return f"about {max(1, round(seconds / size))} {unit}"


def group_by_shape(
    task: AnyTask, members: Sequence[Member[ConfigT]]
) -> list[list[Member[ConfigT]]]:
    """Groups the runs that can be one ensemble: those that differ only in what may vary."""
    groups: dict[str, list[Member[ConfigT]]] = {}
    for member in members:
        flat = configs.flatten(member.config.identity())
        shape = {key: value for key, value in flat.items() if key not in task.varying}
        groups.setdefault(configs.digest(shape), []).append(member)
    return list(groups.values())


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
    settings = [_varying_settings(task, m) | m.config.identity() for m in members]
    return configs.digest({"members": settings})


def _varying_settings(task: AnyTask, member: Member[ConfigT]) -> configs.Values:
    """The settings, split and seed that distinguish a member within its ensemble."""
    flat = configs.flatten(configs.to_dict(member.config))
    varying = {key: flat[key] for key in task.varying if key in flat}
    return varying | {"seed": member.seed, "split": member.split}


def _report_eta(context: Context, plan: Plan, title: str, more: str, seconds: float) -> None:
    """Logs the remaining time of a training longer than :data:`LONG`, its memory, and how many
    ``more`` trainings follow."""
    if seconds < LONG:
        return
    left = format_seconds(seconds)
    if plan.patience is not None:
        left = left.replace("about", "at most")
    if context.device.type == "cuda":
        memory = torch.cuda.max_memory_allocated(context.device)
    else:  # in KiB, except on macOS
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory = peak if sys.platform == "darwin" else 1024 * peak
    context.log(
        f"{title}: {left} for the rest of {plan.epochs:,} epochs, {memory / 2**30:.1f} GiB{more}"
    )


def _make_records(
    task: AnyTask,
    members: Sequence[Member[ConfigT]],
    fit: Fit,
    data: Dataset,
    method: str,
    parameters: int,
) -> list[RunRecord]:
    key = ensemble_key(task, members)
    compact = compact_members([_varying_settings(task, member) for member in members])
    where = environment(fit.device)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    records = []
    for index, member in enumerate(members):
        identity, curves = member.config.identity(), task.recorded_curves(member.config)
        records.append(
            RunRecord(
                task=task.name,
                dataset=data.name,
                method=method,
                protocol=member.config.protocol,
                split=member.split,
                seed=member.seed,
                config=identity,
                config_digest=configs.digest(identity),
                data_digest=data.digest,
                members=compact,
                metrics={name: float(values[index]) for name, values in fit.metrics.items()},
                best_epoch=int(fit.best_epoch[index]),
                epochs_run=fit.epochs_run,
                parameters=parameters,
                seconds=fit.seconds,
                ensemble=key,
                curves={name: fit.curves[name][:, index].tolist() for name in curves},
                curve_epochs=fit.curve_epochs if curves else [],
                environment=where,
                finished=finished,
            )
        )
    return records


def bundle_of(
    task: Task[ConfigT, DataT, ProblemT],
    picks: Sequence[tuple[Outcome[ConfigT, ProblemT], int, int]],
    data: DataT,
) -> Bundle:
    """Bundles trained runs whose predictions are to be combined.

    The reported metrics are the weighted mean of the members' own. Where members share a split and
    a seed, a predictor's ``evaluate`` measures their combination; such a caller reports that.

    Args:
        picks: For each member an outcome, the index of a run in it, and the run's weight.
        data: What all of them were trained on.
    """
    records = [outcome.records[index] for outcome, index, _ in picks]
    chosen = [outcome.members[index].config for outcome, index, _ in picks]
    first, shared = records[0], task.card(chosen[0], data, picks[0][0].problem)
    tensors = {f"data.{name}": value for name, value in task.bundled_tensors(data, chosen).items()}
    members = []
    for number, (outcome, index, weight) in enumerate(picks):
        config, record = chosen[number], records[number]
        own = task.card(config, data, outcome.problem)
        members.append(
            {
                "config": configs.to_dict(config),
                "split": record.split,
                "seed": record.seed,
                "epoch": record.best_epoch,
                "weight": weight,
                "metrics": record.metrics,
                "parameters": record.parameters,
                **{key: value for key, value in own.items() if value != shared[key]},
            }
        )
        with torch.device("meta"):
            names = task.build(config, outcome.problem).state_dict()
        tensors |= {f"members.{number}.{name}": outcome.fit.weights[name][index] for name in names}
    card = {
        **shared,
        "task": task.name,
        "members": members,
        "metrics": {
            name: fmean((record.metrics[name] for record in records), (w for *_, w in picks))
            for name in first.metrics
            if all(name in record.metrics for record in records)
        },
        "data": {"name": data.name, "digest": data.digest, **shared.get("data", {})},
        "notes": data.notes,
        "key": bundle_key_of(first.config_digest, first.data_digest),
        "environment": first.environment,
        "finished": first.finished,
    }
    return Bundle(card, tensors)


def bundle_key_of(config_digest: str, data_digest: str) -> str:
    """Identifies what a bundle was trained with."""
    return f"{config_digest} on {data_digest}"


def count_classes(labels: Tensor, num_classes: int) -> list[int]:
    """The number of items of each class; a negative label is unknown."""
    sizes: list[int] = labels[labels >= 0].bincount(minlength=num_classes).tolist()
    return sizes


def describe_classes(sizes: Sequence[int], count: int, unlabelled: str = " took no part") -> str:
    """Describes the classes, so that an accuracy can be compared with their sizes. ``count``
    includes items without a label, and ``unlabelled`` says what became of them."""
    known, largest = sum(sizes), max(sizes)
    unknown = f"; {count - known:,} more without a label{unlabelled}" * (count > known)
    share = f"{100 * largest / known:.1f} % in the largest"
    return f"{known:,} in {len(sizes)} classes, {share}{unknown}"
