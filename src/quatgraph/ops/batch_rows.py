r"""Where the nodes of some graphs of a collection stand once the graphs are laid end to end.

Graph g has the nodes :math:`s_g` to :math:`s_{g+1} - 1` of the collection. In a batch of graphs
:math:`g_1, \dots, g_B` the nodes of the b-th end before place :math:`e_b`, so that they moved by
:math:`t_b`,

.. math:: e_b = \sum_{c \le b} (s_{g_c + 1} - s_{g_c}), \qquad t_b = e_{b - 1} - s_{g_b}

where a graph that is none, :math:`g_b < 0`, has no nodes. The node at place k is that of the first
graph with :math:`e_b > k`; beyond the last there is padding. On a GPU one kernel finds all this and
copies what is known of nodes and graphs, where torch would take some thirty small operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The graphs of all members, B each, and their nodes, in room for K each.

    Indices are int32; of padding all but ``node`` may be anything, and of graphs that are none all
    but ``graph``.
    """

    node: Tensor
    """The node of the collection at each place, -1 for padding, ``(M, K)``."""
    node_shift: Tensor
    """How far it moved: :math:`t_b` of its graph, ``(M, K)``."""
    slot_shift: Tensor
    """How far its graph moved: :math:`b - g_b`, b counted from 0, ``(M, K)``."""
    graph: Tensor
    """:math:`g_b`, -1 for none, ``(M, B)``."""
    graph_shift: Tensor
    """:math:`t_b`, ``(M, B)``."""
    labels: Tensor
    """Of each graph, ``(M, B)``."""
    codes: tuple[Tensor, ...]
    """Code and weight of each node, where the collection has these, ``(M, K)`` each."""


def batch_rows(
    node_start: Tensor,
    graphs: Tensor,
    room: int,
    labels: Tensor,
    codes: Sequence[Tensor] = (),
) -> BatchRows:
    """Lays graphs end to end, for each member by itself, without waiting for the device.

    Args:
        node_start: Where the nodes of each graph begin, and how many there are, int32 ``(G + 1,)``.
        graphs: Places of the graphs, negative for none, ``(M, B)``.
        room: Places K for the nodes of a member; no member's graphs may have more nodes.
        labels: Of each graph of the collection, ``(G,)``.
        codes: Code and weight of each node of the collection, ``(N,)`` each, or neither.
    """
    if use_triton(graphs):
        from quatgraph.ops.kernels.batch_rows import laid_out

        return laid_out(node_start, graphs, room, labels, codes)
    known = graphs.clamp(min=0)
    first = node_start.index_select(0, known.flatten()).view_as(graphs)
    last = node_start.index_select(0, known.flatten() + 1).view_as(graphs)
    ends = torch.where(graphs >= 0, last - first, 0).cumsum(dim=1, dtype=torch.int32)
    begins = torch.nn.functional.pad(ends[:, :-1], (1, 0))
    graph_shift = begins - first
    place = torch.arange(room, device=graphs.device, dtype=torch.int32)
    slot = torch.searchsorted(ends, place.expand(len(graphs), -1).contiguous(), right=True)
    present = slot < graphs.size(1)
    slot = slot.clamp(max=graphs.size(1) - 1)
    node_shift = graph_shift.gather(1, slot)
    node = torch.where(present, place - node_shift, -1)
    graph = torch.where(graphs >= 0, graphs, -1).int()
    real = node.clamp(min=0).flatten()
    return BatchRows(
        node=node,
        node_shift=node_shift,
        slot_shift=slot.int() - graph.gather(1, slot),
        graph=graph,
        graph_shift=graph_shift,
        labels=labels.index_select(0, known.flatten()).view_as(graphs),
        codes=tuple(value.index_select(0, real).view_as(node) for value in codes),
    )
