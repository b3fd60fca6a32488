"""The members of an ensemble within an operation: as a leading dimension, or laid end to end."""

import torch
from torch import Tensor


def members_first(value: Tensor, dim: int | None, members: int) -> Tensor:
    """What a vmap rule is given, ``(M, ...)``; what has no dimension of members is all theirs."""
    return value.expand(members, *value.shape) if dim is None else value.movedim(dim, 0)


def end_to_end(index: Tensor, size: int) -> Tensor:
    """Indices of each member ``(M, N)`` as indices of all members one after the other, each
    ``size`` long, ``(M N,)``; those of a single member ``(N,)`` as they are."""
    if index.dim() == 1 or index.size(0) == 1:
        return index.flatten()
    start = torch.arange(index.size(0), device=index.device, dtype=index.dtype) * size
    return (index + start[:, None]).flatten()
