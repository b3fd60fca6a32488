"""Chosen blocks of a matrix against the matrix of their graphs."""

from dataclasses import replace

import pytest
import tiny
import torch
import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks, spread
from quatgraph.errors import UserError

ENTRIES = [17, 5, 14]  # of each member: edges, and a loop for each node
POSITIONS = 51


def blocks_of(member_graphs: list[list[int]] | Tensor = tiny.GRAPHS) -> tuple[Blocks, Blocks]:
    made = tiny.batch(tiny.features("dense"), "symmetric", torch.as_tensor(member_graphs))
    return made.adjacency, made.pool


def dense_adjacency(graphs: list[int]) -> Tensor:
    """The blocks of the graphs on the diagonal, then zeros."""
    square = torch.zeros(tiny.CAPACITY, tiny.CAPACITY)
    _, adjacency, _ = tiny.joined(
        tiny.features("dense"), [g for g in graphs if g >= 0], "symmetric"
    )
    size = adjacency.shape[0]
    square[:size, :size] = adjacency.to_dense()
    return square


def dense_pool(graphs: list[int]) -> Tensor:
    pool, begin = torch.zeros(len(graphs), tiny.CAPACITY), 0
    for slot, graph in enumerate(graphs):
        size = tiny.SIZES[graph] if graph >= 0 else 0
        pool[slot, begin : begin + size] = 1
        begin += size
    return pool


def dense(matrix: Blocks | Adjacency) -> Tensor:
    return matrix @ torch.eye(matrix.shape[1])


@pytest.mark.parametrize("member", range(3))
def test_are_the_matrices_of_the_chosen_graphs_in_their_order(member):
    adjacency, pool = blocks_of()
    graphs = tiny.GRAPHS[member].tolist()
    assert adjacency.shape == (9, 9)
    assert pool.shape == (3, 9)
    torch.testing.assert_close(dense(tiny.chosen(adjacency, member)), dense_adjacency(graphs))
    torch.testing.assert_close(dense(tiny.chosen(pool, member)), dense_pool(graphs))


def test_members_take_blocks_of_their_own_within_vmap_and_without():
    for blocks in blocks_of():
        x = torch.randn(3, tiny.CAPACITY, 2)
        within = torch.vmap(lambda x: blocks @ x)(x)  # noqa: B023
        for m in range(3):
            expected = tiny.chosen(blocks, m) @ x[m]
            torch.testing.assert_close(within[m], expected)
            torch.testing.assert_close((blocks @ x)[m], expected)


def test_the_docstrings_example():
    whole = Adjacency.from_edge_index(torch.tensor([[0, 1, 3, 4], [1, 2, 4, 3]]), 5)
    second = [torch.tensor(v, dtype=torch.int32) for v in ([3, 4], [-3, -3])]
    blocks = Blocks(whole, *second, *second)
    assert torch.equal(dense(blocks), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))


def test_refuses_a_matrix_of_another_height():
    adjacency, _ = blocks_of()
    with pytest.raises(UserError, match=r"a \(9, 9\) matrix cannot multiply \(5, 2\)"):
        _ = tiny.chosen(adjacency, 0) @ torch.randn(5, 2)


def all_members(which: int) -> Tensor:
    """The matrices of all members on the diagonal."""
    one = dense_pool if which else dense_adjacency
    return torch.block_diag(*map(one, tiny.GRAPHS.tolist()))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("positions", [None, POSITIONS])
def test_joined_are_the_matrices_of_all_members_and_their_transpose(which, positions):
    matrix, expected = blocks_of()[which].join(positions), all_members(which)
    torch.testing.assert_close(dense(trimmed(matrix)), expected)
    torch.testing.assert_close(dense(trimmed(matrix).transpose()), expected.mT)


def trimmed(matrix: Adjacency) -> Adjacency:
    """Without padding, which torch's products do not take."""
    count = int(matrix.rowptr[-1])
    assert int(matrix.t_rowptr[-1]) == count
    assert not matrix.weight[count:].any()
    parts = pytree.tree_map(lambda t: t[:count], matrix)
    return replace(parts, rowptr=matrix.rowptr, t_rowptr=matrix.t_rowptr)


