"""Batches of documents: which, in what pieces, and what the pieces' gradients sum to."""

from typing import Any

import pytest
import torch

from quatgraph.tasks.graph.batches import Collection, assemble
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.batches import DocumentBatches, accumulate_gradients, round_up
from quatgraph.tasks.text.problem import Corpus, split_indices

CPU = torch.device("cpu")


@pytest.fixture
def whole(corpus: Corpus, configured: Any) -> Collection:
    return TEXT.prepare(corpus, configured(), CPU).collection


def of(
    corpus: Corpus, config: Any, whole: Collection, nodes: int, size: int = 8
) -> DocumentBatches:
    parts = [split_indices(corpus.documents, config.data, seed)["train"] for seed in (0, 1)]
    return DocumentBatches(whole, parts, size, nodes, seeds=[0, 1])


@pytest.mark.parametrize("nodes", [1, 30, 10_000])
def test_every_document_comes_once_an_epoch_in_each_members_own_order(
    corpus: Corpus, configured: Any, whole: Collection, nodes: int
) -> None:
    config = configured()
    batches = of(corpus, config, whole, nodes)
    orders = []
    for epoch in range(2):
        shapes = batches.draw(epoch)
        assert len(shapes) == 4  # of 26 documents, the last of two
        seen: list[list[int]] = [[], []]
        for step in range(len(shapes)):
            (batch,) = batches.load(step)
            for m in range(2):
                own = batch.graphs[:, m]
                seen[m] += own[own >= 0].tolist()
            assert len(seen[0]) == min(8 * (step + 1), 26)
        for m, places in enumerate(seen):
            train = split_indices(corpus.documents, config.data, m)["train"]
            assert sorted(places) == train.tolist()
        orders.append(seen)
    assert orders[0] != orders[1]


def test_pieces_are_about_equally_large_and_hold_what_they_may(
    corpus: Corpus, configured: Any, whole: Collection
) -> None:
    batches, largest = of(corpus, configured(), whole, 40), int(whole.num_nodes.max())
    for step, (pieces, documents, nodes) in enumerate(batches.draw(0)):
        (indices,) = batches.load(step)
        assert indices.graphs.shape == (pieces, 2, documents)
        assert nodes <= 20 + largest
        for own in indices.graphs:
            batch = assemble(whole, own, indices.capacity)
            known = own.clamp(min=0)
            assert torch.equal(batch.labels, whole.labels[known])
            sizes = torch.where(own >= 0, whole.num_nodes[known], 0).sum(dim=1)
            assert torch.equal((batch.adjacency.row >= 0).sum(dim=1), sizes)


def test_the_steps_of_one_shape_are_loaded_into_one_buffer(
    corpus: Corpus, configured: Any, whole: Collection
) -> None:
    batches = of(corpus, configured(), whole, 40)
    buffers: dict[torch.Size, set[int]] = {}
    for epoch in range(2):
        for step, _ in enumerate(batches.draw(epoch)):
            (indices,) = batches.load(step)
            buffers.setdefault(indices.graphs.shape, set()).add(indices.graphs.data_ptr())
    assert len(buffers) == 2  # the last batch is smaller
    assert all(len(addresses) == 1 for addresses in buffers.values())


@pytest.mark.parametrize("nodes", [1, 8, 100, 12_345])
def test_rounding_adds_little_and_gives_few_numbers(nodes: int) -> None:
    assert nodes <= round_up(nodes) <= max(nodes + 7, 17 / 16 * nodes + 1)
    assert round_up(round_up(nodes)) == round_up(nodes)
    assert len({round_up(n) for n in range(10_000, 11_000)}) <= 5


def test_a_sum_in_pieces_has_the_value_and_the_gradient_of_the_sum() -> None:
    weights = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(4, 3, 5, dtype=torch.float64)

    def losses() -> list[torch.Tensor]:
        return [(factor * weights.exp()).sum(dim=1) for factor in factors]

    expected = torch.stack(losses()).sum(dim=0)
    (slope,) = torch.autograd.grad(expected.sum(), weights)
    found = accumulate_gradients(weights, losses())
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), weights)[0], slope)
