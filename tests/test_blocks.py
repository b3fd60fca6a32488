"""Chosen blocks of a matrix against the matrix of their graphs."""

import pytest
import tiny
import torch
import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.errors import UserError

ENTRIES = 20


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


def stacked_dense(matrix: Adjacency) -> Tensor:
    return torch.vmap(dense)(matrix)


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


@pytest.mark.parametrize("which", [0, 1])
def test_expanded_are_the_same_matrices_and_their_transposes(which):
    blocks = blocks_of()[which]
    matrix = blocks.expanded(ENTRIES)
    for m, graphs in enumerate(tiny.GRAPHS.tolist()):
        expected = (dense_pool if which else dense_adjacency)(graphs)
        torch.testing.assert_close(stacked_dense(matrix)[m], expected)
        alone = pytree.tree_map(lambda t: t[m], matrix)  # noqa: B023
        torch.testing.assert_close(alone.to_dense(), expected)
        torch.testing.assert_close(dense(alone.transpose()), expected.mT)
        torch.testing.assert_close(alone.transpose().transpose().to_dense(), expected)


def test_expanded_matrices_end_in_padding_of_weight_zero_in_the_last_row_and_column():
    matrix = blocks_of()[0].expanded(ENTRIES)
    assert matrix.weight.shape == (3, ENTRIES)
    for kind in (matrix.rowptr, matrix.t_rowptr, matrix.col, matrix.t_col, matrix.t_perm):
        assert kind.dtype == torch.int32
    assert (matrix.rowptr[:, -1] == ENTRIES).all()
    assert (matrix.t_rowptr[:, -1] == ENTRIES).all()
    real = [17, 5, 14]  # edges, and a loop for each node
    for m, count in enumerate(real):
        assert matrix.rowptr[m, -2] <= count
        assert matrix.t_rowptr[m, -2] <= count
        assert not matrix.weight[m, count:].any()
        assert (matrix.col[m, count:] == tiny.CAPACITY - 1).all()
        assert torch.equal(matrix.t_perm[m].sort().values, torch.arange(ENTRIES).int())
        assert torch.equal(matrix.t_perm[m, count:], torch.arange(count, ENTRIES).int())


def test_blocks_that_are_not_stacked_expand_too():
    adjacency, _ = blocks_of()
    one = tiny.chosen(adjacency, 1).expanded(5)
    torch.testing.assert_close(one.to_dense(), dense_adjacency([1, -1, 3]))


def test_a_full_batch_expands_without_padding():
    graphs = torch.tensor([[2, 0, 1]])
    adjacency, _ = blocks_of(graphs)
    _, plain, _ = tiny.joined(tiny.features("dense"), [2, 0, 1], "symmetric")
    ours = pytree.tree_map(lambda t: t[0], adjacency.expanded(plain.num_edges))
    for mine, wanted in zip(pytree.tree_leaves(ours), pytree.tree_leaves(plain), strict=True):
        torch.testing.assert_close(mine, wanted)


@pytest.mark.parametrize("which", [0, 1])
def test_expanded_products_have_the_blocks_values_and_gradients(which):
    blocks = blocks_of()[which]
    matrix = blocks.expanded(ENTRIES)
    x = torch.randn(3, tiny.CAPACITY, 2, dtype=torch.float64, requires_grad=True)
    ours = torch.vmap(Adjacency.__matmul__)(matrix, x)
    wanted = blocks @ x
    torch.testing.assert_close(ours, wanted)
    probe = torch.randn_like(ours)
    (mine,) = torch.autograd.grad(ours, x, probe)
    (expected,) = torch.autograd.grad(wanted, x, probe)
    torch.testing.assert_close(mine, expected)


def test_blocks_of_more_entries_than_asked_for_are_a_mistake():
    with pytest.raises(UserError, match="blocks of 17 entries do not fit into 16"):
        blocks_of()[0].expanded(16)


@pytest.mark.gpu
def test_expanding_can_be_captured_as_a_cuda_graph():
    blocks, _ = blocks_of()
    numbers = (blocks.row, blocks.shift, blocks.t_row, blocks.t_shift)
    on_gpu = Blocks(blocks.whole.to("cuda"), *(value.cuda() for value in numbers))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        ours = on_gpu.expanded(ENTRIES)
    captured.replay()
    wanted = pytree.tree_leaves(blocks.expanded(ENTRIES))
    for mine, expected in zip(pytree.tree_leaves(ours), wanted, strict=True):
        assert torch.equal(mine.cpu(), expected)
