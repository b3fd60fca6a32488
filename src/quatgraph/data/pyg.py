"""Checks of the tensors in a PyG ``Data``."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data


def count_nodes(data: "Data", *keys: str) -> int | None:
    """The number of nodes by the first of some attributes; PyG would guess it from the edges."""
    for key in keys:
        value = data.get(key)
        if key == "num_nodes" and value is not None:
            return int(value)
        if isinstance(value, Tensor) and value.dim():
            return value.size(0)
    return None


def check_features(x: object, name: str) -> Tensor:
    """Features as a dense float32 tensor ``(N, F)`` on the CPU; messages call it ``name``."""
    if not isinstance(x, Tensor) or x.dim() != 2 or x.is_complex():
        raise UserError(f"{name} must be a tensor of real numbers of shape (nodes, features)")
    x = x.detach().cpu()
    x = (x if x.layout == torch.strided else x.to_dense()).float()
    if not bool(x.isfinite().all()):
        row, column = (~x.isfinite()).nonzero()[0].tolist()
        raise UserError(f"{name}[{row}, {column}] is not a finite number; replace it")
    return x


def check_edge_index(edge_index: object, num_nodes: int, name: str) -> Tensor:
    """An edge list as a plain int64 tensor ``(2, E)`` on the CPU; messages call it ``name``."""
    if not (
        isinstance(edge_index, Tensor)
        and edge_index.dtype in (torch.int64, torch.int32)
        and edge_index.shape[:-1] == (2,)
    ):
        raise UserError(f"{name} must be a tensor of whole numbers of shape (2, edges)")
    # PyG's EdgeIndex is a subclass that does not stack.
    edge_index = torch.stack(tuple(edge_index.detach().cpu().long().as_subclass(Tensor)))
    outside = (edge_index < 0) | (edge_index >= num_nodes)
    if bool(outside.any()):
        raise UserError(
            f"{name} names the node {int(edge_index[outside][0])} but the nodes are "
            f"0..{num_nodes - 1}; correct it or num_nodes"
        )
    return edge_index
