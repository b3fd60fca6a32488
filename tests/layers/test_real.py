"""The real layers against the PyG convolutions whose parameters they hold."""

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv
from torch_geometric.utils import remove_self_loops

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.layers.real import (
    GraphAttention,
    GraphConv,
    LinearOfSums,
    NeighbourMean,
    SumPerceptron,
)
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


def test_neighbour_mean_is_pygs_sageconv():
    ours, theirs = NeighbourMean(IN, OUT), SAGEConv(IN, OUT)
    weights = {
        "lin_l.weight": ours.neighbours.weight,
        "lin_l.bias": ours.own.bias,
        "lin_r.weight": ours.own.weight,
    }
    theirs.load_state_dict(weights)
    x = torch.randn(N, IN, requires_grad=True)
    pairs = [(value, theirs.get_parameter(name)) for name, value in weights.items()]
    graph = Adjacency.of(EDGES, N, self_loops=False, normalization="row")
    assert_same(ours(x, graph), theirs(x, EDGES), [(x, x), *pairs])


@pytest.mark.parametrize("training", [True, False])
def test_sum_perceptron_is_pygs_ginconv(training):
    ours = SumPerceptron(IN, OUT)
    norm = nn.BatchNorm1d(OUT)
    layers = nn.Linear(IN, OUT), norm, nn.ReLU(), nn.Linear(OUT, OUT)
    theirs = GINConv(nn.Sequential(*layers), eps=0.0, train_eps=False)
    parts = list(zip((ours.first, ours.norm, ours.second), layers[:2] + layers[3:], strict=True))
    for mine, wanted in parts:
        nn.init.normal_(mine.bias)
        wanted.load_state_dict(mine.state_dict(), strict=False)
    ours.train(training)
    theirs.train(training)
    x = torch.randn(N, IN, requires_grad=True)
    pairs = [(a, b) for m, w in parts for a, b in ((m.weight, w.weight), (m.bias, w.bias))]
    edges, _ = remove_self_loops(EDGES)  # PyG adds the node itself to a loop it has
    y = ours(x, Adjacency.of(EDGES, N, normalization="none"))
    assert_same(y, theirs(x, edges), [(x, x), *pairs])
    torch.testing.assert_close(ours.norm.running_var, norm.running_var)


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


@pytest.mark.parametrize("layer", [GraphConv, NeighbourMean, SumPerceptron, GraphAttention])
def test_sparse_and_one_hot_features_equal_dense_ones(layer):
    conv, x = layer(IN, OUT), torch.randn(N, IN).relu()
    graph = Adjacency.of(EDGES, N)
    torch.testing.assert_close(conv(Adjacency.from_dense(x), graph), conv(x, graph))
    codes, one_hot = random_codes()
    torch.testing.assert_close(conv(codes, graph), conv(one_hot, graph))


def random_codes() -> tuple[Codes, Tensor]:
    """Codes, one of them unknown, and the same as a matrix."""
    code, known = torch.randint(IN, (N,)), torch.ones(N)
    known[2] = 0
    return Codes(code.int(), known, IN), nn.functional.one_hot(code, IN) * known[:, None]


def test_a_linear_map_of_sums_is_one_for_dense_sparse_and_one_hot_rows():
    layer, x = LinearOfSums(IN, OUT), torch.randn(N, IN).relu()
    graph = Adjacency.of(EDGES, N)
    expected = nn.functional.linear(graph.to_dense() @ x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x, graph), expected)
    torch.testing.assert_close(layer(Adjacency.from_dense(x), graph), expected)
    codes, one_hot = random_codes()
    torch.testing.assert_close(layer(codes, graph), layer(one_hot, graph))


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


def padded(graph: Adjacency, count: int) -> Adjacency:
    """The graph with so many entries of weight zero after its own, from its first node."""
    return Adjacency.from_entries(
        torch.cat((graph.receiver, torch.full((count,), N - 1))),
        torch.cat((graph.sender, torch.zeros(count, dtype=torch.int32))),
        torch.cat((graph.weight, torch.zeros(count))),
        graph.shape,
    )


def test_entries_of_weight_zero_have_no_attention_however_large_their_logits():
    conv = with_bias(GraphAttention(IN, OUT, heads=2)).double()
    graph = Adjacency.of(EDGES, N, normalization="none")
    for scale in (-1e4, 1.0, 1e4):
        x = torch.randn(N, IN, dtype=torch.float64)
        x[0] *= scale
        pairs = [(x.requires_grad_(), x), *((p, p) for p in conv.parameters())]
        assert_same(conv(x, padded(graph, 3)), conv(x, graph), pairs)


def test_rows_without_entries_receive_nothing_and_give_no_nan():
    conv, x = with_bias(GraphAttention(IN, OUT, heads=2)), torch.randn(N, IN, requires_grad=True)
    nowhere = Adjacency.from_edge_index(EDGES, N).with_weight(torch.zeros(EDGES.size(1)))
    y = conv(x, nowhere)
    assert torch.equal(y, conv.bias.expand_as(y))
    y.sum().backward()
    assert not x.grad.any()
    alone = conv(x, Adjacency.from_edge_index(EDGES, N))[5]
    assert torch.equal(alone, conv.bias)


def test_attention_in_an_ensemble_takes_a_graph_for_each_member():
    def build() -> nn.Module:
        return GraphAttention(IN, OUT, heads=2)

    ensemble = Ensemble([build] * 2, [0, 1]).double()
    edges = EDGES, EDGES.flip(0)[:, 1:]  # one edge less
    graphs = [Adjacency.of(one, N, normalization="none") for one in edges]
    graphs = [padded(graph, count) for graph, count in zip(graphs, (3, 4), strict=True)]
    stacked = pytree.tree_map(lambda *parts: torch.stack(parts), *graphs)
    x = torch.randn(2, N, IN, dtype=torch.float64, requires_grad=True)
    y = ensemble(x, stacked, in_dims=(0, 0))
    for m in range(2):
        conv = build().double()
        conv.load_state_dict(ensemble.member(m), strict=False)
        expected = conv(x[m], graphs[m])
        torch.testing.assert_close(y[m], expected)
        (mine,) = torch.autograd.grad(y[m].square().sum(), x, retain_graph=True)
        (wanted,) = torch.autograd.grad(expected.square().sum(), x)
        torch.testing.assert_close(mine, wanted)
