"""A model on the graph of a corpus answers for its own texts, and folds new ones into the graph."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from on_cpu import train_in_folder
from reviews import LABELS, TEXTS, config_of, rounded, written

from quatgraph.errors import UserError
from quatgraph.models.text import MODELS
from quatgraph.predictors import load, train_texts
from quatgraph.tasks.refit import refit
from quatgraph.tasks.text import TEXT
from quatgraph.training.bundle import load_bundle
from quatgraph.training.context import Context

NAMES = {name: MODELS[name].__name__ for name in MODELS if MODELS[name].transductive}
every_name = pytest.mark.parametrize("name", NAMES)


def note(name: str) -> str:
    return (
        f"{NAMES[name]} is transductive: new texts are folded into the graph; their predictions "
        "are approximate"
    )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``(name)``: a bundle, trained once."""
    made: dict[str, Path] = {}
    place = written(tmp_path_factory.mktemp("own") / "reviews.csv")

    def trained(name: str) -> Path:
        if name not in made:
            out = tmp_path_factory.mktemp(name)
            config = config_of(**{"data.path": str(place), "model.name": name, "train.epochs": 40})
            made[name] = train_in_folder(TEXT, [config], out).folder
        return made[name]

    return trained


@every_name
def test_training_texts_have_the_metrics_that_the_graph_gave(bundle, name, tmp_path) -> None:
    predictor = load(bundle(name), device="cpu")
    recorded = predictor.card["metrics"]
    assert rounded(predictor.evaluate()) == pytest.approx(
        {key: recorded[key] for key in predictor.evaluate()}, rel=1e-4
    )
    answer = predictor.predict()
    assert answer.notes == []
    right = [a == b for a, b in zip(answer.labels, LABELS, strict=True)]
    assert sum(right) >= 54
    some = predictor.predict(ids=["7", "3"])
    torch.testing.assert_close(some.probabilities, answer.probabilities[[7, 3]])
    again = predictor.predict(written(tmp_path / "moved.csv"))
    assert (again.notes, again.splits) == ([], answer.splits)
    torch.testing.assert_close(again.probabilities, answer.probabilities)


@every_name
def test_new_texts_are_folded_in_with_a_note(bundle, name) -> None:
    predictor = load(bundle(name), device="cpu")
    known, new = predictor.predict(), predictor.predict(TEXTS)
    assert new.notes == [note(name)]
    assert not torch.equal(known.probabilities, new.probabilities)  # without their own vectors
    agree = known.probabilities.argmax(dim=1) == new.probabilities.argmax(dim=1)
    assert agree.float().mean() > 0.9
    unheard = predictor.predict("unheard of")
    assert note(name) in unheard.notes
    assert unheard.probabilities.isfinite().all()
    assert predictor.predict("a lovely film", explain=True).support is not None
    assert predictor.predict(ids=["0"], explain=True).support is not None


@every_name
def test_a_report_on_new_texts_has_the_note(bundle, name, tmp_path: Path) -> None:
    predictor = load(bundle(name), device="cpu")
    rows = [("A lovely film!", "praise"), ("A dull film!", "blame")]
    report = predictor.report(written(tmp_path / "new.csv", rows))
    assert note(name) in report.notes
    assert note(name) not in predictor.report().notes


@every_name
def test_texts_have_vectors(bundle, name) -> None:
    predictor = load(bundle(name), device="cpu")
    own, new = predictor.embed(), predictor.embed(["a lovely film"])
    width = 8 if name == "textgcn" else 2
    assert (own.vectors.shape, new.vectors.shape) == ((60, width), (1, width))
    assert (own.notes, new.notes) == ([], [note(name)])


@every_name
def test_a_bundle_holds_no_graph(bundle, name) -> None:
    shapes = {n: tuple(t.shape) for n, t in load_bundle(bundle(name)).tensors.items()}
    words = len(load_bundle(bundle(name)).card["words"])
    assert max(len(shape) for shape in shapes.values()) == 2
    assert {shape[0] for shape in shapes.values()} <= {words, words + 60, 2}


@every_name
def test_it_is_refitted_on_all_labels(name, tmp_path: Path) -> None:
    place, folder = written(tmp_path / "reviews.csv"), tmp_path / "model"
    config = config_of(**{"data.path": str(place), "model.name": name, "train.epochs": 20})
    before = train_in_folder(TEXT, [config], folder)
    refit(TEXT, folder, Context(torch.device("cpu")))
    predictor = load(folder, device="cpu")
    assert predictor.card["metrics"] == before.metrics
    answer = predictor.predict()
    assert sum(a == b for a, b in zip(answer.labels, LABELS, strict=True)) >= 54
    with pytest.raises(UserError, match="refitted on all labels, so no test data is left"):
        predictor.evaluate()


def test_texts_in_memory_are_known_again_by_their_digest(tmp_path: Path) -> None:
    config = config_of(**{"model.name": "textgcn", "train.epochs": 5})
    trained = train_texts(TEXTS, LABELS, tmp_path / "m", config=config, device="cpu")
    expected = trained.evaluate()
    loaded = load(tmp_path / "m", device="cpu")
    with pytest.raises(UserError, match="pass the texts again"):
        loaded.evaluate()
    assert loaded.evaluate((TEXTS, LABELS)) == pytest.approx(expected)
