"""Sparse matrices against dense ones, and graphs as PyG understands them."""

import numpy as np
import pytest
import torch
import torch.utils._pytree as pytree
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError

N = 6
# Directed; node 5 is alone, node 4 only sends, node 1 has a loop.
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 4.0])


def dense(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> Tensor:
    matrix = torch.zeros(shape)
    for row, col, weight in entries:
        matrix[row, col] += weight
    return matrix


def dense_edges(edge_index: Tensor, weight: Tensor) -> Tensor:
    """Row v, column u: what receiver v takes from sender u."""
    return dense(list(zip(*edge_index.flip(0).tolist(), weight.tolist(), strict=True)), (N, N))


def check_transpose(a: Adjacency) -> None:
    """The transpose's arrays describe the same entries."""
    back = Adjacency(
        a.t_rowptr, a.t_col, a.weight[a.t_perm], a.rowptr, a.col, torch.zeros_like(a.t_perm)
    )
    torch.testing.assert_close(back.to_dense(), a.to_dense().mT)
    assert {part.dtype for part in (a.rowptr, a.col, a.t_rowptr, a.t_col, a.t_perm)} == {
        torch.int32
    }


entry_lists = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(-3, 3)))


@given(entry_lists, st.sampled_from(["keep", "merge"]))
def test_holds_the_entries_it_is_made_from(entries, duplicates):
    row, col, weight = torch.tensor(entries).view(-1, 3).unbind(1)
    a = Adjacency.from_entries(row, col, weight.float(), (3, 5), duplicates=duplicates)
    expected = dense(entries, (3, 5))
    assert torch.equal(a.to_dense(), expected)
    assert torch.equal(a @ torch.eye(5), expected)
    places = [(r, c) for r, c, _ in entries]
    assert a.num_edges == len(set(places) if duplicates == "merge" else places)
    assert a.shape == (3, 5)
    assert torch.equal(a.receiver, a.receiver.sort().values)
    check_transpose(a)


def test_entries_of_a_row_keep_the_order_they_came_in():
    row, col = torch.tensor([1, 0, 1, 0, 1]), torch.tensor([4, 3, 0, 3, 2])
    a = Adjacency.from_entries(row, col, torch.arange(5.0), (2, 5))
    assert a.col.tolist() == [3, 3, 4, 0, 2]
    assert a.weight.tolist() == [1, 3, 0, 2, 4]


@pytest.mark.parametrize("nodes", [7, 1 << 16, (1 << 16) + 1])
@pytest.mark.parametrize("edges", [0, 40, (1 << 17) - 1, 1 << 17, (1 << 17) + 1])
def test_entries_are_sorted_alike_however_many_there_are(nodes, edges):
    draw = torch.Generator().manual_seed(0)
    row, col = torch.randint(nodes, (2, edges), generator=draw).tolist()
    row[:2], col[:2] = [nodes - 1, 0][:edges], [nodes - 1, 0][:edges]
    place = np.arange(edges)
    a = Adjacency.from_entries(
        torch.tensor(row, dtype=torch.long), torch.tensor(col, dtype=torch.long),
        torch.from_numpy(place).float(), (nodes, nodes),
    )  # fmt: skip
    by_row = np.lexsort((place, row))
    assert np.array_equal(a.weight, place[by_row])
    assert np.array_equal(a.col, np.array(col, dtype=int)[by_row])
    assert np.array_equal(a.rowptr, np.searchsorted(np.sort(row), np.arange(nodes + 1)))
    by_col = np.lexsort((place, a.col))
    assert np.array_equal(a.t_perm, by_col)
    assert np.array_equal(a.t_col, np.array(row, dtype=int)[by_row][by_col])
    assert np.array_equal(a.t_rowptr, np.searchsorted(np.sort(col), np.arange(nodes + 1)))


def test_repeated_edges_without_weights_add_up_or_merge_into_one():
    edges = torch.tensor([[0, 0, 1], [1, 1, 0]])
    assert Adjacency.from_edge_index(edges, 2).to_dense()[1, 0] == 2
    merged = Adjacency.from_edge_index(edges, 2, duplicates="merge")
    assert merged.to_dense().tolist() == [[0, 1], [1, 0]]
    weighted = Adjacency.from_edge_index(edges, 2, torch.ones(3), duplicates="merge")
    assert weighted.to_dense()[1, 0] == 2
    assert weighted.num_edges == 2


def test_an_edge_goes_from_sender_to_receiver():
    a = Adjacency.from_edge_index(EDGES, N, WEIGHT)
    assert torch.equal(a.to_dense(), dense_edges(EDGES, WEIGHT))
    assert set(zip(a.sender.tolist(), a.receiver.tolist(), strict=True)) == set(
        zip(*EDGES.tolist(), strict=True)
    )


