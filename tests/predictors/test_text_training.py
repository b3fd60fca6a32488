"""Texts are learned from a file or a list, and a bundle answers without what it learned from."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from on_cpu import train_in_folder
from reviews import LABELS, REVIEWS, TEXTS, config_of, same, vector_file, written

import quatgraph
from quatgraph import predictors
from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.predictors import load, train_texts
from quatgraph.tasks import job
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import TextConfig

CPU = torch.device("cpu")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return written(tmp_path / "reviews.csv")


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    return vector_file(tmp_path / "vectors.txt")


def test_a_column_named_in_training_is_that_of_new_texts(tmp_path: Path) -> None:
    columns = ("review", "stars", "by")
    rows = [(*row, "me") for row in REVIEWS]
    names = {"data.text": "review", "data.label": "stars"}
    config = config_of(**names)
    path = written(tmp_path / "named.csv", rows, columns)
    predictor = train_texts(path, None, tmp_path / "m", config=config, device="cpu")
    expected = predictor.predict(TEXTS[:3])
    same(predictor.predict(written(tmp_path / "new.csv", rows[:3], columns)), expected)
    (tmp_path / "new.txt").write_text("\n".join(TEXTS[:3]))
    same(predictor.predict(tmp_path / "new.txt"), expected)
    others = written(tmp_path / "others.csv", rows[:3], ("revew", "stars", "by"))
    with pytest.raises(UserError, match="no column 'review'; did you mean 'revew'"):
        predictor.predict(others)


def test_stop_words_that_training_left_out_stay_out(tmp_path: Path, vectors: Path) -> None:
    values = {"data.stop_words": True, "data.vectors": str(vectors), "data.min_count": 2}
    config = config_of(**values, **{"model.learned_vectors": False})
    predictor = train_texts(TEXTS, LABELS, tmp_path / "m", config=config, device="cpu")
    answer = predictor.predict("the film is splendid", vectors=vectors)
    assert answer.attention is not None
    assert set(answer.attention[0]) == {"film", "splendid"}
    assert answer.notes == []


def test_a_bundle_answers_wherever_it_is_and_whatever_became_of_its_data(
    place: Path, vectors: Path, tmp_path: Path
) -> None:
    """One with fixed vectors does not even need their file."""
    (tmp_path / "here").mkdir()
    data = Path(shutil.copy(place, tmp_path / "here"))
    source = Path(shutil.copy(vectors, tmp_path / "here"))
    values = {"data.path": str(data), "data.vectors": str(source), "model.learned_vectors": False}
    out = tmp_path / "here" / "m"
    train_in_folder(TEXT, [config_of(**values)], out)
    expected = load(out, device="cpu").predict()
    moved = tmp_path / "there"
    (tmp_path / "here").rename(moved)
    (moved / source.name).unlink()
    predictor = load(moved / "m", device="cpu")
    same(predictor.predict(TEXTS), expected)
    with pytest.raises(UserError, match=r"no longer at .*reviews\.csv: pass its new path"):
        predictor.evaluate()
    again = predictor.evaluate(moved / data.name)
    recorded = predictor.card["metrics"]
    assert again == pytest.approx({name: recorded[name] for name in again}, rel=1e-4, abs=1e-7)
    same(predictor.predict(), expected)


def test_a_bundle_whose_vectors_are_learned_does_without_their_file(
    place: Path, vectors: Path, tmp_path: Path
) -> None:
    values = {"data.path": str(place), "data.vectors": str(vectors), "train.epochs": 2}
    job = train_in_folder(TEXT, [config_of(**values)], tmp_path / "m")
    vectors.unlink()
    again = load(job.folder, device="cpu")
    found, recorded = again.evaluate(), again.card["metrics"]
    assert found == {name: pytest.approx(recorded[name], rel=1e-5) for name in found}
    assert len(again.predict().ids) == len(REVIEWS)


def test_documents_without_labels_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no document in the list of texts has a label"):
        train_texts(from_list(["a b", "c d"]), None, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_texts_in_memory_are_learned_and_asked(tmp_path: Path) -> None:
    predictor = quatgraph.train_texts(
        TEXTS, LABELS, tmp_path / "m", config=config_of(), device="cpu"
    )
    again = load(tmp_path / "m", device="cpu")
    with pytest.raises(UserError, match="trained on data in memory: pass the texts again"):
        again.predict()
    same(again.predict(TEXTS), predictor.predict())
    assert again.evaluate(from_list(TEXTS, LABELS)) == predictor.evaluate()
    more = {"config": config_of(), "device": "cpu"}
    with pytest.raises(UserError, match="a list of texts needs a list of labels"):
        train_texts(TEXTS, None, tmp_path / "n", **more)
    with pytest.raises(UserError, match="labels belong to a list of texts"):
        train_texts(from_list(TEXTS, LABELS), LABELS, tmp_path / "n", **more)
    resumed = train_texts(from_list(TEXTS, LABELS), None, tmp_path / "m", resume=True, **more)
    same(resumed.predict(), predictor.predict())


def test_without_a_config_a_few_settings_are_tried(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[TextConfig] = []

    def shorter(task: Any, candidates: list[TextConfig], *args: Any, **others: Any) -> Any:
        tried.extend(candidates)
        short = config_of(**{"data.path": str(place)})
        return job.train_in_folder(task, [short], *args, **others)

    monkeypatch.setattr(predictors.training, "train_in_folder", shorter)
    train_texts(place, None, tmp_path / "m", device="cpu")
    assert [config.data.path for config in tried] == [str(place)] * len(tried)
    assert len(tried) == len(default_candidates(TEXT)) > 1
