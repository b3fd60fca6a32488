"""Hyperbolic convolutions against the steps of their paper, in float64, point by point."""

import math

import pytest
import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.layers.hyperbolic import HyperbolicConv
from quatgraph.poincare import exp0, log0, mobius_add, project
from quatgraph.training.ensemble import Ensemble

N, IN, OUT = 6, 5, 4
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
GRAPH = Adjacency.of(EDGES, N, normalization="row")


def layer(**options: object) -> HyperbolicConv:
    conv = HyperbolicConv(IN, OUT, **options)
    if conv.bias is not None:
        torch.nn.init.normal_(conv.bias)
    return conv.eval()


def by_points(conv: HyperbolicConv, u: Tensor, c: Tensor) -> Tensor:
    """The paper's layer: points in, points out, each step within the ball."""
    weight, matrix = conv.weight.double(), GRAPH.to_dense().double()

    def move(v: Tensor) -> Tensor:
        return project(exp0(v, c), c)

    x = [move(row) for row in u.double()]
    x = [move(weight @ log0(one, c)) for one in x]
    if conv.bias is not None:
        shift = move(conv.bias.double())
        x = [project(mobius_add(one, shift, c), c) for one in x]
    x = [move(sum(matrix[v, w] * log0(x[w], c) for w in range(N))) for v in range(N)]
    return torch.stack([move(torch.relu(log0(one, c))) for one in x])


@pytest.mark.parametrize("curvature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_computes_the_steps_of_the_paper(bias, curvature, scale):
    conv, u = layer(bias=bias, curvature=curvature).double(), scale * torch.randn(N, IN).double()
    c = torch.tensor(curvature, dtype=torch.float64)
    graph = GRAPH.with_weight(GRAPH.weight.double())
    torch.testing.assert_close(exp0(conv(u, graph), c), by_points(conv, u, c), rtol=1e-5, atol=1e-6)


def test_without_bias_it_is_a_gcn_layer_whatever_the_curvature():
    u = 0.1 * torch.randn(N, IN)
    for curvature in (0.1, 1.0, 2.0):
        conv = layer(bias=False, curvature=curvature)
        torch.testing.assert_close(conv(u, GRAPH), torch.relu(GRAPH @ (u @ conv.weight.mT)))


def test_a_bias_makes_the_curvature_matter():
    u, outputs = torch.randn(N, IN), []
    conv = layer()
    for curvature in (0.1, 1.0):
        conv.curvature.data.fill_(math.log(math.expm1(curvature)))
        outputs.append(conv(u, GRAPH))
    assert not torch.allclose(*outputs, rtol=1e-2)


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_sparse_features_equal_dense_ones(scale):
    conv, u = layer(), scale * torch.randn(N, IN).relu()
    u[2] = 0  # a node without features
    torch.testing.assert_close(conv(Adjacency.from_dense(u), GRAPH), conv(u, GRAPH))


@pytest.mark.parametrize("size", [0.0, 1e-20, 1.0, 1e10])
def test_gradients_are_finite_at_the_origin_and_at_the_boundary(size):
    conv, u = layer(), (size * torch.randn(N, IN)).requires_grad_()
    for features in (u, Adjacency.from_dense(u.detach() + (size == 0))):
        grads = torch.autograd.grad(conv(features, GRAPH).sum(), list(conv.parameters()))
        assert all(bool(grad.isfinite().all()) for grad in grads)
    (grad,) = torch.autograd.grad(conv(u, GRAPH).sum(), u)
    assert bool(grad.isfinite().all())


def test_dropout_masks_the_weights_in_training_alone():
    conv, u = layer(dropout=0.5, bias=False), 0.1 * torch.eye(N)[:, :IN]
    assert torch.equal(conv(u, GRAPH), conv(u, GRAPH))
    conv.train()
    assert not torch.equal(conv(u, GRAPH), conv(u, GRAPH))


def test_a_fixed_curvature_is_no_parameter():
    learned, fixed = (
        {name for name, _ in layer(learned_curvature=how).named_parameters()}
        for how in (True, False)
    )
    assert learned - fixed == {"curvature"}
    assert "curvature" in layer(learned_curvature=False).state_dict()


def test_relabelled_nodes_have_relabelled_vectors():
    conv, u, order = layer(), torch.randn(N, IN), torch.randperm(N)
    graph = Adjacency.of(order.argsort()[EDGES], N, normalization="row")
    torch.testing.assert_close(conv(u[order], graph), conv(u, GRAPH)[order])


def test_compiles_whole():
    conv, u = layer(), torch.randn(N, IN)
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(u, GRAPH), conv(u, GRAPH))


@pytest.mark.parametrize("learned", [True, False])
def test_members_of_an_ensemble_equal_single_layers(learned):
    ensemble = Ensemble([lambda: layer(learned_curvature=learned)] * 3, [0, 1, 2]).eval()
    u = torch.randn(N, IN)
    y = ensemble(u, GRAPH)
    for m in range(3):
        alone = layer(learned_curvature=learned)
        alone.load_state_dict(ensemble.member(m), strict=False)
        torch.testing.assert_close(y[m], alone(u, GRAPH))
