"""QGINConv against its equation and PyG's GINConv and GINEConv."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GINConv, GINEConv
from twins import EDGES, IN, OUT, SENDERS, N, all_nodes, assert_same, features

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix, hamilton_matrix_tiled
from quatgraph.errors import UserError
from quatgraph.layers import QGINConv, QuaternionLinear

EDGE_DIM = 5


def perceptron() -> nn.Sequential:
    return nn.Sequential(
        QuaternionLinear(4 * IN, 4 * OUT, bias=True), nn.ReLU(), QuaternionLinear(4 * OUT, 4 * OUT)
    )


def built(**settings: object) -> QGINConv:
    conv = QGINConv(perceptron(), **settings).double()
    for name, value in conv.named_parameters():
        if "bias" in name:
            nn.init.normal_(value)
    return conv


def in_pyg(conv: QGINConv, kind: type[nn.Module] = GINConv, **settings: object) -> nn.Module:
    """PyG's layer with the real matrices of the quaternion weights."""
    first, second = nn.Linear(4 * IN, 4 * OUT), nn.Linear(4 * OUT, 4 * OUT, bias=False)
    real = kind(nn.Sequential(first, nn.ReLU(), second), **settings).double()  # which resets them
    weight = hamilton_matrix(conv.nn[0].weight)
    first.load_state_dict({"weight": weight, "bias": conv.nn[0].bias})
    second.load_state_dict({"weight": hamilton_matrix(conv.nn[2].weight)})
    if conv.edge_linear is not None:
        weight = hamilton_matrix_tiled(conv.edge_linear.weight)
        real.lin.load_state_dict({"weight": weight, "bias": conv.edge_linear.bias})
    return real


@pytest.mark.parametrize("edge_dim", [None, EDGE_DIM])
def test_is_the_equation(edge_dim):
    conv, x = built(eps=0.3, edge_dim=edge_dim), features()
    edge_attr = None if edge_dim is None else features(edge_dim, EDGES.size(1))
    rows = []
    for v, senders in enumerate(SENDERS):
        row = (1 + 0.3) * x[v]
        for u in senders:
            if edge_dim is None:
                row = row + x[u]
            else:
                edge = conv.edge_linear(edge_attr[EDGES.T.tolist().index([u, v])])
                row = row + (x[u] + edge).clamp(min=0)
        rows.append(conv.nn(row))
    torch.testing.assert_close(conv(x, EDGES, edge_attr), torch.stack(rows), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("train_eps", [False, True])
def test_is_pygs_ginconv_with_the_matrix_of_the_quaternions(train_eps):
    conv, x = built(eps=0.3, train_eps=train_eps), features()
    theirs = in_pyg(conv, eps=0.3, train_eps=train_eps)
    assert_same(conv(x, EDGES), theirs(x, EDGES), x)
    assert ("eps" in dict(conv.named_parameters())) == train_eps
    assert "eps" in conv.state_dict()


def test_is_pygs_gineconv_with_the_matrix_of_the_quaternions():
    conv, x = built(edge_dim=EDGE_DIM), features()
    theirs = in_pyg(conv, GINEConv, edge_dim=EDGE_DIM)
    edge_attr = features(EDGE_DIM, EDGES.size(1))
    assert_same(conv(x, EDGES, edge_attr), theirs(x, EDGES, edge_attr), x, edge_attr)


def test_edge_features_as_wide_as_nodes_need_no_map_as_in_gineconv():
    conv, x = built(), features()
    edge_attr = features(4 * IN, EDGES.size(1))
    theirs = in_pyg(conv, GINEConv)
    assert_same(conv(x, EDGES, edge_attr), theirs(x, EDGES, edge_attr), x, edge_attr)


def test_a_prepared_graph_is_used_as_it_is_with_its_weights():
    conv, x, weight = built(), features(), torch.rand(EDGES.size(1), dtype=torch.float64)
    adjacency = Adjacency.from_edge_index(EDGES, N, weight)
    assert_same(conv(x, adjacency), conv.nn(x + adjacency.to_dense() @ x), x)
    torch.testing.assert_close(
        conv.float()(x.float(), all_nodes(adjacency.with_weight(adjacency.weight.float()))),
        conv(x.float(), adjacency),
    )


def test_learned_eps_has_a_gradient_and_is_reset():
    conv, x = QGINConv(perceptron(), eps=0.3, train_eps=True), torch.randn(N, 4 * IN)
    conv(x, EDGES).square().sum().backward()
    assert conv.eps.grad.any()
    before = conv.nn[0].weight.clone()
    nn.init.ones_(conv.eps)
    conv.reset_parameters()
    assert conv.eps.item() == pytest.approx(0.3)
    assert not torch.equal(conv.nn[0].weight, before)


def test_has_a_quarter_of_the_weights_of_ginconv():
    ours = sum(p.numel() for p in QGINConv(QuaternionLinear(64, 64)).parameters())
    theirs = sum(p.numel() for p in GINConv(nn.Linear(64, 64, bias=False)).parameters())
    assert 4 * ours == theirs


@pytest.mark.parametrize(
    "first",
    [nn.ReLU(), nn.Sequential(), QuaternionLinear(3, 4, tiled=True), QuaternionLinear(-1, 4)],
)
def test_edge_features_need_a_known_width_of_quaternions(first):
    with pytest.raises(UserError, match="starts with a layer of quaternion features"):
        QGINConv(first, edge_dim=2)


def test_inputs_that_do_not_fit_are_mistakes():
    x = torch.randn(N, 4)
    with pytest.raises(UserError, match="call it with edge_attr"):
        QGINConv(QuaternionLinear(4, 4), edge_dim=2)(x, EDGES)
    with pytest.raises(UserError, match="are 2 wide and those of nodes 4: set edge_dim"):
        QGINConv(QuaternionLinear(4, 4))(x, EDGES, torch.randn(7, 2))
    with pytest.raises(UserError, match="takes one node matrix"):
        QGINConv(QuaternionLinear(4, 4))(Adjacency.from_dense(x), EDGES)
    graph = all_nodes(Adjacency.from_edge_index(EDGES, N))
    with pytest.raises(UserError, match="cannot use Blocks"):
        QGINConv(QuaternionLinear(4, 4), edge_dim=2)(x, graph, torch.randn(7, 2))


def test_a_number_is_no_module():
    with pytest.raises(UserError, match=r"nn must be a module, such as .*, got 3"):
        QGINConv(3)
