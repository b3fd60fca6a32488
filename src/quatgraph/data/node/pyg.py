"""PyG ``Data`` of the user's own, checked and completed."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from quatgraph.data.edges import is_symmetric
from quatgraph.data.node.assembly import as_columns, complete_data
from quatgraph.data.pyg import check_edge_index, check_features, count_nodes
from quatgraph.data.splits import (
    SplitMasks,
    check_classes,
    check_split,
    drawn_note,
    stratified_split,
)
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

MASKS = ("train_mask", "val_mask", "test_mask")


def from_data(data: "Data", *, split_seed: int = 0, labels_needed: bool = True) -> "Data":
    """Checks a ``Data`` and returns a new one with all attributes of a node graph.

    Edges are neither added nor removed. Classes may have any numbers, which become their names,
    unless ``label_names`` names the classes ``0..C-1``. ``node_ids``, ``feature_names`` and
    ``name`` are copied if given; other attributes are dropped.

    Args:
        data: ``edge_index`` and ``y`` (``-1`` for an unlabelled node), optionally ``x``,
            ``edge_weight`` and the three masks, ``(N,)`` or ``(N, S)``.
        split_seed: Seed of the split that is drawn if there are no masks.
        labels_needed: Whether to refuse a graph that cannot be trained on.
    """
    from torch_geometric.data import Data

    if not isinstance(data, Data):
        raise UserError(
            "the graph must be a folder with nodes.csv and edges.csv, a PyG Data, a networkx "
            "graph, a pair of frames (nodes, edges) or arrays (adjacency, x, y), not "
            f"{type(data).__name__}"
        )
    x = None if data.get("x") is None else check_features(data.x, "data.x")
    num_nodes = count_nodes(data, "x", "num_nodes", "y", *MASKS)
    if num_nodes is None:
        raise UserError("the graph has neither x nor y; set data.num_nodes")
    if num_nodes < 1:
        raise UserError("the graph has no nodes; give it at least one")
    edge_index, edge_weight = _check_edges(data, num_nodes)
    try:
        y, label_names = _check_labels(data, num_nodes)
        masks = _check_masks(data, num_nodes)
    except UserError:
        if labels_needed:
            raise
        y, label_names, masks = torch.full((num_nodes,), -1), [], None
    if labels_needed and not label_names:
        raise UserError("no node of the graph has a label; give data.y a class for some nodes")
    notes = []
    if masks is None:
        if labels_needed:
            check_classes(y, label_names, "nodes")
        masks = as_columns(stratified_split(y, split_seed))
        sizes = [int(mask.sum()) for mask in masks]
        notes.append(drawn_note(sizes, "nodes", "the graph", split_seed))
    if labels_needed:
        notes += check_split(y, masks, label_names, where="the split of the graph")
    graph = Data(
        name=str(data.get("name") or "data"),
        x=x,
        y=y,
        edge_index=edge_index,
        edge_weight=edge_weight,
        label_names=label_names,
        label_values=_label_values(data, label_names),
        directed=not is_symmetric(edge_index, edge_weight, num_nodes),
        node_ids=_names(data, "node_ids", num_nodes),
        feature_names=_names(data, "feature_names", 0 if x is None else x.size(1)),
        notes=notes if labels_needed else [],
    )
    return complete_data(graph, masks)


def _check_edges(data: "Data", num_nodes: int) -> tuple[Tensor, Tensor | None]:
    edge_index = check_edge_index(data.get("edge_index"), num_nodes, "data.edge_index")
    weight = data.get("edge_weight")
    if weight is None:
        return edge_index, None
    shape = edge_index.shape[1:]
    if not isinstance(weight, Tensor) or weight.shape != shape or weight.is_complex():
        raise UserError("data.edge_weight must be a tensor of one real number per edge")
    weight = weight.detach().cpu().float()
    bad = ~(weight.isfinite() & (weight >= 0))
    if bool(bad.any()):
        place = int(bad.nonzero()[0])
        raise UserError(f"data.edge_weight[{place}] must be finite and zero or more")
    return edge_index, weight


def _check_labels(data: "Data", num_nodes: int) -> tuple[Tensor, list[str]]:
    y = data.get("y")
    if y is None:
        return torch.full((num_nodes,), -1), []
    if (
        not isinstance(y, Tensor)
        or y.is_floating_point()
        or y.is_complex()
        or y.dtype == torch.bool
    ):
        raise UserError("data.y must be a tensor of whole numbers, -1 for nodes without a label")
    y = y.detach().cpu().long()
    if y.shape not in ((num_nodes,), (num_nodes, 1)):
        raise UserError(f"data.y has shape {tuple(y.shape)} but must be ({num_nodes},)")
    y = y.flatten()
    if bool((y < -1).any()):
        raise UserError(f"data.y holds {int(y.min())}; use -1 for nodes without a label")
    names = data.get("label_names")
    if names is not None:
        if bool((y >= len(names)).any()):
            raise UserError(
                f"data.y holds {int(y.max())} but data.label_names has {len(names)} names"
            )
        return y, [str(name) for name in names]
    classes, places = y.unique(return_inverse=True)
    unlabelled = int(bool((y < 0).any()))  # -1 sorts first
    return places - unlabelled, [str(label) for label in classes[unlabelled:].tolist()]


def _label_values(data: "Data", label_names: list[str]) -> list[Any]:
    """The label of each class: a name, or else the number in ``y``."""
    if data.get("label_names") is None:
        return [int(name) for name in label_names]
    return list(data.get("label_values") or data.label_names)


def _check_masks(data: "Data", num_nodes: int) -> SplitMasks | None:
    given = {key: data.get(key) for key in MASKS}
    if all(mask is None for mask in given.values()):
        return None
    for key, mask in given.items():
        if mask is None:
            raise UserError(
                f"the graph has masks but no {key}; give all three, or none for a split by seed"
            )
        if (
            not isinstance(mask, Tensor)
            or mask.dtype not in (torch.bool, torch.uint8)
            or mask.dim() not in (1, 2)
        ):
            raise UserError(
                f"data.{key} must be a boolean tensor of shape (nodes,) or (nodes, splits)"
            )
        if mask.size(0) != num_nodes:
            raise UserError(f"data.{key} has {mask.size(0)} rows but the graph {num_nodes} nodes")
    train, valid, test = (mask.detach().cpu().bool() for mask in given.values())
    train, valid, test = as_columns((train, valid, test))
    if not train.shape == valid.shape == test.shape or train.size(1) == 0:
        raise UserError("the three masks must have the same number of splits, at least one")
    return train, valid, test


def _names(data: "Data", key: str, count: int) -> list[str] | None:
    names = data.get(key)
    if names is None:
        return None
    if len(names) != count:
        raise UserError(f"data.{key} has {len(names)} names where {count} are needed")
    return [str(name) for name in names]
