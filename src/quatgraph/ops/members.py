"""The members of an ensemble within an operation: as a leading dimension, or laid end to end."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from quatgraph.errors import Mistake


def members_first(value: Tensor, dim: int | None, members: int) -> Tensor:
    """What a vmap rule is given, ``(M, ...)``; what has no dimension of members is all theirs."""
    return value.expand(members, *value.shape) if dim is None else value.movedim(dim, 0)


def add_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """Adds a bias ``(F,)`` to rows ``(N, F)``, or biases of several members ``(M, F)`` to theirs
    ``(M, N, F)``."""
    # The dimension of rows is spelled out: a plain sum would align members with rows.
    return y if bias is None else y + bias.unsqueeze(-2)


def end_to_end(index: Tensor, size: int) -> Tensor:
    """Indices of each member ``(M, N)`` as indices of all members one after the other, each
    ``size`` long, ``(M N,)``; those of a single member ``(N,)`` as they are."""
    if index.dim() == 1 or index.size(0) == 1:
        return index.flatten()
    start = torch.arange(index.size(0), device=index.device, dtype=index.dtype) * size
    return (index + start[:, None]).flatten()


def product_of_members(
    product: Callable[..., Tensor],
    members: int,
    in_dims: Sequence[int | None],
    tensors: Sequence[Any],
) -> tuple[Tensor, int]:
    """What a vmap rule of a sparse product returns.

    Args:
        product: The product, of the tensors.
        in_dims: The dimension of members of each tensor, None where it has none.
        tensors: rowptr, col, perm, weight and x of :mod:`quatgraph.ops.aggregate`, and the first
            three of the transpose; a perm may be None.
    """
    rowptr, col, perm, weight, x, *transpose = tensors
    if any(dim is not None for dim in (*in_dims[:3], *in_dims[5:])):
        # Each member has its own graph: together they are one block-diagonal graph, on which the
        # members of an inner vmap, if there is one, have values of their own.
        each: list[Any] = [
            None if value is None else members_first(value, dim, members)
            for value, dim in zip(tensors, in_dims, strict=True)
        ]
        y = product(*_block_diagonal(*each))
        return y.unflatten(-2, (members, each[0].size(1) - 1)), y.dim() - 2
    if in_dims[3] is None and x.is_cuda:
        # Members share graph and weights: they ride along as extra columns of one product. (A CPU's
        # cache holds one member's rows better than all members', so there each goes by itself.)
        assert in_dims[4] is not None
        x = x.movedim(in_dims[4], -2)  # (..., C, M, F)
        y = product(rowptr, col, perm, weight, x.flatten(-2), *transpose)
        return y.unflatten(-1, x.shape[-2:]), y.dim() - 1
    # Each member has its values on the shared graph; an outer vmap's members join them.
    weight = members_first(weight, in_dims[3], members)
    x = members_first(x, in_dims[4], members)
    lead = x.shape[:-2]
    if len(lead) > 1:
        weight = weight.reshape(-1, weight.size(-1))
        x = x.reshape(-1, *x.shape[-2:])
    y = product(rowptr, col, perm, weight, x, *transpose)
    return y.unflatten(0, lead), 0


def _block_diagonal(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor | None,
    weight: Tensor,
    x: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_perm: Tensor | None,
) -> tuple[Tensor | None, ...]:
    rows, entries, columns = rowptr.size(1) - 1, col.size(1), x.size(-2)
    return (
        _block_pointers(rowptr, entries),
        end_to_end(col, columns),
        None if perm is None else end_to_end(perm, entries),
        weight.movedim(0, -2).flatten(-2),
        x.movedim(0, -3).flatten(-3, -2),
        _block_pointers(t_rowptr, entries),
        end_to_end(t_col, rows),
        None if t_perm is None else end_to_end(t_perm, entries),
    )


def _block_pointers(rowptr: Tensor, entries: int) -> Tensor:
    """Row pointers of the block-diagonal matrix of M matrices with equally many entries."""
    if rowptr.size(0) * entries >= 1 << 31:
        raise Mistake(f"{rowptr.size(0)} graphs of {entries} edges are too many for one product")
    start = torch.arange(rowptr.size(0), device=rowptr.device, dtype=rowptr.dtype) * entries
    inner = rowptr[:, :-1] + start[:, None]
    last = torch.full((1,), rowptr.size(0) * entries, device=rowptr.device, dtype=rowptr.dtype)
    return torch.cat((inner.flatten(), last))
