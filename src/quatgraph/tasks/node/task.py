"""The task of node classification."""

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.adjacency import SPARSE_BELOW, Adjacency
from quatgraph.data import node as source
from quatgraph.data.edges import count_edges
from quatgraph.data.scaling import Scaling
from quatgraph.hops import Chunks
from quatgraph.metrics.classification import accuracy, cross_entropy
from quatgraph.models.common import four_copies
from quatgraph.models.node import MODELS
from quatgraph.tasks.class_weights import class_weights
from quatgraph.tasks.combination import Pool, TrainedRun
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.evaluation import PartNodes
from quatgraph.tasks.node.pool import NodePool
from quatgraph.tasks.node.problem import (
    Problem,
    describe_feature,
    find_entry_beyond,
    refuse_infinite_sums,
)
from quatgraph.tasks.node.sampled import (
    NodeBatch,
    NodeBatches,
    fan_out,
    settle,
    step_numbers,
)
from quatgraph.tasks.node.smoothing import Smoothing
from quatgraph.tasks.overflow import SUSPICIOUS, find_beyond, refuse_beyond
from quatgraph.tasks.runs import count_classes, describe_classes
from quatgraph.tasks.selection import SELECTION_SCORE, score_epoch
from quatgraph.tasks.task import Card, Member, Task
from quatgraph.training.batches import WholeData
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.runtime import matmul_precision, total_memory

if TYPE_CHECKING:
    from torch_geometric.data import Data

SCALED = {
    "none": "as they are",
    "row": "each row scaled to sum 1",
    "standard": "each column standardised",
}
LARGEST_PROPAGATED = 1 << 28
"""Features that are propagated before training are dense; more numbers are propagated in every
step, as logits."""
LARGEST_SMOOTHED = 1 << 24
"""Predictions are smoothed in a hundred products with as many columns as classes."""
CPU_NUMBERS = 1 << 23
"""Numbers of one hidden layer, over all members, that a CPU still handles well together."""