def test_a_dense_matrix_comes_back_whole():
    x = torch.randn(4, 3).relu()
    a = Adjacency.from_dense(x)
    assert torch.equal(a.to_dense(), x)
    assert a.num_edges == int((x != 0).sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_self_loops_have_weight_one_unless_they_were_there(weighted):
    weight = WEIGHT if weighted else None
    expected = dense_edges(EDGES, WEIGHT if weighted else torch.ones(7))
    expected += torch.diag((expected.diag() == 0).float())
    plain = Adjacency.from_edge_index(EDGES, N, weight)
    assert torch.equal(plain.with_self_loops().to_dense(), expected)
    assert torch.equal(plain.with_self_loops().with_self_loops().to_dense(), expected)
    looped = Adjacency.from_edge_index(EDGES, N, weight, self_loops=True)
    assert torch.equal(looped.to_dense(), expected)
    check_transpose(looped)


def test_negative_loops_are_kept_too():
    a = Adjacency.from_edge_index(torch.tensor([[0], [0]]), 2, torch.tensor([-2.0]))
    assert a.with_self_loops().to_dense().tolist() == [[-2, 0], [0, 1]]


def by_formula(matrix: Tensor, kind: str) -> np.ndarray:
    a = matrix.double().numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(a.sum(1) > 0, 1 / a.sum(1), 0)
        root = np.sqrt(inverse)
    return {
        "none": a,
        "row": np.diag(inverse) @ a,
        "symmetric": np.diag(root) @ a @ np.diag(root),
    }[kind]


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("kind", ["none", "row", "symmetric"])
def test_normalisation_divides_by_the_sums_of_rows(kind, loops):
    a = Adjacency.from_edge_index(EDGES, N, WEIGHT.double(), self_loops=loops)
    expected = by_formula(a.to_dense(), kind)
    np.testing.assert_allclose(a.normalized(kind).to_dense().numpy(), expected, rtol=1e-12)


def test_a_rectangle_is_normalised_by_rows():
    x = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    rows = Adjacency.from_dense(x).normalized("row").to_dense()
    assert rows.tolist() == [[0.25, 0.75, 0], [0, 0, 0]]


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_a_prepared_graph_is_that_of_gcn_norm(weight, loops):
    edges, weights = gcn_norm(EDGES, weight, N, add_self_loops=loops)
    ours = Adjacency.of(EDGES, N, weight, self_loops=loops).to_dense()
    torch.testing.assert_close(ours, dense_edges(edges, weights))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_a_sparse_matrix_has_receivers_as_rows(layout):
    matrix = dense_edges(EDGES, WEIGHT)
    sparse = matrix.to_sparse(layout=layout)
    plain = Adjacency.of(sparse, N, self_loops=False, normalization="none")
    assert torch.equal(plain.to_dense(), matrix)
    prepared = Adjacency.of(EDGES, N, WEIGHT)
    torch.testing.assert_close(Adjacency.of(sparse, N).to_dense(), prepared.to_dense())
    with pytest.raises(UserError, match="leave out edge_weight"):
        Adjacency.of(sparse, N, WEIGHT)


def test_an_edge_index_of_pyg_is_an_edge_index():
    edges = EdgeIndex(EDGES, sparse_size=(N, N))
    ours = Adjacency.of(edges, N, WEIGHT)
    assert torch.equal(ours.to_dense(), Adjacency.of(EDGES, N, WEIGHT).to_dense())
    assert type(ours.col) is Tensor


def test_a_prepared_graph_is_taken_as_it_is():
    a = Adjacency.from_edge_index(EDGES, N)
    assert Adjacency.of(a, N) is a


def test_tiled_repeats_the_columns_four_times():
    x = Adjacency.from_dense(torch.randn(3, 2))
    assert torch.equal(x.tiled().to_dense(), x.to_dense().repeat(1, 4))
    check_transpose(x.tiled())


def test_the_transpose_swaps_rows_and_columns_and_can_be_learned_through():
    a = Adjacency.from_entries(*torch.tensor([[2, 0, 2], [4, 1, 0]]), torch.randn(3), (3, 5))
    assert torch.equal(a.transpose().to_dense(), a.to_dense().mT)
    assert torch.equal(a.transpose().transpose().to_dense(), a.to_dense())
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: a.transpose() @ x, x)


