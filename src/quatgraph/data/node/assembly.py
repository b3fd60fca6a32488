"""The attributes of every node-classification graph."""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from quatgraph.data.splits import Masks
from quatgraph.data.tensors import hash_tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data


def build_data(
    *,
    name: str,
    x: Tensor | None,
    y: Tensor,
    edge_index: Tensor,
    masks: Masks,
    label_names: list[str],
    directed: bool,
    edge_weight: Tensor | None = None,
    node_ids: list[str] | None = None,
    feature_names: list[str] | None = None,
    notes: Sequence[str] = (),
) -> "Data":
    """Builds a graph with the attributes of :mod:`quatgraph.data.node`.

    Nodes without ids are numbered, and so are features without names. Unlabelled nodes leave the
    masks, which are train, valid and test, ``(N, S)`` each.
    """
    from torch_geometric.data import Data

    labelled = (y >= 0).unsqueeze(1)
    train, valid, test = (mask & labelled for mask in masks)
    if x is not None and x.size(1) == 0:
        x = None
    data = Data(
        x=x,
        y=y,
        edge_index=edge_index,
        train_mask=train,
        val_mask=valid,
        test_mask=test,
        # Given: PyG would have to guess it from the edges of a graph without features.
        num_nodes=y.numel(),
        node_ids=node_ids or [str(node) for node in range(y.numel())],
        label_names=label_names,
        feature_names=feature_names or default_feature_names(0 if x is None else x.size(1)),
        name=name,
        directed=directed,
        notes=list(notes),
    )
    if edge_weight is not None:
        data.edge_weight = edge_weight
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
        else:
            hash_tensor(total, key, value)
    names = [data.node_ids, data.label_names, data.feature_names, data.directed]
    total.update(json.dumps(names).encode())
    return total.hexdigest()


def as_columns(masks: Masks) -> Masks:
    """Masks ``(N,)`` or ``(N, S)`` as ``(N, S)``."""
    train, valid, test = (mask.reshape(mask.size(0), -1) for mask in masks)
    return train, valid, test
