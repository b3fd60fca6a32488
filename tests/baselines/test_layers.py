"""The real layers against the PyG convolutions whose parameters they hold."""

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

from quatgraph.adjacency import Adjacency
from quatgraph.baselines.layers import GraphAttention, GraphConv, Linear
from quatgraph.training.ensemble import Ensemble

N, IN, OUT = 6, 5, 4
# Directed, with a loop at node 1; node 5 is alone.
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 4.0])


def assert_same(ours: Tensor, theirs: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Equal values, and equal gradients for each pair of inputs or parameters."""
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn_like(ours)
    mine = torch.autograd.grad(ours, [a for a, _ in pairs], probe)
    wanted = torch.autograd.grad(theirs, [b for _, b in pairs], probe)
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a, b.view_as(a))


def with_bias(conv: nn.Module) -> nn.Module:
    nn.init.normal_(conv.bias)
    return conv


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_graph_conv_is_pygs_gcnconv(weight):
    ours, theirs = with_bias(GraphConv(IN, OUT)), GCNConv(IN, OUT)
    theirs.load_state_dict({"lin.weight": ours.linear.weight, "bias": ours.bias})
    x = torch.randn(N, IN, requires_grad=True)
    pairs = [(x, x), (ours.linear.weight, theirs.lin.weight), (ours.bias, theirs.bias)]
    y = ours(x, Adjacency.of(EDGES, N, weight))
    assert_same(y, theirs(x, EDGES, weight), pairs)


@pytest.mark.parametrize("heads", [1, 3])
def test_graph_attention_is_pygs_gatconv(heads):
    ours, theirs = with_bias(GraphAttention(IN, OUT, heads=heads)), GATConv(IN, OUT, heads)
    theirs.load_state_dict(
        {
            "lin.weight": ours.linear.weight,
            "att_src": ours.att_src[None],
            "att_dst": ours.att_dst[None],
            "bias": ours.bias,
        }
    )
    x = torch.randn(N, IN, requires_grad=True)
    names = "att_src", "att_dst", "bias"
    pairs = [(getattr(ours, name), getattr(theirs, name)) for name in names]
    pairs += [(x, x), (ours.linear.weight, theirs.lin.weight)]
    graph = Adjacency.of(EDGES, N, normalization="none")
    assert_same(ours(x, graph), theirs(x, EDGES), pairs)


def test_attention_takes_logits_that_would_overflow():
    conv, graph = GraphAttention(IN, OUT), Adjacency.of(EDGES, N, normalization="none")
    assert conv(1e4 * torch.randn(N, IN), graph).isfinite().all()


def test_dropped_attention_is_the_whole_one_on_average():
    conv = GraphAttention(IN, OUT, dropout=0.5)
    graph = Adjacency.of(EDGES, N, normalization="none")
    x = torch.randn(N, IN)
    many = torch.vmap(lambda _: conv(x, graph), randomness="different")(torch.empty(400))
    assert many.std(dim=0).max() > 0.1
    torch.testing.assert_close(many.mean(dim=0), conv.eval()(x, graph), atol=0.2, rtol=0)


@pytest.mark.parametrize("layer", [GraphConv, GraphAttention])
def test_sparse_features_equal_dense_ones(layer):
    conv, x = with_bias(layer(IN, OUT)), torch.randn(N, IN).relu()
    graph = Adjacency.of(EDGES, N)
    torch.testing.assert_close(conv(Adjacency.from_dense(x), graph), conv(x, graph))


@pytest.mark.parametrize("bias", [False, True])
def test_linear_takes_sparse_rows_and_starts_as_glorot_says(bias):
    layer, x = Linear(IN, OUT, bias=bias), torch.randn(N, IN).relu()
    assert layer.weight.abs().max() <= (6 / (IN + OUT)) ** 0.5
    if bias:
        assert not layer.bias.any()
        with_bias(layer)
    expected = nn.functional.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(Adjacency.from_dense(x)), expected)


def test_attention_in_an_ensemble_equals_single_layers():
    def build() -> nn.Module:
        return GraphAttention(IN, OUT, heads=2)

    ensemble, x = Ensemble([build] * 3, [0, 1, 2]), torch.randn(N, IN)
    graph = Adjacency.of(EDGES, N, normalization="none")
    y = ensemble(x, graph)
    for m in range(3):
        conv = build()
        conv.load_state_dict(ensemble.member(m), strict=False)
        torch.testing.assert_close(y[m], conv(x, graph))
