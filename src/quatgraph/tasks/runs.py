"""Runs of any task, as few ensembles, and what they leave: records and a bundle."""

import math
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn

from quatgraph import config as configs
from quatgraph.tasks.task import Member, Task
from quatgraph.training.bundle import Bundle
from quatgraph.training.divergence import find_divergence
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.loop import Fit, Plan
from quatgraph.training.optim import MemberAdam
from quatgraph.training.record import RunRecord, compact_members
from quatgraph.training.runtime import NO_DEADLINE, Deadline, environment

DIVERGED = (-1.0, 0.0)
MERIT = "valid/merit"
"""The metric by which tasks that measure one choose an epoch."""


def merit(metrics: Mapping[str, float]) -> tuple[float, float]:
    """What runs are chosen by: validation accuracy, then the lower validation loss; or, of tasks
    without classes, the ``valid/merit`` that they measure.

    Runs without validation data, whose accuracy or merit is NaN or missing, are all alike. A run
    that diverged has the least merit: :func:`run` marks it by its ``valid/merit``, and in older
    records its loss is not finite.
    """
    if metrics.get(MERIT) == DIVERGED[0]:
        return DIVERGED
    if "valid/accuracy" not in metrics and MERIT in metrics:
        value = metrics[MERIT]
        return 0.0 if math.isnan(value) else value, 0.0
    accuracy, loss = metrics.get("valid/accuracy", math.nan), metrics.get("valid/loss", 0.0)
    if math.isnan(accuracy):
        accuracy, loss = 0.0, 0.0 * metrics.get("test/loss", 0.0)
    return (accuracy, -loss) if math.isfinite(loss) else DIVERGED


@dataclass(frozen=True, slots=True)
class Outcome:
    """An ensemble that has been trained."""

    members: list[Member]
    fit: Fit
    records: list[RunRecord]
    problem: Any
    """The data as the task's models take it."""
    divergence: list[str]
    """Of each run what diverged, empty for a healthy one; see
    :func:`quatgraph.training.divergence.find_divergence`."""


