"""Sampled neighbourhoods: real edges, uniform draws without replacement."""

import itertools

import pytest
import torch
from sampled import DATA, EDGES, NODES
from torch import Tensor

from quatgraph import NeighborSampler, UserError
from quatgraph.ops.random import random_bits
from quatgraph.sampling import Sample, draw_distinct

DEGREE = torch.bincount(DATA.edge_index[1], minlength=NODES)


def sampler(num_neighbors: list[int], seed: int = 0) -> NeighborSampler:
    return NeighborSampler(DATA.edge_index, NODES, num_neighbors, seed=seed)


def edges_of(sample: Sample) -> Tensor:
    return sample.n_id[sample.edge_index]


def test_sampled_edges_are_edges_of_the_graph_and_none_comes_twice() -> None:
    for step in range(5):
        sample = sampler([4, 2, 3]).sample(torch.tensor([0, 7, NODES - 1]), step)
        assert torch.equal(edges_of(sample), DATA.edge_index[:, sample.e_id])
        assert len(sample.e_id.unique()) == len(sample.e_id)
        assert len(sample.n_id.unique()) == len(sample.n_id)
        assert sample.n_id[:3].tolist() == [0, 7, NODES - 1]
        assert sum(sample.num_sampled_nodes) == len(sample.n_id)
        assert sum(sample.num_sampled_edges) == len(sample.e_id)


def test_a_node_has_as_many_edges_as_the_limit_of_its_hop_allows() -> None:
    sample = sampler([4, 2]).sample(torch.arange(10))
    drawn = torch.bincount(sample.edge_index[1], minlength=len(sample.n_id))
    limit = torch.tensor([4, 2, 0]).repeat_interleave(torch.tensor(sample.num_sampled_nodes))
    assert torch.equal(drawn, DEGREE[sample.n_id].minimum(limit))
    ratio = DEGREE[sample.n_id] / drawn
    torch.testing.assert_close(sample.scale, ratio[sample.edge_index[1]])


def test_every_set_of_neighbours_is_as_probable() -> None:
    draws, count = torch.tensor([0, 0]), 30_000
    drawn = draw_distinct(torch.full((count,), 6), random_bits(draws, 0, count, 3))
    key = (drawn.sort(dim=1).values * torch.tensor([36, 6, 1])).sum(dim=1)
    sets = [36 * a + 6 * b + c for a, b, c in itertools.combinations(range(6), 3)]
    counts = torch.stack([(key == one).sum() for one in sets])
    assert int(counts.sum()) == count
    expected = count / len(sets)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < 43.8  # chi-squared with 19 degrees of freedom, p = 0.001


def test_the_edges_of_a_hub_are_drawn_equally_often() -> None:
    hub, steps = sampler([5]), 2000
    drawn = torch.cat([hub.sample(torch.tensor([0]), step).e_id for step in range(steps)])
    counts = torch.bincount(drawn, minlength=EDGES)[DATA.edge_index[1] == 0].double()
    expected = 5 * steps / int(DEGREE[0])
    # Counts without replacement vary a little less than those of a chi-squared variable.
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert len(counts) == DEGREE[0] > 40
    assert statistic < 90


def test_draws_depend_on_seed_step_and_node_but_not_on_the_other_nodes() -> None:
    alone = sampler([3]).sample(torch.tensor([0]), step=2)
    among = sampler([3]).sample(torch.tensor([5, 0, 9]), step=2)
    own = among.e_id[among.n_id[among.edge_index[1]] == 0]
    assert torch.equal(own, alone.e_id)
    others = [sampler([3], seed).sample(torch.tensor([0]), step) for seed, step in [(0, 3), (1, 2)]]
    assert all(not torch.equal(other.e_id, alone.e_id) for other in others)


def test_nodes_without_edges_are_alone() -> None:
    sample = sampler([3, 3]).sample(torch.tensor([NODES - 1]))
    assert sample.n_id.tolist() == [NODES - 1]
    assert sample.edge_index.shape == (2, 0)


def test_mistakes_are_told_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"at least 1 for each hop, or -1 .*got \[5, 0\]"):
        sampler([5, 0])
    with pytest.raises(UserError, match="num_neighbors"):
        sampler([])
    for number, example in ((5, "5, 5"), (-1, "-1, -1"), (0, "15, 10"), (-2, "15, 10")):
        words = rf"a list with a number for each hop, got {number}; use \[{example}\]"
        with pytest.raises(UserError, match=words):
            sampler(number)
    with pytest.raises(UserError, match=r"shape \(2, E\)"):
        NeighborSampler(torch.zeros(3, 4, dtype=torch.int64), 4, [1])
    with pytest.raises(UserError, match=r"node ids must be in 0\.\.59, got 60"):
        sampler([1]).sample(torch.tensor([NODES]))
    with pytest.raises(UserError, match="the same node twice"):
        sampler([1]).sample(torch.tensor([1, 1]))
    with pytest.raises(UserError, match="vector of node ids"):
        sampler([1]).sample(DATA.train_mask)


@pytest.mark.gpu
def test_a_gpu_draws_the_same_neighbours() -> None:
    nodes = torch.tensor([0, 7, 3])
    ours = sampler([4, 2]).sample(nodes, step=1)
    theirs = NeighborSampler(DATA.edge_index.cuda(), NODES, [4, 2]).sample(nodes, step=1)
    for name in ("n_id", "edge_index", "e_id", "scale"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name).cpu())
