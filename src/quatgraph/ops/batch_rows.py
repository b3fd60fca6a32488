r"""The positions of nodes once some graphs of a collection are concatenated.

Graph g has the nodes :math:`s_g` to :math:`s_{g+1} - 1` of the collection. In a batch of graphs
:math:`g_1, \dots, g_B` the nodes of the b-th end before position :math:`e_b`, and are shifted by
:math:`t_b`,

.. math:: e_b = \sum_{c \le b} (s_{g_c + 1} - s_{g_c}), \qquad t_b = e_{b - 1} - s_{g_b}

where a padding graph, :math:`g_b < 0`, has no nodes. Position k belongs to the first graph with
:math:`e_b > k`; positions beyond the last graph are padding. On a GPU one kernel computes all of
this and copies labels and features, where torch needs some thirty small operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.csr import concat_padded


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The graphs of all members, B each, and their nodes, padded to K each.

    Indices are int32. Padding nodes define ``node`` only, padding graphs ``graph`` only.
    """

    node: Tensor
    """The node of the collection at each position, -1 for padding, ``(M, K)``."""
    node_shift: Tensor
    """The shift :math:`t_b` of its graph, ``(M, K)``."""
    slot_shift: Tensor
    """The shift :math:`b - g_b` of its graph's index, b counted from 0, ``(M, K)``."""
    graph: Tensor
    """:math:`g_b`, -1 for padding, ``(M, B)``."""
    graph_shift: Tensor
    """:math:`t_b`, ``(M, B)``."""
    labels: Tensor
    """The label of each graph, ``(M, B)``."""
    codes: tuple[Tensor, ...]
    """Code and weight of each node, if the collection has them, ``(M, K)`` each."""


def batch_rows(
    node_ptr: Tensor, graphs: Tensor, capacity: int, labels: Tensor, codes: Sequence[Tensor] = ()
) -> BatchRows:
    """Concatenates the graphs of each member, without a host synchronisation.

    Args:
        node_ptr: The boundaries of the graphs' nodes, int32 ``(G + 1,)``.
        graphs: Indices of the graphs, negative for padding, ``(M, B)``.
        capacity: Positions K for the nodes of a member; no member's graphs may have more nodes.
        labels: The label of each graph of the collection, ``(G,)``.
        codes: Code and weight of each node of the collection, ``(N,)`` each, or neither.
    """
    if use_triton(graphs):
        from quatgraph.ops.kernels.batch_rows import concat_graphs

        return concat_graphs(node_ptr, graphs, capacity, labels, codes)
    _, graph_shift, slot, node_shift, node = concat_padded(node_ptr, graphs, capacity)
    graph = graphs.clamp(min=-1).int()
    known, valid = graphs.clamp(min=0).flatten(), node.clamp(min=0).flatten()
    return BatchRows(
        node=node,
        node_shift=node_shift,
        slot_shift=slot.int() - graph.gather(1, slot),
        graph=graph,
        graph_shift=graph_shift,
        labels=labels.index_select(0, known).view_as(graphs),
        codes=tuple(value.index_select(0, valid).view_as(node) for value in codes),
    )