def test_gathering_takes_each_entrys_row_and_its_transpose_sums_over_them():
    a, x = Adjacency.from_edge_index(EDGES, N, WEIGHT), torch.randn(N, 3, requires_grad=True)
    for gather, at in ((a.gather_senders(), a.sender), (a.gather_receivers(), a.receiver)):
        assert torch.equal(gather @ x, x[at])
        numbers = torch.randn(a.num_edges, 2)
        expected = torch.zeros(N, 2)
        for e, node in enumerate(at.tolist()):
            expected[node] += numbers[e]
        torch.testing.assert_close(gather.transpose() @ numbers, expected)
        (grad,) = torch.autograd.grad((gather @ x).sum(), x)
        torch.testing.assert_close(grad, torch.bincount(at, minlength=N)[:, None].float() + 0 * x)
    assert torch.equal(a.sum_entries() @ numbers, gather.transpose() @ numbers)


@pytest.mark.parametrize("lead", [(), (2,), (2, 4)])
def test_leading_dimensions_ride_along(lead):
    a, x = Adjacency.from_edge_index(EDGES, N, WEIGHT), torch.randn(*lead, N, 3)
    torch.testing.assert_close(a @ x, a.to_dense() @ x)


def test_is_a_pytree_of_its_six_tensors():
    a = Adjacency.from_edge_index(EDGES, N, WEIGHT)
    leaves, shape = pytree.tree_flatten(a)
    assert len(leaves) == 6
    back = pytree.tree_unflatten(leaves, shape)
    assert torch.equal(back.to_dense(), a.to_dense())
    assert torch.equal(a.to("cpu").to_dense(), a.to_dense())


def test_rounds_what_it_sums_if_asked_and_so_does_what_is_made_of_it():
    a, x = Adjacency.from_edge_index(EDGES, N, WEIGHT), torch.randn(N, 3)
    rounding = a.with_product_dtype(torch.bfloat16)
    assert torch.equal(rounding @ x, a @ x.bfloat16().float())
    assert torch.equal(rounding.with_product_dtype(None) @ x, a @ x)
    leaves, shape = pytree.tree_flatten(rounding)
    made = {
        "a pytree": pytree.tree_unflatten(leaves, shape),
        "moved": rounding.to("cpu"),
        "weighted": rounding.with_weight(WEIGHT),
        "looped": rounding.with_self_loops(),
        "normalized": rounding.normalized("row"),
        "tiled": rounding.tiled(),
        "transposed": rounding.transpose(),
    }
    assert {name: one.product_dtype for name, one in made.items()} == dict.fromkeys(
        made, torch.bfloat16
    )
    assert torch.equal(rounding.gather_senders() @ x, x[a.sender])


def test_members_may_round_what_they_sum():
    a, x = Adjacency.from_edge_index(EDGES, N, WEIGHT), torch.randn(2, N, 3)
    rounding = a.with_product_dtype(torch.bfloat16)
    y = torch.vmap(Adjacency.__matmul__, in_dims=(None, 0))(rounding, x)
    assert torch.equal(y, torch.stack([rounding @ one for one in x]))
    both = pytree.tree_map(lambda *parts: torch.stack(parts), rounding, rounding)
    torch.testing.assert_close(torch.vmap(Adjacency.__matmul__)(both, x), y)


def test_other_weights_share_the_structure():
    a = Adjacency.from_edge_index(EDGES, N)
    doubled = a.with_weight(2 * a.weight)
    assert doubled.col is a.col
    assert torch.equal(doubled.to_dense(), 2 * a.to_dense())


@pytest.mark.parametrize(
    "prepare",
    [
        lambda w: Adjacency.of(EDGES, N, w),
        lambda w: Adjacency.of(EDGES, N, w, self_loops=False, normalization="row"),
        lambda w: Adjacency.from_edge_index(EDGES, N, w, duplicates="merge"),
        lambda w: Adjacency.from_edge_index(EDGES, N, w).with_self_loops(),
        lambda w: Adjacency.from_edge_index(EDGES, N, w).transpose(),
        lambda w: Adjacency.from_edge_index(EDGES, N, w).tiled(),
    ],
    ids=["symmetric", "row", "merged", "looped", "transposed", "tiled"],
)
def test_gradients_reach_the_edge_weights(prepare):
    weight = WEIGHT.double().requires_grad_()
    x = torch.randn(prepare(weight).shape[1], 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda w: prepare(w) @ x, weight)


@pytest.mark.parametrize("duplicates", ["keep", "merge"])
@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize(("edge", "named"), [((0, 6), 6), ((9, 0), 9), ((7, 7), 7), ((0, -1), -1)])
def test_ids_out_of_range_are_named(edge, named, self_loops, duplicates):
    edges = torch.tensor([[edge[0], 1], [edge[1], 2]])
    with pytest.raises(UserError, match=rf"must be in 0\.\.5, got {named}"):
        Adjacency.from_edge_index(edges, N, self_loops=self_loops, duplicates=duplicates)


@pytest.mark.parametrize("edges", [EDGES.T, EDGES[0]])
def test_an_edge_index_of_another_shape_is_a_mistake(edges):
    with pytest.raises(UserError, match=r"shape \(2, E\)"):
        Adjacency.of(edges, N)


