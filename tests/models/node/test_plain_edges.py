"""Node models on a plain ``edge_index``, as PyG's models take it."""

import pytest
import torch

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.models.node import MODELS, QGNN, NodeModel
from quatgraph.training.ensemble import Ensemble

N, IN, CLASSES = 6, 5, 3
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 4.0])


def build(kind: type[NodeModel]) -> NodeModel:
    return kind.from_options(kind.Options(), IN, CLASSES).eval()


every_model = pytest.mark.parametrize("kind", MODELS.values())


@every_model
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_a_plain_edge_index_equals_the_prepared_graph_of_training(kind, weight):
    model, x = build(kind), torch.randn(N, IN)
    prepared = Adjacency.of(EDGES, N, weight, normalization=kind.Options().matrix)
    for method in (model, model.embed):
        plain = method(x, EDGES) if weight is None else method(x, EDGES, weight)
        assert torch.equal(plain, method(x, prepared))


def test_the_first_lines_of_the_documentation_work():
    logits = QGNN(16, 3)(torch.randn(9, 16), torch.randint(9, (2, 20)))
    assert logits.shape == (9, 3)
    logits.sum().backward()


def test_a_lazy_model_takes_the_width_of_its_first_input():
    model, x = QGNN(-1, 3, skip=True), torch.randn(N, 7)
    assert model(x, EDGES).shape == (N, 3)
    assert model.convs[0].in_channels == 7


@every_model
def test_an_ensemble_takes_a_plain_edge_index(kind):
    ensemble = Ensemble([lambda: build(kind)] * 2, [0, 1]).eval()
    x = torch.randn(N, IN)
    graph = Adjacency.of(EDGES, N, normalization=kind.Options().matrix)
    torch.testing.assert_close(ensemble(x, EDGES), ensemble(x, graph))


@pytest.mark.parametrize("kind", [QGNN, MODELS["gcn"]])
def test_compiles_whole_with_a_plain_edge_index(kind):
    model, x = kind(IN, CLASSES).eval(), torch.randn(N, IN)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, EDGES), model(x, EDGES))


def test_sparse_matrices_and_float64_are_taken_and_weights_of_a_prepared_graph_refused():
    model, x = QGNN(IN, CLASSES).double().eval(), torch.randn(N, IN, dtype=torch.float64)
    without_loop = EDGES[:, :-1]
    adj_t = torch.zeros(N, N, dtype=torch.float64)
    adj_t[without_loop[1], without_loop[0]] = 1
    expected = model(x, without_loop)
    assert expected.dtype == torch.float64
    torch.testing.assert_close(model(x, adj_t.to_sparse()), expected)
    with pytest.raises(UserError, match="holds its own weights"):
        model(x, Adjacency.of(EDGES, N), WEIGHT)
