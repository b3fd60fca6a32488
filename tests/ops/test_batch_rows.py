"""Graphs laid end to end, one node at a time, and the kernel against the torch form."""

from dataclasses import fields

import pytest
import torch
from torch import Tensor

from quatgraph.ops.backend import backend
from quatgraph.ops.batch_rows import BatchRows, batch_rows

SIZES = [3, 0, 1, 700, 5, 0, 2]
CHOICES = {
    "one": [[4]],
    "none": [[-1]],
    "an empty one": [[1, 5]],
    "all of some members": [[3, 0, 4], [-1, 2, -1], [-1, -1, -1]],
    "again and again": [[3, 1, 3, -1, 0, 0]] * 2,
    "many": [[(7 * m + g) % 8 - 1 for g in range(100)] for m in range(3)],
}


def starts(sizes: list[int]) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(dim=0).int()


def held(sizes: list[int], graphs: Tensor) -> int:
    """Nodes of the member that has most."""
    return max(sum(sizes[g] for g in row if g >= 0) for row in graphs.tolist())


def rows_of(
    graphs: Tensor, padding: int, sizes: list[int], *, coded: bool, device: str = "cpu"
) -> BatchRows:
    ptr = starts(sizes)
    nodes = torch.arange(int(ptr[-1]))
    codes = ((nodes * 5 % 11).int(), nodes / 7) if coded else ()
    labels = torch.arange(len(sizes)) * 3 - 1
    inputs = ptr, graphs, labels, *codes
    ptr, graphs, labels, *codes = (value.to(device) for value in inputs)
    return batch_rows(ptr, graphs, held(sizes, graphs) + padding, labels, codes)


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("choice", CHOICES)
def test_nodes_stand_graph_after_graph_in_their_order(choice, padding):
    graphs = torch.tensor(CHOICES[choice])
    found, ptr = rows_of(graphs, padding, SIZES, coded=True), starts(SIZES).tolist()
    for member, row in enumerate(graphs.tolist()):
        places = [(slot, g, n) for slot, g in enumerate(row) if g >= 0 for n in range(SIZES[g])]
        count = len(places)
        assert found.node[member, count:].tolist() == [-1] * (found.node.size(1) - count)
        assert found.graph[member].tolist() == row
        for place, (slot, g, n) in enumerate(places):
            node = ptr[g] + n
            assert found.node[member, place] == node
            assert found.node_shift[member, place] == place - node
            assert found.graph_shift[member, slot] == place - node
            assert found.slot_shift[member, place] == slot - g
            assert [value[member, place].item() for value in found.codes] == [
                node * 5 % 11,
                pytest.approx(node / 7),
            ]
        for slot, g in enumerate(row):
            assert g < 0 or found.labels[member, slot] == 3 * g - 1


def assert_same(ours: BatchRows, wanted: BatchRows) -> None:
    """Of padding only that it is such."""
    there = wanted.node >= 0
    for field in fields(BatchRows):
        mine, expected = getattr(ours, field.name), getattr(wanted, field.name)
        if field.name == "codes":
            assert len(mine) == len(expected)
            assert all(torch.equal(a, b) for a, b in zip(mine, expected, strict=True))
            continue
        assert mine.dtype == expected.dtype
        if field.name in ("node_shift", "slot_shift"):
            mine, expected = mine[there], expected[there]
        assert torch.equal(mine, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 300])
@pytest.mark.parametrize("choice", CHOICES)
def test_the_kernel_equals_the_torch_form(choice, padding, coded):
    graphs = torch.tensor(CHOICES[choice])
    found = []
    for name in ("triton", "torch"):
        with backend(name):
            found.append(rows_of(graphs, padding, SIZES, coded=coded, device="cuda"))
    assert_same(*found)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [31, 32, 33, 1000, 5000])
def test_the_kernel_takes_many_graphs_that_lie_apart_in_memory(count):
    sizes = torch.randint(0, 40, (3000,)).tolist()
    graphs = torch.randint(-300, 3000, (4, count + 9))[:, 5:-4]
    found = []
    for name in ("triton", "torch"):
        with backend(name):
            found.append(rows_of(graphs, 70, sizes, coded=True, device="cuda"))
    assert_same(*found)
