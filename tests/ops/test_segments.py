"""Ranks, top nodes and maxima of each graph equal PyG's, for one model and for several members."""

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import global_max_pool
from torch_geometric.nn.pool.select.topk import topk

from quatgraph.ops.segments import keep_top, rank_nodes, segment_ids, segment_max, sort_nodes

SIZES = torch.tensor([[3, 0, 5], [1, 4, 2]])
NODES = 9  # one and two of them are padding
PTR = torch.nn.functional.pad(SIZES.cumsum(dim=1), (1, 0)).int()
KEPT = torch.tensor([[1, 1, 1, 1, 0, 1, 1, 1, 0], [1, 1, 0, 1, 0, 1, 1, 0, 0]]).double()


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def graphs(member: int) -> Tensor:
    return torch.arange(3).repeat_interleave(SIZES[member])


def test_ranks_are_places_in_the_descending_order_of_each_graph():
    score = draw(2, NODES)
    score[0, 3] = score[0, 5]  # a tie
    ids = segment_ids(PTR.long(), NODES)
    order = sort_nodes(score, ids)
    ranks = rank_nodes(order, PTR.long(), ids)
    for m in range(2):
        for g in range(3):
            own = range(int(PTR[m, g]), int(PTR[m, g + 1]))
            wanted = sorted(own, key=lambda v: (-score[m, v], v))
            assert order[m, own.start : own.stop].tolist() == wanted
            assert [wanted.index(v) for v in own] == ranks[m, own.start : own.stop].tolist()


@pytest.mark.parametrize("ratio", [0.01, 0.4, 0.5, 0.8, 0.99])
def test_the_top_nodes_are_those_of_pyg(ratio):
    score = draw(2, NODES)
    found = keep_top(score, KEPT, PTR, ratio)
    for m in range(2):
        left = KEPT[m, : len(graphs(m))].nonzero().flatten()
        chosen = left[topk(score[m, left], ratio, graphs(m)[left])]
        assert found[m].nonzero().flatten().tolist() == sorted(chosen.tolist())
        assert torch.equal(keep_top(score[m], KEPT[m], PTR[m], ratio), found[m])


@pytest.mark.parametrize(("ratio", "size", "wanted"), [(0.07, 100, 7), (0.8, 6, 5), (1.0, 3, 3)])
def test_rounding_does_not_add_a_node(ratio, size, wanted):
    # In float64, 0.07 * 100 is 7.000000000000001.
    kept = keep_top(draw(size), torch.ones(size), torch.tensor([0, size]), ratio)
    assert int(kept.sum()) == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 3e8])
def test_scores_that_differ_by_rounding_are_ties(dtype, scale):
    # Two pairs of symmetric nodes: two of the four are kept.
    exact = scale * torch.tensor([0.3, -0.7, 0.3, 0.3, 0.29, 0.3], dtype=dtype)
    ptr, kept = torch.tensor([0, 6]), torch.ones(6)
    noise = 1 + 4e-7 * torch.tensor([-1, 0, 1, -1, 0, 1], dtype=dtype)
    for score in (exact, exact * noise, exact * noise.flip(0)):
        assert keep_top(score, kept, ptr, 1 / 3).tolist() == [1, 0, 1, 0, 0, 0]
        assert keep_top(score, kept, ptr, 5 / 6).tolist() == [1, 0, 1, 1, 1, 1]


def test_maxima_and_their_gradients_are_those_of_pyg():
    x = draw(2, NODES, 4)
    x[0, 0] = x[0, 1]  # a tie
    x.requires_grad_()
    found = segment_max(x, KEPT, PTR)
    for m in range(2):
        left = KEPT[m, : len(graphs(m))].nonzero().flatten()
        wanted = global_max_pool(x[m, left], graphs(m)[left], 3)
        assert torch.equal(found[m], wanted)
        assert torch.equal(segment_max(x[m], KEPT[m], PTR[m]), wanted)
        grads = [
            torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0][m]
            for y in (found[m], wanted)
        ]
        assert torch.equal(*grads)
