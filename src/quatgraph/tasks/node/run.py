"""What node classification does its own way: its runs, their training, the card of a bundle."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.data.edges import count_edges
from quatgraph.models.common import four_copies
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.problem import Problem, build_model
from quatgraph.tasks.runs import classes_said, learners, num_parameters
from quatgraph.tasks.task import Member
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.metrics import accuracy, cross_entropy
from quatgraph.training.runtime import total_memory

if TYPE_CHECKING:
    from torch_geometric.data import Data

SCALED = {
    "none": "as they are",
    "row": "each row scaled to sum 1",
    "standard": "each column standardised",
}


def members_of(config: NodeConfig, data: "Data") -> list[Member]:
    """One run per split and seed."""
    splits = range(data.train_mask.size(1))
    return [Member(config, split, seed) for seed in range(config.seeds) for split in splits]


def train(
    members: Sequence[Member],
    problem: Problem,
    plan: Plan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fit:
    """Trains runs of one shape as one ensemble; see :func:`quatgraph.tasks.runs.together`."""
    config, device = members[0].config, problem.labels.device
    ensemble, optimizer = learners(members, build_model, problem, device)
    splits = torch.tensor([m.split for m in members], device=device)
    parts = {name: mask.index_select(0, splits).float() for name, mask in problem.parts.items()}
    features = problem.features
    training_features = four_copies(features) if config.model.trains_on_four_copies else features

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


def plan_of(members: Sequence[Member], **others: Any) -> Plan:
    """The plan of an ensemble; the protocol that keeps the last epoch is evaluated there only."""
    train = members[0].config.train
    return Plan(
        epochs=train.epochs,
        select=train.select,
        patience=train.patience if train.select == "best-valid" else None,
        evaluate_every=1 if train.select == "best-valid" else train.epochs,
        **others,
    )


def members_at_once(problem: Problem, config: NodeConfig, device: torch.device) -> int:
    """How many members fit into a third of the memory, by a count of what each holds.

    On a CPU fewer: beyond its cache, members trained together only hinder each other.
    """
    nodes = problem.labels.numel()
    features = problem.features
    stored = features.num_edges if isinstance(features, Adjacency) else features.numel()
    copies = 4 if config.model.trains_on_four_copies else 1
    activations = config.model.num_activations(nodes, problem.adjacency.num_edges)
    # With gradient, Adam's two, and the best.
    weights = 6 * num_parameters(build_model, config, problem)
    fitting = total_memory(device) / 3 / (4 * (4 * copies * stored + activations + weights))
    if device.type == "cpu":
        fitting = min(fitting, CPU_NUMBERS / (nodes * config.model.width))
    return max(1, int(fitting))


CPU_NUMBERS = 1 << 23
"""Numbers of one hidden layer, over all members, that a CPU still handles well together."""


def card(config: NodeConfig, data: "Data", problem: Problem) -> dict[str, Any]:
    """What preparing another graph like the training graph takes."""
    scaling = problem.scaling
    return {
        "data": {
            "num_nodes": int(data.num_nodes),
            "num_edges": count_edges(data.edge_index, data.num_nodes, directed=data.directed),
            "class_sizes": data.y[data.y >= 0].bincount(minlength=len(data.label_names)).tolist(),
        },
        "labels": data.label_names,
        "features": data.feature_names,
        "num_features": problem.features.shape[1],
        "scaling": None if scaling is None else scaling.to_dict(),
    }


def said(card: Mapping[str, Any]) -> list[str]:
    """What the accuracy has to be compared with, and what was done to the features, if any."""
    data, scaling = card["data"], card["scaling"]
    found = []
    if "class_sizes" in data:  # an older bundle has none
        found.append(
            f"nodes: {classes_said(data['class_sizes'], data['num_nodes'], unlabelled='')}, "
            f"{data['num_edges']:,} edges"
        )
    return found + ([] if scaling is None else [f"features: {SCALED[scaling['kind']]}"])
