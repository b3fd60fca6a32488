"""Trains runs of any task as few ensembles, and makes records and a bundle of the results."""

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Generic

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.tasks.ensembles import Problems, ensemble_key, varying_settings
from quatgraph.tasks.selection import mark_diverged
from quatgraph.tasks.task import AnyTask, ConfigT, Dataset, DataT, Member, ProblemT, Task
from quatgraph.training.bundle import Bundle
from quatgraph.training.context import Context
from quatgraph.training.divergence import find_divergence
from quatgraph.training.loop import Fit, Paused, Plan
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
    problems: Problems[ConfigT, Any, ProblemT]
    divergence: list[str]
    """Why each run diverged, empty for a healthy one; see
    :func:`quatgraph.training.divergence.find_divergence`."""

    @property
    def problem(self) -> ProblemT:
        """What it was trained on; prepared again if another one was prepared since."""
        return self.problems.prepare(self.members[0].config)

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
    """Trains runs in as few ensembles as possible; see :func:`train_ensembles`."""
    problems = Problems(task, data, context.device)
    ensembles = problems.make_ensembles(members)
    yield from train_ensembles(problems, ensembles, context, method=method, checkpoint=checkpoint)


def train_ensembles(
    problems: Problems[ConfigT, DataT, ProblemT],
    ensembles: Sequence[list[Member[ConfigT]]],
    context: Context,
    *,
    method: str | None = None,
    checkpoint: Callable[[str], Path] | None = None,
) -> Iterator[Outcome[ConfigT, ProblemT]]:
    """Trains ensembles, here or on the context's cluster, and yields each when it is done.

    Args:
        method: Name of the method in the records; the model's name by default.
        checkpoint: Gives the folder of an ensemble's checkpoint, by :func:`ensemble_key`.
    """
    if context.cluster is not None:
        from quatgraph.tasks.cluster import train_on_cluster

        yield from train_on_cluster(problems, ensembles, context, method)
        return
    task, data = problems.task, problems.data
    count = len(ensembles)
    brief = all(task.trains_briefly(ensemble[0].config) for ensemble in ensembles)
    # A single ensemble reports its own time.
    if context.estimate and not context.resume and count > 1 and brief:
        seconds = estimate_seconds(problems, ensembles, context.deadline)
        if seconds is not None and seconds >= TOLD_FROM:
            runs = f"{sum(map(len, ensembles))} runs in {count} ensembles"
            limit = _describe_limit(seconds, context.deadline)
            context.log(f"{runs}: {format_seconds(seconds)}{limit}")
    for number, ensemble in enumerate(ensembles, 1):
        config, key = ensemble[0].config, ensemble_key(task, ensemble)
        runs = "1 run" if len(ensemble) == 1 else f"{len(ensemble)} runs"
        place = f" ({number} of {count})" if count > 1 else ""
        title = f"{data.name} {method or config.model.name}, {runs}{place}"
        more = f"; {count - number} more follow" if number < count else ""
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
        yield _train(problems, ensemble, plan, method or config.model.name)


def _train(
    problems: Problems[ConfigT, DataT, ProblemT],
    members: list[Member[ConfigT]],
    plan: Plan,
    method: str,
) -> Outcome[ConfigT, ProblemT]:
    """Trains an ensemble."""
    task, config = problems.task, members[0].config
    problem = problems.prepare(config)
    fit = task.train(members, problem, plan)
    divergence = find_divergence(fit)
    parameters = task.num_parameters(config, problem)
    records = _make_records(task, members, fit, problems.data, method, parameters)
    records = [
        mark_diverged(record) if why else record
        for record, why in zip(records, divergence, strict=True)
    ]
    return Outcome(members, fit, records, problems, divergence)


def estimate_seconds(
    problems: Problems[ConfigT, DataT, ProblemT],
    ensembles: Sequence[list[Member[ConfigT]]],
    deadline: Deadline,
) -> float | None:
    """Estimates how long ensembles train, from :data:`PROBED` epochs of each; None if the deadline
    passes meanwhile."""
    try:
        return sum(_probe(problems, members, deadline) for members in ensembles)
    except Paused:
        return None


def _probe(
    problems: Problems[ConfigT, DataT, ProblemT],
    members: list[Member[ConfigT]],
    deadline: Deadline,
) -> float:
    """The seconds that an ensemble probably trains; ``Paused`` if the deadline passes meanwhile."""
    problem, planned = problems.prepare(members[0].config), problems.task.plan(members)
    marks = [(0, time.monotonic())]
    epochs = min(PROBED, planned.epochs)
    probe = replace(
        planned,
        epochs=epochs,
        progress=lambda done, _: marks.append((done, time.monotonic())),
        deadline=deadline,
    )
    problems.task.train(members, problem, probe)
    if deadline.passed():
        raise Paused(epochs, planned.epochs)
    end = time.monotonic()
    # The first epoch warms up. What follows the last one is done once.
    (before, begin), (done, last) = marks[1 if len(marks) > 2 else 0], marks[-1]
    epoch = (last - begin) / (done - before)
    expected = planned.epochs * (1.0 if planned.patience is None else EXPECTED_SHARE)
    return expected * epoch + end - last


def format_seconds(seconds: float) -> str:
    """A rough time: ``about 3 min``."""
    unit, size = next((u, s) for u, s in UNITS.items() if seconds >= 1.5 * s or s == 1)
    return f"about {max(1, round(seconds / size))} {unit}"


def _describe_limit(seconds: float, deadline: Deadline) -> str:
    """Says so if the deadline passes before so many seconds."""
    limit = deadline.seconds_left()
    if limit >= seconds:
        return ""
    return f", but the time limit stops it in {format_seconds(max(0.0, limit))}"


def _report_eta(context: Context, plan: Plan, title: str, more: str, seconds: float) -> None:
    """Logs the remaining time of a training longer than :data:`LONG`, its memory, and how many
    ``more`` trainings follow."""
    if seconds < LONG:
        return
    left, limit = format_seconds(seconds), _describe_limit(seconds, context.deadline)
    if plan.patience is not None:
        left = left.replace("about", "at most")
    if context.device.type == "cuda":
        memory = torch.cuda.max_memory_allocated(context.device)
    else:  # in KiB, except on macOS
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory = peak if sys.platform == "darwin" else 1024 * peak
    rest = f"the rest of {plan.epochs:,} epochs{limit}"
    context.log(f"{title}: {left} for {rest}, {memory / 2**30:.1f} GiB{more}")


def _make_records(
    task: AnyTask,
    members: Sequence[Member[ConfigT]],
    fit: Fit,
    data: Dataset,
    method: str,
    parameters: int,
) -> list[RunRecord]:
    key = ensemble_key(task, members)
    compact = compact_members([varying_settings(task, member) for member in members])
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


def select_state(
    task: Task[ConfigT, DataT, ProblemT], outcome: Outcome[ConfigT, ProblemT], index: int
) -> dict[str, Tensor]:
    """The state dict of the model of one run."""
    with torch.device("meta"):
        names = task.build(outcome.members[index].config, outcome.problem).state_dict()
    return {name: outcome.fit.weights[name][index] for name in names}


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
        states = select_state(task, outcome, index).items()
        tensors |= {f"members.{number}.{name}": value for name, value in states}
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
