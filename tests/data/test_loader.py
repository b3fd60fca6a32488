"""Mini-batches of nodes in PyG's terms; with all neighbours, the loss of the whole graph."""

import pytest
import torch
import torch.nn.functional as F
from sampled import DATA, NODES
from torch import Tensor
from torch_geometric.data import Data

from quatgraph import Adjacency, NeighborLoader, QGNNConv, UserError


def test_with_all_neighbours_loss_and_gradients_are_those_of_the_whole_graph() -> None:
    layers = [QGNNConv(8, 8).double() for _ in range(2)]
    weights = [p for layer in layers for p in layer.parameters()]
    whole = Adjacency.from_edge_index(DATA.edge_index, NODES, DATA.edge_weight)

    def loss(x: Tensor, adjacency: Adjacency, y: Tensor, count: int) -> Tensor:
        for layer in layers:
            x = layer(x, adjacency).relu()
        return F.cross_entropy(x[:count, :3], y[:count], reduction="sum")

    order = torch.cat((DATA.train_mask.nonzero(), (~DATA.train_mask).nonzero())).flatten()
    place = order.argsort()
    moved = Adjacency.from_edge_index(place[DATA.edge_index], NODES, DATA.edge_weight)
    expected = loss(DATA.x[order], moved, DATA.y[order], int(DATA.train_mask.sum()))
    assert moved.col.numel() == whole.col.numel()
    total = torch.zeros((), dtype=torch.float64)
    for batch in NeighborLoader(DATA, [-1, -1], input_nodes=DATA.train_mask, batch_size=7):
        part = Adjacency.from_edge_index(batch.edge_index, batch.num_nodes, batch.edge_weight)
        total = total + loss(batch.x, part, batch.y, batch.batch_size)
    torch.testing.assert_close(total, expected)
    grads = (torch.autograd.grad(one, weights) for one in (total, expected))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_rescaled_sums_are_those_of_the_whole_graph_on_average() -> None:
    whole = Adjacency.from_edge_index(DATA.edge_index, NODES, DATA.edge_weight)
    expected = (whole @ DATA.x)[0]
    loader = NeighborLoader(
        DATA, [10], input_nodes=torch.tensor([0]), rescale=True, shuffle=True, batch_size=1
    )
    sums = []
    for _ in range(600):
        (batch,) = loader
        part = Adjacency.from_edge_index(batch.edge_index, batch.num_nodes, batch.edge_weight)
        sums.append((part @ batch.x)[0])
    drawn = torch.stack(sums)
    error = drawn.std(dim=0) / len(drawn) ** 0.5
    assert ((drawn.mean(dim=0) - expected).abs() < 4 * error).all()


def test_an_epoch_has_every_node_once_in_an_order_of_its_own() -> None:
    loader = NeighborLoader(
        DATA, [2], input_nodes=DATA.train_mask, batch_size=6, shuffle=True, seed=3
    )
    assert len(loader) == 4
    epochs = [torch.cat([b.n_id[: b.batch_size] for b in loader]) for _ in range(2)]
    nodes = DATA.train_mask.nonzero().flatten()
    assert all(torch.equal(epoch.sort().values, nodes) for epoch in epochs)
    assert not torch.equal(*epochs)
    for batch in loader:
        assert torch.equal(nodes[batch.input_id], batch.n_id[: batch.batch_size])
        assert torch.equal(batch.x, DATA.x[batch.n_id])
        assert torch.equal(batch.y, DATA.y[batch.n_id])
        assert torch.equal(batch.edge_weight, DATA.edge_weight[batch.e_id])


@pytest.mark.parametrize("workers", [0, 2])
def test_the_last_mini_batch_is_dropped_on_demand_if_it_is_smaller(workers: int) -> None:
    nodes = DATA.train_mask.nonzero().flatten()
    for batch_size, count in {6: 3, 5: 4, 21: 0}.items():
        loader = NeighborLoader(
            DATA,
            [2],
            input_nodes=nodes,
            batch_size=batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
        )
        assert len(loader) == count
        epochs = [list(loader) for _ in range(3)]
        for batches in epochs:
            assert [batch.batch_size for batch in batches] == [batch_size] * count
            seen = [i for batch in batches for i in batch.input_id.tolist()]
            assert len(set(seen)) == len(seen)
        if count:
            firsts = [batches[0].input_id.tolist() for batches in epochs]
            assert len(set(map(tuple, firsts))) == 3  # every epoch has an order of its own


def test_worker_processes_give_the_same_batches() -> None:
    alone, worked = (
        [batch.e_id for _ in range(2) for batch in loader]
        for loader in (
            NeighborLoader(DATA, [3, 3], batch_size=20, shuffle=True, num_workers=workers)
            for workers in (0, 2)
        )
    )
    assert len(alone) == len(worked) == 6
    assert all(map(torch.equal, alone, worked))


def test_lists_and_pairs_of_nodes_are_selected_like_tensors() -> None:
    data = Data(x=DATA.x, edge_index=DATA.edge_index, names=[f"n{i}" for i in range(NODES)])
    data.edge_label_index = DATA.edge_index.flip(0)
    (batch,) = NeighborLoader(data, [2], input_nodes=torch.tensor([3, 1]))
    assert batch.names == [f"n{i}" for i in batch.n_id.tolist()]
    assert torch.equal(batch.edge_label_index, data.edge_label_index[:, batch.e_id])


def test_mistakes_are_told_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"shape \(60, 2\); of several splits take one column"):
        NeighborLoader(DATA, [1], input_nodes=torch.ones(60, 2, dtype=torch.bool))
    with pytest.raises(UserError, match=r"set data\.edge_index"):
        NeighborLoader(Data(x=DATA.x), [1])
    with pytest.raises(UserError, match="an entry for each of the 60 nodes, got the shape"):
        NeighborLoader(DATA, [1], input_nodes=torch.ones(3, dtype=torch.bool))
    with pytest.raises(UserError, match=r"number for each hop, got 5; use \[5, 5\] for a model"):
        NeighborLoader(DATA, 5)
    with pytest.raises(UserError, match=r"^sampler does not go with sampled neighbours"):
        NeighborLoader(DATA, [1], sampler=[0, 1])
    with pytest.raises(UserError, match="batch_size must be at least 1"):
        NeighborLoader(DATA, [1], batch_size=0)
