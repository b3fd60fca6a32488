"""The attention readout against loops over documents, with padding, ties and members."""

import pytest
import tiny
import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix
from quatgraph.layers import AttentionReadout
from quatgraph.layers.attention_readout import owners, pooled_max, starts
from quatgraph.layers.linear import GlorotLinear
from quatgraph.training.ensemble import Ensemble

WIDTH, CLASSES = 8, 3
SIZES = [2, 0, 3, 1]
POOL = tiny.pool_of(SIZES)
NODES = sum(SIZES)


def nodes(*lead: int) -> Tensor:
    return torch.randn(*lead, NODES, WIDTH, dtype=torch.float64)


def built(**options: object) -> AttentionReadout:
    return AttentionReadout(WIDTH, CLASSES, **options).double()


@pytest.mark.parametrize("activation", [torch.relu, torch.tanh])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_computes_the_papers_equations(activation, bias, real):
    options = {"linear": GlorotLinear} if real else {}
    readout, h = built(activation=activation, bias=bias, **options), nodes()
    if bias:
        nn.init.normal_(readout.linear.bias)
    w, b = readout.score.weight[0], readout.score.bias[0]
    matrix = readout.linear.weight if real else hamilton_matrix(readout.linear.weight)
    expected = []
    for part in h.split(SIZES):
        e = [
            torch.sigmoid(w @ v + b) * activation(matrix @ v + (readout.linear.bias if bias else 0))
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
    graph = (POOL @ e) * pooled_max(e, POOL)
    torch.testing.assert_close(readout(h, POOL), readout.prediction(graph))


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


def test_the_maximum_is_that_of_each_graphs_rows_whatever_their_sign():
    x = nodes() - 5
    expected = [part.amax(dim=0) if len(part) else part.sum(dim=0) for part in x.split(SIZES)]
    torch.testing.assert_close(pooled_max(x, POOL), torch.stack(expected))


def test_equal_rows_share_the_gradient_as_in_amax():
    x = torch.tensor([[1.0, 0], [1, 0], [3, -1], [2, -1], [3, -1], [0, 0]], requires_grad=True)
    probe = torch.tensor([[-6.0, 6], [1, 1], [-3, 9], [1, -1]])
    (grad,) = torch.autograd.grad(pooled_max(x, POOL), x, probe)
    parts = zip(x.split(SIZES), probe, strict=True)
    wanted = sum((part.amax(dim=0) * p).sum() for part, p in parts if len(part))
    torch.testing.assert_close(grad, torch.autograd.grad(wanted, x)[0])


def test_gradients():
    x = nodes().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: pooled_max(x, POOL), x)
    readout = built(activation=torch.tanh, bias=True)
    weights = dict(readout.named_parameters())

    def through(x: Tensor, *values: Tensor) -> Tensor:
        state = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(readout, state, (x, POOL))

    assert torch.autograd.gradcheck(through, (x, *weights.values()))


def test_nodes_and_graphs_that_are_padding_change_nothing():
    pool = tiny.batch(tiny.features("dense")).pool
    x = torch.randn(3, tiny.CAPACITY, WIDTH, dtype=torch.float64)
    sizes = [[tiny.SIZES[g] if g >= 0 else 0 for g in graphs] for graphs in tiny.GRAPHS.tolist()]
    for m, own in enumerate(sizes):
        x[m, sum(own) :] = 1e6
    x.requires_grad_()
    y = pooled_max(x, pool)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert starts(pool).tolist() == [[0, *torch.tensor(own).cumsum(0)] for own in sizes]
    for m, own in enumerate(sizes):
        taken = x[m, : sum(own)]
        torch.testing.assert_close(y[m], pooled_max(taken, tiny.pool_of(own)))
        torch.testing.assert_close(pooled_max(x[m], tiny.chosen(pool, m)), y[m])
        assert not grad[m, sum(own) :].any()
        assert (owners(starts(pool), tiny.CAPACITY)[m, sum(own) :] == len(own)).all()


@pytest.mark.parametrize("kind", ["one graph for all", "graphs of their own"])
def test_members_equal_single_readouts(kind, monkeypatch):
    monkeypatch.setattr(AttentionReadout, "takes_members", True, raising=False)
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


@pytest.mark.gpu
def test_values_and_gradients_repeat_bit_for_bit_and_equal_the_cpus():
    sizes = torch.randint(40, (500,))
    pool, width = tiny.pool_of(sizes.tolist()), 96
    x = torch.randn(4, int(sizes.sum()), width).relu()
    probe = torch.randn(4, len(sizes), width)

    def both(x: Tensor, pool: Adjacency, probe: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone().requires_grad_()
        y = pooled_max(x, pool)
        return y.detach(), torch.autograd.grad(y, x, probe)[0]

    there = x.cuda(), pool.to("cuda"), probe.cuda()
    first = both(*there)
    torch.testing.assert_close(tuple(v.cpu() for v in first), both(x, pool, probe))
    for _ in range(20):
        assert all(map(torch.equal, both(*there), first))
