"""HGCN: a GCN while nothing is hyperbolic about it, and its own model otherwise."""

import pytest
import torch

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.models.node import GCN, HGCN

N, IN, CLASSES = 6, 5, 3
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
GRAPH = Adjacency.of(EDGES, N, normalization="row")


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("curvature", [0.2, 1.0])
def test_without_bias_it_is_a_gcn_on_a_row_normalised_graph(layers, curvature):
    model = HGCN(IN, CLASSES, num_layers=layers, bias=False, curvature=curvature).eval()
    gcn = GCN(IN, CLASSES, num_layers=layers, bias=False).eval()
    for conv, real in zip(model.convs, gcn.convs, strict=False):
        real.linear.weight.data.copy_(conv.weight)
    x = torch.randn(N, IN).softmax(dim=1)  # rows that sum to 1, as in training
    hidden = gcn.embed(x, GRAPH)
    torch.testing.assert_close(model.embed(x, GRAPH), hidden)
    torch.testing.assert_close(model(x, GRAPH), model.prediction(hidden))


def test_biases_make_another_model_of_it():
    model = HGCN(IN, CLASSES, num_layers=2).eval()
    x = torch.randn(N, IN)
    plain = model(x, GRAPH)
    for conv in model.convs:
        torch.nn.init.normal_(conv.bias)
    assert not torch.allclose(model(x, GRAPH), plain, atol=1e-2)


def test_a_plain_graph_is_row_normalised():
    model, x = HGCN(IN, CLASSES).eval(), torch.randn(N, IN)
    assert torch.equal(model(x, EDGES), model(x, GRAPH))


def test_weights_and_logits_are_dropped_in_training_alone():
    model, x, seen = HGCN(IN, CLASSES, num_layers=2), torch.randn(N, IN), []
    for part in (model.dropout, *(conv.dropout for conv in model.convs)):
        part.register_forward_hook(lambda module, args, y: seen.append(y.shape))
    assert not torch.equal(model(x, GRAPH), model(x, GRAPH))
    assert seen[:3] == [(16, IN), (16, 16), (N, CLASSES)]
    model.eval()
    assert torch.equal(model(x, GRAPH), model(x, GRAPH))


def test_a_model_without_layers_is_a_mistake():
    with pytest.raises(UserError, match="at least one layer, got num_layers=0"):
        HGCN(IN, CLASSES, num_layers=0)
