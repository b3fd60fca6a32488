"""Graphs laid end to end: a program finds the nodes at some places of one member.

It goes over the member's graphs, a few at once, and adds up their sizes; where some of its places
are theirs, it compares each of these with each of the graphs.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.batch_rows import BatchRows

_GRAPHS, _NODES = 32, 256
"""Graphs that a program takes at once, and places that it has."""


@triton.jit
def _batch_rows_kernel(
    node_start, graphs, labels, code, weight,
    node, node_shift, slot_shift, graph, graph_shift, label, node_code, node_weight, count, room,
    CODED: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    begin = tl.program_id(0) * BLOCK_N
    place = begin + tl.arange(0, BLOCK_N)
    moved = tl.zeros((BLOCK_N,), dtype=tl.int32)
    slots = tl.zeros((BLOCK_N,), dtype=tl.int32)
    total = tl.full((), 0, tl.int32)
    for first in range(0, count, BLOCK_G):
        slot = first + tl.arange(0, BLOCK_G)
        at = member * count + slot
        given = slot < count
        which = tl.load(graphs + at, mask=given, other=-1)
        known = tl.maximum(which, 0)
        start = tl.load(node_start + known)
        size = tl.where(which >= 0, tl.load(node_start + known + 1) - start, 0)
        ends = total + tl.cumsum(size, axis=0)
        begins = ends - size
        shift = begins - start
        which = tl.maximum(which, -1).to(tl.int32)
        if begin == 0:  # what is told of graphs, one program tells
            tl.store(graph + at, which, mask=given)
            tl.store(graph_shift + at, shift, mask=given)
            tl.store(label + at, tl.load(labels + known), mask=given)
        upto = total + tl.sum(size, axis=0)
        if (total < begin + BLOCK_N) & (upto > begin):
            own = (place[:, None] >= begins[None, :]) & (place[:, None] < ends[None, :])
            moved += tl.sum(tl.where(own, shift[None, :], 0), axis=1)
            slots += tl.sum(tl.where(own, (slot - which)[None, :], 0), axis=1)
        total = upto
    inside = place < room
    at = member * room + place
    found = tl.where(place < total, place - moved, -1)
    tl.store(node + at, found, mask=inside)
    tl.store(node_shift + at, moved, mask=inside)
    tl.store(slot_shift + at, slots, mask=inside)
    if CODED:
        known = tl.maximum(found, 0)
        tl.store(node_code + at, tl.load(code + known, mask=inside), mask=inside)
        tl.store(node_weight + at, tl.load(weight + known, mask=inside), mask=inside)


def laid_out(
    node_start: Tensor, graphs: Tensor, room: int, labels: Tensor, codes: Sequence[Tensor]
) -> BatchRows:
    """See :func:`quatgraph.ops.batch_rows.batch_rows`."""
    members, count = graphs.shape

    def places(like: Tensor) -> Tensor:
        return like.new_empty(members, room)

    def slots(like: Tensor) -> Tensor:
        return like.new_empty(members, count)

    rows = BatchRows(
        node=places(node_start),
        node_shift=places(node_start),
        slot_shift=places(node_start),
        graph=slots(node_start),
        graph_shift=slots(node_start),
        labels=slots(labels),
        codes=tuple(places(value) for value in codes),
    )
    with torch.cuda.device(graphs.device):
        _batch_rows_kernel[(max(1, triton.cdiv(room, _NODES)), members)](
            node_start, graphs.contiguous(), labels, *(codes or (labels, labels)),
            rows.node, rows.node_shift, rows.slot_shift, rows.graph, rows.graph_shift, rows.labels,
            *(rows.codes or (labels, labels)), count, room,
            CODED=bool(codes), BLOCK_G=min(_GRAPHS, triton.next_power_of_2(count)), BLOCK_N=_NODES,
        )  # fmt: skip
    return rows
