"""The nodes of each graph, sorted by graph: which graph a node is in, its rank there, the nodes of
highest rank, and maxima. Results repeat bit for bit: nothing depends on an order of additions.

Shapes are those of one member; with several members, each has a leading ``M``.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.ops.members import flatten_index

TIE_BITS = 12
"""Scores are rounded to this many significant bits before the top nodes are chosen."""


def segment_ids(ptr: Tensor, count: int) -> Tensor:
    """The graph of each of ``count`` nodes, G for padding, ``(..., G + 1) -> (..., count)``."""
    node = torch.arange(count, device=ptr.device, dtype=ptr.dtype)
    node = node.expand(*ptr.shape[:-1], -1).contiguous()
    return torch.searchsorted(ptr[..., 1:].contiguous(), node, right=True)


def sort_nodes(score: Tensor, graph: Tensor) -> Tensor:
    """The nodes ``(N,)`` by graph, each graph's by descending score; equal scores keep their
    order."""
    order = score.argsort(dim=-1, descending=True, stable=True)
    return order.gather(-1, graph.gather(-1, order).argsort(dim=-1, stable=True))


def rank_nodes(order: Tensor, ptr: Tensor, graph: Tensor) -> Tensor:
    """The rank of each node within its graph, from 0, ``(N,)``.

    Args:
        order: As :func:`sort_nodes` returns it.
        ptr: The boundaries of the graphs' nodes, ``(G + 1,)``.
        graph: As :func:`segment_ids` returns it.
    """
    place = torch.arange(order.size(-1), device=order.device).expand_as(order)
    return torch.empty_like(order).scatter(-1, order, place) - ptr.gather(-1, graph)


@torch.no_grad()
def keep_top(score: Tensor, kept: Tensor, ptr: Tensor, ratio: float) -> Tensor:
    """Which nodes of each graph are among the top share by score, as 0 or 1.

    Scores are rounded to :data:`TIE_BITS` bits, and equal ones keep their order. Nodes that a
    symmetry of their graph maps to each other have equal scores but for float rounding, which
    depends on the other graphs of a batch. It rarely decides: only if two such scores lie on
    either side of a boundary between rounded values.

    Args:
        score: ``(N,)``.
        kept: 1 for the nodes to choose from, else 0, ``(N,)``.
        ptr: The boundaries of the graphs' nodes, ``(G + 1,)``.
        ratio: The share of a graph's kept nodes to keep, rounded up, in (0, 1].

    Shape:
        - output: ``(N,)``, in the type of ``kept``
    """
    ptr = ptr.long().expand(*score.shape[:-1], -1).contiguous()
    graph = segment_ids(ptr, score.size(-1))
    order = sort_nodes(_round_bits(score).masked_fill(kept == 0, -torch.inf), graph)
    before = F.pad(kept.long().cumsum(dim=-1), (1, 0)).gather(-1, ptr)
    count = F.pad(before.diff(), (0, 1))  # of each graph, and of the padding
    # A product that rounding lifts above a whole number must not add a node.
    wanted = (ratio * count.double() - 1e-9).ceil().long()
    rank = rank_nodes(order, ptr, graph)
    return kept * (rank < wanted.gather(-1, graph)).to(kept.dtype)


def _round_bits(score: Tensor) -> Tensor:
    """The scores, rounded to :data:`TIE_BITS` bits."""
    fraction, exponent = torch.frexp(score)
    steps = 2**TIE_BITS
    return torch.ldexp((fraction * steps).round() / steps, exponent)


def segment_max(x: Tensor, kept: Tensor, ptr: Tensor) -> Tensor:
    """The maximum over the kept nodes of each graph by feature, 0 without any; equal maxima share
    the gradient.

    Shape:
        - x: ``(N, F)``
        - kept: 1 for the nodes that count, else 0, ``(N,)``
        - ptr: the boundaries of the graphs' nodes, ``(G + 1,)``
        - output: ``(G, F)``
    """
    ptr = ptr.expand(*x.shape[:-2], -1).contiguous()
    segment = flatten_index(segment_ids(ptr, x.size(-2)), ptr.size(-1))
    values = x.masked_fill(kept[..., None] == 0, -torch.inf).flatten(0, -2)
    start = values.new_full((ptr.numel(), x.size(-1)), -torch.inf)
    peak = start.scatter_reduce(0, segment[:, None].expand_as(values), values, "amax")
    peak = peak.view(*ptr.shape, -1)[..., :-1, :]
    return peak.masked_fill(peak == -torch.inf, 0)
