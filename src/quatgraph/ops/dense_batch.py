r"""The nodes of each graph as k rows of a dense tensor, either all of them in their order, or the
first k by their last number, in descending order:

.. math:: \mathbf{Y}_{g,j} = \mathbf{x}_{\pi_g(j)}, \qquad
    x_{\pi_g(1), F} \ge x_{\pi_g(2), F} \ge \dots

Smaller graphs are padded with rows of zeros; ties keep their order. A node is in at most one row,
so the gradient is a selection too: neither direction adds, and both repeat bit for bit. Matrices of
graphs become dense in the same way.
"""

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.ops.members import MemberFunction, flatten_index
from quatgraph.ops.segments import rank_nodes, segment_ids, sort_nodes
from quatgraph.ops.transforms import once_differentiable


class Product(Protocol):
    """A matrix that supports ``@``."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def __matmul__(self, x: Tensor) -> Tensor: ...


def to_dense_batch(x: Tensor, ptr: Tensor, size: int) -> Tensor:
    """Pads the nodes of each graph to ``size`` rows, as PyG's function of this name. No graph may
    have more nodes, which a CPU checks.

    Shape:
        - x: ``(N, F)``, sorted by graph, padding last
        - ptr: the boundaries of the graphs' nodes, ``(G + 1,)``
        - output: ``(G, size, F)``
        - of several members each with a leading ``M``
    """
    if ptr.device.type == "cpu" and (largest := int(ptr.diff().max())) > size:
        raise UserError(f"a graph of {largest} nodes does not fit into a dense batch of {size}")
    return _group(x, ptr, size, sort=False)


def from_dense_batch(y: Tensor, ptr: Tensor, num_nodes: int) -> Tensor:
    """The inverse of :func:`to_dense_batch`: ``(G, size, F) -> (N, F)``, zero for padding."""
    ptr = ptr.expand(*y.shape[:-3], -1).contiguous()
    nodes: Tensor = _Ungroup.apply(y.flatten(-3, -2), ptr, num_nodes)[0]
    return nodes


def to_dense_adjacency(adjacency: Product, ptr: Tensor, size: int, like: Tensor) -> Tensor:
    """The matrix of each graph, padded with zeros, as PyG's ``to_dense_adj``.

    Args:
        adjacency: The block-diagonal matrix of all graphs; its padding rows and columns are zero.
        like: Any tensor, for the type of the output.

    Shape:
        - ptr, size: as in :func:`to_dense_batch`
        - output: ``(G, size, size)``
        - of several members each with a leading ``M``
    """
    num_nodes = adjacency.shape[1]
    rank = _ranks(ptr.long(), segment_ids(ptr.long(), num_nodes))
    one_hot = rank[..., None] == torch.arange(size, device=ptr.device)
    return to_dense_batch(adjacency @ one_hot.to(like.dtype), ptr, size)


def sort_pool(x: Tensor, ptr: Tensor, k: int) -> Tensor:
    """Keeps the first k nodes of each graph by their last number.

    Shape:
        - as in :func:`to_dense_batch`, with k for ``size``
    """
    return _group(x, ptr, k, sort=True)


def slide_window(y: Tensor, width: int) -> Tensor:
    """The windows of ``width`` adjacent rows, side by side, ``(L, F) -> (L - width + 1, width F)``,
    the input of a 1-D convolution."""
    length = y.size(-2) - width + 1
    return torch.cat([y[..., k : k + length, :] for k in range(width)], dim=-1)


def _group(x: Tensor, ptr: Tensor, k: int, *, sort: bool) -> Tensor:
    y, *_ = _Group.apply(x, ptr.expand(*x.shape[:-2], -1).contiguous(), k, sort)
    return y.unflatten(-2, (ptr.size(-1) - 1, k))


class _Group(MemberFunction):
    """The other outputs are the node of each row, N for none, and the row of each node, G k for
    none."""

    @staticmethod
    def forward(x: Tensor, ptr: Tensor, k: int, sort: bool) -> tuple[Tensor, Tensor, Tensor]:
        node, row = _match(ptr.long(), x.size(-2), k, x[..., -1] if sort else None)
        return _select(x, node), node, row

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(output[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, None, None, None]:
        return _select(grad, ctx.saved_tensors[0]), None, None, None


class _Ungroup(MemberFunction):
    """The other output is the node of each row, N for none."""

    @staticmethod
    def forward(y: Tensor, ptr: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
        node, row = _match(ptr.long(), num_nodes, y.size(-2) // (ptr.size(-1) - 1))
        return _select(y, row), node

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, None, None]:
        return _select(grad, ctx.saved_tensors[0]), None, None


def _match(
    ptr: Tensor, num_nodes: int, k: int, score: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The node of each row, N for none, ``(..., G k)``; the row of each node, G k for none. The
    nodes of a graph are sorted by descending score, if there is one."""
    num_graphs = ptr.size(-1) - 1
    graph = segment_ids(ptr, num_nodes)
    place = ptr[..., :-1, None] + torch.arange(k, device=ptr.device)
    present = (place < ptr[..., 1:, None]).flatten(-2)
    node = place.flatten(-2).clamp(max=num_nodes - 1)
    if score is not None:
        order = sort_nodes(score, graph)
        node, rank = order.gather(-1, node), rank_nodes(order, ptr, graph)
    else:
        rank = _ranks(ptr, graph)
    row = torch.where((rank < k) & (graph < num_graphs), graph * k + rank, num_graphs * k)
    return torch.where(present, node, num_nodes), row


def _ranks(ptr: Tensor, graph: Tensor) -> Tensor:
    """The place of each node within its graph, from 0, ``(N,)``."""
    return torch.arange(graph.size(-1), device=ptr.device) - ptr.gather(-1, graph)


def _select(x: Tensor, index: Tensor) -> Tensor:
    """The rows at these positions, zero for the one behind the last."""
    rows = F.pad(x, (0, 0, 0, 1))
    chosen = rows.flatten(0, -2).index_select(0, flatten_index(index, rows.size(-2)))
    return chosen.view(*index.shape, x.size(-1))
