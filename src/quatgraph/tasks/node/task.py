"""The task of node classification."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.data.edges import count_edges
from quatgraph.models.common import four_copies
from quatgraph.models.node import MODELS
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.problem import (
    Problem,
    build_model,
    explain_overflow,
    load_data,
    prepare,
)
from quatgraph.tasks.runs import describe_classes
from quatgraph.tasks.task import Card, Member, Task
from quatgraph.training.batches import WholeData
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
CPU_NUMBERS = 1 << 23
"""Numbers of one hidden layer, over all members, that a CPU still handles well together."""


class NodeTask(Task[NodeConfig, "Data", Problem]):
    name = "node"
    config = NodeConfig
    varying = ("train.lr", "train.weight_decay", "model.dropout")
    models = MODELS

    def load(self, config: NodeConfig) -> "Data":
        return load_data(config.data)

    def num_splits(self, config: NodeConfig, data: "Data") -> int:
        return int(data.train_mask.size(1))

    def prepare(self, data: "Data", config: NodeConfig, device: torch.device) -> Problem:
        return prepare(data, config, device)

    def build(self, config: NodeConfig, problem: Problem) -> nn.Module:
        return build_model(config, problem)

    def plan(self, members: Sequence[Member[NodeConfig]]) -> Plan:
        """If the last epoch is selected, only that one is evaluated."""
        train = members[0].config.train
        best = train.select == "best-valid"
        return Plan(
            epochs=train.epochs,
            select=train.select,
            patience=train.patience if best else None,
            evaluate_every=1 if best else train.epochs,
        )

    def train(self, members: Sequence[Member[NodeConfig]], problem: Problem, plan: Plan) -> Fit:
        ensemble, optimizer = self.build_ensemble(members, problem)
        splits = torch.tensor([m.split for m in members], device=problem.device)
        masks = {part: mask.index_select(0, splits).float() for part, mask in problem.masks.items()}
        four = members[0].config.model.trains_on_four_copies
        batches = WholeData(four_copies(problem.features) if four else problem.features)

        def loss(features: Tensor | Adjacency) -> Tensor:
            logits = ensemble(features, problem.adjacency)
            return cross_entropy(logits, problem.labels, masks["train"])

        def evaluate() -> Metrics:
            logits = ensemble(problem.features, problem.adjacency)
            metrics = {
                f"{part}/accuracy": accuracy(logits, problem.labels, mask)
                for part, mask in masks.items()
            }
            return metrics | {"valid/loss": cross_entropy(logits, problem.labels, masks["valid"])}

        return fit(ensemble, optimizer, loss=loss, evaluate=evaluate, batches=batches, plan=plan)

    def max_members(self, problem: Problem, config: NodeConfig) -> int:
        """As many as fit into a third of the memory, by an estimate of what each holds.

        On a CPU fewer: beyond its cache, members slow each other down.
        """
        nodes, features, device = problem.labels.numel(), problem.features, problem.device
        stored = features.num_edges if isinstance(features, Adjacency) else features.numel()
        copies = 4 if config.model.trains_on_four_copies else 1
        activations = config.model.num_activations(nodes, problem.adjacency.num_edges)
        # Weights, gradients, Adam's two moments, the best weights, and views.
        weights = 6 * self.num_parameters(config, problem)
        fitting = total_memory(device) / 3 / (4 * (4 * copies * stored + activations + weights))
        if device.type == "cpu":
            fitting = min(fitting, CPU_NUMBERS / (nodes * config.model.width))
        return max(1, int(fitting))

    def card(self, config: NodeConfig, data: "Data", problem: Problem) -> Card:
        """What predicting needs to read another graph as the training graph was read."""
        scaling = problem.scaling
        return {
            "data": {
                "num_nodes": int(data.num_nodes),
                "num_edges": count_edges(data.edge_index, data.num_nodes, directed=data.directed),
                "class_sizes": data.y[data.y >= 0]
                .bincount(minlength=len(data.label_names))
                .tolist(),
            },
            "labels": data.label_names,
            "features": data.feature_names,
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
        return summary + ([] if scaling is None else [f"features: {SCALED[scaling['kind']]}"])

    def explain_overflow(self, data: "Data", problem: Problem) -> str:
        return explain_overflow(data, problem)