def test_a_rectangle_has_no_self_loops_and_no_symmetric_normalisation():
    a = Adjacency.from_dense(torch.ones(2, 3))
    with pytest.raises(UserError, match=r"self-loops needs a square matrix, got \(2, 3\)"):
        a.with_self_loops()
    with pytest.raises(UserError, match="symmetric normalisation needs a square"):
        a.normalized("symmetric")
    with pytest.raises(UserError, match=r"a \(2, 3\) matrix cannot multiply \(2, 3\)"):
        a @ torch.ones(2, 3)


def test_a_graph_without_edges_still_has_nodes():
    a = Adjacency.of(torch.empty(2, 0, dtype=torch.int64), 3)
    assert torch.equal(a.to_dense(), torch.eye(3))
    bare = Adjacency.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 3)
    assert torch.equal(bare @ torch.ones(3, 2), torch.zeros(3, 2))


def test_unknown_words_are_refused():
    graph = Adjacency.from_edge_index(torch.tensor([[0], [1]]), 2)
    with pytest.raises(UserError, match="no normalization 'sym'"):
        graph.normalized("sym")
    with pytest.raises(UserError, match="must be 'keep' or 'merge', got 'drop'"):
        Adjacency.from_entries(graph.receiver, graph.col, None, (2, 2), duplicates="drop")


def test_weights_may_be_a_column_or_whole_numbers():
    wanted = Adjacency.of(EDGES, N, WEIGHT)
    assert torch.equal(Adjacency.of(EDGES, N, WEIGHT[:, None]).weight, wanted.weight)
    whole = Adjacency.of(EDGES, N, torch.arange(1, 8))
    assert torch.equal(whole.weight, Adjacency.of(EDGES, N, torch.arange(1.0, 8)).weight)
    ones = Adjacency.of(EDGES, N, torch.ones(7, dtype=torch.bool))
    assert torch.equal(ones.weight, Adjacency.of(EDGES, N).weight)


def test_edges_without_weights_get_them_in_the_type_that_is_asked_for():
    exact = Adjacency.of(EDGES, N, dtype=torch.float64)
    weighted = Adjacency.of(EDGES, N, torch.ones(7, dtype=torch.float64))
    assert exact.weight.dtype == torch.float64
    assert torch.equal(exact.to_dense(), weighted.to_dense())
    assert Adjacency.of(EDGES, N).weight.dtype == torch.float32


@pytest.mark.parametrize("shape", [(N + 1, N + 1), (N - 1, N)])
def test_a_sparse_matrix_of_another_shape_is_a_mistake(shape):
    with pytest.raises(UserError, match=r"must have the shape \(6, 6\)"):
        Adjacency.of(torch.ones(shape).to_sparse(), N)


@pytest.mark.parametrize("edges", [EDGES.tolist(), EDGES.numpy()])
def test_edges_that_are_no_tensor_are_a_mistake(edges):
    with pytest.raises(UserError, match="edge_index must be a tensor"):
        Adjacency.of(edges, N)


def test_moves_along_with_a_graph_of_pyg():
    moved = Data(edge_index=EDGES, graph=Adjacency.of(EDGES, N)).to("meta")
    assert moved.graph.device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_ids_may_have_a_narrow_type_and_the_graph_more_nodes_than_it_has_numbers(dtype):
    wide, narrow = (Adjacency.of(edges, 300) for edges in (EDGES, EDGES.to(dtype)))
    assert torch.equal(narrow.to_dense(), wide.to_dense())


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.complex64])
def test_ids_must_be_whole_numbers(dtype):
    with pytest.raises(UserError, match="must hold integers"):
        Adjacency.of(EDGES.to(dtype), N)


def test_weights_that_are_no_tensor_are_a_mistake():
    with pytest.raises(UserError, match="weights must be a tensor, got a list"):
        Adjacency.of(EDGES, N, WEIGHT.tolist())


@pytest.mark.parametrize("loops", [False, True])
def test_weights_have_torchs_default_type(loops):
    torch.set_default_dtype(torch.float64)
    try:
        assert Adjacency.of(EDGES, N, self_loops=loops).weight.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_edges_of_another_shape_are_told():
    with pytest.raises(UserError, match=r"shape \(2, E\), got \(3, 4\)"):
        Adjacency.from_edge_index(torch.zeros(3, 4, dtype=torch.long), 5)


def test_nan_is_not_normalised_away():
    edges, weight = torch.tensor([[0, 1, 0], [0, 0, 1]]), torch.tensor([1.0, torch.nan, 1.0])
    rows = Adjacency.from_edge_index(edges, 2, weight, normalization="row").to_dense()
    assert rows.isnan().tolist() == [[True, True], [False, False]]
