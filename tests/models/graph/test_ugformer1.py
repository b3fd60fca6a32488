"""The first variant of UGformer: its draws, and its layers against torch's transformer."""

import pytest
import tiny
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import boundaries
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.models.graph import GraphUGformer1
from quatgraph.models.graph.ugformer1 import NeighbourDraws
from quatgraph.training.ensemble import Ensemble

both_features = pytest.mark.parametrize("kind", ["codes", "dense"])


def build(x: Codes | Tensor, **options: object) -> GraphUGformer1:
    options = {"hidden": 6, "num_layers": 2, "attention_layers": 2, "num_neighbors": 3} | options
    return GraphUGformer1(tiny.width(x), tiny.CLASSES, **options).double()


def neighbours(graphs: list[int]) -> list[list[int]]:
    """The neighbours of each node of these graphs side by side, in the direction of messages."""
    _, adjacency, _ = tiny.joined(tiny.features("dense"), graphs, "adjacency")
    return [row.nonzero().flatten().tolist() for row in adjacency.to_dense()]


@pytest.mark.parametrize("training", [True, False])
def test_draws_a_node_and_neighbours_with_replacement(training):
    _, adjacency, pool = tiny.joined(tiny.features("dense"), [2, 0, 1], "adjacency")
    drawn = NeighbourDraws(4000).train(training)(adjacency, boundaries(pool))
    for node, known in enumerate(neighbours([2, 0, 1])):
        own, *others = drawn[node].tolist()
        assert own == node
        shares = [others.count(one) / len(others) for one in known or [node]]
        assert shares == pytest.approx([1 / len(shares)] * len(shares), abs=0.05)
        assert sum(shares) == pytest.approx(1)


def test_graphs_without_any_edge_are_their_own_neighbours():
    nothing = Adjacency.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), 3)
    drawn = NeighbourDraws(2)(nothing, torch.tensor([0, 1, 3]))
    assert drawn.tolist() == [[0] * 3, [1] * 3, [2] * 3]


def test_training_draws_anew_and_evaluation_does_not():
    x = tiny.features("dense")
    model, inputs = build(x), tiny.joined(x, [2, 0], "adjacency")
    assert not torch.equal(model(*inputs), model(*inputs))
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))


def reference(model: GraphUGformer1, x: Tensor, read: Tensor, pool: Tensor) -> Tensor:
    """The logits of torch's transformer encoders, whose sequences are the rows of ``read``."""
    scores = torch.zeros(())
    for transformers, prediction in zip(model.layers, model.predictions, strict=True):
        z = x[read]
        for ours in transformers:
            theirs = nn.TransformerEncoderLayer(
                x.size(1), 1, ours.first.out_features, dropout=0.0, batch_first=True
            ).double()
            names = {
                "self_attn.in_proj_weight": ours.query_key_value.weight,
                "self_attn.in_proj_bias": ours.query_key_value.bias,
                "self_attn.out_proj.weight": ours.out.weight,
                "self_attn.out_proj.bias": ours.out.bias,
                "linear1.weight": ours.first.weight,
                "linear1.bias": ours.first.bias,
                "linear2.weight": ours.second.weight,
                "linear2.bias": ours.second.bias,
            }
            for place, norm in enumerate(ours.norms, start=1):
                names |= {f"norm{place}.weight": norm.weight, f"norm{place}.bias": norm.bias}
            z = torch.func.functional_call(theirs, names, (z,))
        x = z[:, 0]
        scores = scores + F.linear(pool @ x, prediction.weight, prediction.bias)
    return scores


def test_layers_are_torchs_transformer_encoders_in_values_and_gradients():
    x = tiny.features("dense")
    model, (nodes, adjacency, pool) = build(x), tiny.joined(x, [2, 0, 1, 3], "adjacency")
    with torch.no_grad():
        for value in model.parameters():
            value += torch.randn_like(value) / 10
    read = model.eval().draws(adjacency, boundaries(pool))
    ours = model(nodes, adjacency, pool)
    wanted = reference(model.train(), nodes, read, pool.to_dense().double())
    torch.testing.assert_close(ours, wanted)
    parameters = list(model.parameters())
    for mine, expected in zip(
        torch.autograd.grad(ours.square().sum(), parameters),
        torch.autograd.grad(wanted.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(mine, expected)


@both_features
def test_evaluated_batches_equal_the_graphs_one_by_one(kind):
    x = tiny.features(kind)
    made = tiny.batch(x, "adjacency")
    ensemble = Ensemble([lambda: build(x)] * 3, [0, 1, 2]).double().eval()
    together = made.through(ensemble, made.features)
    for m, slots in enumerate(tiny.GRAPHS.tolist()):
        model = build(x).eval()
        model.load_state_dict(ensemble.member(m), strict=False)
        batched = model(*tiny.member_inputs(made, m))
        torch.testing.assert_close(together[m], batched)
        for slot, graph in enumerate(slots):
            if graph >= 0:
                alone = model(*tiny.alone(x, graph, "adjacency"))[0]
                torch.testing.assert_close(batched[slot], alone)


def test_what_a_member_draws_depends_on_its_own_seed_only():
    x = tiny.features("dense")
    made = tiny.batch(x, "adjacency", tiny.GRAPHS[[0, 0]])
    first = Ensemble([lambda: build(x)] * 2, [5, 6]).double()
    other = Ensemble([lambda: build(x)] * 2, [5, 7]).double()
    y, z = made.through(first, made.features), made.through(other, made.features)
    assert torch.equal(y[0], z[0])
    assert not torch.equal(y[1], z[1])
    assert not torch.equal(made.through(first, made.features)[0], y[0])  # the next step


@pytest.mark.parametrize("option", ["attention_layers", "num_neighbors"])
def test_a_node_needs_neighbours_and_attention(option):
    with pytest.raises(UserError, match="must be at least 1"):
        build(tiny.features("dense"), **{option: 0})
