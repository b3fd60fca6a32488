"""Residual convolutions against loops over their equation, and against PyG's ``GCN2Conv``."""

import math

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCN2Conv

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_product
from quatgraph.blocks import Blocks
from quatgraph.errors import UserError
from quatgraph.layers.residual import ResidualConv, ResidualGraphConv, ResidualQGNNConv
from quatgraph.training.ensemble import Ensemble

N, F = 6, 8
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 4.0])
every_layer = pytest.mark.parametrize("kind", [ResidualQGNNConv, ResidualGraphConv])


def inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(N, F, requires_grad=True), torch.randn(N, F, requires_grad=True)


def test_quaternion_layers_compute_their_equation():
    alpha, theta, layer = 0.3, 0.7, 5
    conv, (x, x_0) = ResidualQGNNConv(F, alpha, theta, layer), inputs()
    beta, graph, n = math.log(1 + theta / layer), Adjacency.of(EDGES, N).to_dense(), F // 4
    for v in range(N):
        summed = sum((1 - alpha) * graph[v, u] * x[u] for u in range(N)) + alpha * x_0[v]
        wanted = (1 - beta) * summed.view(4, n)
        for row in range(n):
            for column in range(n):
                factor = conv.linear.weight[:, row, column]
                product = hamilton_product(factor, summed[column::n])
                wanted = wanted + beta * torch.nn.functional.one_hot(
                    torch.tensor(row), n
                ) * product.view(4, 1)
        torch.testing.assert_close(conv(x, x_0, EDGES)[v], wanted.flatten())


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("layer", [1, 4])
def test_real_layers_are_pygs_gcn2conv(layer, weight):
    ours, theirs = ResidualGraphConv(F, 0.2, 0.5, layer), GCN2Conv(F, 0.2, 0.5, layer)
    theirs.weight1.data.copy_(ours.linear.weight.mT)
    x, x_0 = inputs()
    mine, wanted = ours(x, x_0, EDGES, weight), theirs(x, x_0, EDGES, weight)
    torch.testing.assert_close(mine, wanted)
    probe = torch.randn(N, F)
    of_ours = torch.autograd.grad(mine, (x, x_0, ours.linear.weight), probe)
    of_theirs = torch.autograd.grad(wanted, (x, x_0, theirs.weight1), probe)
    torch.testing.assert_close(of_ours[:2], of_theirs[:2])
    torch.testing.assert_close(of_ours[2], of_theirs[2].mT)


@pytest.mark.parametrize("layer", [1, 4])
def test_real_layers_without_shared_weights_are_pygs(layer):
    ours = ResidualGraphConv(F, 0.2, 0.5, layer, shared_weights=False)
    theirs = GCN2Conv(F, 0.2, 0.5, layer, shared_weights=False)
    theirs.weight1.data.copy_(ours.linear.weight.mT)
    theirs.weight2.data.copy_(ours.initial_linear.weight.mT)
    x, x_0 = inputs()
    torch.testing.assert_close(ours(x, x_0, EDGES), theirs(x, x_0, EDGES))


@every_layer
def test_equal_matrices_are_as_good_as_shared_ones(kind: type[ResidualConv]) -> None:
    shared, own = kind(F, 0.3), kind(F, 0.3, shared_weights=False)
    own.linear.load_state_dict(shared.linear.state_dict())
    own.initial_linear.load_state_dict(shared.linear.state_dict())
    x, x_0 = inputs()
    torch.testing.assert_close(own(x, x_0, EDGES), shared(x, x_0, EDGES))
    assert sum(p.numel() for p in own.parameters()) == 2 * shared.linear.weight.numel()


@every_layer
def test_relabelled_nodes_have_relabelled_vectors(kind: type[ResidualConv]) -> None:
    conv, (x, x_0), order = kind(F, 0.1), inputs(), torch.randperm(N)
    relabelled = conv(x[order], x_0[order], order.argsort()[EDGES])
    torch.testing.assert_close(relabelled, conv(x, x_0, EDGES)[order])


@every_layer
def test_without_mixing_and_residual_the_layer_sums(kind: type[ResidualConv]) -> None:
    conv, (x, x_0) = kind(F, 0.0, 0.0), inputs()
    torch.testing.assert_close(conv(x, x_0, EDGES), Adjacency.of(EDGES, N) @ x)


@every_layer
def test_prepared_graphs_give_the_same(kind: type[ResidualConv]) -> None:
    conv, (x, x_0) = kind(F, 0.1), inputs()
    graph = Adjacency.of(EDGES, N, WEIGHT)
    rows = torch.arange(N, dtype=torch.int32)
    blocks = Blocks(graph, rows, torch.zeros_like(rows), rows, torch.zeros_like(rows))
    wanted = conv(x, x_0, EDGES, WEIGHT)
    for prepared in (graph, blocks):
        torch.testing.assert_close(conv(x, x_0, prepared), wanted)
    double = conv.double()(x.double(), x_0.double(), EDGES)
    assert double.dtype == torch.float64


def test_a_quaternion_layer_has_a_quarter_of_the_weights():
    quaternion, real = (
        sum(p.numel() for p in kind(64, 0.1).parameters())
        for kind in (ResidualQGNNConv, ResidualGraphConv)
    )
    assert (quaternion, real) == (64 * 16, 64 * 64)


@every_layer
def test_compiles_whole(kind: type[ResidualConv]) -> None:
    conv, (x, x_0) = kind(F, 0.1), inputs()
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, x_0, EDGES), conv(x, x_0, EDGES))


@every_layer
def test_members_of_an_ensemble_equal_single_layers(kind: type[ResidualConv]) -> None:
    ensemble, (x, x_0) = Ensemble([lambda: kind(F, 0.1)] * 3, [0, 1, 2]), inputs()
    graph = Adjacency.of(EDGES, N)
    y = ensemble(x, x_0, graph)
    for m in range(3):
        alone = kind(F, 0.1)
        alone.load_state_dict(ensemble.member(m))
        torch.testing.assert_close(y[m], alone(x, x_0, graph))


@every_layer
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"alpha": 1.0}, "alpha must be at least 0 and less than 1, got 1.0"),
        ({"alpha": 0.1, "theta": -1.0}, "theta must be at least 0"),
        ({"alpha": 0.1, "layer": 0}, "layer at least 1, got 0.5 and 0"),
    ],
)
def test_settings_out_of_bounds_are_mistakes(kind, values, message):
    with pytest.raises(UserError, match=message):
        kind(F, **values)