def test_joined_matrices_have_no_padding_but_what_is_asked_for():
    adjacency, _ = blocks_of()
    assert adjacency.joined is adjacency.joined
    assert adjacency.joined.num_edges == sum(ENTRIES)
    padded = adjacency.join(POSITIONS)
    assert padded.num_edges == POSITIONS
    for kind in (padded.rowptr, padded.t_rowptr, padded.col, padded.t_col, padded.t_perm):
        assert kind.dtype == torch.int32
    for mine, wanted in zip(
        pytree.tree_leaves(trimmed(padded)), pytree.tree_leaves(adjacency.joined), strict=True
    ):
        assert torch.equal(mine, wanted)


def test_each_entry_has_a_place_among_those_of_its_member():
    place, most = blocks_of()[0].entry_places
    assert most == max(ENTRIES)
    wanted = [m * most + e for m, count in enumerate(ENTRIES) for e in range(count)]
    assert place.tolist() == wanted


def test_blocks_that_are_not_stacked_are_joined_too():
    adjacency, _ = blocks_of()
    one = tiny.chosen(adjacency, 1)
    torch.testing.assert_close(one.joined.to_dense(), dense_adjacency([1, -1, 3]))
    assert one.entry_places[0].tolist() == [*range(5)]


def test_a_full_batch_is_joined_as_the_graphs_side_by_side():
    adjacency, _ = blocks_of(torch.tensor([[2, 0, 1]]))
    _, plain, _ = tiny.joined(tiny.features("dense"), [2, 0, 1], "symmetric")
    for mine, wanted in zip(
        pytree.tree_leaves(adjacency.joined), pytree.tree_leaves(plain), strict=True
    ):
        torch.testing.assert_close(mine, wanted)


@pytest.mark.parametrize("which", [0, 1])
def test_joined_products_have_the_blocks_values_and_gradients(which):
    blocks = blocks_of()[which]
    x = torch.randn(3, tiny.CAPACITY, 2, dtype=torch.float64, requires_grad=True)
    ours = (blocks.joined @ x.flatten(0, 1)).unflatten(0, (3, -1))
    wanted = blocks @ x
    torch.testing.assert_close(ours, wanted)
    probe = torch.randn_like(ours)
    (mine,) = torch.autograd.grad(ours, x, probe)
    (expected,) = torch.autograd.grad(wanted, x, probe)
    torch.testing.assert_close(mine, expected)


def test_what_graphs_have_is_spread_to_their_nodes():
    _, pool = blocks_of()
    x = torch.randn(3, 3, 2, dtype=torch.float64)
    y = spread(pool, x)
    for m, graphs in enumerate(tiny.GRAPHS.tolist()):
        expected = dense_pool(graphs).mT.double() @ x[m]
        torch.testing.assert_close(y[m], expected)
        torch.testing.assert_close(spread(tiny.chosen(pool, m), x[m]), expected)
        torch.testing.assert_close(spread(Adjacency.from_dense(dense_pool(graphs)), x[m]), expected)


def test_on_a_gpu_joined_blocks_need_a_bound():
    adjacency, _ = blocks_of()
    numbers = (adjacency.row, adjacency.shift, adjacency.t_row, adjacency.t_shift)
    for bound in (None, 1 << 30):
        away = Blocks(adjacency.whole, *(t.to("meta") for t in numbers), max_entries=bound)
        with pytest.raises(UserError, match=rf"got {bound} for each of 3 members"):
            _ = away.joined


@pytest.mark.gpu
def test_joining_can_be_captured_as_a_cuda_graph():
    blocks, _ = blocks_of()
    numbers = (blocks.row, blocks.shift, blocks.t_row, blocks.t_shift)
    whole, moved = blocks.whole.to("cuda"), [value.cuda() for value in numbers]
    on_gpu = Blocks(whole, *moved, max_entries=POSITIONS // 3)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        ours = on_gpu.joined
    captured.replay()
    wanted = pytree.tree_leaves(blocks.join(POSITIONS))
    for mine, expected in zip(pytree.tree_leaves(ours), wanted, strict=True):
        assert torch.equal(mine.cpu(), expected)
