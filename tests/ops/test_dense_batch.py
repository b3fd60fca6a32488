"""Dense batches and sort pooling equal PyG's, for one model, under vmap and for several members."""

import pytest
import tiny
import torch
from torch import Tensor
from torch_geometric.nn import SortAggregation
from torch_geometric.utils import to_dense_adj
from torch_geometric.utils import to_dense_batch as pyg_to_dense_batch

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import boundaries
from quatgraph.errors import UserError
from quatgraph.ops.dense_batch import (
    _group,
    from_dense_batch,
    sort_pool,
    to_dense_adjacency,
    to_dense_batch,
)

SIZES = torch.tensor([[3, 0, 5], [1, 4, 2]])
NODES = 9  # one and two of them are padding


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, NODES, 3, generator=generator, dtype=torch.float64)
    x[0, 4, -1] = x[0, 5, -1]  # a tie
    return x, torch.nn.functional.pad(SIZES.cumsum(dim=1), (1, 0)).int()


def reference(x: Tensor, sizes: Tensor, k: int) -> Tensor:
    index = torch.arange(len(sizes)).repeat_interleave(sizes)
    kept = SortAggregation(k)(x[: len(index)], index, dim_size=len(sizes))
    return kept.view(len(sizes), k, -1)


@pytest.mark.parametrize("k", [1, 2, 4, 12])
def test_values_and_gradients_are_those_of_pyg(k):
    x, ptr = inputs()
    for member in range(2):
        one = x[member].clone().requires_grad_()
        ours, theirs = sort_pool(one, ptr[member], k), reference(one, SIZES[member], k)
        assert torch.equal(ours, theirs)
        seed = torch.randn_like(ours)
        assert torch.equal(*(torch.autograd.grad(y, one, seed)[0] for y in (ours, theirs)))


@pytest.mark.parametrize("size", [5, 7])
def test_dense_batches_and_their_gradients_are_those_of_pyg(size):
    x, ptr = inputs()
    x.requires_grad_()
    ours = to_dense_batch(x, ptr, size)
    assert torch.equal(torch.vmap(lambda a, b: _group(a, b, size, sort=False))(x, ptr), ours)
    for m in range(2):
        index = torch.arange(3).repeat_interleave(SIZES[m])
        theirs, _ = pyg_to_dense_batch(x[m, : len(index)], index, 0, size, 3)
        assert torch.equal(ours[m], theirs)
        seed = torch.randn_like(theirs)
        grads = [torch.autograd.grad(y, x, seed, retain_graph=True)[0] for y in (ours[m], theirs)]
        assert torch.equal(*grads)


def test_nodes_of_a_dense_batch_are_found_again():
    x, ptr = inputs()
    x = x * (torch.arange(NODES) < ptr[:, -1:])[..., None]  # padding is zero
    assert torch.equal(from_dense_batch(to_dense_batch(x, ptr, 6), ptr, NODES), x)
    y = torch.randn(2, 3, 6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: from_dense_batch(y, ptr, NODES), y)
    each = torch.vmap(lambda y, ptr: from_dense_batch(y, ptr, NODES))(y, ptr)
    assert torch.equal(each, from_dense_batch(y, ptr, NODES))


def test_dense_matrices_are_those_of_pyg():
    sizes = torch.tensor([3, 1, 5])
    ptr, index = torch.tensor([0, 3, 4, 9]), torch.arange(3).repeat_interleave(sizes)
    edges = torch.tensor([[0, 1, 2, 4, 8, 8, 6], [1, 0, 1, 8, 4, 8, 5]])  # one is a loop
    weight = torch.arange(1.0, 8.0)
    matrix = Adjacency.from_entries(edges[1], edges[0], weight, (9, 9))
    ours = to_dense_adjacency(matrix, ptr, 6, torch.zeros((), dtype=torch.float64))
    theirs = to_dense_adj(edges, index, weight.double(), 6).mT  # rows are receivers
    assert torch.equal(ours, theirs)


def test_dense_matrices_of_members_have_no_padding():
    graphs = torch.tensor([[2, 0, -1], [1, -1, 3]])
    made = tiny.batch(tiny.features("codes"), "adjacency", graphs)
    ours = to_dense_adjacency(made.adjacency, boundaries(made.pool), 5, torch.zeros(()))
    assert ours.shape == (2, 3, 5, 5)
    for m, slots in enumerate(graphs.tolist()):
        for slot, graph in enumerate(slots):
            expected = torch.zeros(5, 5)
            if graph >= 0:
                sender, receiver = tiny.edge_index(graph)
                expected[receiver, sender] = 1
            assert torch.equal(ours[m, slot], expected)


def test_a_graph_that_is_larger_than_its_dense_batch_is_a_mistake():
    x, ptr = inputs()
    with pytest.raises(UserError, match="a graph of 5 nodes does not fit into a dense batch of 4"):
        to_dense_batch(x, ptr, 4)


def test_members_and_vmap_pool_each_on_its_own():
    x, ptr = inputs()
    expected = torch.stack([sort_pool(x[m], ptr[m], 3) for m in range(2)])
    assert torch.equal(sort_pool(x, ptr, 3), expected)
    assert torch.equal(torch.vmap(lambda a, b: sort_pool(a, b, 3))(x, ptr), expected)
    shared = torch.stack([sort_pool(x[m], ptr[0], 3) for m in range(2)])
    assert torch.equal(sort_pool(x, ptr[0], 3), shared)


def test_the_gradient_is_correct():
    x, ptr = inputs()
    x[0, 4, -1] += 0.5  # a tie has no derivative
    assert torch.autograd.gradcheck(lambda x: sort_pool(x, ptr, 3), x.requires_grad_())


def test_a_double_backward_is_refused():
    x, ptr = inputs()
    y = sort_pool(x.requires_grad_(), ptr, 3).square().sum()
    with pytest.raises(UserError, match="double backward"):
        torch.autograd.grad(y, x, create_graph=True)


@pytest.mark.gpu
def test_a_gpu_gives_the_same_rows_and_gradients():
    x, ptr = inputs()
    found = []
    for device in ("cpu", "cuda"):
        one = x.to(device).requires_grad_()
        y = sort_pool(one, ptr.to(device), 3)
        found.append((y.cpu(), torch.autograd.grad(y.square().sum(), one)[0].cpu()))
    assert all(map(torch.equal, *found))
