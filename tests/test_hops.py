"""Layers on sampled nodes and in chunks compute what they compute on the whole graph."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from sampled import DATA, NODES
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.hops import Chunks, Hops, round_up
from quatgraph.models.node import MODELS
from quatgraph.models.node.base import NodeModel
from quatgraph.sampling import NeighborSampler

CLASSES = 3
SAMPLED = [name for name, model in MODELS.items() if model.Options(name=name).hops]
LOOPS = {"self_loops": True, "normalization": "symmetric"}
WHOLE = Adjacency.from_edge_index(DATA.edge_index, NODES, DATA.edge_weight, **LOOPS)
SIZES = {"hidden_quats": 2, "num_layers": 2, "dropout": 0.0}


def model_of(name: str, **others: Any) -> tuple[NodeModel, Any]:
    """A model in float64 with every option that adds a part, and its options."""
    kind = MODELS[name]
    known = kind.Options.__dataclass_fields__
    extra = SIZES | {"skip": True, "bias": True, "heads": 2, "shared_weights": False} | others
    options = kind.Options(**{k: v for k, v in extra.items() if k in known})
    torch.manual_seed(0)
    model = kind.from_options(options, DATA.x.size(1), CLASSES).double()
    for parameter in model.parameters():  # biases start at zero, where their gradients vanish
        torch.nn.init.normal_(parameter, std=0.3)
    return model, options


def gradients(model: NodeModel, logits: Tensor, labels: Tensor) -> list[Tensor]:
    loss = torch.nn.functional.cross_entropy(logits, labels)
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


def hops_of(nodes: Tensor, fan_out: list[int], step: int = 0) -> Hops:
    return Hops.of(WHOLE, NeighborSampler.of(WHOLE, fan_out).sample(nodes, step))


def assert_near(found: list[Tensor], wanted: list[Tensor]) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def as_they_are(hops: Hops) -> Hops:
    return hops


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("form", [as_they_are, Hops.padded])
@pytest.mark.parametrize("nodes", [torch.randperm(NODES), torch.tensor([0, 59, 7])], ids=len)
def test_with_all_neighbours_loss_and_gradients_are_those_of_the_whole_graph(
    name: str, form: Callable[[Hops], Hops], nodes: Tensor
) -> None:
    model, options = model_of(name)
    hops = form(hops_of(nodes, [-1] * options.hops))
    sampled = model(DATA.x[hops.nodes], hops)[: len(nodes)]
    whole = model(DATA.x, WHOLE)[nodes]
    labels = DATA.y[nodes]
    assert_near(gradients(model, sampled, labels), gradients(model, whole, labels))


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("cost", [1, 100, 1 << 20])
@pytest.mark.parametrize("method", ["forward", "embed"])
@torch.no_grad()
def test_chunks_compute_what_the_whole_graph_gives_and_keep_the_features(
    name: str, cost: int, method: str
) -> None:
    model, _ = model_of(name)
    features = DATA.x.clone()
    found = getattr(model, method)(features, Chunks(WHOLE, cost))
    torch.testing.assert_close(found, getattr(model, method)(DATA.x, WHOLE), rtol=1e-9, atol=1e-12)
    assert torch.equal(features, DATA.x)


def test_chunks_are_as_large_as_allowed_and_separate_no_row() -> None:
    chunks = Chunks(WHOLE, cost=200)
    assert chunks.bounds[0] == (0, 0)
    assert chunks.bounds[-1] == (NODES, WHOLE.num_edges)
    assert len(chunks.bounds) > 5
    degree = WHOLE.rowptr.diff()
    for (begin, first), (end, last) in pairwise(chunks.bounds):
        cost = last - first + 16 * (end - begin)
        assert cost <= 200 + int(degree[end - 1]) + 16
        assert last - first == int(degree[begin:end].sum())
    assert Chunks(WHOLE, 1 << 30).bounds == [(0, 0), (NODES, WHOLE.num_edges)]


def test_weighted_sums_of_drawn_entries_are_those_of_the_rows_on_average() -> None:
    steps, nodes = 4000, torch.arange(10)
    sampler = NeighborSampler.of(WHOLE, [3])
    x, wanted = DATA.x, (WHOLE @ DATA.x)[nodes]
    sums = []
    for step in range(steps):
        hops = Hops.of(WHOLE, sampler.sample(nodes, step))
        sums.append(hops.matrices[0] @ x[hops.nodes])
    drawn = torch.stack(sums)
    error = drawn.std(dim=0) / steps**0.5
    degree = WHOLE.rowptr.diff()[nodes] - 1
    assert bool((error[degree > 3] > 0).all())  # something is drawn
    assert float(((drawn.mean(dim=0) - wanted).abs() / error.clamp(min=1e-12)).max()) < 4.5


def test_the_loop_of_a_node_is_always_drawn_once_with_its_own_weight() -> None:
    dense = WHOLE.to_dense()
    for step in range(5):
        hops = hops_of(torch.tensor([0, 4, 9]), [2, 2], step)
        for matrix in hops.matrices:
            rows = torch.arange(matrix.shape[0])
            diagonal = matrix.to_dense()[rows, rows]
            nodes = hops.nodes[rows]
            drawn = torch.stack([(matrix.receiver == row) & (matrix.col == row) for row in rows])
            assert bool((drawn.sum(dim=1) >= 1).all())
            loops = (DATA.edge_index[0] == DATA.edge_index[1]).nonzero().flatten()
            plain = ~torch.isin(nodes, DATA.edge_index[0, loops])
            torch.testing.assert_close(diagonal[plain], dense[nodes, nodes][plain])


@pytest.mark.parametrize("fan_out", [[3, 2], [-1, 1]])
def test_padding_changes_no_product_and_its_transpose_is_one(fan_out: list[int]) -> None:
    hops = hops_of(torch.tensor([0, 59, 7]), fan_out)
    padded = hops.padded()
    assert padded.sizes == tuple(map(round_up, hops.sizes))
    for plain, larger in zip(hops.matrices, padded.matrices, strict=True):
        rows, columns = plain.shape
        dense = larger.to_dense()
        assert torch.equal(dense[:rows, :columns], plain.to_dense())
        assert not bool(dense[rows:].any())
        assert not bool(dense[:, columns:].any())
        assert torch.equal(larger.transpose().to_dense(), dense.T)
        assert int(larger.rowptr[-1]) == int(larger.t_rowptr[-1]) == larger.num_edges
        # Every entry of the transpose is one of the matrix, padding too.
        assert torch.equal(larger.t_perm.sort().values, torch.arange(larger.num_edges).int())
        assert torch.equal(larger.receiver[larger.t_perm], larger.t_col)


def test_sizes_round_up_to_few_which_are_larger() -> None:
    sizes = [round_up(size) for size in range(1, 100_000, 7)]
    assert all(made > size for made, size in zip(sizes, range(1, 100_000, 7), strict=True))
    assert len(set(sizes)) < 30
    assert all(size % 8 == 0 for size in sizes)
    large = [(round_up(size) - size) / size for size in range(1000, 100_000, 97)]
    assert max(large) < 0.3
