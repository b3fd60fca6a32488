"""QGNN against the paper's equations, written as loops."""

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix_tiled, hamilton_product
from quatgraph.errors import UserError
from quatgraph.models.common import four_copies
from quatgraph.models.node import QGNN

N, IN, CLASSES = 6, 5, 3
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])


@pytest.fixture
def graph() -> Adjacency:
    return Adjacency.of(EDGES, N)


def product(weight: Tensor, h: Tensor) -> Tensor:
    """W (x) h for one vector of quaternions."""
    _, m, n = weight.shape
    y = torch.zeros(4, m)
    for row in range(m):
        for col in range(n):
            y[:, row] += hamilton_product(weight[:, row, col], h[col::n])
    return y.flatten()


def summed(graph: Adjacency, messages: list[Tensor]) -> list[Tensor]:
    rows = graph.to_dense()
    return [sum(a * m for a, m in zip(row, messages, strict=True)) for row in rows]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "none"])
@pytest.mark.parametrize("layers", [1, 2])
def test_computes_the_papers_equations(graph, layers, activation, skip):
    model = QGNN(
        IN, CLASSES, hidden_quats=2, num_layers=layers, activation=activation, skip=skip
    ).eval()
    g = {"relu": torch.relu, "tanh": torch.tanh, "elu": torch.nn.functional.elu}
    features = torch.randn(N, IN)
    h = [row.repeat(4) for row in features]
    for layer in range(layers):
        weight = model.convs[layer].linear.weight
        new = summed(graph, [product(weight, one) for one in h])
        if skip:
            own = model.owns[layer].weight
            new = [y + product(own, one) for y, one in zip(new, h, strict=True)]
        h = [g[activation](y) if activation in g else y for y in new]
    logits = torch.stack(summed(graph, [model.prediction.weight @ one for one in h]))
    if skip:
        logits = logits + torch.stack(h) @ model.own_prediction.weight.mT
    torch.testing.assert_close(model(features, graph), logits)


def test_on_tiled_features_one_layer_is_a_gcn_layer_with_a_matrix_of_its_own(graph):
    conv, x = QGNN(IN, CLASSES).convs[0], torch.randn(N, IN)
    real = GCNConv(IN, 16, bias=False)
    real.lin.weight.data.copy_(hamilton_matrix_tiled(conv.linear.weight))
    torch.testing.assert_close(conv(x, graph), real(x, EDGES))
    # Any real matrix is one: the quaternion weights that give it are the inverse mix of signs.
    wanted = torch.randn(16, IN)
    signs = hamilton_matrix_tiled(torch.eye(4).view(4, 4, 1, 1)).view(4, 4)
    weight = torch.einsum("pa,pmn->amn", torch.linalg.inv(signs), wanted.view(4, 4, IN))
    torch.testing.assert_close(hamilton_matrix_tiled(weight), wanted)


@pytest.mark.parametrize("skip", [False, True])
def test_dense_sparse_and_four_copies_are_one_input_without_dropout(graph, skip):
    model = QGNN(IN, CLASSES, num_layers=2, skip=skip).eval()
    x = torch.randn(N, IN).relu()
    sparse = Adjacency.from_dense(x)
    expected = model(x, graph)
    for same in (sparse, four_copies(x), four_copies(sparse)):
        torch.testing.assert_close(model(same, graph), expected)


def test_four_copies_are_masked_each_by_itself(graph):
    x = torch.ones(N, IN)
    for features in (x, Adjacency.from_dense(x)):
        copies = QGNN(IN, CLASSES).input_dropout(four_copies(features))
        dense = copies.to_dense() if isinstance(copies, Adjacency) else copies
        parts = dense.view(N, 4, IN)
        assert not (parts == parts[:, :1]).all()


def test_whole_quaternions_can_be_dropped(graph):
    model, seen = QGNN(IN, CLASSES, masks="quaternion"), []
    model.dropout.register_forward_hook(lambda module, args, y: seen.append((y, *args)))
    model(torch.rand(N, IN), graph)
    (y, x), *_ = seen
    keep = ((y != 0) | (x == 0)).view(N, 4, 4)
    scaled = torch.where(keep.all(dim=1, keepdim=True), 2 * x.view(N, 4, 4), 0)
    torch.testing.assert_close(y.view(N, 4, 4), scaled)
    assert not keep.all()


def test_dropout_acts_on_the_input_and_on_the_hidden_layer_in_training_alone(graph):
    model, x = QGNN(IN, CLASSES, dropout=0.5), torch.rand(N, IN)
    for part, other in (
        (model.dropout, model.input_dropout),
        (model.input_dropout, model.dropout),
    ):
        part.train()
        other.eval()
        assert not torch.equal(model(x, graph), model(x, graph))
    model.eval()
    assert torch.equal(model(x, graph), model(x, graph))


@pytest.mark.parametrize("bias", [False, True])
def test_biases_are_an_option(bias):
    names = [name for name, _ in QGNN(IN, CLASSES, bias=bias).named_parameters()]
    assert any("bias" in name for name in names) == bias


def test_a_model_without_layers_is_a_mistake():
    with pytest.raises(UserError, match="at least one layer, got num_layers=0"):
        QGNN(IN, CLASSES, num_layers=0)
