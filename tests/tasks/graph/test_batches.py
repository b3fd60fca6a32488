"""Batches of graphs: fair sampling, sufficient capacity, PyG's batches, complete chunks."""

import itertools
from collections import Counter

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch as PygBatch
from torch_geometric.utils import to_dense_adj

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.codes import Codes
from quatgraph.data.graph import Graphs, load
from quatgraph.models.graph import GraphQGNN
from quatgraph.tasks.graph.batches import (
    Capacity,
    Collection,
    TrainingBatches,
    _sample_distinct,
    _Sizes,
    assemble,
)
from quatgraph.tasks.graph.evaluation import build_chunks
from quatgraph.tasks.graph.features import NodeFeatures
from quatgraph.tasks.graph.problem import build_collection

CPU = torch.device("cpu")
PARTS = [torch.arange(0, 40, 2), torch.tensor([7, 199, 3, 50, 81]), torch.arange(100, 200)]
SEEDS = [4, 0, 9]


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    return load("cycles")


@pytest.fixture(scope="module")
def whole(graphs: Graphs) -> Collection:
    return build_collection(graphs, GraphQGNN.Options(), NodeFeatures.fit(graphs, "auto"), CPU)


@pytest.mark.parametrize(("count", "size"), [(5, 1), (5, 2), (6, 3), (4, 4)])
def test_every_choice_of_graphs_is_equally_likely(count: int, size: int) -> None:
    # Every k-th random number stands for one of the count - k graphs that are left: taken once
    # each, all combinations of them must give every set of graphs equally often.
    middles = [[(i + 0.5) / (count - k) for i in range(count - k)] for k in range(size)]
    random = torch.tensor(list(itertools.product(*middles)))[:, None, :]
    drawn = Counter(
        tuple(row)
        for row in _sample_distinct(random, torch.tensor([count]), torch.tensor([size]))[
            :, 0
        ].tolist()
    )
    assert set(drawn) == set(itertools.combinations(range(count), size))
    assert len(set(drawn.values())) == 1


def test_draws_are_sample_distinct_and_below_each_members_own_count() -> None:
    counts = torch.tensor([4, 9, 300])
    drawn = _sample_distinct(torch.rand(3000, 3, 4), counts, torch.full((3,), 4))
    assert bool((drawn.diff(dim=2) > 0).all())  # ascending, so no two are equal
    assert bool((drawn >= 0).all())
    assert bool((drawn < counts[:, None]).all())
    # Each of 9 graphs is expected in 3000 * 4 / 9 draws; the bound is chi-square's one in 10,000.
    seen = drawn[:, 1].flatten().bincount(minlength=9).double()
    expected = 3000 * 4 / 9
    assert float(((seen - expected) ** 2 / expected).sum()) < 32


def test_the_largest_random_number_draws_a_graph_that_there_is() -> None:
    almost = torch.full((1, 2, 3), 1 - 2**-24)
    assert _sample_distinct(almost, torch.tensor([3, 2**20]), torch.tensor([3, 3]))[0].tolist() == [
        [0, 1, 2],
        [2**20 - 3, 2**20 - 2, 2**20 - 1],
    ]


@pytest.mark.parametrize("by_entry", [False, True])
def test_a_member_draws_from_its_own_part_and_the_capacity_suffices(
    whole: Collection, by_entry: bool
) -> None:
    batches = TrainingBatches(
        whole, PARTS, 4, steps=25, seeds=SEEDS, by_entry=by_entry, dense=by_entry
    )
    rounds = []
    for epoch in range(3):
        capacities = batches.draw(epoch)
        assert len(capacities) == 25
        for step, capacity in enumerate(capacities):
            (indices,) = batches.load(step)
            for part, drawn in zip(PARTS, indices.graphs, strict=True):
                assert len(set(drawn.tolist())) == 4
                assert set(drawn.tolist()) <= set(part.tolist())
            needed = whole.num_nodes[indices.graphs].sum(dim=1)
            assert capacity.nodes == int(needed.max())  # on a CPU: no more than that
            entries = whole.num_entries[indices.graphs].sum(dim=1)
            assert capacity.entries == (int(entries.max()) if by_entry else None)
            largest = whole.num_nodes[indices.graphs].max()
            assert capacity.largest == (int(largest) if by_entry else None)
            assert (
                assemble(whole, indices.graphs, capacity).labels.tolist()
                == whole.labels[indices.graphs].tolist()
            )
        rounds.append(batches.drawn.clone())
    assert not torch.equal(rounds[0], rounds[1])