class NodeTask(Task[NodeConfig, "Data", Problem]):
    name = "node"
    config = NodeConfig
    varying = ("train.lr", "train.weight_decay", "model.dropout", "model.input_dropout")
    models = MODELS
    monitor = "valid/accuracy"

    def load(self, config: NodeConfig, *, labels_needed: bool = True) -> "Data":
        settings = config.data
        configs.check_source(settings)
        if settings.name:
            return source.load(settings.name)
        return source.read(Path(settings.path), settings.read_options(labels_needed=labels_needed))

    def num_splits(self, config: NodeConfig, data: "Data") -> int:
        return int(data.train_mask.size(1))

    def num_outputs(self, data: "Data") -> int:
        return int(data.num_nodes) * len(data.label_names)

    def problem_key(self, config: NodeConfig) -> Hashable:
        model = config.model
        samples = config.train.samples
        return config.data.scaling, model.matrix, model.propagations, config.train.labels, samples

    def settle(
        self, candidates: Sequence[NodeConfig], data: "Data", device: torch.device
    ) -> tuple[Sequence[NodeConfig], list[str]]:
        settled, notes = settle(candidates, data, device)
        return settled, [*data.notes, *notes]

    def trains_briefly(self, config: NodeConfig) -> bool:
        return not config.train.samples

    def prepare(
        self,
        data: "Data",
        config: NodeConfig,
        device: torch.device,
        *,
        scaling: Scaling | None = None,
        layout: Literal["auto", "sparse", "dense"] = "auto",
    ) -> Problem:
        """Scales features, prepares the adjacency matrix and moves all to the device.

        Args:
            scaling: The scaling of the training graph, if this is another one.
            layout: How features are held; ``auto`` keeps those with few non-zero numbers sparse.
        """
        num_nodes = int(data.num_nodes)
        features: Tensor | Adjacency
        if data.x is None:
            nodes = torch.arange(num_nodes, device=device)
            features = Adjacency.from_entries(nodes, nodes, None, (num_nodes, num_nodes))
        else:
            x, kind, encoding = data.x, config.data.scaling, data.get("encoding")
            few = x.count_nonzero() < SPARSE_BELOW * x.numel()
            if not few and not config.train.samples:
                x = x.to(device)  # what a device may not hold twice is scaled in main memory
            if kind == "auto" and encoding is not None and encoding.mixes_kinds:
                kind = "standard"  # ages and one-hot categories have no meaningful sum
            scaling = scaling or Scaling.fit(x, kind)
            features = scaling.apply(x)
            # A row with an infinite sum is scaled to zeros, so there the raw numbers are checked.
            checked = x if scaling.kind == "row" else features
            refuse_beyond(checked, partial(describe_feature, data))
            few = features.count_nonzero() < SPARSE_BELOW * features.numel()
            if layout == "sparse" or (layout == "auto" and few and not config.train.samples):
                features = Adjacency.from_dense(features)
            features = features.to(device)
        edge_index, edge_weight = data.edge_index.to(device), data.get("edge_weight")
        if edge_weight is not None:
            edge_weight = edge_weight.to(device)
        adjacency = Adjacency.from_edge_index(edge_index, num_nodes, edge_weight, self_loops=True)
        if edge_weight is not None:
            refuse_infinite_sums(data, adjacency)
        masks = {"train": data.train_mask, "valid": data.val_mask, "test": data.test_mask}
        if config.train.labels == "all":
            masks["train"] = (data.y >= 0)[:, None].expand_as(data.train_mask)
        matrix = adjacency.normalized(config.model.matrix)
        is_propagated = config.model.propagations > 0 and prod(features.shape) <= LARGEST_PROPAGATED
        if is_propagated:
            features = features.to_dense()
            for _ in range(config.model.propagations):
                features = matrix @ features
        return Problem(
            features=features,
            adjacency=matrix,
            labels=data.y.to(device),
            masks={part: mask.T.contiguous().to(device) for part, mask in masks.items()},
            label_names=data.label_names,
            scaling=scaling,
            is_propagated=is_propagated,
            chunks=Chunks(matrix) if config.train.samples else None,
        )

    def build(self, config: NodeConfig, problem: Problem) -> nn.Module:
        options, num_features = config.model, problem.features.shape[1]
        return MODELS[options.name].from_options(options, num_features, problem.num_classes)

    def train(self, members: Sequence[Member[NodeConfig]], problem: Problem, plan: Plan) -> Fit:
        ensemble, optimizer = self.build_ensemble(members, problem)
        splits = torch.tensor([m.split for m in members], device=problem.device)
        masks = {part: mask.index_select(0, splits).float() for part, mask in problem.masks.items()}
        labels, train = problem.labels, members[0].config.train
        four = members[0].config.model.trains_on_four_copies
        shares = masks["train"]
        train_labels = [labels[mask > 0].cpu() for mask in shares]
        weights = class_weights(train.class_weights, problem.label_names, train_labels)
        if weights is not None:
            shares = shares * weights.to(problem.device).index_select(1, labels.clamp(min=0))
        measured = ("valid", "test") if train.metric != "accuracy" else ()
        parts = {part: PartNodes.of(masks[part]) for part in measured}

        def loss(features: Tensor | Adjacency) -> Tensor:
            logits = ensemble(features, problem.inputs[1])
            return cross_entropy(logits, labels, shares)

        def sampled_loss(batch: NodeBatch) -> Tensor:
            assert isinstance(problem.features, Tensor)
            x, own = problem.features.index_select(0, batch.hops.nodes), batch.seeds.clamp(min=0)
            logits = ensemble(four_copies(x) if four else x, batch.hops)
            share = shares.index_select(1, own) * (batch.seeds >= 0)
            return cross_entropy(logits, labels.index_select(0, own), share)

        def evaluate() -> Metrics:
            with matmul_precision("float32"):
                logits = ensemble(*problem.inputs)
            metrics = {
                f"{part}/accuracy": accuracy(logits, labels, mask) for part, mask in masks.items()
            }
            metrics["valid/loss"] = cross_entropy(logits, labels, masks["valid"])
            for part, nodes in parts.items():
                metrics[f"{part}/{train.metric}"] = nodes.measure(train.metric, logits, labels)
            if train.scores_epochs:
                value = metrics[f"valid/{train.metric}"]
                metrics[SELECTION_SCORE] = score_epoch(value, metrics["valid/loss"])
            return metrics

        how: dict[str, Any]
        if train.samples:
            (member,) = members
            nodes = masks["train"][0].nonzero().flatten()
            key, size = member.key, train.batch_size
            batches = NodeBatches(problem.adjacency, fan_out(member.config), nodes, size, key)
            how = {"loss": sampled_loss, "batches": batches}
        else:
            whole = WholeData(four_copies(problem.features) if four else problem.features)
            how = {"loss": loss, "batches": whole}
        with matmul_precision(train.precision):
            fitted = fit(ensemble, optimizer, **how, evaluate=evaluate, plan=plan)
        with torch.no_grad():
            logits = ensemble.eval()(*problem.inputs).cpu()
        return dataclasses.replace(fitted, outputs=[{"all/logits": own} for own in logits])

    def pool(self, runs: Sequence[TrainedRun], data: "Data", device: torch.device) -> NodePool:
        return NodePool(runs, runs[0].config.train.metric, data)

    def refine(self, pools: Sequence[Pool], weights: Sequence[int], temperature: float) -> Card:
        """Smooths predictions over the graph if that is better on validation data; not those of
        more than :data:`LARGEST_SMOOTHED` numbers."""
        own = [pool for pool in pools if isinstance(pool, NodePool)]
        if own[0].logits[0].numel() > LARGEST_SMOOTHED:
            return {}
        plain, smoothed = (
            fmean(pool.smoothed_by(smoothing).refined_score(weights, temperature) for pool in own)
            for smoothing in (None, Smoothing())
        )
        chosen = Smoothing() if smoothed > plain else None
        for pool in own:
            pool.smoothing = chosen
        return {} if chosen is None else {"smoothing": dataclasses.asdict(chosen)}

    def plan(self, members: Sequence[Member[NodeConfig]]) -> Plan:
        plan = super().plan(members)
        scored = members[0].config.train.scores_epochs
        return replace(plan, monitor=SELECTION_SCORE) if scored else plan

    def max_members(self, problem: Problem, config: NodeConfig) -> int:
        if config.train.samples:
            return 1
        nodes, features, device = problem.labels.numel(), problem.features, problem.device
        stored = features.num_edges if isinstance(features, Adjacency) else features.numel()
        weights = self.num_parameters(config, problem)
        numbers = step_numbers(config, nodes, stored, problem.adjacency.num_edges, weights)
        fitting = total_memory(device) / 3 / (4 * numbers)
        if device.type == "cpu":
            fitting = min(fitting, CPU_NUMBERS / (nodes * config.model.width))
        return max(1, int(fitting))

    def card(self, config: NodeConfig, data: "Data", problem: Problem) -> Card:
        """What preparing another graph like the training graph takes."""
        scaling, encoding = problem.scaling, data.get("encoding")
        return {
            "data": {
                "num_nodes": int(data.num_nodes),
                "num_edges": count_edges(data.edge_index, data.num_nodes, directed=data.directed),
                "class_sizes": count_classes(data.y, len(data.label_names)),
            },
            "labels": data.label_names,
            "label_type": data.label_type,
            "features": data.feature_names,
            "encoding": None if encoding is None else encoding.to_dict(),
            "num_features": problem.features.shape[1],
            "scaling": None if scaling is None else scaling.to_dict(),
        }

    def summarize(self, card: Card) -> list[str]:
        """Describes the graph's classes and how its features were scaled."""
        data, scaling = card["data"], card["scaling"]
        summary = []
        if "class_sizes" in data:  # missing in older bundles
            classes = describe_classes(data["class_sizes"], data["num_nodes"], unlabelled="")
            summary.append(f"nodes: {classes}, {data['num_edges']:,} edges")
        if card.get("smoothing"):
            summary.append("predictions: smoothed over the graph (correct and smooth)")
        return summary + ([] if scaling is None else [f"features: {SCALED[scaling['kind']]}"])

    def explain_overflow(self, data: "Data", problem: Problem) -> str:
        if isinstance(problem.features, Tensor):
            if place := find_beyond(problem.features, SUSPICIOUS):
                return describe_feature(data, *place)
        elif entry := find_entry_beyond(problem.features):
            return describe_feature(data, *entry[:2])
        if entry := find_entry_beyond(problem.adjacency):
            node, _, weight = entry
            return f"an edge of node {data.node_ids[node]!r} has the weight {weight:g}"
        return ""
