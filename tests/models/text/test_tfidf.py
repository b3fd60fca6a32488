"""TF-IDF: against scikit-learn's vectors, with padding, in an ensemble, and out of a bundle."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reviews
import tiny
import torch
from commands import call
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

import quatgraph
from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.models.text import TfIdf
from quatgraph.models.text.tfidf import INTERCEPT
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import DataConfig, TextConfig
from quatgraph.training.ensemble import Ensemble

TRAIN = ["a b a b c", "b c a", "c c c", "", "a b d e", "e"]
NEW = ["a b", "e d a b a b a b", "c", "f f a", "", "f g", "b a"]  # f and g: not in training
VOCABULARY = list("abcdefg")
WORDS = tiny.features("codes")


def numbers(texts: list[str]) -> tuple[Tensor, Tensor]:
    tokens = [VOCABULARY.index(word) for text in texts for word in text.split()]
    sizes = [len(text.split()) for text in texts]
    return torch.tensor(tokens), torch.tensor(np.cumsum([0, *sizes]))


def inputs(texts: list[str]) -> tuple[Codes, None, Adjacency]:
    tokens, ptr = numbers(texts)
    codes = Codes(tokens.int(), torch.ones(len(tokens), dtype=torch.float64), len(VOCABULARY))
    pool = tiny.pool_of(ptr.diff().tolist())
    return codes, None, pool.with_weight(pool.weight.double())


def fitted(texts: list[str], *, bigrams: int = 2) -> dict[str, Tensor]:
    found = TfIdf.fit_documents(TfIdf.Options(bigrams=bigrams), *numbers(texts), len(VOCABULARY))
    return {name: v.double() if v.is_floating_point() else v for name, v in found.items()}


def random_model() -> TfIdf:
    """Of the words of ``tiny``, of which all but one and some bigrams are known."""
    pairs = torch.tensor([3, 7, 11, 12, 18, 24])
    idf = torch.linspace(1, 2, tiny.CODES + len(pairs))
    idf[1] = 0
    model = TfIdf(tiny.CODES, tiny.CLASSES, idf=idf, pairs=pairs).double()
    nn.init.normal_(model.weight)
    nn.init.normal_(model.bias)
    return model


def gradients(model: nn.Module, y: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.square().sum(), list(model.parameters()), retain_graph=True)


PAIRS = ["a b", "b a", "b c", "b d", "c a", "c c", "d e"]  # the first and third in two documents


@pytest.mark.parametrize(
    ("bigrams", "pairs"), [(0, []), (1, ["a b"]), (2, ["a b", "b c"]), (50_000, PAIRS)]
)
def test_maps_scikit_learns_vectors(bigrams: int, pairs: list[str]) -> None:
    known = fitted(TRAIN, bigrams=bigrams)
    codes = [VOCABULARY.index(p[0]) * len(VOCABULARY) + VOCABULARY.index(p[2]) for p in pairs]
    assert known["pairs"].tolist() == codes
    terms = [*"abcde", *pairs]
    theirs = TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+", vocabulary=terms
    ).fit(TRAIN)
    model = TfIdf(len(VOCABULARY), 3, **known).double()
    nn.init.normal_(model.weight)
    nn.init.normal_(model.bias)
    rows = [*range(5), *range(7, 7 + len(pairs))]
    for texts in (TRAIN, NEW):
        vectors = torch.from_numpy(theirs.transform(texts).toarray())
        wanted = vectors @ model.weight[rows] + INTERCEPT * model.bias
        torch.testing.assert_close(model(*inputs(texts)), wanted)
        codes, _, pool = inputs(texts)
        made = model.vectorize(codes, pool)
        assert made.num_edges == int((vectors > 0).sum())
        torch.testing.assert_close(model(made, None, None), wanted)


def test_starts_without_an_opinion() -> None:
    model = TfIdf(len(VOCABULARY), 3, **fitted(TRAIN)).double()
    assert torch.equal(model(*inputs(NEW)), torch.zeros(len(NEW), 3, dtype=torch.float64))


def test_texts_without_any_word_have_what_the_biases_say() -> None:
    model = TfIdf(len(VOCABULARY), 3, **fitted(TRAIN)).double()
    nn.init.normal_(model.bias)
    wanted = INTERCEPT * model.bias.expand(2, -1)
    torch.testing.assert_close(model(*inputs(["", ""])), wanted)
    codes, _, pool = inputs(["", ""])
    torch.testing.assert_close(model(model.vectorize(codes, pool), None, None), wanted)


def test_a_padded_batch_equals_documents_one_by_one_in_values_and_gradients() -> None:
    model, made = random_model(), tiny.batch(WORDS)
    for m, graphs in enumerate(tiny.GRAPHS.tolist()):
        batched = model(*tiny.member_inputs(made, m))
        for slot, graph in enumerate(graphs):
            if graph < 0:
                torch.testing.assert_close(batched[slot], INTERCEPT * model.bias)
                continue
            single = model(*tiny.alone(WORDS, graph))[0]
            torch.testing.assert_close(batched[slot], single)
            for a, b in zip(gradients(model, batched[slot]), gradients(model, single), strict=True):
                torch.testing.assert_close(a, b)


def test_members_on_batches_of_their_own_equal_single_models() -> None:
    made, ensemble = tiny.batch(WORDS), Ensemble([random_model] * 3, [0, 1, 2]).double()
    y = made.through(ensemble, made.features)
    (flat,) = torch.autograd.grad(y.square().sum(), ensemble.flat)
    for m in range(3):
        model = random_model()
        model.load_state_dict(ensemble.member(m))
        single = model(*tiny.member_inputs(made, m))
        torch.testing.assert_close(y[m], single)
        tiny.assert_gradients(ensemble, flat, m, model, gradients(model, single))


@pytest.mark.parametrize("settings", [[], ["--set", "model.bigrams=0"]])
def test_is_trained_bundled_loaded_and_queried(settings: list[str], tmp_path: Path) -> None:
    data, out = reviews.written(tmp_path / "reviews.csv"), tmp_path / "model"
    words = ["train", "text", "--data", str(data), "--out", str(out), "--device", "cpu"]
    result = call(*words, "--set", "model.name=tfidf", "--set", "train.epochs=5", *settings)
    assert result.exit_code == 0, result.stderr
    predictor = quatgraph.load(out, device="cpu")
    assert list(predictor.predict("a lovely story", explain=True).rows())
    again: dict[str, Any] = predictor.evaluate()
    recorded = predictor.card["metrics"]
    assert again == {name: pytest.approx(recorded[name], abs=1e-5) for name in again}
    model = predictor.members[0].model
    assert not (settings and model.pairs.numel())


def test_documents_of_the_test_part_are_not_counted(tmp_path: Path) -> None:
    rows = ["text,label,split", "a b,x,train", "a b,y,train", "c a b,x,test", "c b,y,test"]
    (tmp_path / "texts.csv").write_text("\n".join(rows))
    config = TextConfig(data=DataConfig(path=str(tmp_path / "texts.csv")), model=TfIdf.Options())
    corpus = TEXT.load(config)
    assert corpus.documents.vocabulary == ["a", "b", "c"]
    found = TEXT.prepare(corpus, config, torch.device("cpu")).fitted
    assert found["idf"].tolist() == [1, 1, 0, 1]  # the last: a b, the only bigram
    assert found["pairs"].tolist() == [1]
