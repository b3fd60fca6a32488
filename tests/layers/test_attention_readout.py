"""The attention readout against loops over documents, with padding, ties and members."""

import pytest
import tiny
import torch
from torch import Tensor, nn

from quatgraph.algebra import hamilton_matrix
from quatgraph.layers import AttentionReadout
from quatgraph.layers.attention_readout import node_ptr
from quatgraph.layers.linear import GlorotLinear
from quatgraph.ops.activation import ACTIVATIONS
from quatgraph.training.ensemble import Ensemble

WIDTH, CLASSES = 8, 3
SIZES = [2, 0, 3, 1]
POOL = tiny.pool_of(SIZES)
NODES = sum(SIZES)


def nodes(*lead: int) -> Tensor:
    return torch.randn(*lead, NODES, WIDTH, dtype=torch.float64)


def built(**options: object) -> AttentionReadout:
    return AttentionReadout(WIDTH, CLASSES, **options).double()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_computes_the_papers_equations(activation, bias, real):
    options = {"linear": GlorotLinear} if real else {}
    readout, h = built(activation=activation, bias=bias, **options), nodes()
    if bias:
        nn.init.normal_(readout.linear.bias)
    w, b = readout.score.weight[0], readout.score.bias[0]
    matrix = readout.linear.weight if real else hamilton_matrix(readout.linear.weight)
    expected, g = [], ACTIVATIONS[activation]
    for part in h.split(SIZES):
        e = [
            torch.sigmoid(w @ v + b) * g(matrix @ v + (readout.linear.bias if bias else 0))
            for v in part
        ]
        graph = sum(e) * torch.stack(e).amax(dim=0) if e else torch.zeros_like(w)
        expected.append(readout.prediction.weight @ graph + readout.prediction.bias)
    torch.testing.assert_close(readout(h, POOL), torch.stack(expected))


def test_attention_is_between_nothing_and_all_and_weighs_the_nodes():
    readout, h = built(), nodes()
    weight = readout.attention(h)
    assert weight.shape == (NODES,)
    assert ((weight > 0) & (weight < 1)).all()
    e = weight[:, None] * torch.relu(readout.linear(h))
    parts = e.split(SIZES)
    graph = [p.sum(dim=0) * (p.amax(dim=0) if len(p) else 0) for p in parts]
    torch.testing.assert_close(readout(h, POOL), readout.prediction(torch.stack(graph)))


def test_dropout_acts_on_the_graphs_vectors_in_training_alone():
    readout, h = built(dropout=0.5), nodes()
    assert not torch.equal(readout(h, POOL), readout(h, POOL))
    readout.eval()
    assert torch.equal(readout(h, POOL), readout(h, POOL))


def test_starts_as_torchs_linear_maps_and_has_the_papers_parameters():
    readout = AttentionReadout(400, 20)
    for layer in (readout.score, readout.prediction):
        assert 0.9 / 20 < layer.weight.abs().max() <= 1 / 20
    assert sum(p.numel() for p in readout.parameters()) == 401 + 400 * 100 + 401 * 20


def test_gradients():
    x = nodes().requires_grad_()
    readout = built(activation="tanh", bias=True)
    weights = dict(readout.named_parameters())

    def through(x: Tensor, *values: Tensor) -> Tensor:
        state = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(readout, state, (x, POOL))

    assert torch.autograd.gradcheck(through, (x, *weights.values()))


def test_nodes_and_graphs_that_are_padding_change_nothing():
    pool, readout = tiny.batch(tiny.features("dense")).pool, built()
    h = torch.randn(3, tiny.CAPACITY, WIDTH, dtype=torch.float64)
    sizes = [[tiny.SIZES[g] if g >= 0 else 0 for g in graphs] for graphs in tiny.GRAPHS.tolist()]
    assert node_ptr(pool).tolist() == [[0, *torch.tensor(own).cumsum(0)] for own in sizes]
    for m, own in enumerate(sizes):
        h[m, sum(own) :] = 1e6
        alone = readout(h[m, : sum(own)], tiny.pool_of(own))
        torch.testing.assert_close(readout(h[m], tiny.chosen(pool, m)), alone)


@pytest.mark.parametrize("kind", ["one graph for all", "graphs of their own"])
def test_members_equal_single_readouts(kind, monkeypatch):
    monkeypatch.setattr(AttentionReadout, "supports_members", True, raising=False)
    ensemble = Ensemble([built] * 3, [0, 1, 2]).double()
    own = kind == "graphs of their own"
    pool = tiny.batch(tiny.features("dense")).pool if own else POOL
    h = torch.randn(3, pool.shape[1], WIDTH, dtype=torch.float64)
    y = ensemble(h, pool)
    for m in range(3):
        alone = built()
        alone.load_state_dict(ensemble.member(m), strict=False)
        torch.testing.assert_close(y[m], alone(h[m], tiny.chosen(pool, m) if own else pool))


def test_the_order_of_a_graphs_nodes_does_not_matter():
    readout, h = built(), nodes()
    order = torch.tensor([1, 0, 3, 4, 2, 5])
    torch.testing.assert_close(readout(h[order], POOL), readout(h, POOL))
