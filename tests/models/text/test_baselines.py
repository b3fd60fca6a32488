"""fastText and Bi-LSTM: document by document, with padding, alone and in an ensemble."""

from typing import Any

import pytest
import tiny
import torch
from torch import Tensor, nn

from benchmarks.measure import captured
from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.models.text import BiLSTM, FastText
from quatgraph.models.text.vectors import WithVectors
from quatgraph.tasks.graph.batches import Batch
from quatgraph.training.ensemble import Ensemble

WORDS, VECTORS = tiny.features("codes"), tiny.features("dense")
WIDTH, BIGRAMS, HIDDEN = 4, 7, 3
TABLE = torch.randn(tiny.CODES, tiny.ATTRIBUTES, generator=torch.Generator().manual_seed(3))


def fast_text(bigrams: int = BIGRAMS) -> FastText:
    model = FastText(tiny.CODES, tiny.CLASSES, width=WIDTH, bigrams=bigrams).double()
    nn.init.normal_(model.prediction.weight)
    return model


def bi_lstm(length: int = 5, **options: float) -> BiLSTM:
    options = {"dropout": 0.0, "pooled_dropout": 0.0} | options
    return BiLSTM(tiny.ATTRIBUTES, tiny.CLASSES, length=length, hidden=HIDDEN, **options).double()


# The model and what it takes of each word.
MODELS: dict[str, tuple[Any, Codes | Tensor]] = {
    "words": (lambda: fast_text(0), WORDS),
    "pairs": (fast_text, WORDS),
    "lstm": (bi_lstm, VECTORS),
    "lstm, cut": (lambda: bi_lstm(2), VECTORS),
    "lstm, trained": (lambda: WithVectors(TABLE.double(), bi_lstm(), learned=True), WORDS),
}
every_model = pytest.mark.parametrize("name", MODELS)


def alone(x: Codes | Tensor, graph: int) -> tuple[Any, None, Any]:
    words, _, pool = tiny.alone(x, graph)
    return words, None, pool


def gradients(model: nn.Module, y: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.square().sum(), list(model.parameters()), retain_graph=True)


@pytest.mark.parametrize("bigrams", [0, BIGRAMS])
@pytest.mark.parametrize("graph", range(len(tiny.SIZES)))
def test_fast_text_is_a_linear_map_of_the_mean(bigrams, graph):
    model, (words, *others) = fast_text(bigrams), alone(WORDS, graph)
    code, known = words.code.tolist(), words.weight.bool().tolist()
    vectors = [model.words[c] for c, k in zip(code, known, strict=True) if k]
    for place in range(len(code) - 1):
        if bigrams and known[place] and known[place + 1]:
            vectors.append(model.pairs[(code[place] * 116049371 + code[place + 1]) % bigrams])
    expected = model.prediction.weight @ torch.stack(vectors).mean(dim=0)
    torch.testing.assert_close(model(words, *others)[0], expected)


def test_fast_text_starts_as_fast_text():
    model = FastText(50, 3, width=20, bigrams=10)
    for table in (model.words, model.pairs):
        assert 0.9 / 20 < table.abs().max() <= 1 / 20
    assert not model.prediction.weight.any()
    assert FastText(50, 3).pairs is None


@pytest.mark.parametrize("length", [5, 2])
@pytest.mark.parametrize("graph", range(len(tiny.SIZES)))
def test_bi_lstm_is_torchs(length, graph):
    model, (x, *others) = bi_lstm(length), alone(VECTORS, graph)
    theirs = nn.LSTM(tiny.ATTRIBUTES, HIDDEN, bidirectional=True).double()
    weights = dict(model.there.named_parameters())
    weights |= {f"{name}_reverse": value for name, value in model.back.named_parameters()}
    theirs.load_state_dict(weights)
    _, (last, _) = theirs(x[:length])
    expected = model.prediction(last.flatten())
    torch.testing.assert_close(model(x, *others)[0], expected)


@every_model
def test_a_padded_batch_equals_documents_one_by_one_in_values_and_gradients(name):
    build, x = MODELS[name]
    model, made = build(), tiny.batch(x)
    for m, graphs in enumerate(tiny.GRAPHS.tolist()):
        batched = model(*tiny.member_inputs(made, m))
        for slot, graph in enumerate(graphs):
            if graph < 0:
                bias = model.get_submodule("model" if "trained" in name else "").prediction.bias
                nothing = torch.zeros(tiny.CLASSES) if bias is None else bias
                torch.testing.assert_close(batched[slot], nothing.double())
                continue
            single = model(*alone(x, graph))[0]
            torch.testing.assert_close(batched[slot], single)
            for a, b in zip(gradients(model, batched[slot]), gradients(model, single), strict=True):
                torch.testing.assert_close(a, b)


@every_model
def test_members_on_batches_of_their_own_equal_single_models(name):
    build, x = MODELS[name]
    made, ensemble = tiny.batch(x), Ensemble([build] * 3, [0, 1, 2]).double()
    y = made.through(ensemble, made.features)
    (flat,) = torch.autograd.grad(y.square().sum(), ensemble.flat)
    for m in range(3):
        model = build()
        model.load_state_dict(ensemble.member(m), strict=False)
        single = model(*tiny.member_inputs(made, m))
        torch.testing.assert_close(y[m], single)
        tiny.assert_gradients(ensemble, flat, m, model, gradients(model, single))


@pytest.mark.parametrize("option", ["dropout", "pooled_dropout"])
def test_dropout_of_bi_lstm_acts_in_training_alone(option):
    model, inputs = bi_lstm(**{option: 0.5}), alone(VECTORS, 2)
    assert not torch.equal(model(*inputs), model(*inputs))
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))


def test_documents_without_any_word_have_what_the_biases_say():
    model, none = bi_lstm(), torch.empty(0, dtype=torch.long)
    pool = Adjacency.from_entries(none, none, None, (2, 0))
    y = model(VECTORS[:0], None, pool.with_weight(pool.weight.double()))
    assert torch.equal(y, model.prediction.bias.expand(2, -1))


def test_bi_lstm_that_reads_no_word_is_a_mistake():
    with pytest.raises(UserError, match="at least one word, got length=0"):
        bi_lstm(0)


@pytest.mark.gpu
@every_model
def test_the_gpu_gives_what_the_cpu_gives(name):
    build, x = MODELS[name]
    ensembles = [Ensemble([build] * 3, [0, 1, 2]).double() for _ in range(2)]

    def gradient(ensemble: Ensemble, made: Batch) -> Tensor:
        y = made.through(ensemble, made.features)
        return torch.autograd.grad(y.square().sum(), ensemble.flat)[0].cpu()

    on_gpu = tiny.batch_of(tiny.collection(x, device="cuda"), tiny.GRAPHS.cuda())
    torch.testing.assert_close(
        gradient(ensembles[0].cuda(), on_gpu), gradient(ensembles[1], tiny.batch(x))
    )


@pytest.mark.gpu
def test_a_step_of_bi_lstms_can_be_captured():
    ensemble = Ensemble([bi_lstm] * 3, [0, 1, 2]).double().cuda()
    made = tiny.batch_of(tiny.collection(VECTORS, device="cuda"), tiny.GRAPHS.cuda())
    found: list[Tensor] = []  # at last what a replay writes

    def gradient() -> Tensor:
        y = made.through(ensemble, made.features)
        return torch.autograd.grad(y.square().sum(), ensemble.flat)[0]

    replay = captured(lambda: found.append(gradient()))
    with torch.no_grad():
        ensemble.flat.mul_(0.5)
    replay()
    torch.testing.assert_close(found[-1], gradient())
