"""The task of graph classification."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.data import graph as source
from quatgraph.data.graph.collection import Graphs
from quatgraph.data.labels import missing_labels
from quatgraph.errors import UserError
from quatgraph.models.common import four_copies
from quatgraph.models.graph import MODELS
from quatgraph.ops.cross_entropy import smoothed_cross_entropy, smoothed_loss
from quatgraph.tasks.class_weights import class_weights, weighted_mean
from quatgraph.tasks.graph.batches import BatchIndices, TrainingBatches, assemble
from quatgraph.tasks.graph.colours import fit_vocabulary, vocabulary_key
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.graph.evaluation import (
    build_chunks,
    compute_metrics,
    compute_outputs,
    max_nodes_per_chunk,
)
from quatgraph.tasks.graph.features import EdgeFeatures, NodeFeatures
from quatgraph.tasks.graph.problem import (
    Problem,
    build_collection,
    folds_of,
    own_parts,
    split_indices,
    takes_edge_labels,
)
from quatgraph.tasks.runs import count_classes, describe_classes
from quatgraph.tasks.task import Card, Member, Task
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.runtime import limit_threads, total_memory

CPU_NUMBERS = 1 << 20
"""Numbers of one layer in a typical batch, over all members, that a CPU handles well together."""


class GraphTask(Task[GraphConfig, Graphs, Problem]):
    name = "graph"
    config = GraphConfig
    varying = (
        "protocol",
        "data.validation",
        "model.dropout",
        "model.pooled_dropout",
        "train.lr",
        "train.weight_decay",
        "train.select",
    )
    models = MODELS
    averages_runs = True
    evaluates_always = True  # records under `paper` hold the curves of the test folds

    def load(self, config: GraphConfig, *, labels_needed: bool = True) -> Graphs:
        settings = config.data
        configs.check_source(settings)
        if settings.name:
            return source.load(settings.name)
        return source.read(
            Path(settings.path),
            missing=missing_labels(settings.missing),
            labels_needed=labels_needed,
            **settings.keys,
        )

    def num_splits(self, config: GraphConfig, data: Graphs) -> int:
        return len(folds_of(data, config.data))

    def has_validation(self, config: GraphConfig, data: Graphs) -> bool:
        own = data.parts is not None and len(own_parts(data, data.parts)[1]) > 0
        return own or config.data.validation > 0

    def check_candidates(self, candidates: Sequence[GraphConfig], data: Graphs) -> list[str]:
        """Reports the models that ignore labels or features of edges."""
        models = [config.model for config in candidates]
        plain = {model.name: None for model in models if not model.uses_edges}
        # Colours take labels only.
        coloured = {m.name: None for m in models if m.uses_edges and m.colour_rounds is not None}
        ignoring = {}
        if data.edge_tags is not None:
            ignoring["edge labels"] = plain
        if data.edge_attributes is not None:
            ignoring["edge features"] = plain | coloured
        return [
            f"{what} are ignored by {', '.join(names)}" for what, names in ignoring.items() if names
        ]

    def prepare(self, data: Graphs, config: GraphConfig, device: torch.device) -> Problem:
        """Encodes nodes, builds the adjacency matrix of the model, and moves all to the device."""
        features = NodeFeatures.fit(data, config.data.features)
        edges = EdgeFeatures.fit(data)
        collection = build_collection(data, config.model, features, device, edges=edges)
        return Problem(
            collection=collection,
            folds=folds_of(data, config.data),
            num_classes=data.num_classes,
            num_features=collection.features.shape[1],
            features=features,
            graphs=data,
            edges=edges,
        )

    def build(self, config: GraphConfig, problem: Problem) -> nn.Module:
        model, sizes = MODELS[config.model.name], (problem.num_features, problem.num_classes)
        edges = {"edge_dim": problem.edge_dim} if problem.edge_dim else {}
        return model.from_options(config.model, *sizes, **edges)

    def train(self, members: Sequence[Member[GraphConfig]], problem: Problem, plan: Plan) -> Fit:
        config, collection = members[0].config, problem.collection
        ensemble, optimizer = self.build_ensemble(members, problem)
        parts = [split_indices(problem, m.config, m.split) for m in members]
        model = MODELS[config.model.name]
        by_entry, dense = model.needs_entries or problem.edge_dim > 0, model.needs_max_row
        # Of the largest fold, so that the steps of an epoch do not depend on the other members.
        largest_fold = max(len(train) for train, _ in problem.folds)
        largest_fold = max(largest_fold, *(len(part["train"]) for part in parts))
        batches = TrainingBatches(
            collection,
            [part["train"] for part in parts],
            config.train.batch_size,
            steps=math.ceil(largest_fold / config.train.batch_size),
            seeds=[member.key for member in members],
            by_entry=by_entry,
            dense=dense,
        )
        shares = batches.shares
        train_labels = [problem.graphs.y[part["train"]] for part in parts]
        weights = class_weights(
            config.train.class_weights, problem.graphs.label_names, train_labels
        )
        by_class = None if weights is None else weights.to(problem.device)
        max_nodes = max_nodes_per_chunk(len(members), config, problem.device)
        chunks = build_chunks(
            collection,
            parts,
            ("valid", "test"),
            max_nodes,
            by_entry=by_entry,
            dense=dense + model.has_pairs,
        )
        measure = smoothed_loss if model.returns_losses else smoothed_cross_entropy
        four = any(member.config.model.trains_on_four_copies for member in members)

        def loss(indices: BatchIndices) -> Tensor:
            batch = assemble(collection, indices.graphs, indices.capacity)
            features = four_copies(batch.features) if four else batch.features
            found = batch.through(ensemble, features)
            found, penalty = found if model.has_penalty else (found, None)
            labels = batch.labels.clamp(min=0)
            each = measure(found, labels, config.train.smoothing)
            if by_class is None:
                value = (each * shares).sum(dim=-1)
            else:
                value = weighted_mean(each, shares * by_class.gather(1, labels))
            return value if penalty is None else value + penalty

        def evaluate() -> Metrics:
            return compute_metrics(ensemble, collection, chunks, config.train.metric)

        with limit_threads(_useful_threads(len(members), config, problem)):
            fitted = fit(
                ensemble, optimizer, loss=loss, evaluate=evaluate, batches=batches, plan=plan
            )
            outputs = compute_outputs(ensemble, collection, chunks)
            return dataclasses.replace(fitted, outputs=outputs)

    def max_members(self, problem: Problem, config: GraphConfig) -> int:
        """As many as fit with the largest possible batch. On a CPU at least all runs of one
        configuration."""
        sizes = problem.collection.num_nodes.cpu()
        batch_size = min(config.train.batch_size, len(sizes))
        nodes = int(sizes.topk(batch_size).values.sum())
        entries, model = 0, MODELS[config.model.name]
        if model.needs_max_row:
            nodes = batch_size * int(sizes.max())
            entries = nodes * int(sizes.max())
        if model.needs_entries or problem.edge_dim:
            entries = int(problem.collection.num_entries.cpu().topk(batch_size).values.sum())
        copies = 4 if config.model.trains_on_four_copies else 1
        features = nodes * copies * min(problem.num_features, 4 * config.model.width)
        numbers = features + config.model.num_activations(nodes, entries)
        # Weights, gradients, Adam's two moments, the best weights, and views.
        weights = 8 * self.num_parameters(config, problem)
        fitting = total_memory(problem.device) / 3 / (4 * (numbers + weights))
        if fitting < 1:
            largest = int(sizes.argmax())
            others = [name for name, each in MODELS.items() if not each.needs_max_row]
            raise UserError(
                f"graph {problem.graphs.graph_ids[largest]!r} has {int(sizes[largest]):,} nodes, "
                "and a batch with it does not fit into memory: lower model.hidden_quats or "
                "train.batch_size, or leave the graph out"
                + model.needs_max_row
                * f"; models without dense batches are {', '.join(others)}"
            )
        if problem.device.type == "cpu":
            typical = batch_size * _mean_size(problem.graphs.node_ptr.diff(), config)
            cached = CPU_NUMBERS / (typical * config.model.width)
            fitting = min(fitting, max(cached, len(problem.folds) * config.seeds))
        return int(fitting)

    def recorded_curves(self, config: GraphConfig) -> tuple[str, ...]:
        """The rules of ``paper`` choose among test accuracies; ``honest`` reads just one."""
        return ("test/accuracy",) if config.protocol == "paper" else ()

    def card(self, config: GraphConfig, data: Graphs, problem: Problem) -> Card:
        """What preparing new graphs like the training graphs takes."""
        class_sizes = count_classes(data.y, data.num_classes)
        edges = None if problem.edges is None else problem.edges.to_dict()
        return ({} if edges is None else {"edge_features": edges}) | {
            "data": {"num_graphs": len(data), "class_sizes": class_sizes},
            "labels": data.label_names,
            "label_type": data.label_type,
            "features": problem.features.to_dict(),
            "num_features": problem.num_features,
        }

    def bundled_tensors(self, data: Graphs, chosen: Sequence[GraphConfig]) -> dict[str, Tensor]:
        """The vocabularies of the members that take colours."""
        tensors = {}
        for config in chosen:
            rounds = config.model.colour_rounds
            if rounds is not None:
                kind = NodeFeatures.fit(data, config.data.features).kind
                edges = takes_edge_labels(config.model, EdgeFeatures.fit(data))
                key = vocabulary_key(kind, rounds, edges=edges)
                if key not in tensors:
                    tensors[key] = fit_vocabulary(data, kind, rounds, edges=edges)
        return tensors

    def summarize(self, card: Card) -> list[str]:
        """Describes the classes and the features of a node."""
        data, features = card["data"], card["features"]
        classes = describe_classes(data["class_sizes"], data["num_graphs"])
        kinds = {"tags": "the tag of each node", "degrees": "the degree of each node"}
        named = f"{kinds[features['kind']]} among {len(features['names'])}"
        model = card["members"][0]["config"]["model"]
        rounds, fields = model.get("rounds"), model.get("num_fields")
        if rounds is not None:
            named = f"{card['num_features']:,} colours of {rounds} rounds, from {named}"
        if fields is not None:
            named = f"{fields} fields of {model['field_size']} nodes, from {named}"
        if features["scaling"] is not None:
            uses = rounds is None and fields is None
            named += ", and its attributes, standardised" if uses else "; attributes unused"
        lines = [f"graphs: {classes}", f"features: {named}"]
        return lines + _describe_edges(card)

    def explain_overflow(self, data: Graphs, problem: Problem) -> str:
        return problem.features.explain_overflow(data)


def _describe_edges(card: Card) -> list[str]:
    """What the members of a bundle make of labels and features of edges."""
    if "edge_features" not in card:
        return []
    edges = card["edge_features"]
    parts = [f"{len(edges['names'])} labels"] if edges["names"] else []
    if edges["scaling"] is not None:
        parts.append(f"{edges['scaling']['width']} features, standardised")
    options = {str(m["config"]["model"]): m["config"]["model"] for m in card["members"]}.values()
    ignoring = {model["name"]: None for model in options if not model.get("edge_data")}
    used = f"; ignored by {', '.join(ignoring)}" if ignoring else ""
    return [f"edges: {' and '.join(parts)}{used}"]


def _useful_threads(num_members: int, config: GraphConfig, problem: Problem) -> int:
    """CPU threads that a step keeps busy: one per million numbers that a layer moves."""
    whole, graphs = problem.collection, len(problem.graphs)
    rows = _mean_size(whole.num_nodes, config) + whole.adjacency.num_edges / graphs
    moved = rows * config.model.width
    return int(num_members * config.train.batch_size * moved / 1e6)


def _mean_size(num_nodes: Tensor, config: GraphConfig) -> float:
    """The mean number of a layer's vectors per graph: of nodes, or of pairs of nodes."""
    sizes = num_nodes.double()
    return float((sizes.square() if MODELS[config.model.name].has_pairs else sizes).mean())
