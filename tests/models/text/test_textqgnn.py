"""TextQGNN and TextING: batches against documents one by one, alone and in an ensemble."""

import pytest
import tiny
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.models.text import TextING, TextQGNN
from quatgraph.models.text.vectors import WithVectors, word_vectors
from quatgraph.training.ensemble import Ensemble

both = pytest.mark.parametrize("kind", [TextQGNN, TextING])
X = tiny.features("dense")
OPTIONS = [{}, {"bias": True}, {"lift": "learned", "pooling": "mean-plus-max"}]
with_options = pytest.mark.parametrize("options", OPTIONS, ids=str)
GRAPH = "neighbours"  # without self-loops; the second document is one word


def built(kind: type[TextQGNN], **options: object) -> TextQGNN:
    options = {"hidden_quats": 2, "dropout": 0.0, "pooled_dropout": 0.0} | options
    return kind(tiny.ATTRIBUTES, tiny.CLASSES, **options).double()


def gradients(model: nn.Module, y: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.square().sum(), list(model.parameters()), retain_graph=True)


def matrix(layer: nn.Module) -> Tensor:
    return hamilton_matrix(layer.weight) if layer.weight.dim() == 3 else layer.weight


@both
def test_projects_words_without_activation_then_renews_then_reads(kind):
    model, (x, adjacency, pool) = built(kind), tiny.joined(X, [2, 0], GRAPH)
    h = x @ matrix(model.projection).mT
    assert (h < 0).any()
    torch.testing.assert_close(model.encode(x, adjacency), model.conv(h, adjacency))
    expected = model.readout(model.conv(h, adjacency), pool)
    torch.testing.assert_close(model(x, adjacency, pool), expected)


@both
@with_options
def test_a_padded_batch_equals_documents_one_by_one_in_values_and_gradients(kind, options):
    model, made = built(kind, **options), tiny.batch(X, GRAPH)
    for m, graphs in enumerate(tiny.GRAPHS.tolist()):
        batched = model(*tiny.member_inputs(made, m))
        for slot, graph in enumerate(graphs):
            if graph < 0:
                torch.testing.assert_close(batched[slot], model.readout.prediction.bias)
                continue
            single = model(*tiny.alone(X, graph, GRAPH))[0]
            torch.testing.assert_close(batched[slot], single, rtol=1e-9, atol=1e-9)
            mine = gradients(model, batched[slot])
            for a, b in zip(mine, gradients(model, single), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@both
@with_options
def test_members_on_batches_of_their_own_equal_single_models(kind, options):
    def build() -> TextQGNN:
        return built(kind, **options)

    made, ensemble = tiny.batch(X, GRAPH), Ensemble([build] * 3, [0, 1, 2]).double()
    y = made.through(ensemble, made.features)
    loss = F.cross_entropy(y.flatten(0, 1), made.labels.flatten(), reduction="sum")
    (flat,) = torch.autograd.grad(loss, ensemble.flat)
    for m in range(3):
        model = build()
        model.load_state_dict(ensemble.member(m), strict=False)
        single = model(*tiny.member_inputs(made, m))
        torch.testing.assert_close(y[m], single)
        loss = F.cross_entropy(single, made.labels[m], reduction="sum")
        grads = torch.autograd.grad(loss, list(model.parameters()))
        tiny.assert_gradients(ensemble, flat, m, model, grads)


def test_members_may_have_dropout_rates_of_their_own():
    made = tiny.batch(X, GRAPH)
    builds = [lambda rate=rate: built(TextQGNN, dropout=rate) for rate in (0.0, 0.5)]
    ensemble = Ensemble(builds, [0, 0]).double()
    graphs = torch.tensor([[2, 0], [2, 0]])
    made = tiny.batch(X, GRAPH, graphs)
    one, other = (made.through(ensemble, made.features) for _ in range(2))
    assert torch.equal(one[0], other[0])
    assert not torch.equal(one[1], other[1])


@both
def test_the_order_of_the_words_does_not_matter(kind):
    model, (x, adjacency, pool) = built(kind), tiny.joined(X, [2, 0], GRAPH)
    order = torch.tensor([3, 0, 4, 1, 2, 6, 7, 5])
    relabelled = Adjacency.from_dense(adjacency.to_dense()[order][:, order])
    torch.testing.assert_close(model(x[order], relabelled, pool), model(x, adjacency, pool))
    attention = model.attention(x, adjacency)
    torch.testing.assert_close(model.attention(x[order], relabelled), attention[order])


@both
def test_attention_tells_what_each_word_counts(kind):
    model, (x, adjacency, _) = built(kind), tiny.joined(X, [2, 0], GRAPH)
    attention = model.attention(x, adjacency)
    assert attention.shape == (len(x),)
    assert ((attention > 0) & (attention < 1)).all()
    made = tiny.batch(X, GRAPH)
    assert built(kind).attention(made.features, made.adjacency).shape == (3, tiny.CAPACITY)


@both
@pytest.mark.parametrize("option", ["dropout", "pooled_dropout"])
def test_dropout_acts_in_training_alone(kind, option):
    model, inputs = built(kind, **{option: 0.5}), tiny.joined(X, [2, 0], GRAPH)
    assert not torch.equal(model(*inputs), model(*inputs))
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))


