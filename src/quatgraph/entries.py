"""The entries of a sparse matrix, on their way into one: checked, merged, looped, sorted."""

import numpy as np
import torch
from torch import Tensor

from quatgraph.errors import Mistake
from quatgraph.ops.transforms import is_eager_on_cpu


def stable_sort(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Numbers below ``size`` in order, and where each one stood."""
    small = size <= 1 << 16 and index.numel() <= 1 << 17
    if small and is_eager_on_cpu(index):
        # NumPy sorts 16 bits by counting: ten times as fast as torch for a graph like Cora.
        order = torch.from_numpy(index.numpy().astype(np.uint16).argsort(kind="stable"))
        return index.index_select(0, order), order
    return torch.sort(index, stable=True)


def merged(
    row: Tensor, col: Tensor, weight: Tensor | None, num_cols: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    key, group = torch.unique(row.long() * num_cols + col, return_inverse=True)
    if weight is not None:
        weight = weight.new_zeros(key.numel()).index_add(0, group, weight)
    return key // num_cols, key % num_cols, weight


def looped(
    row: Tensor, col: Tensor, weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Gives every node one loop, of weight 1 or of the weight its loop has already.

    Old loops stay as entries of weight zero: the number of entries then depends on shapes alone,
    so nothing waits for the device and the whole can be compiled.
    """
    nodes = torch.arange(num_nodes, device=row.device, dtype=row.dtype)
    rows, cols = torch.cat((row, nodes)), torch.cat((col, nodes))
    if weight is None:
        weight = (row != col).to(torch.get_default_dtype())
        return rows, cols, torch.cat((weight, weight.new_ones(num_nodes)))
    is_loop = row == col
    # Every entry bids for its row's loop, those that are no loops with nothing.
    bids = torch.where(is_loop, weight, -torch.inf)
    loops = weight.new_full((num_nodes,), -torch.inf).scatter_reduce(
        0, row.long(), bids, reduce="amax"
    )
    loops = torch.where(loops == -torch.inf, 1, loops)
    return rows, cols, torch.cat((torch.where(is_loop, 0, weight), loops))


def check_range(index: Tensor, size: int) -> None:
    """Refuses ids out of range; only where that costs no wait for a device."""
    if index.numel() == 0 or not is_eager_on_cpu(index):
        return
    low, high = map(int, torch.aminmax(index))
    if low < 0 or high >= size:
        raise Mistake(f"node ids must lie in 0..{size - 1}, got {low if low < 0 else high}")
