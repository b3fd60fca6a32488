"""Prepares the entries of a sparse matrix: range checks, duplicates, self-loops, sorting."""

import numpy as np
import torch
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.ops.transforms import is_eager_on_cpu


def stable_sort(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The sorted indices, below ``size``, and the permutation that sorts them."""
    small = size <= 1 << 16 and index.numel() <= 1 << 17
    if small and is_eager_on_cpu(index):
        # NumPy's radix sort of 16 bits is ten times as fast as torch for a graph like Cora.
        order = torch.from_numpy(index.numpy().astype(np.uint16).argsort(kind="stable"))
        return index.index_select(0, order), order
    return torch.sort(index, stable=True)


def merge_duplicates(
    row: Tensor, col: Tensor, weight: Tensor | None, num_cols: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Merges repeated entries and sums their weights."""
    key, group = torch.unique(row.long() * num_cols + col, return_inverse=True)
    if weight is not None:
        weight = weight.new_zeros(key.numel()).index_add(0, group, weight)
    return key // num_cols, key % num_cols, weight


def add_loops(
    row: Tensor, col: Tensor, weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Adds one loop per node, with the weight of its present loop or else 1.

    Present loops stay as entries of weight zero: the number of entries depends on shapes only, so
    that the host never waits and the function can be compiled.
    """
    nodes = torch.arange(num_nodes, device=row.device, dtype=row.dtype)
    rows, cols = torch.cat((row, nodes)), torch.cat((col, nodes))
    if weight is None:
        weight = (row != col).to(torch.get_default_dtype())
        return rows, cols, torch.cat((weight, weight.new_ones(num_nodes)))
    is_loop = row == col
    # The maximum over a row's loops; entries that are not loops count as -inf.
    loop_weights = torch.where(is_loop, weight, -torch.inf)
    loops = weight.new_full((num_nodes,), -torch.inf).scatter_reduce(
        0, row.long(), loop_weights, reduce="amax"
    )
    loops = torch.where(loops == -torch.inf, 1, loops)
    return rows, cols, torch.cat((torch.where(is_loop, 0, weight), loops))


def entry_order(receiver: Tensor, num_nodes: int, *, self_loops: bool) -> Tensor:
    """The edge of each entry of the matrix that is built from edges with these receivers; loops
    that were added count after all edges."""
    if self_loops:
        nodes = torch.arange(num_nodes, device=receiver.device, dtype=receiver.dtype)
        receiver = torch.cat((receiver, nodes))
    return stable_sort(receiver.int(), num_nodes)[1]


def check_range(index: Tensor, size: int) -> None:
    """Checks the range of ids, unless that needs a host synchronisation."""
    if index.numel() == 0 or not is_eager_on_cpu(index):
        return
    low, high = map(int, torch.aminmax(index))
    if low < 0 or high >= size:
        raise UserError(f"node ids must be in 0..{size - 1}, got {low if low < 0 else high}")
