"""Trains runs of graph classification of one shape as one ensemble."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from quatgraph.data.collection import Graphs
from quatgraph.errors import Mistake
from quatgraph.models.common import four_copies
from quatgraph.models.graph import MODELS
from quatgraph.ops.cross_entropy import smoothed_cross_entropy
from quatgraph.tasks.graph.batches import (
    Collection,
    EvaluationChunk,
    TrainingBatches,
    assemble,
    evaluation_chunks,
)
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.graph.problem import Problem, build_model, folds_of, parts_of
from quatgraph.tasks.runs import MERIT, classes_said, learners, num_parameters
from quatgraph.tasks.task import Member
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.metrics import by_class, macro_f1
from quatgraph.training.runtime import at_most_threads, total_memory


def members_of(config: GraphConfig, graphs: Graphs) -> list[Member]:
    """One run per fold and seed."""
    folds = range(len(folds_of(graphs, config.data)))
    return [Member(config, fold, seed) for seed in range(config.seeds) for fold in folds]


def train(
    members: Sequence[Member],
    problem: Problem,
    plan: Plan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fit:
    """Trains runs of one shape as one ensemble; see :func:`quatgraph.tasks.runs.together`."""
    config, collection = members[0].config, problem.collection
    device = collection.labels.device
    ensemble, optimizer = learners(members, build_model, problem, device)
    parts = [parts_of(problem, m.config, m.split) for m in members]
    # Of the largest fold there is, so that an epoch does not depend on which folds train together.
    whole_fold = max(len(train) for train, _ in problem.folds)
    batches = TrainingBatches(
        collection,
        [part["train"] for part in parts],
        config.train.batch_size,
        steps=math.ceil(whole_fold / config.train.batch_size),
        seeds=[member.key for member in members],
        expanded=expands(config),
    )
    shares = batches.shares
    chunks = chunks_of(collection, config, parts)
    four = any(member.config.model.trains_on_four_copies for member in members)

    def loss() -> Tensor:
        batch = batches.batch()
        features = four_copies(batch.features) if four else batch.features
        logits = batch.through(ensemble, features)
        each = smoothed_cross_entropy(logits, batch.labels.clamp(min=0), config.train.smoothing)
        return (each * shares).sum(dim=-1)

    def evaluate() -> Metrics:
        metrics = measured(ensemble, collection, chunks)
        return metrics | {MERIT: merit_of(metrics["valid/accuracy"], metrics["valid/loss"])}

    with at_most_threads(_useful_threads(len(members), config, problem)):
        return fit(
            ensemble,
            optimizer,
            loss=loss,
            evaluate=evaluate,
            plan=plan,
            batches=batches,
            progress=progress,
        )


def chunks_of(
    collection: Collection, config: GraphConfig, parts: Sequence[Mapping[str, Tensor]]
) -> list[EvaluationChunk]:
    """The validation and test graphs of each member, as :func:`measured` takes them."""
    return evaluation_chunks(
        collection,
        {name: [part[name] for part in parts] for name in ("valid", "test")},
        nodes_evaluated_at_once(len(parts), config, collection.labels.device),
        expanded=expands(config),
    )


def measured(
    ensemble: Ensemble,
    collection: Collection,
    chunks: Sequence[EvaluationChunk],
    *,
    with_f1: bool = False,
) -> Metrics:
    """Accuracy and loss of each member on its parts, NaN on one without graphs.

    Args:
        with_f1: Whether to measure the macro-F1 too.
    """
    totals: dict[str, dict[str, Tensor]] = {part: {} for part in chunks[0].parts}
    for chunk in chunks:
        batch = assemble(collection, chunk.graphs, chunk.capacity)
        logits, labels = batch.through(ensemble, batch.features), batch.labels.clamp(min=0)
        guesses = logits.argmax(dim=-1)
        found = {
            "accuracy": (guesses == labels).float(),
            "loss": smoothed_cross_entropy(logits, labels, 0.0),
            "count": torch.ones_like(labels, dtype=torch.float),
        }
        if with_f1:
            found["agreed"], found["named"] = by_class(guesses, labels, logits.size(-1))
        for part, mask in chunk.parts.items():
            for what, values in found.items():
                # Not a product: what is wrong with another part's graph must not be seen in this.
                mine = mask.view(*mask.shape, *[1] * (values.dim() - mask.dim())) > 0
                counted = torch.where(mine, values, 0).sum(dim=1)
                totals[part][what] = totals[part].get(what, 0) + counted
    metrics = {
        f"{part}/{what}": total[what] / total["count"]
        for part, total in totals.items()
        for what in ("accuracy", "loss")
    }
    for part, total in totals.items() if with_f1 else ():
        metrics[f"{part}/macro-f1"] = macro_f1(total["agreed"], total["named"])
    return metrics


def merit_of(accuracy: Tensor, loss: Tensor) -> Tensor:
    """What epochs are chosen by: the accuracy, and among equal ones, of which a few dozen graphs
    give many, the lower loss; in float64, which tells close losses apart."""
    loss = loss.double()
    return accuracy.double() - 1e-4 * loss / (1 + loss)


def plan_of(members: Sequence[Member], **others: Any) -> Plan:
    """The plan of an ensemble: measured after every epoch, whichever is kept."""
    return Plan(
        epochs=members[0].config.train.epochs,
        select=[member.config.train.select for member in members],
        monitor=MERIT,
        **others,
    )


def expands(config: GraphConfig) -> bool:
    """Whether the model needs a batch's adjacency as a matrix of its own."""
    return MODELS[config.model.name].needs_entries


