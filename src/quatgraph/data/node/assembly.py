"""The attributes of every node-classification graph."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quatgraph.data.splits import Masks
from quatgraph.data.tensors import hash_tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """A graph for node classification as a reader finds it.

    Attributes:
        name: The dataset's name.
        x: Features of each node, or ``None``.
        y: Class of each node, ``-1`` for none.
        edge_index: Sender and receiver of each edge.
        masks: Train, valid and test masks.
        label_names: Name of each class.
        directed: Whether an edge may lack its opposite.
        edge_weight: Weight of each edge.
        node_ids: Name of each node; by default its number.
        feature_names: Name of each feature; by default its number after an ``x``.
        notes: What was inferred: sentences for the user.

    Shape:
        - x: ``(N, F)``
        - y: ``(N,)``
        - edge_index: ``(2, E)``
        - edge_weight: ``(E,)``
        - masks: three of ``(N, S)``
    """

    name: str
    x: Tensor | None
    y: Tensor
    edge_index: Tensor
    masks: Masks
    label_names: list[str]
    directed: bool
    edge_weight: Tensor | None = None
    node_ids: list[str] | None = None
    feature_names: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    def to_data(self) -> "Data":
        """The graph as a PyG ``Data`` with its digest; unlabelled nodes are in no mask."""
        from torch_geometric.data import Data

        labelled = (self.y >= 0).unsqueeze(1)
        train, valid, test = (mask & labelled for mask in self.masks)
        x = None if self.x is None or self.x.size(1) == 0 else self.x
        feature_names = self.feature_names
        if x is None:
            feature_names = []
        elif feature_names is None:
            feature_names = default_feature_names(x.size(1))
        num_nodes = self.y.numel()
        data = Data(
            x=x,
            y=self.y,
            edge_index=self.edge_index,
            train_mask=train,
            val_mask=valid,
            test_mask=test,
            # Given: PyG would have to guess it from the edges of a graph without features.
            num_nodes=num_nodes,
            node_ids=self.node_ids or [str(node) for node in range(num_nodes)],
            label_names=self.label_names,
            feature_names=feature_names,
            name=self.name,
            directed=self.directed,
            notes=self.notes,
        )
        if self.edge_weight is not None:
            data.edge_weight = self.edge_weight
        data.digest = digest(data)
        return data


def default_feature_names(count: int) -> list[str]:
    """Names for features without names."""
    return [f"x{column}" for column in range(count)]


def digest(data: "Data") -> str:
    """A sha256 of everything that can change a result: arrays, splits, ids and names.

    It does not depend on the source of the graph or its name.
    """
    total = hashlib.sha256(b"quatgraph node data 1")
    for key in ("x", "y", "edge_index", "edge_weight", "train_mask", "val_mask", "test_mask"):
        value = data.get(key)
        if value is None:
            total.update(f"\n{key} none".encode())
            continue
        hash_tensor(total, key, value)
    names = [data.node_ids, data.label_names, data.feature_names, data.directed]
    total.update(json.dumps(names).encode())
    return total.hexdigest()


def as_columns(masks: Masks) -> Masks:
    """Masks ``(N,)`` or ``(N, S)`` as ``(N, S)``."""
    train, valid, test = (mask.reshape(mask.size(0), -1) for mask in masks)
    return train, valid, test


def no_masks(num_nodes: int) -> Masks:
    """Empty masks of one split, ``(N, 1)``."""
    empty = torch.zeros(num_nodes, 1, dtype=torch.bool)
    return empty, empty.clone(), empty.clone()
