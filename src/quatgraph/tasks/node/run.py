"""Runs of node classification, as few ensembles, and what they leave: records and a bundle."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency
from quatgraph.models.node import four_copies
from quatgraph.tasks.node.config import VARYING, NodeConfig
from quatgraph.tasks.node.problem import Problem, build_model, prepare
from quatgraph.training.bundle import Bundle
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.metrics import accuracy, cross_entropy
from quatgraph.training.optim import MemberAdam
from quatgraph.training.record import RunRecord, compact_members
from quatgraph.training.runtime import NO_DEADLINE, Deadline, environment, total_memory


@dataclass(frozen=True, slots=True)
class Member:
    """One run: a configuration, a split and a seed."""

    config: NodeConfig
    split: int
    seed: int

    def described(self) -> dict[str, Any]:
        flat = configs.flatten(configs.to_dict(self.config))
        return {key: flat[key] for key in VARYING} | {"seed": self.seed, "split": self.split}


def together(members: Sequence[Member]) -> list[list[Member]]:
    """Groups runs that can be one ensemble: those that differ only in what may vary."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        flat = configs.flatten(member.config.identity())
        shape = {key: value for key, value in flat.items() if key not in VARYING}
        groups.setdefault(configs.digest(shape), []).append(member)
    return list(groups.values())


