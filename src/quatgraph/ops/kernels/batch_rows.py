"""Concatenates graphs: a program computes the nodes at some positions of one member.

It loops over blocks of the member's graphs and accumulates their sizes; if some of its positions
belong to a block, it compares each position with each graph of the block.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.batch_rows import BatchRows

_GRAPHS, _NODES = 32, 256
"""Graphs of a block, and positions of a program."""


@triton.jit
def _batch_rows_kernel(
    node_ptr, graphs, labels, code, weight,
    node, node_shift, slot_shift, graph, graph_shift, label, node_code, node_weight, count,
    capacity, CODED: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    begin = tl.program_id(0) * BLOCK_N
    position = begin + tl.arange(0, BLOCK_N)
    node_offset = tl.zeros((BLOCK_N,), dtype=tl.int32)
    slot_offset = tl.zeros((BLOCK_N,), dtype=tl.int32)
    total = tl.full((), 0, tl.int32)
    for first in range(0, count, BLOCK_G):
        slot = first + tl.arange(0, BLOCK_G)
        at = member * count + slot
        in_batch = slot < count
        index = tl.load(graphs + at, mask=in_batch, other=-1)
        known = tl.maximum(index, 0)
        start = tl.load(node_ptr + known)
        size = tl.where(index >= 0, tl.load(node_ptr + known + 1) - start, 0)
        ends = total + tl.cumsum(size, axis=0)
        begin_at = ends - size
        shift = begin_at - start
        index = tl.maximum(index, -1).to(tl.int32)
        if begin == 0:  # one program writes what belongs to graphs
            tl.store(graph + at, index, mask=in_batch)
            tl.store(graph_shift + at, shift, mask=in_batch)
            tl.store(label + at, tl.load(labels + known), mask=in_batch)
        new_total = total + tl.sum(size, axis=0)
        if (total < begin + BLOCK_N) & (new_total > begin):
            own = (position[:, None] >= begin_at[None, :]) & (position[:, None] < ends[None, :])
            node_offset += tl.sum(tl.where(own, shift[None, :], 0), axis=1)
            slot_offset += tl.sum(tl.where(own, (slot - index)[None, :], 0), axis=1)
        total = new_total
    inside = position < capacity
    at = member * capacity + position
    node_id = tl.where(position < total, position - node_offset, -1)
    tl.store(node + at, node_id, mask=inside)
    tl.store(node_shift + at, node_offset, mask=inside)
    tl.store(slot_shift + at, slot_offset, mask=inside)
    if CODED:
        known = tl.maximum(node_id, 0)
        tl.store(node_code + at, tl.load(code + known, mask=inside), mask=inside)
        tl.store(node_weight + at, tl.load(weight + known, mask=inside), mask=inside)


def concat_graphs(
    node_ptr: Tensor, graphs: Tensor, capacity: int, labels: Tensor, codes: Sequence[Tensor]
) -> BatchRows:
    """See :func:`quatgraph.ops.batch_rows.batch_rows`."""
    members, count = graphs.shape

    def empty_nodes(like: Tensor) -> Tensor:
        return like.new_empty(members, capacity)

    def empty_graphs(like: Tensor) -> Tensor:
        return like.new_empty(members, count)

    rows = BatchRows(
        node=empty_nodes(node_ptr),
        node_shift=empty_nodes(node_ptr),
        slot_shift=empty_nodes(node_ptr),
        graph=empty_graphs(node_ptr),
        graph_shift=empty_graphs(node_ptr),
        labels=empty_graphs(labels),
        codes=tuple(empty_nodes(value) for value in codes),
    )
    with torch.cuda.device(graphs.device):
        _batch_rows_kernel[(max(1, triton.cdiv(capacity, _NODES)), members)](
            node_ptr, graphs.contiguous(), labels, *(codes or (labels, labels)),
            rows.node, rows.node_shift, rows.slot_shift, rows.graph, rows.graph_shift, rows.labels,
            *(rows.codes or (labels, labels)), count, capacity,
            CODED=bool(codes), BLOCK_G=min(_GRAPHS, triton.next_power_of_2(count)), BLOCK_N=_NODES,
        )  # fmt: skip
    return rows
