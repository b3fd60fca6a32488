"""The gated layer against the paper's equations, node by node and quaternion by quaternion."""

import math

import pytest
import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_product
from quatgraph.errors import UserError
from quatgraph.layers import GatedGNNConv, GatedQGNNConv, QuaternionLinear
from quatgraph.layers.linear import GlorotLinear
from quatgraph.training.ensemble import Ensemble

N, WIDTH = 5, 8
EDGES = torch.tensor([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])  # node 4 is alone

both = pytest.mark.parametrize("kind", [GatedQGNNConv, GatedGNNConv])
with_and_without_bias = pytest.mark.parametrize("bias", [False, True])


@pytest.fixture
def graph() -> Adjacency:
    weight = torch.rand(EDGES.size(1))
    return Adjacency.from_edge_index(EDGES, N, weight)


def built(kind: type[GatedQGNNConv], **options: object) -> GatedQGNNConv:
    conv = kind(WIDTH, **options).double()
    if conv.of_sum.bias is not None:
        nn.init.normal_(conv.of_sum.bias)
    return conv


def gate(conv: GatedQGNNConv, name: str, place: int) -> tuple[Tensor, Tensor]:
    """Matrix and bias of one gate: those of its rows in what is multiplied at once."""
    layer, c = conv.get_submodule(name), conv.components
    size = WIDTH // c
    weight = layer.weight.view(c, -1, size)[:, place * size : (place + 1) * size]
    bias = torch.zeros(layer.weight[..., 0].numel()) if layer.bias is None else layer.bias
    return weight, bias.view(c, -1)[:, place * size : (place + 1) * size]


def product(weight: Tensor, x: Tensor) -> Tensor:
    """Of one node's vector, number by number, ``(components, size)``."""
    c, rows, columns = weight.shape
    parts = x.view(c, columns)
    y = torch.zeros(c, rows, dtype=x.dtype)
    for m in range(rows):
        for n in range(columns):
            w, v = weight[:, m, n], parts[:, n]
            y[:, m] += hamilton_product(w, v) if c == 4 else w * v
    return y


def step_by_loops(conv: GatedQGNNConv, h: Tensor, matrix: Tensor) -> Tensor:
    renewed = []
    for v in range(len(h)):
        a = sum((matrix[v, u] * h[u] for u in range(len(h))), torch.zeros_like(h[v]))
        (w_z, b_z), (w_r, b_r), (w_o, b_o) = (gate(conv, "of_sum", place) for place in range(3))
        (u_z, _), (u_r, _) = (gate(conv, "of_own", place) for place in range(2))
        u_o, _ = gate(conv, "of_reset", 0)
        own = h[v].view(conv.components, -1)
        z = torch.sigmoid(product(w_z, a) + product(u_z, h[v]) + b_z)
        r = torch.sigmoid(product(w_r, a) + product(u_r, h[v]) + b_r)
        candidate = torch.relu(product(w_o, a) + product(u_o, (r * own).flatten()) + b_o)
        renewed.append(((1 - z) * own + z * candidate).flatten())
    return torch.stack(renewed)


@both
@with_and_without_bias
@pytest.mark.parametrize("steps", [1, 2])
def test_computes_the_papers_equations(kind, bias, steps, graph):
    conv, x = built(kind, steps=steps, bias=bias), torch.randn(N, WIDTH, dtype=torch.float64)
    expected = x
    for _ in range(steps):
        expected = step_by_loops(conv, expected, graph.to_dense().double())
    torch.testing.assert_close(conv(x, graph), expected)


@both
@with_and_without_bias
def test_each_of_the_six_matrices_starts_as_a_layer_of_its_own(kind, bias):
    width = 160
    conv, alone = kind(width, bias=bias), kind.linear(width, width, bias=bias)
    bound = alone.weight.abs().max()
    size = width // conv.components
    glorot = math.sqrt(6 / (size + conv.components * size))
    assert 0.99 * glorot < bound <= glorot
    for layer, gates in ((conv.of_sum, 3), (conv.of_own, 2), (conv.of_reset, 1)):
        for part in layer.weight.view(conv.components, gates, size, size).unbind(dim=1):
            assert 0.99 * glorot < part.abs().max() <= glorot
    assert conv.of_own.bias is None
    assert conv.of_reset.bias is None
    assert (conv.of_sum.bias is not None) == bias
    assert not bias or not conv.of_sum.bias.any()


@both
def test_reset_draws_all_anew(kind):
    conv = built(kind, bias=True)
    before = [p.clone() for p in conv.parameters()]
    conv.reset_parameters()
    assert not any(map(torch.equal, conv.parameters(), before))
    assert not conv.of_sum.bias.any()


def test_holds_a_quarter_of_the_weights_of_the_real_one():
    ours, real = (
        sum(p.numel() for p in kind(WIDTH).parameters()) for kind in (GatedQGNNConv, GatedGNNConv)
    )
    assert 4 * ours == real == 6 * WIDTH**2