def train(
    members: Sequence[Member],
    problem: Problem,
    plan: Plan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fit:
    """Trains runs of one shape as one ensemble; see :func:`together`."""
    config, device = members[0].config, problem.labels.device
    builds = [lambda m=m: build_model(m.config, problem) for m in members]
    ensemble = Ensemble(builds, [m.seed for m in members]).to(device)
    optimizer = MemberAdam(
        ensemble.parameters(),
        lr=[m.config.train.lr for m in members],
        weight_decay=[m.config.train.weight_decay for m in members],
        clip=config.train.clip,
    )
    splits = torch.tensor([m.split for m in members], device=device)
    parts = {name: mask.index_select(0, splits).float() for name, mask in problem.parts.items()}
    features = problem.features
    training_features = four_copies(features) if trains_on_four_copies(config) else features

    def loss() -> Tensor:
        logits = ensemble(training_features, problem.adjacency)
        return cross_entropy(logits, problem.labels, parts["train"])

    def evaluate() -> Metrics:
        logits = ensemble(features, problem.adjacency)
        metrics = {
            f"{part}/accuracy": accuracy(logits, problem.labels, mask)
            for part, mask in parts.items()
        }
        return metrics | {"valid/loss": cross_entropy(logits, problem.labels, parts["valid"])}

    return fit(ensemble, optimizer, loss=loss, evaluate=evaluate, plan=plan, progress=progress)


def plan_of(config: NodeConfig, **others: Any) -> Plan:
    """The plan of a config; the protocol that keeps the last epoch is evaluated there only."""
    train = config.train
    return Plan(
        epochs=train.epochs,
        select=train.select,
        patience=train.patience if train.select == "best-valid" else None,
        evaluate_every=1 if train.select == "best-valid" else train.epochs,
        **others,
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """An ensemble that has been trained."""

    members: list[Member]
    fit: Fit
    records: list[RunRecord]
    problem: Problem

    def best(self) -> int:
        """The member with the best :func:`merit`."""
        return max(range(len(self.records)), key=lambda index: merit(self.records[index].metrics))


def merit(metrics: Mapping[str, float]) -> tuple[float, float]:
    """What runs are chosen by: validation accuracy, then the lower validation loss.

    A run that diverged has no loss, and the least merit.
    """
    loss = metrics["valid/loss"]
    return (metrics["valid/accuracy"], -loss) if math.isfinite(loss) else DIVERGED


DIVERGED = (-1.0, 0.0)


def members_of(config: NodeConfig, data: Data) -> list[Member]:
    """One run per split and seed."""
    splits = range(data.train_mask.size(1))
    return [Member(config, split, seed) for seed in range(config.seeds) for split in splits]


def run(
    members: Sequence[Member],
    data: Data,
    *,
    device: torch.device,
    method: str | None = None,
    keep_curves: bool = False,
    checkpoint: Callable[[str], Path] | None = None,
    resume: bool = False,
    deadline: Deadline = NO_DEADLINE,
    capture: bool = True,
    progress: Callable[[str, int, int], None] = lambda title, done, total: None,
) -> Iterator[Outcome]:
    """Trains runs, as few ensembles as shapes and memory allow, yielding each as it finishes.

    Args:
        method: Name of the method in the records; the model's name unless given.
        checkpoint: The folder for an ensemble's checkpoint, by the name of the ensemble.
        progress: Told what is being trained, the epochs done, and the epochs in all.
    """
    for group in together(members):
        config = group[0].config
        problem = prepare(data, config, device)
        size = members_at_once(problem, config, device)
        for part in (group[i : i + size] for i in range(0, len(group), size)):
            key = configs.digest({"members": [m.described() | m.config.identity() for m in part]})
            plan = plan_of(
                config,
                seed=int(key[:8], 16),
                checkpoint=checkpoint(key) if checkpoint else None,
                resume=resume,
                key=f"{key} on {data.digest}",
                deadline=deadline,
                capture=capture,
            )
            title = f"{data.name} {method or config.model.name}, {len(part)} runs"
            fitted = train(part, problem, plan, lambda done, total: progress(title, done, total))  # noqa: B023
            name = method or config.model.name
            records = _records(part, fitted, data, problem, name, key, keep_curves)
            yield Outcome(part, fitted, records, problem)


def members_at_once(problem: Problem, config: NodeConfig, device: torch.device) -> int:
    """How many members fit into a third of the memory, by a count of what each holds.

    On a CPU fewer: beyond its cache, members trained together only hinder each other.
    """
    nodes = problem.labels.numel()
    hidden = 4 * config.model.hidden_quats
    features = problem.features
    stored = features.num_edges if isinstance(features, Adjacency) else features.numel()
    copies = 4 if trains_on_four_copies(config) else 1
    attention = config.model.heads * problem.adjacency.num_edges * (config.model.name == "gat")
    activations = 12 * (nodes * hidden * config.model.num_layers + attention)
    weights = 6 * num_parameters(config, problem)  # with gradient, Adam's two, and the best
    fitting = total_memory(device) / 3 / (4 * (4 * copies * stored + activations + weights))
    if device.type == "cpu":
        fitting = min(fitting, CPU_NUMBERS / (nodes * hidden))
    return max(1, int(fitting))


CPU_NUMBERS = 1 << 23
"""Numbers of one hidden layer, over all members, that a CPU still handles well together."""


def num_parameters(config: NodeConfig, problem: Problem) -> int:
    """Learned numbers of one model."""
    with torch.device("meta"):
        return sum(p.numel() for p in build_model(config, problem).parameters())


def trains_on_four_copies(config: NodeConfig) -> bool:
    return config.model.name == "qgnn" and config.model.masks == "real"


def _records(
    members: Sequence[Member],
    fitted: Fit,
    data: Data,
    problem: Problem,
    method: str,
    key: str,
    keep_curves: bool,
) -> list[RunRecord]:
    ran_with = compact_members([member.described() for member in members])
    where = environment(fitted.device)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    parameters = num_parameters(members[0].config, problem)
    records = []
    for index, member in enumerate(members):
        metrics = {name: float(values[index]) for name, values in fitted.metrics.items()}
        epoch = int(fitted.best_epoch[index])
        identity = member.config.identity()
        records.append(
            RunRecord(
                task="node",
                dataset=data.name,
                method=method,
                protocol=member.config.protocol,
                split=member.split,
                seed=member.seed,
                config=identity,
                config_digest=configs.digest(identity),
                data_digest=data.digest,
                members=ran_with,
                metrics=metrics,
                selected={member.config.train.select: {"epoch": epoch}},
                best_epoch=epoch,
                epochs_run=fitted.epochs_run,
                parameters=parameters,
                seconds=fitted.seconds,
                ensemble=key,
                curves={
                    name: curve[:, index].tolist()
                    for name, curve in fitted.curves.items()
                    if keep_curves
                },
                environment=where,
                finished=finished,
            )
        )
    return records


def bundle_of(outcome: Outcome, index: int, data: Data) -> Bundle:
    """One member as a bundle: what ``predict`` needs and what a reader wants to know."""
    member, record = outcome.members[index], outcome.records[index]
    model = build_model(member.config, outcome.problem)
    weights = {name: outcome.fit.weights[name][index] for name in model.state_dict()}
    scaling = outcome.problem.scaling
    card = {
        "task": "node",
        "config": configs.to_dict(member.config),
        "split": member.split,
        "seed": member.seed,
        "metrics": record.metrics,
        "epoch": record.best_epoch,
        "parameters": record.parameters,
        "data": {"name": data.name, "digest": data.digest, "num_nodes": int(data.num_nodes)},
        "labels": data.label_names,
        "features": data.feature_names,
        "num_features": outcome.problem.features.shape[1],
        "scaling": None if scaling is None else scaling.to_dict(),
        "environment": record.environment,
        "finished": record.finished,
    }
    return Bundle(card, weights)