def test_all_steps_are_loaded_into_one_buffer(whole: Collection) -> None:
    batches = TrainingBatches(whole, PARTS, 4, steps=5, seeds=SEEDS)
    buffers = {
        batches.load(step)[0].graphs.data_ptr()
        for epoch in range(2)
        for step, _ in enumerate(batches.draw(epoch))
    }
    assert len(buffers) == 1


def test_a_members_batch_is_no_larger_than_its_part_whatever_the_others_have(
    whole: Collection,
) -> None:
    batches = TrainingBatches(whole, PARTS, 16, steps=2, seeds=SEEDS)
    batches.draw(0)
    assert batches.drawn[0, 1].tolist()[5:] == [-1] * (batches.drawn.size(2) - 5)
    assert sorted(batches.drawn[0, 1, :5].tolist()) == sorted(PARTS[1].tolist())
    torch.testing.assert_close(batches.shares.sum(dim=1), torch.ones(3))
    assert torch.equal(batches.shares > 0, batches.drawn[0] >= 0)


@pytest.mark.parametrize("size", [4, 16])
def test_a_member_draws_the_same_graphs_with_and_without_others(
    whole: Collection, size: int
) -> None:
    together = TrainingBatches(whole, PARTS, size, steps=25, seeds=SEEDS)
    for place, (part, seed) in enumerate(zip(PARTS, SEEDS, strict=True)):
        alone = TrainingBatches(whole, [part], size, steps=25, seeds=[seed])
        for epoch in range(3):
            together.draw(epoch)
            alone.draw(epoch)
            own = together.drawn[:, place]
            assert torch.equal(own[:, : alone.largest], alone.drawn[:, 0])
            assert bool((own[:, alone.largest :] == -1).all())


