"""A trained model answers for its own texts and for new ones, and tells what it attends to."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from on_cpu import train_in_folder
from reviews import LABELS, REVIEWS, TEXTS, config_of, same, vector_file, written
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.data.text import TextOptions, WordVectors, clean, read
from quatgraph.errors import UserError
from quatgraph.models.text import MODELS, TextING, TextQGNN
from quatgraph.predictors import TextPredictor, load
from quatgraph.predictors import text as predicting
from quatgraph.tasks.text import TEXT
from quatgraph.training.bundle import load_bundle

CPU = torch.device("cpu")
GATED = {"textqgnn": TextQGNN, "texting": TextING}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("own") / "reviews.csv")


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vector_file(tmp_path_factory.mktemp("vectors") / "vectors.txt")


@pytest.fixture(scope="module")
def bundle(
    place: Path, vectors: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """``(model, learned)``: a bundle, trained once."""
    made: dict[tuple[str, bool], Path] = {}

    def trained(model: str = "textqgnn", learned: bool = True) -> Path:
        if (model, learned) not in made:
            values = {
                "data.path": str(place),
                "model.name": model,
                "model.learned_vectors": learned,
            }
            if not learned:
                values["data.vectors"] = str(vectors)
            out = tmp_path_factory.mktemp(f"{model}-{learned}")
            config = config_of(**values, **{"train.epochs": 6})
            made[model, learned] = train_in_folder(TEXT, [config], out).folder
        return made[model, learned]

    return trained


@pytest.fixture
def predictor(bundle: Callable[..., Path]) -> TextPredictor:
    return load(bundle(), device="cpu")


def by_hand(
    folder: Path, text: str, more: dict[str, Tensor] | None = None
) -> tuple[Tensor, dict[str, float]]:
    """Probabilities of one text by itself and the gate of each of its words, step by step."""
    bundle = load_bundle(folder)
    card, config = bundle.card, bundle.card["members"][0]["config"]["model"]
    table = bundle.tensors["members.0.vectors" if config["learned_vectors"] else "data.vectors"]
    known = dict(zip(card["words"], table, strict=True)) | (more or {})
    words = [word for word in clean(text, any_letters=True).split() if word in known]
    nodes = list(dict.fromkeys(words))
    joined = torch.zeros(len(nodes), len(nodes))
    for first, one in enumerate(words):
        for other in words[first + 1 : first + 3]:
            if one != other:
                a, b = nodes.index(one), nodes.index(other)
                joined[a, b] = joined[b, a] = 1
    adjacency = Adjacency.from_edge_index(joined.nonzero().T, len(nodes)).normalized("symmetric")
    pool = Adjacency.from_entries(
        torch.zeros(len(nodes), dtype=torch.long), torch.arange(len(nodes)), None, (1, len(nodes))
    )
    model = GATED[config["name"]](8, 2, hidden_quats=2).eval()
    own = bundle.select_tensors("members.0.model")
    model.load_state_dict(own)
    x = torch.stack([known[word] for word in nodes])
    with torch.no_grad():
        h = model.encode(x, adjacency)
        gate = torch.sigmoid(h @ own["readout.score.weight"].T + own["readout.score.bias"])
        probabilities = model(x, adjacency, pool).softmax(dim=1)[0]
    return probabilities, dict(zip(nodes, gate.flatten().tolist(), strict=True))


def test_the_training_texts_are_answered_for_in_the_persons_own_words(
    predictor: TextPredictor,
) -> None:
    answer = predictor.predict()
    assert answer.ids == [str(place) for place in range(60)]
    assert answer.classes == ["blame", "praise"]
    assert sum(a == b for a, b in zip(answer.labels, LABELS, strict=True)) >= 54
    assert answer.notes == []
    torch.testing.assert_close(answer.probabilities.sum(dim=1), torch.ones(60))


@pytest.mark.parametrize("learned", [True, False], ids=["learned", "fixed"])
@pytest.mark.parametrize("model", GATED)
def test_an_answer_and_its_attention_are_those_of_the_model_for_the_text_by_itself(
    bundle: Callable[..., Path], model: str, learned: bool
) -> None:
    folder = bundle(model, learned)
    answer = load(folder, device="cpu").predict(TEXTS[:8])
    assert answer.attention is not None
    for place in range(8):
        probabilities, gates = by_hand(folder, TEXTS[place])
        torch.testing.assert_close(answer.probabilities[place], probabilities)
        assert answer.attention[place] == pytest.approx(gates, rel=1e-4)
        weights = list(answer.attention[place].values())
        assert weights == sorted(weights, reverse=True)


@pytest.mark.parametrize("learned", [True, False], ids=["learned", "fixed"])
@pytest.mark.parametrize("model", MODELS)
def test_evaluating_again_gives_the_recorded_metrics(
    bundle: Callable[..., Path], model: str, learned: bool
) -> None:
    predictor = load(bundle(model, learned), device="cpu")
    again, recorded = predictor.evaluate(), predictor.card["metrics"]
    measures = ("accuracy", "loss", "macro-f1")
    parts = {f"{p}/{m}" for p in ("train", "valid", "test") for m in measures}
    assert set(again) == parts
    assert again == pytest.approx({name: recorded[name] for name in parts}, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_depends_neither_on_other_texts_nor_on_their_order(
    bundle: Callable[..., Path], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = load(bundle(model), device="cpu")
    texts = [TEXTS[0], "", TEXTS[7], "nonsense", TEXTS[12]]
    together, turned = predictor.predict(texts), predictor.predict(texts[::-1])
    torch.testing.assert_close(together.probabilities, turned.probabilities.flip(0))
    alone = [predictor.predict(text) for text in texts if text]
    torch.testing.assert_close(
        together.probabilities[[0, 2, 3, 4]], torch.cat([one.probabilities for one in alone])
    )
    for room in (1, 100):
        monkeypatch.setitem(predicting.NUMBERS_AT_ONCE, "cpu", room)
        same(predictor.predict(texts), together)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_support_is_what_the_probability_of_the_class_loses_without_a_word(
    bundle: Callable[..., Path], model: str
) -> None:
    predictor = load(bundle(model), device="cpu")
    texts = ["a wonderful film and a wonderful cast", "dull film"]
    answer = predictor.predict(texts, explain=True)
    assert answer.support is not None
    for text, support, row in zip(texts, answer.support, answer.probabilities, strict=True):
        assert list(support.values()) == sorted(support.values(), reverse=True)
        assert set(support) <= set(text.split())
        for word, lost in support.items():
            rest = " ".join(w for w in text.split() if w != word)
            other = predictor.predict(rest or "?").probabilities[0]
            chosen = int(row.argmax())
            assert lost == pytest.approx(float(row[chosen] - other[chosen]), abs=1e-6)
            assert -1 <= lost <= 1
    assert predictor.predict(texts).support is None


def test_few_words_of_a_long_text_are_explained(
    predictor: TextPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicting, "EXPLAINED", 2)
    answer = predictor.predict("a wonderful film and a dull cast", explain=True)
    assert answer.attention is not None
    assert answer.support is not None
    assert set(answer.support[0]) == set(list(answer.attention[0])[:2])
    assert predictor.predict("zyx", explain=True).support == [{}]


@pytest.mark.parametrize("model", ["fasttext", "bilstm"])
def test_a_model_without_attention_tells_of_none(bundle: Callable[..., Path], model: str) -> None:
    answer = load(bundle(model), device="cpu").predict("a charming film")
    assert answer.attention is None
    (row,) = answer.rows()
    assert list(row) == ["text", "prediction", "probability", "p(blame)", "p(praise)"]


def test_rows_hold_the_class_all_probabilities_and_the_attention(predictor: TextPredictor) -> None:
    answer = predictor.predict(ids=["7"])
    (row,) = answer.rows()
    names = ["prediction", "probability", "p(blame)", "p(praise)", "attention"]
    assert list(row) == ["id", *names[:2], "label", "split", *names[2:]]
    assert row["label"] == LABELS[7]
    assert row["probability"] == row["p(blame)"] == round(float(answer.probabilities[0, 0]), 6)
    assert set(row["attention"]) == set(clean(TEXTS[7]).split())
    (row,) = predictor.predict(TEXTS[7]).rows()
    assert list(row) == ["text", *names]
    assert row["text"] == TEXTS[7]


def test_some_documents_are_answered_for_in_the_order_they_were_asked(
    predictor: TextPredictor,
) -> None:
    everything, some = predictor.predict(), predictor.predict(ids=["8", "1", "8"])
    assert some.ids == ["8", "1", "8"]
    torch.testing.assert_close(some.probabilities, everything.probabilities[[8, 1, 8]])
    with pytest.raises(UserError, match="there is no document '9a'"):
        predictor.predict(ids=["9a"])


def test_new_texts_may_come_in_any_form(predictor: TextPredictor, tmp_path: Path) -> None:
    expected = predictor.predict(TEXTS[4:9])
    (tmp_path / "new.txt").write_text("\n\n".join(TEXTS[4:9]))
    objects = "".join(
        f'{{"text": "{text}", "id": "{text[:3]}{n}"}}\n' for n, text in enumerate(TEXTS[4:9])
    )
    (tmp_path / "new.jsonl").write_text(objects)
    (tmp_path / "new").mkdir()
    for number, text in enumerate(TEXTS[4:9]):
        (tmp_path / "new" / f"{number}.txt").write_text(text)
    table = written(tmp_path / "new.csv", [(text, "w") for text in TEXTS[4:9]], ("text", "who"))
    documents = read(table, TextOptions(labels_needed=False))
    for form in (
        table,
        str(table),
        *(tmp_path / n for n in ("new.txt", "new.jsonl", "new")),
        documents,
    ):
        answer = predictor.predict(form)
        same(answer, expected)
        assert (answer.id_name, answer.notes) == ("id", [])
    assert predictor.predict(tmp_path / "new").ids == [f"{n}.txt" for n in range(5)]


def test_a_string_is_a_text_unless_it_names_a_file(
    predictor: TextPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("film").write_text("lovely\n")
    with pytest.raises(UserError, match="film is not text data: the task text reads"):
        predictor.predict("film")
    assert predictor.predict(["film"]).ids == ["film"]
    with pytest.raises(UserError, match=r"there is no file or folder lovely\.csv"):
        predictor.predict("lovely.csv")
    long = "film " * 2000
    assert predictor.predict(long).ids == [long]


def test_unknown_words_are_left_out_and_told(predictor: TextPredictor) -> None:
    answer = predictor.predict(["A zany charming film", "charming film", "zany", "..."])
    assert answer.notes == [
        "1 document has no words, for example text 3 of the list",
        "unknown words are left out: 'zany'",
        "1 document of 4 has no known word",
        "a text without a known word is classified like an empty one",
    ]
    same(predictor.predict("a charming film"), predictor.predict("a zany charming film"))
    assert answer.attention is not None
    assert answer.attention[2:] == [{}, {}]
    assert torch.equal(answer.probabilities[2], answer.probabilities[3])


@pytest.mark.parametrize("model", MODELS)
def test_a_text_without_a_known_word_is_answered_for(
    bundle: Callable[..., Path], model: str
) -> None:
    answer = load(bundle(model), device="cpu").predict("zany")
    assert math.isclose(float(answer.probabilities.sum()), 1, rel_tol=1e-5)


def test_new_words_count_with_vectors_of_the_same_source(
    bundle: Callable[..., Path], vectors: Path
) -> None:
    folder = bundle("textqgnn", False)
    predictor = load(folder, device="cpu")
    text = "A splendid film!"
    plain = predictor.predict(text)
    assert plain.notes == ["unknown words are left out: 'splendid'"]
    answer = predictor.predict([text, "some gloomy film"], vectors=vectors)
    assert answer.notes == ["unknown words are left out: 'some'"]
    numbers = next(line for line in vectors.read_text().splitlines() if line.startswith("splendid"))
    vector = torch.tensor([float(cell) for cell in numbers.split()[1:]])
    probabilities, gates = by_hand(folder, text, {"splendid": vector})
    torch.testing.assert_close(answer.probabilities[0], probabilities)
    assert answer.attention is not None
    assert answer.attention[0] == pytest.approx(gates, rel=1e-4)
    assert not torch.equal(plain.probabilities[0], answer.probabilities[0])
    held = WordVectors(["splendid"], vector[None])
    same(predictor.predict(text, vectors=held), predictor.predict(text, vectors=vectors))
    with pytest.raises(UserError, match="have 3 dimensions but the model's 8"):
        predictor.predict(text, vectors=WordVectors(["splendid"], torch.ones(1, 3)))


@pytest.mark.parametrize("model", MODELS)
def test_vectors_say_nothing_to_a_model_that_has_its_own(
    bundle: Callable[..., Path], vectors: Path, model: str
) -> None:
    with pytest.raises(UserError, match="learned its own word vectors"):
        load(bundle(model), device="cpu").predict("a film", vectors=vectors)


def test_what_was_refused_is_not_kept(predictor: TextPredictor, tmp_path: Path) -> None:
    other = written(tmp_path / "other.csv", REVIEWS[:-4])
    before = predictor.evaluate()
    with pytest.raises(UserError, match="no longer what the model was trained on"):
        predictor.evaluate(other)
    assert predictor.evaluate() == before


def test_notes_are_of_the_documents_that_are_asked_for(
    predictor: TextPredictor, tmp_path: Path
) -> None:
    (tmp_path / "some.csv").write_text("id,text\na,a dull film\nb,zzzz film\n")
    assert predictor.predict(tmp_path / "some.csv", ids=["a"]).notes == []
    (note,) = predictor.predict(tmp_path / "some.csv").notes
    assert "'zzzz'" in note


def test_data_that_changed_is_a_mistake(bundle: Callable[..., Path], tmp_path: Path) -> None:
    other = written(tmp_path / "reviews.csv", [*REVIEWS, ("one more", "praise")])
    for learned in (True, False):
        predictor = load(bundle("textqgnn", learned), device="cpu")
        with pytest.raises(UserError, match="no longer what the model was trained on"):
            predictor.evaluate(other)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ("", "there is no text to classify"),
        ([" ", ""], "there is no text to classify"),
        ([], "there is no text to classify"),
        ("a\0b", r"'a\\x00b' is not UTF-8 text"),
        (["good", "b\udce9d"], r"'b\\udce9d' is not UTF-8 text"),
        (["good", 5], "texts must be a list of strings"),
    ],
)
def test_what_is_no_text_is_refused(predictor: TextPredictor, texts: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        predictor.predict(texts)
