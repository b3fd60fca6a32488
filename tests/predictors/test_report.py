"""Reports of trained models: on their test data, on new data, and on labels they do not know."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reviews
import rings
import torch
from karate import config_of as node_config
from on_cpu import train_in_folder
from sklearn.metrics import accuracy_score, confusion_matrix

from quatgraph.data.graph import Graphs
from quatgraph.data.graph import read as read_graphs
from quatgraph.data.node import load as read_nodes
from quatgraph.data.text import TextOptions, from_list
from quatgraph.errors import UserError
from quatgraph.predictors import (
    GraphPredictor,
    NodePredictor,
    TextPredictor,
    load,
    train_graphs,
)
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.node import NODE
from quatgraph.tasks.text import TEXT


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GraphPredictor]:
    """Three models, one for each fold; the last graph has no label."""
    folder = tmp_path_factory.mktemp("graphs")
    unlabelled = {k: v for k, v in rings.ring_or_chain(30).items() if k != "label"}
    path = rings.written(folder / "rings.jsonl", [*rings.lines(), unlabelled])
    train_in_folder(
        GRAPH, [rings.config_of(**{"data.path": str(path), "train.epochs": 15})], folder / "m"
    )
    found = load(folder / "m", device="cpu")
    assert isinstance(found, GraphPredictor)
    return path, found


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TextPredictor]:
    """Texts whose label column has a name of its own."""
    folder = tmp_path_factory.mktemp("texts")
    path = reviews.written(folder / "reviews.csv", columns=("text", "mood"))
    config = reviews.config_of(**{"data.path": str(path), "train.epochs": 5})
    train_in_folder(TEXT, [config], folder / "m")
    found = load(folder / "m", device="cpu")
    assert isinstance(found, TextPredictor)
    return path, found


@pytest.fixture
def karate(tmp_path: Path) -> NodePredictor:
    train_in_folder(NODE, [node_config()], tmp_path / "karate")
    found = load(tmp_path / "karate", device="cpu")
    assert isinstance(found, NodePredictor)
    return found


def rows_of(predictor: Any, *arguments: Any) -> list[dict[str, Any]]:
    return list(predictor.predict(*arguments).rows())


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_a_part_is_measured_by_what_is_predicted_for_it(karate: NodePredictor, part: str) -> None:
    own = [row for row in rows_of(karate) if row["split"] == part]
    truth, guesses = ([row[key] for row in own] for key in ("label", "prediction"))
    report = karate.report(part=part)
    assert report.accuracy == pytest.approx(accuracy_score(truth, guesses))
    names = [one.label for one in report.classes]
    assert report.confusion == confusion_matrix(truth, guesses, labels=names).tolist()
    assert report.accuracy == pytest.approx(karate.evaluate()[f"{part}/accuracy"])


def test_another_part_is_a_mistake(karate: NodePredictor) -> None:
    with pytest.raises(UserError, match="part must be train, valid or test, got 'tset'"):
        karate.report(part="tset")


def test_each_fold_is_measured_by_its_own_model_and_all_are_pooled(
    graphs: tuple[Path, GraphPredictor],
) -> None:
    path, predictor = graphs
    data = read_graphs(path)
    truth, guesses = [], []
    for member in predictor.members:
        places = predictor._parts(member, data)["test"]
        scores = predictor._log_probabilities([member], data, places)
        truth += data.y[places].tolist()
        guesses += scores.argmax(dim=1).tolist()
    report = predictor.report()
    assert report.num_items == len(truth) == 30
    assert report.confusion == confusion_matrix(truth, guesses).tolist()


def test_training_data_is_known_wherever_it_lies(
    graphs: tuple[Path, GraphPredictor], tmp_path: Path
) -> None:
    path, predictor = graphs
    moved = shutil.copy(path, tmp_path / "moved.jsonl")
    assert predictor.adopt(moved)
    assert predictor.report(moved).to_dict() == predictor.report().to_dict()


def test_predictions_for_training_data_have_labels_and_splits_wherever_it_lies(
    graphs: tuple[Path, GraphPredictor],
    texts: tuple[Path, TextPredictor],
    karate: NodePredictor,
    tmp_path: Path,
) -> None:
    sources: list[tuple[Path, GraphPredictor | TextPredictor]] = [graphs, texts]
    for path, predictor in sources:
        expected = rows_of(predictor)
        assert "train" in {row["split"] for row in expected}
        assert rows_of(predictor, path) == expected
        again = load(path.parent / "m", device="cpu")  # the training data was not read before
        assert rows_of(again, shutil.copy(path, tmp_path)) == expected
    few = graphs[1].predict(graphs[0], ids=["chain-7", "ring-2"])
    chosen = graphs[1].predict(ids=["chain-7", "ring-2"])
    assert (few.known_labels, few.splits) == (chosen.known_labels, chosen.splits)
    assert rows_of(karate, read_nodes("karate")) == rows_of(karate)


@pytest.mark.parametrize("unused", [False, True])
def test_training_graphs_in_memory_have_their_splits(unused: bool, tmp_path: Path) -> None:
    collection = rings.collection(tmp_path)
    if unused:
        collection = replace(collection, label_names=[*collection.label_names, "star"])
    config = rings.config_of(**{"train.epochs": 1})
    model = train_graphs(collection, tmp_path / "m", config=config, device="cpu")
    assert model.predict(collection).splits == model.predict().splits
    assert model.predict(collection.select(range(20))).splits is None
    listed = collection.to_data_list()
    model = train_graphs(listed, tmp_path / "n", config=config, device="cpu")
    assert model.predict(listed).splits == model.predict().splits is not None


def test_training_texts_are_read_as_training_read_them(tmp_path: Path) -> None:
    parts = [("train", "train", "valid", "test")[place // 2 % 4] for place in range(60)]
    table = [(*review, part) for review, part in zip(reviews.REVIEWS, parts, strict=True)]
    path = reviews.written(tmp_path / "reviews.csv", table, ("text", "label", "part"))
    values = {"data.path": str(path), "data.split": "part", "data.min_count": 5}
    train_in_folder(TEXT, [reviews.config_of(**values)], tmp_path / "m")
    predictor = load(tmp_path / "m", device="cpu")
    found = predictor.predict(shutil.copy(path, tmp_path / "moved.csv"))
    assert found.splits == parts
    assert found.notes == []
    reviews.written(path, table[:-4], ("text", "label", "part"))
    assert predictor.predict(path).splits is None


def test_new_data_of_other_class_sizes_needs_no_digest(
    graphs: tuple[Path, GraphPredictor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = rings.written(tmp_path / "new.jsonl", rings.lines(6))

    def refuse(_: object) -> str:
        raise AssertionError("a digest of new data")

    monkeypatch.setattr(Graphs, "digest", property(refuse))
    assert graphs[1].predict(path).splits is None


def test_new_graphs_are_measured_by_all_models(
    graphs: tuple[Path, GraphPredictor], tmp_path: Path
) -> None:
    _, predictor = graphs
    lines = rings.lines(12)[2:]
    lines[0] |= {"label": "star"}
    del lines[1]["label"]
    path = rings.written(tmp_path / "new.jsonl", lines)
    assert not predictor.adopt(path)
    report, rows = predictor.report(path), rows_of(predictor, path)
    assert [row["label"] for row in rows] == ["star", "", *(line["label"] for line in lines[2:])]
    assert "split" not in rows[0]
    known = [row for row in rows if row["label"]]
    truth, guesses = ([row[key] for row in known] for key in ("label", "prediction"))
    assert report.num_items == 9
    assert report.accuracy == pytest.approx(accuracy_score(truth, guesses))
    names = [one.label for one in report.classes]
    assert names == ["chain", "ring", "star"]
    assert report.confusion == confusion_matrix(truth, guesses, labels=names).tolist()
    assert report.notes == [
        "1 item of 9 with a label that the model does not know ('star') counts as wrong",
        "1 item without a label left out",
    ]


def test_data_without_a_known_label_is_a_mistake(
    graphs: tuple[Path, GraphPredictor], tmp_path: Path
) -> None:
    _, predictor = graphs
    others = [line | {"label": f"odd {line['label']}"} for line in rings.lines(6)]
    with pytest.raises(UserError, match="the labels 'odd chain', 'odd ring', none of which is a "):
        predictor.report(rings.written(tmp_path / "odd.jsonl", others))
    with pytest.raises(UserError, match="none has no labels to compare predictions with"):
        predictor.report(
            rings.written(tmp_path / "none.jsonl", rings.without(rings.lines(6), "label"))
        )
    with pytest.raises(UserError, match="there is no file or folder"):
        predictor.report(tmp_path / "nowhere.jsonl")


def test_an_item_that_a_model_was_trained_on_is_not_for_testing(
    graphs: tuple[Path, GraphPredictor],
) -> None:
    path, predictor = graphs
    data = predictor._load_training_data()
    trained = {
        place
        for member in predictor.members
        for place in predictor._parts(member, data)["train"].tolist()
    }
    assert len(trained) > 20
    for place, row in enumerate(rows_of(predictor)):
        assert (row["split"] == "train") == (place in trained)
    assert row["split"] == ""
    # A single fold has all three.
    single = load(path.parent / "m", device="cpu")
    single.members = single.members[:1]
    parts = single._parts(single.members[0], single._load_training_data())
    splits = np.array([row["split"] for row in rows_of(single)])
    for part, places in parts.items():
        assert set(splits[places]) == {part}


def test_new_texts_are_measured_by_the_columns_of_training(
    texts: tuple[Path, TextPredictor], tmp_path: Path
) -> None:
    path, predictor = texts
    moved = shutil.copy(path, tmp_path / "moved.csv")
    assert predictor.report(moved).to_dict() == predictor.report().to_dict()
    new = [("a charming story", "praise"), ("dull and flat", "blame"), ("a lovely film", "praise")]
    few = reviews.written(tmp_path / "few.csv", new[:1], ("text", "mood"))
    assert predictor.report(few).num_items == 1  # one class is enough to measure
    report = predictor.report(reviews.written(tmp_path / "new.csv", new, ("text", "mood")))
    expected = predictor.predict([text for text, _ in new]).labels
    truth = [label for _, label in new]
    assert report.accuracy == pytest.approx(accuracy_score(truth, expected))
    options = TextOptions(for_training=False)
    documents = from_list([text for text, _ in new], truth, options)
    assert predictor.report(documents).confusion == report.confusion
    assert predictor.report(([text for text, _ in new], truth)).confusion == report.confusion
    frame = pytest.importorskip("pandas").DataFrame(new, columns=["text", "label"])
    assert predictor.report(frame).confusion == report.confusion


def test_what_evaluate_cannot_set_is_not_advised(
    texts: tuple[Path, TextPredictor], tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text("text,a,b\na lovely film,5,6\n")
    with pytest.raises(UserError) as mistake:
        texts[1].report(tmp_path / "new.csv")
    assert str(mistake.value).endswith("its columns are 'text', 'a', 'b'; rename one of them")


def test_a_column_that_training_named_may_lack_where_nothing_is_compared(tmp_path: Path) -> None:
    path = reviews.written(tmp_path / "reviews.csv", columns=("body", "mood"))
    named = {"data.path": str(path), "data.text": "body", "data.label": "mood"}
    train_in_folder(TEXT, [reviews.config_of(**named)], tmp_path / "m")
    predictor = load(tmp_path / "m", device="cpu")
    (tmp_path / "new.csv").write_text("body,stars\na lovely film,5\n")
    assert "label" not in rows_of(predictor, tmp_path / "new.csv")[0]
    with pytest.raises(UserError, match="has no column 'mood'"):
        predictor.report(tmp_path / "new.csv")
    (tmp_path / "more.csv").write_text("body,stars,mood\na lovely film,5,praise\n")
    assert rows_of(predictor, tmp_path / "more.csv")[0]["label"] == "praise"


def test_training_data_that_changed_is_not_new_data(
    texts: tuple[Path, TextPredictor], tmp_path: Path
) -> None:
    path = reviews.written(tmp_path / "reviews.csv")
    train_in_folder(TEXT, [reviews.config_of(**{"data.path": str(path)})], tmp_path / "m")
    predictor = load(tmp_path / "m", device="cpu")
    reviews.written(path, reviews.REVIEWS[:-4])
    with pytest.raises(UserError, match="no longer what the model was trained on"):
        predictor.report(path)


def test_a_report_of_a_model_is_json(karate: NodePredictor) -> None:
    values = json.loads(json.dumps(karate.report().to_dict(), allow_nan=False))
    assert values["num_items"] == int(torch.tensor(values["confusion"]).sum())