@both
def test_the_update_gate_lies_between_nothing_and_all(kind, graph):
    x = 10 * torch.randn(N, WIDTH)
    conv = kind(WIDTH, steps=1)
    with torch.no_grad():  # a candidate of zeros: what is left is 1 - z
        conv.of_reset.weight.zero_()
        gate(conv, "of_sum", 2)[0].zero_()
    left = conv(x, graph) / x
    assert (left >= -1e-6).all()
    assert (left <= 1 + 1e-6).all()
    assert left.std() > 0.1


@both
def test_steps_are_taken_with_the_same_weights(kind, graph):
    two, one = kind(WIDTH, steps=2), kind(WIDTH, steps=1)
    one.load_state_dict(two.state_dict())
    x = torch.randn(N, WIDTH)
    torch.testing.assert_close(two(x, graph), one(one(x, graph), graph))


@both
def test_relabelled_nodes_get_the_same_vectors(kind, graph):
    conv, x, order = kind(WIDTH), torch.randn(N, WIDTH), torch.randperm(N)
    relabelled = Adjacency.from_dense(graph.to_dense()[order][:, order])
    torch.testing.assert_close(conv(x[order], relabelled), conv(x, graph)[order])


@both
def test_a_plain_edge_index_is_normalised_without_loops(kind):
    conv, x = kind(WIDTH), torch.randn(N, WIDTH)
    prepared = Adjacency.from_edge_index(EDGES, N).normalized("symmetric")
    torch.testing.assert_close(conv(x, EDGES), conv(x, prepared))


@both
def test_nodes_without_neighbours_have_only_themselves(kind):
    conv = kind(WIDTH)
    x = torch.randn(1, WIDTH)
    nothing = torch.zeros(2, 0, dtype=torch.long)
    batched = conv(torch.cat((x, torch.randn(2, WIDTH))), torch.tensor([[1, 2], [2, 1]]))
    torch.testing.assert_close(conv(x, nothing), batched[:1])


@both
@with_and_without_bias
def test_gradients(kind, bias, graph):
    conv = built(kind, bias=bias, activation="tanh")
    x = torch.randn(N, WIDTH, dtype=torch.float64, requires_grad=True)
    weights = dict(conv.named_parameters())

    def through(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(conv, dict(zip(weights, values, strict=True)), (x, graph))

    assert torch.autograd.gradcheck(through, (x, *weights.values()), fast_mode=True)


@both
@pytest.mark.parametrize("supports_members", [False, True])
def test_members_equal_single_layers(kind, supports_members, graph, monkeypatch):
    monkeypatch.setattr(kind, "supports_members", supports_members, raising=False)
    ensemble = Ensemble([lambda: built(kind, bias=True)] * 3, [0, 1, 2]).double()
    x = torch.randn(3, N, WIDTH, dtype=torch.float64)
    y = ensemble(x, graph, in_dims=(0, None))
    for m in range(3):
        alone = built(kind, bias=True)
        alone.load_state_dict(ensemble.member(m))
        torch.testing.assert_close(y[m], alone(x[m], graph))


@both
def test_a_layer_without_steps_is_a_mistake(kind):
    with pytest.raises(UserError, match="at least one step, got steps=0"):
        kind(WIDTH, steps=0)


def test_only_the_quaternion_layer_needs_a_multiple_of_four(graph):
    with pytest.raises(UserError, match="got 6: use 8"):
        GatedQGNNConv(6)
    assert GatedGNNConv(6)(torch.randn(N, 6), graph).shape == (N, 6)


@with_and_without_bias
def test_the_real_linear_starts_as_glorots(bias):
    layer = GlorotLinear(200, 100, bias=bias)
    bound = math.sqrt(6 / 300)
    assert 0.99 * bound < layer.weight.abs().max() <= bound
    assert layer.bias is None or not layer.bias.any()
    assert sum(p.numel() for p in QuaternionLinear(200, 100).parameters()) * 4 == 200 * 100


@both
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by torch
def test_compiles_whole_with_its_gradient(kind):
    conv, x = built(kind), torch.randn(N, WIDTH, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    (mine,) = torch.autograd.grad(compiled(x, EDGES).square().sum(), x)
    (wanted,) = torch.autograd.grad(conv(x, EDGES).square().sum(), x)
    torch.testing.assert_close(mine, wanted)


@both
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # addmm_ member by member
def test_each_sample_has_its_gradient(kind, graph):
    conv, xs = built(kind), torch.randn(3, N, WIDTH, dtype=torch.float64)
    gradients = torch.vmap(torch.func.grad(lambda x: conv(x, graph).square().sum()))(xs)
    for x, mine in zip(xs, gradients, strict=True):
        x.requires_grad_()
        (wanted,) = torch.autograd.grad(conv(x, graph).square().sum(), x)
        torch.testing.assert_close(mine, wanted)
