"""QGNN for graphs: batches against graphs one by one, and the paper's equations."""

import pyg_readouts
import pytest
import tiny
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix, hamilton_matrix_tiled
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.models.common import four_copies
from quatgraph.models.graph import GraphQGNN
from quatgraph.training.ensemble import Ensemble

VARIANTS = [
    {},
    {"pooling": "mean", "virtual_node": True},
    {"pooling": "max", "jump": "attention"},
    {"pooling": "set", "jump": "attention", "virtual_node": True},
    {"head": "perceptron"},
]
variants = pytest.mark.parametrize("options", VARIANTS, ids=str)
both_features = pytest.mark.parametrize("kind", ["codes", "dense"])


def build(x: Codes | Tensor, **options: object) -> GraphQGNN:
    options = {"hidden_quats": 2, "num_layers": 3} | options
    return GraphQGNN(tiny.width(x), tiny.CLASSES, **options).double()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_computes_the_papers_equations(activation):
    x = tiny.features("dense")
    model = build(x, activation=activation)
    for graph in range(len(tiny.SIZES)):
        h, adjacency, pool = tiny.alone(x, graph)
        matrix, embedding = adjacency.to_dense().double(), []
        expected = model.readout.bias.sum(dim=0)
        for layer, conv in enumerate(model.convs):
            weight = (hamilton_matrix if layer else hamilton_matrix_tiled)(conv.linear.weight)
            h = getattr(torch, activation)(matrix @ h @ weight.mT)
            embedding.append(h.sum(dim=0))
        expected = expected + model.readout.weight @ torch.cat(embedding)
        torch.testing.assert_close(model(tiny.alone(x, graph)[0], adjacency, pool), expected[None])


def test_a_layer_is_a_sum_over_neighbours_then_the_norm_then_the_activation():
    x, graph, pool = tiny.alone(tiny.features("dense"), 0)
    model = build(x, num_layers=1, norm=True, activation="elu")
    sums = model.convs[0](x, graph)
    h = F.elu(F.batch_norm(sums, None, None, training=True))
    expected = model.readout.bias.sum(dim=0) + model.readout.weight @ h.sum(dim=0)
    torch.testing.assert_close(model(x, graph, pool), expected[None])


@variants
def test_pools_attends_to_layers_and_has_virtual_nodes_as_pyg(options):
    x, adjacency, pool = tiny.joined(tiny.features("dense"), [2, 0, 1, 3], "symmetric")
    model, layers, h = build(x, **options), [], x
    virtual = pyg_readouts.Virtual(model, pool.t_col)
    for conv in model.convs:
        layers.append(conv(h, adjacency).relu())
        h = virtual.add(layers[-1])
    expected = pyg_readouts.by_layers(model, x, layers, pool.t_col.long())
    torch.testing.assert_close(model(x, adjacency, pool), expected)
    vectors = model.embed(x, adjacency, pool)
    made = vectors @ model.readout.weight.mT + model.readout.bias.sum(dim=0)
    torch.testing.assert_close(made, expected)


@variants
@both_features
def test_a_padded_batch_equals_the_graphs_one_by_one_in_values_and_gradients(kind, options):
    x = tiny.features(kind)
    model = build(x, **options)
    made = tiny.batch(x, "symmetric")
    for m, graphs in enumerate(tiny.GRAPHS.tolist()):
        batched = model(*tiny.member_inputs(made, m))
        for slot, graph in enumerate(graphs):
            if graph < 0:
                if options.get("pooling") == "set" or "head" in options:  # not zero without nodes
                    continue
                torch.testing.assert_close(batched[slot], model.readout.bias.sum(dim=0))
                continue
            single = model(*tiny.alone(x, graph, "symmetric"))[0]
            torch.testing.assert_close(batched[slot], single, rtol=1e-9, atol=1e-9)
            mine = gradients(model, batched[slot])
            for a, b in zip(mine, gradients(model, single), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def gradients(model: nn.Module, y: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.square().sum(), list(model.parameters()), retain_graph=True)


@variants
@both_features
@pytest.mark.parametrize("copies", [1, 4])
def test_members_of_an_ensemble_on_batches_of_their_own_equal_single_models(kind, copies, options):
    x = tiny.features(kind)
    made = tiny.batch(x)
    ensemble = Ensemble([lambda: build(x, **options)] * 3, [0, 1, 2]).double()
    features = four_copies(made.features) if copies == 4 else made.features
    y = made.through(ensemble, features)
    loss = F.cross_entropy(y.flatten(0, 1), made.labels.flatten(), reduction="sum")
    (flat,) = torch.autograd.grad(loss, ensemble.flat)
    for m in range(3):
        model = build(x, **options)
        model.load_state_dict(ensemble.member(m), strict=False)
        single = model(*tiny.member_inputs(made, m))
        torch.testing.assert_close(y[m], single)
        loss = F.cross_entropy(single, made.labels[m], reduction="sum")
        grads = torch.autograd.grad(loss, list(model.parameters()))
        tiny.assert_gradients(ensemble, flat, m, model, grads)


def test_codes_sparse_and_dense_features_and_four_copies_are_one_input_without_dropout():
    codes = tiny.features("codes")
    model, (one, adjacency, pool) = build(codes).eval(), tiny.joined(codes, [2, 0], "loops")
    expected = model(tiny.dense(one), adjacency, pool)
    for same in (one, four_copies(one), Adjacency.from_dense(tiny.dense(one))):
        torch.testing.assert_close(model(same, adjacency, pool), expected)


@both_features
@pytest.mark.parametrize("place", ["input_dropout", "dropout", "readout"])
def test_dropout_acts_on_every_layers_input_and_on_the_sums_in_training_alone(kind, place):
    x = tiny.features(kind)
    model = build(x, dropout=0.5, pooled_dropout=0.5).eval()
    inputs = tiny.joined(x, [2, 0, 3], "loops")
    assert torch.equal(model(*inputs), model(*inputs))
    model.get_submodule(place).train()
    assert not torch.equal(model(*inputs), model(*inputs))


def test_a_model_without_layers_is_a_mistake():
    with pytest.raises(UserError, match="at least one layer, got num_layers=0"):
        GraphQGNN(3, 2, num_layers=0)
