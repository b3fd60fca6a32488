"""A graph and its splits as the models take them."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency
from quatgraph.data import node as source
from quatgraph.data.labels import class_notes, missing_labels
from quatgraph.data.scaling import Scaling
from quatgraph.errors import Mistake
from quatgraph.models.node import MODELS
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.overflow import SUSPICIOUS, find_beyond, refuse_beyond

if TYPE_CHECKING:
    from torch_geometric.data import Data

SPARSE_BELOW = 0.2
"""Features with a smaller share of non-zero numbers are kept sparse."""


def load_data(config: DataConfig, *, labels_needed: bool = True) -> "Data":
    """Loads the dataset that a config names, or the user's own files."""
    configs.check_source(config)
    if config.name:
        return source.load(config.name)
    missing = missing_labels(config.missing)
    data = source.read(
        Path(config.path),
        directed=config.directed,
        split_seed=config.split_seed,
        missing=missing,
        labels_needed=labels_needed,
    )
    if not labels_needed:
        data.notes += class_notes(data.y.tolist(), data.label_names, missing, ("node", "nodes"))
    return data


@dataclass(frozen=True, slots=True)
class Problem:
    """A graph as the models take it, on a device."""

    features: Tensor | Adjacency
    adjacency: Adjacency
    labels: Tensor
    """Class of each node, -1 where unknown, ``(N,)``."""
    masks: dict[str, Tensor]
    """Which nodes are in ``train``, ``valid`` and ``test`` of each split, each ``(S, N)``."""
    num_classes: int
    scaling: Scaling | None
    """None for a graph without features, whose nodes get one-hot features."""

    @property
    def device(self) -> torch.device:
        return self.labels.device


def prepare(
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
        nodes = torch.arange(num_nodes)
        features = Adjacency.from_entries(nodes, nodes, None, (num_nodes, num_nodes))
    else:
        scaling = scaling or Scaling.fit(data.x, config.data.scaling)
        features = scaling.apply(data.x)
        # A row with an infinite sum is scaled to zeros, so there the raw numbers are checked.
        refuse_beyond(
            data.x if scaling.kind == "row" else features, partial(_describe_feature, data)
        )
        few = features.count_nonzero() < SPARSE_BELOW * features.numel()
        if layout == "sparse" or (layout == "auto" and few):
            features = Adjacency.from_dense(features)
    adjacency = Adjacency.from_edge_index(
        data.edge_index, num_nodes, data.get("edge_weight"), self_loops=True
    )
    if data.get("edge_weight") is not None:
        _refuse_infinite_sums(data, adjacency)
    adjacency = adjacency.normalized(config.model.matrix)
    masks = {"train": data.train_mask, "valid": data.val_mask, "test": data.test_mask}
    return Problem(
        features=features.to(device),
        adjacency=adjacency.to(device),
        labels=data.y.to(device),
        masks={part: mask.T.contiguous().to(device) for part, mask in masks.items()},
        num_classes=len(data.label_names),
        scaling=scaling,
    )


def _refuse_infinite_sums(data: "Data", adjacency: Adjacency) -> None:
    """Checks the sums that normalise edge weights: an infinite one would make a node's row zero."""
    sums = (adjacency @ adjacency.weight.new_ones(adjacency.shape[1], 1)).flatten()
    if bool((infinite := ~sums.isfinite()).any()):
        node = data.node_ids[int(infinite.nonzero()[0])]
        raise Mistake(
            f"the edge weights of node {node!r} sum to infinity in float32: divide all weights of "
            "the graph by the same large number"
        )


def explain_overflow(data: "Data", problem: Problem) -> str:
    """See :meth:`quatgraph.tasks.task.Task.explain_overflow`."""
    if isinstance(problem.features, Tensor):
        if place := find_beyond(problem.features, SUSPICIOUS):
            return _describe_feature(data, *place)
    elif entry := _find_entry_beyond(problem.features):
        return _describe_feature(data, *entry[:2])
    if entry := _find_entry_beyond(problem.adjacency):
        node, _, weight = entry
        return f"an edge of node {data.node_ids[node]!r} has the weight {weight:g}"
    return ""


def _find_entry_beyond(matrix: Adjacency) -> tuple[int, int, float] | None:
    """Row, column and value of the largest entry, if it is suspicious."""
    if not (place := find_beyond(matrix.weight, SUSPICIOUS)):
        return None
    (entry,) = place
    return int(matrix.receiver[entry]), int(matrix.col[entry]), float(matrix.weight[entry])


def _describe_feature(data: "Data", row: int, column: int) -> str:
    value, name = float(data.x[row, column]), data.feature_names[column]
    return f"node {data.node_ids[row]!r} has {value:g} in the feature {name!r}"


def build_model(config: NodeConfig, problem: Problem) -> nn.Module:
    """Builds a new model of a configuration."""
    options, features = config.model, problem.features.shape[1]
    return MODELS[options.name].from_options(options, features, problem.num_classes)