def together(task: Task, members: Sequence[Member]) -> list[list[Member]]:
    """Groups runs that can be one ensemble: those that differ only in what may vary."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        flat = configs.flatten(member.config.identity())
        shape = {key: value for key, value in flat.items() if key not in task.varying}
        groups.setdefault(configs.digest(shape), []).append(member)
    return list(groups.values())


def run(
    task: Task,
    members: Sequence[Member],
    data: Any,
    *,
    device: torch.device,
    method: str | None = None,
    keep_curves: bool = False,
    checkpoint: Callable[[str], Path] | None = None,
    resume: bool = False,
    deadline: Deadline = NO_DEADLINE,
    progress: Callable[[str, int, int], None] = lambda title, done, total: None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Iterator[Outcome]:
    """Trains runs, as few ensembles as shapes and memory allow, yielding each as it finishes.

    Args:
        method: Name of the method in the records; the model's name unless given.
        checkpoint: The folder for an ensemble's checkpoint, by the name of the ensemble.
        progress: Told what is being trained, the epochs done, and the epochs in all.
        tell: Told how long a training will be, where it is long, and how much memory it takes.
    """
    groups = [_parts(task, group, data, device) for group in together(task, members)]
    number, ensembles = 0, sum(map(len, groups))
    for parts in groups:
        config = parts[0][0].config
        name = method or config.model.name
        problem = task.prepare(data, config, device)
        parameters = num_parameters(task.build, config, problem)
        for part in parts:
            key = ensemble_key(task, part)
            number += 1
            place = f" ({number} of {ensembles})" if ensembles > 1 else ""
            runs = "1 run" if len(part) == 1 else f"{len(part)} runs"
            title = f"{data.name} {name}, {runs}{place}"
            plan = task.plan(
                part,
                checkpoint=checkpoint(key) if checkpoint else None,
                resume=resume,
                key=f"{key} on {data.digest}",
                deadline=deadline,
            )
            more = f"; {ensembles - number} more follow" if number < ensembles else ""
            plan = replace(plan, estimated=partial(_foretell, tell, title, more, plan, device))
            fitted = task.train(part, problem, plan, partial(progress, title))
            shared = {
                "task": task.name,
                "dataset": data.name,
                "method": name,
                "data_digest": data.digest,
                "members": compact_members([_described(task, member) for member in part]),
                "parameters": parameters,
                "ensemble": key,
            }
            curves = (lambda _: fitted.curves) if keep_curves else task.curves  # noqa: B023
            divergence = find_divergence(fitted)
            records = _records(part, fitted, shared, curves)
            records = [
                replace(r, metrics=r.metrics | {MERIT: DIVERGED[0]}) if why else r
                for r, why in zip(records, divergence, strict=True)
            ]
            yield Outcome(list(part), fitted, records, problem, divergence)


def _foretell(
    tell: Callable[[str], None],
    title: str,
    more: str,
    plan: Plan,
    device: torch.device,
    seconds: float,
) -> None:
    """Says of a training that is longer than :data:`LONG` how long, how much memory it has, and how
    many ``more`` there are."""
    if seconds < LONG:
        return
    unit, size = next((unit, size) for unit, size in UNITS.items() if seconds >= 1.5 * size)
    ends = "about" if plan.patience is None else "at most"
    if device.type == "cuda":
        memory = torch.cuda.max_memory_allocated(device)
    else:  # in KiB, but for a Mac
        kept = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory = kept if sys.platform == "darwin" else 1024 * kept
    tell(
        f"{title}: {ends} {seconds / size:.0f} {unit} for the rest of {plan.epochs:,} epochs, "
        f"{memory / 2**30:.1f} GiB{more}"
    )


LONG = 60.0
"""Seconds from which on a person is told how long it will take."""
UNITS = {"h": 3600, "min": 60, "s": 1}


def _parts(task: Task, group: list[Member], data: Any, device: torch.device) -> list[list[Member]]:
    """Runs of one shape, in parts that train well together; those of one configuration are in one
    part wherever they fit into it."""
    first = group[0].config
    size = task.members_at_once(task.prepare(data, first, device), first, device)
    parts: list[list[Member]] = [[]]
    for _, members in groupby(group, key=lambda member: member.config):
        own = list(members)
        if parts[-1] and len(parts[-1]) + len(own) > size:
            parts.append([])
        parts[-1].extend(own)
    return [part[at : at + size] for part in parts for at in range(0, len(part), size)]


def ensemble_key(task: Task, members: Sequence[Member]) -> str:
    """Names an ensemble in records and checkpoints: by its runs, in their order."""
    return configs.digest({"members": [_described(task, m) | m.config.identity() for m in members]})


def learners(
    members: Sequence[Member],
    build: Callable[[Any, Any], nn.Module],
    problem: Any,
    device: torch.device,
) -> tuple[Ensemble, MemberAdam]:
    """The models of runs of one shape as one, and what trains each by its own settings."""
    builds = [partial(build, member.config, problem) for member in members]
    ensemble = Ensemble(builds, [member.key for member in members]).to(device)
    optimizer = MemberAdam(
        ensemble.parameters(),
        lr=[member.config.train.lr for member in members],
        weight_decay=[member.config.train.weight_decay for member in members],
        clip=members[0].config.train.clip,
    )
    return ensemble, optimizer


def num_parameters(build: Callable[[Any, Any], nn.Module], config: Any, problem: Any) -> int:
    """Learned numbers of one model; see :attr:`Task.build`."""
    with torch.device("meta"):
        return sum(p.numel() for p in build(config, problem).parameters())


def bundle_of(task: Task, picks: Sequence[tuple[Outcome, int, int]], data: Any) -> Bundle:
    """Bundles trained runs whose predictions are to be combined.

    The reported metrics are the weighted mean of the members' own. Where members share a split and
    a seed, a predictor's ``evaluate`` measures their combination; such a caller reports that.

    Args:
        picks: For each member an outcome, the index of a run in it, and the run's weight.
        data: What all of them were trained on.
    """
    records = [outcome.records[index] for outcome, index, _ in picks]
    chosen = [outcome.members[index].config for outcome, index, _ in picks]
    weights = [weight for _, _, weight in picks]
    cards = [
        task.card(config, data, outcome.problem)
        for config, (outcome, _, _) in zip(chosen, picks, strict=True)
    ]
    first, shared = records[0], cards[0]
    members = [
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
        for config, record, weight, own in zip(chosen, records, weights, cards, strict=True)
    ]
    tensors = {f"data.{name}": value for name, value in task.kept(data, chosen).items()}
    for number, (outcome, index, _) in enumerate(picks):
        with torch.device("meta"):
            names = task.build(chosen[number], outcome.problem).state_dict()
        tensors |= {f"members.{number}.{name}": outcome.fit.weights[name][index] for name in names}
    card = {
        **shared,
        "task": task.name,
        "members": members,
        "metrics": {
            name: fmean((record.metrics[name] for record in records), weights)
            for name in first.metrics
            if all(name in record.metrics for record in records)
        },
        "data": {"name": data.name, "digest": data.digest, **shared.get("data", {})},
        "key": bundle_key_of(first.config_digest, first.data_digest),
        "environment": first.environment,
        "finished": first.finished,
    }
    return Bundle(card, tensors)


def bundle_key_of(config_digest: str, data_digest: str) -> str:
    """Names what a bundle was trained with."""
    return f"{config_digest} on {data_digest}"


def classes_said(sizes: Sequence[int], count: int, unlabelled: str = " took no part") -> str:
    """What an accuracy has to be compared with.

    Args:
        sizes: How many items each class has.
        count: Items in all, those without a label too.
        unlabelled: What those did.
    """
    known, largest = sum(sizes), max(sizes)
    unknown = f"; {count - known:,} more without a label{unlabelled}" * (count > known)
    share = f"{100 * largest / known:.1f} % in the largest"
    return f"{known:,} in {len(sizes)} classes, {share}{unknown}"


def _described(task: Task, member: Member) -> dict[str, Any]:
    """What tells a member of an ensemble from the others."""
    flat = configs.flatten(configs.to_dict(member.config))
    varying = {key: flat[key] for key in task.varying if key in flat}
    return varying | {"seed": member.seed, "split": member.split}


def _records(
    members: Sequence[Member],
    fitted: Fit,
    shared: dict[str, Any],
    curves: Callable[[Any], Iterable[str]],
) -> list[RunRecord]:
    """A record for each member; ``shared`` is what the caller knows of all of them, ``curves``
    tells which a config keeps."""
    where = environment(fitted.device)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    records = []
    for index, member in enumerate(members):
        identity = member.config.identity()
        records.append(
            RunRecord(
                **shared,
                protocol=member.config.protocol,
                split=member.split,
                seed=member.seed,
                config=identity,
                config_digest=configs.digest(identity),
                metrics={name: float(values[index]) for name, values in fitted.metrics.items()},
                best_epoch=int(fitted.best_epoch[index]),
                epochs_run=fitted.epochs_run,
                seconds=fitted.seconds,
                curves={
                    name: fitted.curves[name][:, index].tolist() for name in curves(member.config)
                },
                curve_epochs=fitted.curve_epochs if curves(member.config) else [],
                environment=where,
                finished=finished,
            )
        )
    return records
