"""The members of an ensemble within an operation: as a leading dimension, or as one large graph."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from quatgraph.errors import UserError


def batch_first(size: int, in_dims: Sequence[int | None], values: Sequence[Any]) -> list[Any]:
    """The tensors of a vmap rule with the batch dimension in front, ``(M, ...)``.

    Args:
        size: M.
        in_dims: The batch dimension of each tensor; one without it is expanded.
        values: Tensors, and other values, which stay as they are.
    """

    def front(value: Any, dim: int | None) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)

    return [front(value, dim) for value, dim in zip(values, in_dims, strict=False)]


class MemberFunction(torch.autograd.Function):
    """A function of tensors with or without a leading dimension of members, which vmap adds."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        outputs = cls.apply(*batch_first(info.batch_size, in_dims, inputs))
        return outputs, tuple(None if value is None else 0 for value in outputs)


def add_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """Adds a bias ``(F,)`` to rows ``(N, F)``, or biases of several members ``(M, F)`` to theirs
    ``(M, N, F)``."""
    # The dimension of rows is spelled out: a plain sum would align members with rows.
    return y if bias is None else y + bias.unsqueeze(-2)


def flatten_members(value: Tensor | None, dims: int = 1) -> Any:
    """Flattens the leading dimensions into one of members, in front of ``dims`` others."""
    return None if value is None else value[None].flatten(0, -1 - dims)


def flatten_index(index: Tensor, size: int) -> Tensor:
    """Indices of each member ``(M, N)`` as indices ``(M N,)`` into all members concatenated, each
    ``size`` long; those of a single member ``(N,)`` as they are."""
    if index.dim() == 1 or index.size(0) == 1:
        return index.flatten()
    offset = torch.arange(index.size(0), device=index.device, dtype=index.dtype) * size
    return (index + offset[:, None]).flatten()


def vmap_product(
    product: Callable[..., Tensor], size: int, in_dims: Sequence[int | None], inputs: Sequence[Any]
) -> tuple[Tensor, int]:
    """The vmap rule of a sparse product.

    Args:
        product: The product, of the inputs.
        size: Members M.
        in_dims: The batch dimension of each input.
        inputs: rowptr, col, perm, weight and x of :mod:`quatgraph.ops.aggregate`, the first three
            of the transpose, and two types; a perm may be None.
    """
    rowptr, col, perm, weight, x, *others = inputs
    if any(dim is not None for dim in (*in_dims[:3], *in_dims[5:])):
        # Each member has its own graph: all of them form one block-diagonal graph, on which the
        # members of an inner vmap, if there is one, have values of their own.
        each = batch_first(size, in_dims[:8], inputs[:8])
        y = product(*_block_diagonal(*each), *inputs[8:])
        return y.unflatten(-2, (size, each[0].size(1) - 1)), y.dim() - 2
    if in_dims[3] is None and x.is_cuda:
        # Members share graph and weights: they are extra columns of one product. (A CPU's cache
        # holds one member's rows better than all members', so there each is a product.)
        assert in_dims[4] is not None
        x = x.movedim(in_dims[4], -2)  # (..., C, M, F)
        y = product(rowptr, col, perm, weight, x.flatten(-2), *others)
        return y.unflatten(-1, x.shape[-2:]), y.dim() - 1
    # Each member has its values on the shared graph; an outer vmap's members join them.
    weight, x = batch_first(size, in_dims[3:5], (weight, x))
    lead = x.shape[:-2]
    if len(lead) > 1:
        weight = weight.reshape(-1, weight.size(-1))
        x = x.reshape(-1, *x.shape[-2:])
    y = product(rowptr, col, perm, weight, x, *others)
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
        _block_rowptr(rowptr, entries),
        flatten_index(col, columns),
        None if perm is None else flatten_index(perm, entries),
        weight.movedim(0, -2).flatten(-2),
        x.movedim(0, -3).flatten(-3, -2),
        _block_rowptr(t_rowptr, entries),
        flatten_index(t_col, rows),
        None if t_perm is None else flatten_index(t_perm, entries),
    )


def _block_rowptr(rowptr: Tensor, entries: int) -> Tensor:
    """The row pointers of the block-diagonal matrix of M matrices with equally many entries."""
    if rowptr.size(0) * entries >= 1 << 31:
        raise UserError(f"{rowptr.size(0)} graphs of {entries} edges are too many for one product")
    total = torch.full((1,), rowptr.size(0) * entries, device=rowptr.device, dtype=rowptr.dtype)
    return torch.cat((flatten_index(rowptr[:, :-1], entries), total))