def test_word_dropout_drops_whole_words_in_training_alone():
    model, (x, adjacency, pool) = built(TextQGNN, word_dropout=0.5), tiny.joined(X, [2, 0], GRAPH)
    seen = []
    model.projection.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    for _ in range(20):
        model(x, adjacency, pool)
    factors = torch.stack(seen) / x
    assert torch.equal(factors, factors[..., :1].expand_as(factors))
    assert factors.unique().tolist() == [0, 2]
    model.eval()(x, adjacency, pool)
    assert torch.equal(seen[-1], x)


def test_a_member_drops_words_by_its_own_seed_whatever_the_other_members_are():
    def outputs(seeds: list[int], chosen: Tensor) -> Tensor:
        build = [lambda: built(TextQGNN, word_dropout=0.5)] * len(seeds)
        made = tiny.batch(X, GRAPH, chosen)
        return made.through(Ensemble(build, seeds).double(), made.features)

    together, alone = outputs([0, 1, 2], tiny.GRAPHS), outputs([1], tiny.GRAPHS[1:2])
    torch.testing.assert_close(together[1], alone[0])


def test_a_learned_lift_is_a_real_matrix_for_vectors_of_any_width():
    model = TextQGNN(50, 2, hidden_quats=2, lift="learned")
    assert model.projection.weight.shape == (8, 50)
    assert TextING.Options().lift == "learned"
    assert TextING.from_options(TextING.Options(), 50, 2).projection.weight.shape == (64, 50)


@pytest.mark.parametrize("classes", [2, 8, 23, 52])
def test_the_papers_settings_give_this_many_parameters(classes):
    ours, real = (
        sum(p.numel() for p in kind(300, classes).parameters()) for kind in (TextQGNN, TextING)
    )
    rest = 385 + 385 * classes  # attention and prediction, real in both
    assert ours == 75 * 384 + 7 * 96 * 384 + rest
    assert real - rest == 4 * (ours - rest)


@both
def test_biases_are_those_of_the_products(kind):
    sizes = [sum(p.numel() for p in built(kind, bias=b).parameters()) for b in (False, True)]
    assert sizes[1] - sizes[0] == (1 + 3 + 1) * 8


@both
def test_a_vocabulary_is_not_part_of_the_model(kind):
    buffers = dict(kind(300, 2).named_buffers())
    dropouts = ("input_dropout", "readout.dropout")
    assert set(buffers) == {f"{name}.{kind}" for name in dropouts for kind in ("rate", "draws")}


def test_word_vectors_come_from_one_table_for_all_members():
    words, table = tiny.features("codes"), torch.randn(tiny.CODES, 4, dtype=torch.float64)
    expected = tiny.dense(words) @ table
    torch.testing.assert_close(word_vectors(words, table), expected)
    stacked = Codes(words.code.expand(3, -1), words.weight.expand(3, -1), tiny.CODES)
    torch.testing.assert_close(word_vectors(stacked, table), expected.expand(3, -1, -1))


@both
def test_trained_vectors_start_as_the_fixed_ones_and_are_each_members_own(kind):
    words, table = tiny.features("codes"), torch.randn(tiny.CODES, 4, dtype=torch.float64)

    def build() -> WithVectors:
        return WithVectors(table, built(kind), learned=True)

    made, ensemble = tiny.batch(words, GRAPH), Ensemble([build] * 3, [0, 1, 2]).double()
    y = made.through(ensemble, made.features)
    (flat,) = torch.autograd.grad(y.square().sum(), ensemble.flat)
    for m in range(3):
        alone = build()
        alone.load_state_dict(ensemble.member(m), strict=False)
        x, adjacency, pool = tiny.member_inputs(made, m)
        single = alone(x, adjacency, pool)
        torch.testing.assert_close(y[m], single)
        torch.testing.assert_close(single, alone.model(word_vectors(x, table), adjacency, pool))
        (grad,) = torch.autograd.grad(single.square().sum(), alone.vectors)
        torch.testing.assert_close(flat[m, : grad.numel()], grad.flatten())
        assert grad.any()


@pytest.mark.parametrize("width", [50, 6])
def test_word_vectors_that_have_no_four_parts_are_a_mistake(width):
    with pytest.raises(UserError, match=rf"{width} numbers .* with zeros to {-(-width // 4) * 4}"):
        TextQGNN(width, 2)
    assert TextING(width, 2, hidden_quats=1).projection.weight.shape == (4, width)


@both
def test_a_model_without_steps_is_a_mistake(kind):
    with pytest.raises(UserError, match="at least one step, got steps=0"):
        built(kind, steps=0)


@pytest.mark.gpu
@both
def test_a_step_can_be_captured_as_a_cuda_graph_and_equals_the_cpus(kind):
    def build() -> TextQGNN:
        return built(kind, bias=True)

    host = Ensemble([build] * 3, [0, 1, 2]).double()
    device = Ensemble([build] * 3, [0, 1, 2]).double().cuda()
    there = tiny.collection(X, GRAPH, "cuda")
    steps = [tiny.GRAPHS, torch.tensor([[0, 1, 2], [3, 2, -1], [1, 0, 3]])]
    graphs = steps[0].cuda()

    def step() -> Tensor:
        made = tiny.batch_of(there, graphs)
        y = made.through(device, made.features)
        return torch.autograd.grad(y.square().sum(), device.flat)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        grad = step()
    for chosen in reversed(steps):
        graphs.copy_(chosen)
        captured.replay()
        made = tiny.batch(X, GRAPH, chosen)
        y = made.through(host, made.features)
        (wanted,) = torch.autograd.grad(y.square().sum(), host.flat)
        torch.testing.assert_close(grad.cpu(), wanted)