def members_at_once(problem: Problem, config: GraphConfig, device: torch.device) -> int:
    """How many members fit into a third of the memory with the largest batch there can be.

    On a CPU fewer, but all of one configuration: beyond its cache, members trained together only
    hinder each other.
    """
    sizes = problem.collection.num_nodes.cpu()
    taken = min(config.train.batch_size, len(sizes))
    nodes = int(sizes.topk(taken).values.sum())
    entries = 0
    if expands(config):
        entries = int(problem.collection.num_entries.cpu().topk(taken).values.sum())
    copies = 4 if config.model.trains_on_four_copies else 1
    features = nodes * copies * min(problem.num_features, 4 * config.model.width)
    numbers = features + config.model.num_activations(nodes, entries)
    weights = 8 * num_parameters(build_model, config, problem)  # gradient, Adam's two, best, views
    fitting = total_memory(device) / 3 / (4 * (numbers + weights))
    if fitting < 1:
        place = int(sizes.argmax())
        raise Mistake(
            f"graph {problem.graphs.graph_ids[place]!r} has {int(sizes[place]):,} nodes, and a "
            f"batch with it does not fit into memory: lower model.hidden_quats or "
            f"train.batch_size, or leave the graph out"
        )
    if device.type == "cpu":
        typical = taken * problem.graphs.num_nodes / len(sizes)
        well = CPU_NUMBERS / (typical * config.model.width)
        fitting = min(fitting, max(well, len(problem.folds) * config.seeds))
    return int(fitting)


CPU_NUMBERS = 1 << 20
"""Numbers of one layer in a typical batch, over all members, that a CPU handles well together."""


def _useful_threads(members: int, config: GraphConfig, problem: Problem) -> int:
    """Threads of a CPU that a step keeps busy: one for each million numbers it moves in a layer."""
    adjacency, graphs = problem.collection.adjacency, len(problem.graphs)
    moved = (adjacency.shape[0] + adjacency.num_edges) / graphs * config.model.width
    return int(members * config.train.batch_size * moved / 1e6)


def nodes_evaluated_at_once(members: int, config: GraphConfig, device: torch.device) -> int:
    """Nodes a member in a chunk of the evaluation: little memory, and on a CPU its cache."""
    numbers = 1 << 28 if device.type == "cuda" else 1 << 21
    return max(1, numbers // (members * config.model.width))


def card(config: GraphConfig, graphs: Graphs, problem: Problem) -> dict[str, Any]:
    """What preparing new graphs like the training graphs takes."""
    class_sizes = graphs.y[graphs.y >= 0].bincount(minlength=graphs.num_classes)
    return {
        "data": {"num_graphs": len(graphs), "class_sizes": class_sizes.tolist()},
        "labels": graphs.label_names,
        "features": problem.features.to_dict(),
        "num_features": problem.num_features,
    }


def said(card: Mapping[str, Any]) -> list[str]:
    """What the accuracy has to be compared with, and what a node starts from."""
    data, features = card["data"], card["features"]
    graphs = f"graphs: {classes_said(data['class_sizes'], data['num_graphs'])}"
    what = {"tags": "the tag of each node", "degrees": "the degree of each node"}[features["kind"]]
    more = "" if features["scaling"] is None else ", and its attributes, standardised"
    return [graphs, f"features: {what} among {len(features['names'])}{more}"]


def curves_of(config: GraphConfig) -> tuple[str, ...]:
    """The rules of ``paper`` choose among test accuracies; ``honest`` looks at one of them only."""
    return ("test/accuracy",) if config.protocol == "paper" else ()
