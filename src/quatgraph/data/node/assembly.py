"""Puts a node-classification graph together, with the same attributes wherever it came from."""

import hashlib
import json
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quatgraph.data.splits import Masks

if TYPE_CHECKING:
    from torch_geometric.data import Data


def assemble(
    *,
    name: str,
    x: Tensor | None,
    y: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    masks: Masks,
    label_names: list[str],
    directed: bool,
    node_ids: list[str] | None = None,
    feature_names: list[str] | None = None,
    notes: list[str] | None = None,
) -> "Data":
    """The graph as a PyG ``Data``.

    Nodes without a label leave every mask. What has no name is numbered. ``x`` is ``None`` for a
    graph without features.

    Args:
        name: The dataset's name.
        x: Features of each node.
        y: Class of each node, ``-1`` for none.
        edge_index: Sender and receiver of each edge.
        edge_weight: Weight of each edge.
        masks: Train, valid and test masks.
        label_names: Name of each class.
        directed: Whether an edge may lack its opposite.
        node_ids: Name of each node.
        feature_names: Name of each feature.
        notes: What a person should know of what was read: sentences.

    Shape:
        - x: ``(N, F)``
        - y: ``(N,)``
        - edge_index: ``(2, E)``
        - edge_weight: ``(E,)``
        - masks: three of ``(N, S)``
    """
    from torch_geometric.data import Data

    labelled = (y >= 0).unsqueeze(1)
    train, valid, test = (mask & labelled for mask in masks)
    if x is not None and x.size(1) == 0:
        x = None
    if x is None:
        feature_names = []
    elif feature_names is None:
        feature_names = made_up_names(x.size(1))
    data = Data(
        x=x,
        y=y,
        edge_index=edge_index,
        train_mask=train,
        val_mask=valid,
        test_mask=test,
        # Said outright: a graph without features would have to guess it from the edges.
        num_nodes=y.numel(),
        node_ids=[str(v) for v in range(y.numel())] if node_ids is None else node_ids,
        label_names=label_names,
        feature_names=feature_names,
        name=name,
        directed=directed,
        notes=notes or [],
    )
    if edge_weight is not None:
        data.edge_weight = edge_weight
    data.digest = digest(data)
    return data


def made_up_names(count: int) -> list[str]:
    """What features are called that came without names."""
    return [f"x{column}" for column in range(count)]


def digest(data: "Data") -> str:
    """A sha256 of everything that can change a number: arrays, splits, ids and names.

    It does not depend on where the graph was read from, nor on its name.
    """
    total = hashlib.sha256(b"quatgraph node data 1")
    for key in ("x", "y", "edge_index", "edge_weight", "train_mask", "val_mask", "test_mask"):
        value = data.get(key)
        if value is None:
            total.update(f"\n{key} none".encode())
            continue
        array = value.detach().cpu().contiguous().numpy()
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        total.update(f"\n{key} {array.dtype.str} {array.shape} ".encode())
        total.update(array.data)
    names = [data.node_ids, data.label_names, data.feature_names, data.directed]
    total.update(json.dumps(names).encode())
    return total.hexdigest()


def as_columns(masks: Masks) -> Masks:
    """Masks ``(N,)`` or ``(N, S)`` as ``(N, S)``."""
    train, valid, test = (mask.reshape(mask.size(0), -1) for mask in masks)
    return train, valid, test


def no_masks(num_nodes: int) -> Masks:
    """One split in which no node has a part, ``(N, 1)``."""
    empty = torch.zeros(num_nodes, 1, dtype=torch.bool)
    return empty, empty.clone(), empty.clone()
