r"""Products of rows with a matrix of their group each:

.. math:: \mathbf{y}_n = \mathbf{x}_n \mathbf{W}_{g_n}, \qquad
    \bar{\mathbf{x}}_n = \bar{\mathbf{y}}_n \mathbf{W}_{g_n}^\top, \qquad
    \bar{\mathbf{W}}_g = \sum_{n : g_n = g} \mathbf{x}_n^\top \bar{\mathbf{y}}_n

Rows are sorted by group and cut into tiles of rows of one group, the last of which is padded: one
batched product of all tiles. N rows of G groups have at most (N + G (T - 1)) / T tiles of T rows,
whatever the groups are, so that shapes are static and nothing waits for a GPU. There are neither
atomics nor a matrix per row.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from quatgraph.ops.csr import index2ptr, sum_rows
from quatgraph.ops.members import MemberFunction, flatten_index
from quatgraph.ops.transforms import once_differentiable

_TILES = 8, 128
"""The fewest and the most rows of a tile."""


def grouped_product(x: Tensor, matrices: Tensor, group: Tensor) -> Tensor:
    """Multiplies each row by the matrix of its group; differentiable once.

    Shape:
        - x: ``(N, F)``
        - matrices: ``(G, F, H)``
        - group: indices of matrices, ``(N,)``
        - output: ``(N, H)``
        - of several members each with a leading ``M``
    """
    if group.size(-1) == 0:
        return x @ matrices[..., 0, :, :]
    y, *_ = _GroupedProduct.apply(x, matrices, group)
    return y


class _Tiles(NamedTuple):
    """Which rows are in which tile. The rows of all members are numbered in turn, and so are their
    groups and their places in tiles. A single member has no ``M``."""

    group: Tensor
    """The group of each tile, ascending, ``(M, K)``."""
    row: Tensor
    """The row in each place of a tile, any row for padding, ``(M, K, T)``."""
    known: Tensor
    """Whether a place is no padding, ``(M, K, T)``."""
    place: Tensor
    """The place of each row, ``(M, N)``."""


def _cut(group: Tensor, groups: int) -> _Tiles:
    """Cuts the rows of each member, ``(M, N)``, into tiles."""
    members, rows = group.shape
    filled = min(groups, rows)
    least, most = _TILES
    size = min(most, max(least, 1 << (rows // filled - 1).bit_length()))
    tiles = (rows + filled * (size - 1)) // size
    sorted_group, order = group.sort(dim=-1, stable=True)
    position = torch.arange(max(rows, tiles), device=group.device).expand(members, -1)
    within = position[:, :rows] - torch.searchsorted(sorted_group, sorted_group)
    tile = (within % size == 0).cumsum(dim=-1) - 1
    begin = torch.searchsorted(tile, position[:, :tiles].contiguous())  # N for unused tiles
    end = torch.cat((begin[:, 1:], torch.full_like(begin[:, :1], rows)), dim=1)
    place = torch.empty_like(order).scatter_(-1, order, tile * size + within % size)
    held = begin[..., None] + torch.arange(size, device=group.device)
    row = order.gather(-1, held.clamp(max=rows - 1).flatten(1))
    own_group = sorted_group.gather(-1, begin.clamp(max=rows - 1))
    return _Tiles(
        group=flatten_index(own_group, groups).view_as(own_group),
        row=flatten_index(row, rows).view_as(held),
        known=held < end[..., None],
        place=flatten_index(place, tiles * size).view_as(place),
    )


def _tiled(x: Tensor, tiles: _Tiles) -> Tensor:
    """The rows of each tile, ``(M K, T, F)``."""
    rows = x.reshape(-1, x.size(-1)).index_select(0, tiles.row.flatten())
    return rows.view(-1, tiles.row.size(-1), x.size(-1))


def _untiled(y: Tensor, tiles: _Tiles) -> Tensor:
    """The rows of all members, ``(M N, H)``."""
    return y.flatten(0, 1).index_select(0, tiles.place.flatten())


def _matrices(matrices: Tensor, tiles: _Tiles) -> Tensor:
    """The matrix of each tile, ``(M K, F, H)``."""
    return matrices.reshape(-1, *matrices.shape[-2:]).index_select(0, tiles.group.flatten())


class _GroupedProduct(MemberFunction):
    """Returns the result and, for the backward pass, the tiles."""

    @staticmethod
    def forward(x: Tensor, matrices: Tensor, group: Tensor) -> tuple[Tensor, ...]:
        tiles = _cut(group.reshape(-1, group.size(-1)).contiguous(), matrices.size(-3))
        y = _untiled(_tiled(x, tiles) @ _matrices(matrices, tiles), tiles)
        own = (value.view(*x.shape[:-2], *value.shape[1:]) for value in tiles)
        return y.view(*x.shape[:-1], matrices.size(-1)), *own

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, matrices, _ = inputs
        _, *tiles = output
        ctx.mark_non_differentiable(*tiles)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, matrices, *tiles)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None
        x, matrices, *tiles = ctx.saved_tensors
        tiles = _Tiles(*tiles)
        grads = _tiled(grad, tiles) * tiles.known.view(-1, tiles.known.size(-1), 1)
        grad_x = grad_matrices = None
        if ctx.needs_input_grad[0]:
            grad_x = _untiled(grads @ _matrices(matrices, tiles).mT, tiles).view(x.shape)
        if ctx.needs_input_grad[1]:
            each = (_tiled(x, tiles).mT @ grads).flatten(1)
            rowptr = index2ptr(tiles.group.flatten(), matrices.shape[:-2].numel())
            column = torch.arange(len(each), device=each.device, dtype=torch.int32)
            total = sum_rows(rowptr, column, None, each.new_ones(len(each)), each)
            grad_matrices = total.view(matrices.shape)
        return grad_x, grad_matrices, None
