"""Flat tensors: ranges by their offsets ``ptr``, as in PyG batches, and digests."""

from typing import Any

import torch
from torch import Tensor


def sizes_to_ptr(sizes: Tensor) -> Tensor:
    """The offset of each range, then the number of all items."""
    return torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))


def select_ranges(ptr: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of the items in the chosen ranges, and the new ``ptr``.

    Example:
        >>> select_ranges(torch.tensor([0, 2, 3, 6]), torch.tensor([2, 0]))
        (tensor([3, 4, 5, 0, 1]), tensor([0, 3, 5]))
    """
    sizes = ptr.diff()[index]
    selected = sizes_to_ptr(sizes)
    items = torch.arange(int(selected[-1]))
    return items + (ptr[index] - selected[:-1]).repeat_interleave(sizes), selected


def hash_tensor(total: Any, key: str, tensor: Tensor) -> None:
    """Adds a tensor with its name, type and shape to a hash of :mod:`hashlib`."""
    array = tensor.detach().cpu().contiguous().numpy()
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    total.update(f"\n{key} {array.dtype.str} {array.shape} ".encode())
    total.update(array.data)
