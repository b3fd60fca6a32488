"""The compared models as stacks of PyG's convolutions."""

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, GCNConv

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.models.node import GAT, GCN, MLP, PHM, QGNN

N, IN, CLASSES = 6, 5, 3
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_gcn_is_a_stack_of_pygs_gcnconv(layers, skip):
    model = GCN(IN, CLASSES, num_layers=layers, skip=skip).eval()
    x = features = torch.randn(N, IN)
    assert len(model.convs) == layers + 1
    for layer, conv in enumerate(model.convs):
        torch.nn.init.normal_(conv.bias)
        real = GCNConv(*conv.linear.weight.mT.shape)
        real.load_state_dict({"lin.weight": conv.linear.weight, "bias": conv.bias})
        y = real(x, EDGES)
        if skip:
            y = y + x @ model.owns[layer].weight.mT
        x = y if layer == layers else torch.relu(y)
    graph = Adjacency.of(EDGES, N)
    torch.testing.assert_close(model(features, graph), x)


@pytest.mark.parametrize("layers", [1, 2])
def test_gat_is_a_stack_of_pygs_gatconv(layers):
    model = GAT(IN, CLASSES, hidden=12, heads=3, num_layers=layers).eval()
    x = features = torch.randn(N, IN)
    assert len(model.convs) == layers + 1
    for conv in model.convs:
        real = GATConv(conv.linear.in_features, conv.att_src.size(1), conv.heads)
        real.load_state_dict(
            {
                "lin.weight": conv.linear.weight,
                "att_src": conv.att_src[None],
                "att_dst": conv.att_dst[None],
                "bias": conv.bias,
            }
        )
        y = real(x, EDGES)
        x = y if conv is model.convs[-1] else F.elu(y)
    graph = Adjacency.of(EDGES, N, normalization="none")
    torch.testing.assert_close(model(features, graph), x)


def test_an_mlp_sees_no_graph():
    model, x = MLP(IN, CLASSES, num_layers=2).eval(), torch.randn(N, IN)
    y = model(x, Adjacency.of(EDGES, N))
    assert torch.equal(model(x, Adjacency.of(EDGES[:, :2], N)), y)
    one, two, three = model.linears
    torch.testing.assert_close(y, three(torch.relu(two(torch.relu(one(x))))))


@pytest.mark.parametrize("model", [GCN, GAT, MLP])
def test_sparse_features_equal_dense_ones(model):
    built, x, graph = model(IN, CLASSES).eval(), torch.randn(N, IN).relu(), Adjacency.of(EDGES, N)
    torch.testing.assert_close(built(Adjacency.from_dense(x), graph), built(x, graph))


@pytest.mark.parametrize("model", [GCN, GAT, MLP])
def test_dropout_acts_in_training_alone(model):
    built, x, graph = model(IN, CLASSES), torch.randn(N, IN), Adjacency.of(EDGES, N)
    assert not torch.equal(built(x, graph), built(x, graph))
    built.eval()
    assert torch.equal(built(x, graph), built(x, graph))


@pytest.mark.parametrize("model", [GCN, MLP, PHM, QGNN])
def test_features_may_have_a_dropout_rate_of_their_own(model):
    x, graph = torch.rand(N, IN), Adjacency.of(EDGES, N)
    for rates, kept in (({}, False), ({"input_dropout": 0.0}, True)):
        built = model(IN, CLASSES, num_layers=1, dropout=0.5, **rates)
        trained, evaluated = (built.train(mode).embed(x, graph) for mode in (True, False))
        assert torch.equal(trained, evaluated) == kept
    assert not torch.equal(built.train()(x, graph), built.eval()(x, graph))  # hidden layers have it


@pytest.mark.parametrize("model", [GCN, GAT, MLP])
def test_a_model_without_hidden_layers_is_a_mistake(model):
    with pytest.raises(UserError, match="at least one layer, got num_layers=0"):
        model(IN, CLASSES, num_layers=0)


def test_heads_share_the_width_evenly():
    with pytest.raises(UserError, match="width of 64 reals cannot be shared among 7 heads"):
        GAT(IN, CLASSES, hidden=64, heads=7)


def test_gats_skip_connections_add_a_product_of_the_nodes_own_vector():
    plain = GAT(IN, CLASSES, hidden=12, heads=3).eval()
    model = GAT(IN, CLASSES, hidden=12, heads=3, skip=True).eval()
    model.load_state_dict(plain.state_dict(), strict=False)
    x, graph = torch.randn(N, IN), Adjacency.of(EDGES, N, normalization="none")
    hidden = F.elu(plain.convs[0](x, graph) + x @ model.owns[0].weight.mT)
    expected = plain.convs[1](hidden, graph) + hidden @ model.owns[1].weight.mT
    torch.testing.assert_close(model(x, graph), expected)
