"""Gated GNN against PyG, and document by document with padding and members."""

import pytest
import tiny
import torch
from torch import Tensor, nn
from torch_geometric.nn import GatedGraphConv

from quatgraph.adjacency import Adjacency
from quatgraph.models.text import GatedGNN
from quatgraph.training.ensemble import Ensemble

X = tiny.features("dense")
HIDDEN, STEPS = 8, 3


def built(**options: float) -> GatedGNN:
    options = {"dropout": 0.0, "pooled_dropout": 0.0} | options
    model = GatedGNN(tiny.ATTRIBUTES, tiny.CLASSES, hidden=HIDDEN, steps=STEPS, **options).double()
    for value in model.parameters():
        nn.init.normal_(value)
    return model


def test_its_steps_are_pygs_with_a_diagonal_reset_matrix():
    # PyG resets after the matrix, Li et al. before it: the same if the matrix is diagonal.
    model, theirs = built(), GatedGraphConv(HIDDEN, STEPS).double()
    conv, cell = model.conv, theirs.rnn
    with torch.no_grad():
        conv.of_reset.weight.copy_(torch.randn(HIDDEN).diag())
        theirs.weight.copy_(torch.eye(HIDDEN).expand_as(theirs.weight))
        # Their update gate weighs the old vector, ours the new one.
        (w_z, w_r, w_o), (u_z, u_r) = conv.of_sum.weight.chunk(3), conv.of_own.weight.chunk(2)
        b_z, b_r, b_o = conv.of_sum.bias.chunk(3)
        cell.weight_ih.copy_(torch.cat((w_r, -w_z, w_o)))
        cell.weight_hh.copy_(torch.cat((u_r, -u_z, conv.of_reset.weight)))
        cell.bias_ih.copy_(torch.cat((b_r, -b_z, b_o)))
        cell.bias_hh.zero_()
    x, weight = torch.randn(tiny.NODES, HIDDEN).double(), torch.rand(6).double()
    edges = tiny.edge_index(2)
    ours = conv(x, Adjacency.from_edge_index(edges, tiny.NODES, weight))
    torch.testing.assert_close(ours, theirs(x, edges, weight))


@pytest.mark.parametrize("graph", range(len(tiny.SIZES)))
def test_the_readout_is_a_gated_sum_over_words(graph):
    model, (x, adjacency, pool) = built(), tiny.alone(X, graph)
    before = x @ model.projection.weight.T
    after = model.conv(before, adjacency)
    total = torch.zeros(HIDDEN, dtype=torch.double)
    for h, own in zip(after, before, strict=True):
        both = torch.cat((h, own))
        gate = torch.sigmoid(model.gate.weight @ both + model.gate.bias)
        total += gate * torch.tanh(model.value.weight @ both + model.value.bias)
    expected = model.prediction(torch.tanh(total))
    torch.testing.assert_close(model(x, adjacency, pool)[0], expected)


def gradients(model: nn.Module, y: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.square().sum(), list(model.parameters()))


def test_members_on_padded_batches_equal_documents_one_by_one():
    made, ensemble = tiny.batch(X), Ensemble([built] * 3, [0, 1, 2]).double()
    y = made.through(ensemble, made.features)
    (flat,) = torch.autograd.grad(y.square().sum(), ensemble.flat)
    for m, graphs in enumerate(tiny.GRAPHS.tolist()):
        model = built()
        model.load_state_dict(ensemble.member(m), strict=False)
        each = [model(*tiny.alone(X, g))[0] if g >= 0 else model.prediction.bias for g in graphs]
        torch.testing.assert_close(y[m], torch.stack(each))
        tiny.assert_gradients(ensemble, flat, m, model, gradients(model, torch.stack(each)))


@pytest.mark.parametrize("option", ["dropout", "pooled_dropout"])
def test_dropout_acts_in_training_alone(option):
    model, inputs = built(**{option: 0.5}), tiny.alone(X, 2)
    assert not torch.equal(model(*inputs), model(*inputs))
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))