def test_batches_of_a_step_are_of_about_equal_size_and_still_those_that_were_drawn(
    whole: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = TrainingBatches(whole, PARTS, 4, steps=30, seeds=SEEDS)
    before: list[Tensor] = []
    matched = batches._match_sizes

    def watched(graphs: Tensor, epoch: int) -> Tensor:
        before.append(graphs.clone())
        return matched(graphs, epoch)

    monkeypatch.setattr(batches, "_match_sizes", watched)
    batches.draw(0)
    sizes = whole.num_nodes[batches.drawn].sum(dim=2)
    ranked = sizes.sum(dim=1).argsort()
    for member in range(3):
        drawn, kept = before[0][:, member].tolist(), batches.drawn[:, member].tolist()
        assert sorted(drawn) == sorted(kept)
        # The n-th largest batches of all members stand together.
        assert torch.equal(sizes[ranked, member], sizes[:, member].sort().values)
    assert sizes[:, 0].tolist() != sizes[:, 0].sort().values.tolist()


def test_a_gpu_has_few_capacities_and_each_suffices() -> None:
    sizes = torch.randint(5, 400, (500,), generator=torch.Generator().manual_seed(1))
    padded = _Sizes(sizes, [torch.arange(500)], 4)
    assert padded.largest == int(sizes.topk(4).values.sum())
    capacities = [padded.round_up(size) for size in range(1, padded.largest + 1)]
    assert all(size <= made for size, made in enumerate(capacities, 1))
    # Little of a capacity is padding, and there are few of them.
    assert all(made <= max(48, 1.5 * size) for size, made in enumerate(capacities, 1))
    assert max(capacities) < padded.largest + 8
    assert len(set(capacities)) <= 20


def test_batches_of_empty_graphs_have_a_capacity_too() -> None:
    assert _Sizes(torch.zeros(3, dtype=torch.int32), [torch.arange(3)], 2).round_up(0) == 8


def dense_features(features: Codes | Tensor, member: int) -> Tensor:
    if isinstance(features, Tensor):
        return features[member]
    own = Codes(features.code[member], features.weight[member], features.num_codes)
    return own @ torch.eye(features.num_codes)


def dense(matrix: Blocks | Adjacency, member: int, columns: int) -> Tensor:
    """One member's matrix."""
    if isinstance(matrix, Blocks):
        members = matrix.row.size(0)
        return (matrix @ torch.eye(columns).expand(members, -1, -1))[member]
    own = Adjacency(
        matrix.rowptr[member],
        matrix.col[member],
        matrix.weight[member],
        matrix.t_rowptr[member],
        matrix.t_col[member],
        matrix.t_perm[member],
    )
    return own @ torch.eye(columns)


CHOSEN = torch.tensor([[3, 0, 120, -1], [199, -1, 7, 7], [-1, -1, -1, 5]])


@pytest.mark.parametrize("by_entry", [False, True])
def test_a_batch_is_that_of_pyg(graphs: Graphs, whole: Collection, by_entry: bool) -> None:
    sizes = whole.num_nodes
    room = 3 + max(int(sizes[row[row >= 0]].sum()) for row in CHOSEN)
    entries = 500 if by_entry else None
    batch = assemble(whole, CHOSEN, Capacity(room, entries))
    single = graphs.to_data_list()
    for member, row in enumerate(CHOSEN.tolist()):
        present = [graph for graph in row if graph >= 0]
        theirs = PygBatch.from_data_list([single[graph] for graph in present])
        nodes = theirs.num_nodes
        adjacency = dense(batch.adjacency, member, room)
        expected = to_dense_adj(theirs.edge_index, max_num_nodes=nodes)[0] + torch.eye(nodes)
        assert torch.equal(adjacency[:nodes, :nodes], expected)
        # What is left is padding: it gives nothing to any node and takes nothing.
        assert int(adjacency.count_nonzero()) == int(expected.count_nonzero())
        pool = dense(batch.pool, member, room)
        slots = torch.tensor([slot for slot, graph in enumerate(row) if graph >= 0])
        owner = torch.nn.functional.one_hot(slots[theirs.batch], 4).T.float()
        assert torch.equal(pool[:, :nodes], owner)
        assert not pool[:, nodes:].any()
        degrees = theirs.edge_index[0].bincount(minlength=nodes)
        coded = dense_features(batch.features, member)[:nodes].argmax(dim=1)
        assert coded.tolist() == [sorted(set(graphs.degrees.tolist())).index(d) for d in degrees]
        known = [slot for slot, graph in enumerate(row) if graph >= 0]
        assert batch.labels[member, known].tolist() == theirs.y.tolist()


@pytest.mark.parametrize("room", [1, 40, 173, 10_000])
@pytest.mark.parametrize("by_entry", [False, True])
def test_every_graph_of_a_part_is_in_one_chunk_of_its_member(
    whole: Collection, room: int, by_entry: bool
) -> None:
    valid = [PARTS[1], PARTS[0][:3], torch.tensor([], dtype=torch.long)]
    test = [PARTS[0], PARTS[2][:31], PARTS[2]]
    parts = {"valid": valid, "test": test}
    found: dict[str, list[list[int]]] = {name: [[], [], []] for name in parts}
    members = [dict(zip(parts, own, strict=True)) for own in zip(*parts.values(), strict=True)]
    for chunk in build_chunks(whole, members, list(parts), room, by_entry=by_entry):
        taken = torch.where(chunk.graphs >= 0, whole.num_nodes[chunk.graphs.clamp(min=0)], 0)
        assert int(taken.sum(dim=1).max()) <= chunk.capacity.nodes
        assert chunk.capacity.nodes <= room or chunk.graphs.size(1) == 1
        entries = torch.where(chunk.graphs >= 0, whole.num_entries[chunk.graphs.clamp(min=0)], 0)
        if chunk.capacity.entries is not None:
            assert int(entries.sum(dim=1).max()) == chunk.capacity.entries
        assert by_entry == (chunk.capacity.entries is not None)
        inside = sum(chunk.parts.values())
        assert torch.equal(inside, (chunk.graphs >= 0).float())
        for name, mask in chunk.parts.items():
            for member in range(3):
                found[name][member] += chunk.graphs[member][mask[member] > 0].tolist()
    for name, expected in parts.items():
        for places, own in zip(found[name], expected, strict=True):
            assert sorted(places) == sorted(own.tolist())
