"""Commands for texts: train, evaluate, predict, data stats."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import assert_user_error, call, change_card
from reviews import FILLERS, GOOD, REVIEWS, options, vector_file, written
from typer.testing import CliRunner

from quatgraph.cli import app

SHORT = [*options(), "--set", "model.name=textqgnn", "--device", "cpu"]
TEXTS = [text for text, _ in REVIEWS]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of one's own, and a model of them."""
    place = tmp_path_factory.mktemp("world")
    written(place / "reviews.csv")
    trained = call("train", "text", "--data", f"{place}/reviews.csv", *SHORT, "--out", f"{place}/m")
    assert trained.exit_code == 0
    drawn, note = trained.stderr.splitlines()
    assert "reviews.csv has no split: drawn with seed 0, " in drawn
    assert "test documents have the same words as a training document" in note
    (place / "printed").write_text(trained.stdout)
    return place


@pytest.fixture
def model(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return f"{world}/m"


def answered(*arguments: str, log: str = "") -> str:
    result = call("predict", *arguments, "--device", "cpu")
    assert (result.exit_code, result.stderr) == (0, log)
    return result.stdout


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def piped(model: str, content: bytes, *more: str) -> Any:
    return CliRunner().invoke(app, ["predict", model, "-", *more], input=content)


def test_a_training_tells_its_accuracy_and_what_to_compare_it_with(world: Path) -> None:
    lines = (world / "printed").read_text().splitlines()
    assert re.fullmatch(r"test accuracy \d+\.\d\d %, macro-F1 \d+\.\d\d %", lines[0])
    assert "texts: 60 in 2 classes, 50.0 % in the largest" in lines
    assert lines[-1] == f'predict with: quatgraph predict {world}/m "a text of your own"'


def test_a_text_is_answered_by_a_table_of_its_classes_and_words(model: str) -> None:
    unknown = "quatgraph: unknown words are left out: 'little'\n"
    lines = answered(model, "A charming little film", log=unknown).splitlines()
    asked = ("A charming little film", "--json")
    (row,) = map(json.loads, answered(model, *asked, log=unknown).splitlines())
    classes = sorted(("blame", "praise"), key=lambda name: -row[f"p({name})"])
    assert [line.split() for line in lines[:3]] == [
        ["class", "probability"],
        *([name, f"{row[f'p({name})']:.4f}"] for name in classes),
    ]
    support = sorted(row["support"].items(), key=lambda item: -item[1])
    assert [line.split() for line in lines[4:]] == [
        ["word", "support", "attention"],
        *([word, f"{lost:+.4f}", f"{row['attention'][word]:.4f}"] for word, lost in support),
    ]
    assert {word for word, _ in support} == {"a", "charming", "film"}


def test_at_most_ten_words_are_shown(model: str) -> None:
    assert answered(model, " ".join(FILLERS)).count("\n") == 3 + 1 + 1 + 10


def test_a_table_is_answered_as_csv_with_the_weightiest_words(model: str, world: Path) -> None:
    rows = rows_of(answered(model, f"{world}/reviews.csv"))
    assert list(rows[0]) == [
        "id",
        "prediction",
        "probability",
        "label",
        "split",
        "p(blame)",
        "p(praise)",
        "attention",
    ]
    assert [row["id"] for row in rows] == [str(place) for place in range(60)]
    same = [json.loads(line) for line in answered(model, "--json").splitlines()]
    for row, whole in zip(rows, same, strict=True):
        weights = sorted(whole["attention"].items(), key=lambda item: -item[1])[:10]
        assert sorted(row["attention"].split("; ")) == sorted(f"{w} {n:.4f}" for w, n in weights)
        assert row["prediction"] == whole["prediction"]


def test_words_without_quotes_are_told_to_be_texts(model: str) -> None:
    result = "quatgraph: 2 texts of one word each; quote several words to make them one text"
    assert result in call("predict", model, "great", "film").stderr
    assert result not in call("predict", model, "a great film", "film").stderr


def test_several_texts_or_a_text_a_line_are_answered_as_csv(model: str, tmp_path: Path) -> None:
    several = answered(model, *TEXTS[:3])
    assert [row["text"] for row in rows_of(several)] == TEXTS[:3]
    result = piped(model, "\n\n".join(["", *TEXTS[:3], ""]).encode())
    assert (result.exit_code, result.stdout) == (0, several)
    assert rows_of(piped(model, TEXTS[0].encode()).stdout) == rows_of(several)[:1]
    (tmp_path / "new.txt").write_text("\n".join(TEXTS[:3]))
    named = [
        {"text": text, **row}
        for text, row in zip(TEXTS, rows_of(answered(model, "new.txt")), strict=False)
    ]
    assert [{k: v for k, v in row.items() if k != "id"} for row in named] == rows_of(several)


def test_some_documents_are_asked_for_and_answers_go_to_a_file(model: str, tmp_path: Path) -> None:
    result = answered(model, "--document", "7", "--document", "1", "--out", "some.csv")
    assert result == "2 predictions in some.csv\n"
    assert [row["id"] for row in rows_of((tmp_path / "some.csv").read_text())] == ["7", "1"]
    answered(model, TEXTS[0], "--out", "one.csv")
    assert rows_of((tmp_path / "one.csv").read_text())[0]["text"] == TEXTS[0]


def test_evaluating_gives_the_recorded_metrics(model: str, world: Path) -> None:
    for more in ([], [f"{world}/reviews.csv"]):
        result = call("evaluate", model, *more, "--json")
        assert result.exit_code == 0
        *rows, report = (json.loads(line) for line in result.stdout.splitlines())
        assert report["report"]["num_items"] == 12
        assert {row["metric"] for row in rows} == {
            f"{part}/{what}"
            for part in ("valid", "test")
            for what in ("accuracy", "loss", "macro-f1")
        }
        for row in rows:
            assert row["computed"] == pytest.approx(row["recorded"], rel=1e-5)


def test_only_metrics_on_record_are_evaluated(model: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(model, other)
    metrics = json.loads((other / "card.json").read_text())["metrics"]
    change_card(other, metrics={k: v for k, v in metrics.items() if "macro-f1" not in k})
    result = call("evaluate", "other", "--json")
    assert result.exit_code == 0
    names = {json.loads(line)["metric"] for line in result.stdout.splitlines()[:-1]}
    parts = ("valid", "test")
    assert names == {f"{part}/{name}" for part in parts for name in ("accuracy", "loss")}


def test_a_training_is_resumed(world: Path, model: str) -> None:
    arguments = ["train", "text", "--data", f"{world}/reviews.csv", *SHORT, "--json"]
    once = json.loads(call(*arguments, "--out", "once").stdout)
    paused = call(*arguments, "--out", "twice", "--max-minutes", "0")
    assert json.loads(paused.stdout)["paused"]
    twice = json.loads(call(*arguments, "--out", "twice", "--resume").stdout)
    assert twice["metrics"] == once["metrics"]
    assert_user_error(call(*arguments, "--out", "twice"), "already holds ")


def test_vectors_make_new_words_count(world: Path, model: str, tmp_path: Path) -> None:
    vector_file(tmp_path / "vectors.txt", [*FILLERS, *GOOD, "splendid"])
    fixed = ["--vectors", "vectors.txt", "--set", "model.learned_vectors=false"]
    trained = call("train", "text", "--data", f"{world}/reviews.csv", *SHORT, *fixed, "--out", "v")
    assert "words: 18 of 22 have a vector" in trained.stdout
    text = "a splendid film"
    plain = answered("v", text, log="quatgraph: unknown words are left out: 'splendid'\n")
    assert "splendid" not in plain
    assert "splendid" in answered("v", text, "--vectors", "vectors.txt")
    config = json.loads((tmp_path / "v" / "card.json").read_text())["members"][0]["config"]
    assert config["data"]["vectors"] == str(tmp_path / "vectors.txt")


def test_new_words_count_by_their_vectors_like_words_of_test_documents_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Learned vectors too: no training document has changed those."""
    monkeypatch.chdir(tmp_path)
    rows = [*((*row, "train") for row in REVIEWS), ("a splendid film", "praise", "test")]
    written(tmp_path / "mine.csv", rows, ("text", "label", "split"))
    known = vector_file(tmp_path / "known.txt", [*FILLERS, *GOOD, "splendid"]).read_text()
    (tmp_path / "twin.txt").write_text(known.replace("splendid", "gorgeous"))
    source = ["--vectors", "known.txt", "--out", "m"]
    assert call("train", "text", "--data", "mine.csv", *SHORT, *source).exit_code == 0
    new = answered("m", "a gorgeous film", "--vectors", "twin.txt", "--json")
    tested = answered("m", "a splendid film", "--json")
    assert json.loads(new.replace("gorgeous", "splendid")) == json.loads(tested)


def test_the_columns_are_named_by_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "mine.csv", [(*row, "me") for row in REVIEWS], ("review", "stars", "by"))
    names = ["--set", "data.text=review", "--set", "data.label=stars"]
    assert call("train", "text", "--data", "mine.csv", *SHORT, *names, "--out", "m").exit_code == 0
    assert len(rows_of(answered("m", "mine.csv"))) == 60


def counted(path: Path, *options: str) -> dict[str, Any]:
    result = call("data", "stats", str(path), "--json", *options)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_texts_are_counted(world: Path, tmp_path: Path) -> None:
    numbers = {"documents": 60, "labelled": 60, "classes": 2, "vocabulary": 22}
    assert counted(world / "reviews.csv").items() >= {"name": "reviews", **numbers}.items()
    two = written(tmp_path / "two.csv", columns=("review", "stars"))
    for named in ([], ["--set", "data.text=review"]):
        assert counted(two, *named).items() >= numbers.items()
    objects = (json.dumps({"label": label, "text": text}) for text, label in REVIEWS)
    (tmp_path / "own.jsonl").write_text("\n".join(objects))
    assert counted(tmp_path / "own.jsonl").items() >= numbers.items()
    for number, (text, label) in enumerate(REVIEWS):
        folder = tmp_path / "folder" / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(text)
    assert counted(tmp_path / "folder").items() >= numbers.items()
    unlabelled = written(tmp_path / "plain.csv", [(text,) for text in TEXTS], ("Text",))
    assert counted(unlabelled).items() >= {"documents": 60, "labelled": 0}.items()
    three = written(
        tmp_path / "three.csv", [(*row, "me") for row in REVIEWS], ("review", "stars", "by")
    )
    names = ["--set", "data.text=review", "--set", "data.label=stars"]
    assert counted(three, *names).items() >= numbers.items()
    assert_user_error(call("data", "stats", str(three), "--set", "data.text=reviews"), "'review'?")
    shown = call("data", "stats", str(two)).stdout.splitlines()
    assert {line.rindex(" ") for line in shown} == {len("vocabulary")}


def test_what_holds_no_texts_is_counted_as_before(tmp_path: Path) -> None:
    (tmp_path / "triples.csv").write_text("head,relation,tail\na,knows,b\nb,knows,a\n")
    assert counted(tmp_path / "triples.csv")["relations"] == 1
    (tmp_path / "triples.tsv").write_text("a\tknows\tb\nb\tknows\ta\n")
    assert counted(tmp_path / "triples.tsv")["entities"] == 2
    (tmp_path / "graph" / "notes").mkdir(parents=True)
    (tmp_path / "graph" / "notes" / "a.txt").write_text("a text")
    (tmp_path / "graph" / "nodes.csv").write_text(
        "id,label\n" + "".join(f"n{k},{'ab'[k % 2]}\n" for k in range(10))
    )
    (tmp_path / "graph" / "edges.csv").write_text("n0,n1\n")
    assert counted(tmp_path / "graph")["nodes"] == 10
    (tmp_path / "tu" / "notes").mkdir(parents=True)
    (tmp_path / "tu" / "notes" / "a.txt").write_text("a text")
    for name, content in {
        "A": "1, 2\n",
        "graph_indicator": "1\n1\n",
        "graph_labels": "x\n",
    }.items():
        (tmp_path / "tu" / f"R_{name}.txt").write_text(content)
    assert counted(tmp_path / "tu")["graphs"] == 1
    graph = '{"edges": [[0, 1]], "label": "text", "node_labels": ["text", "x"]}\n'
    (tmp_path / "own.jsonl").write_text(graph)
    assert counted(tmp_path / "own.jsonl")["graphs"] == 1


def test_groups_stay_whole_and_the_split_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(*row, f"author {place // 5}") for place, row in enumerate(REVIEWS)]
    written(Path("mine.csv"), rows, ("text", "label", "author"))
    group = ["--set", "data.group=author"]
    trained = call("train", "text", "--data", "mine.csv", *SHORT, *group, "--out", "m")
    assert trained.exit_code == 0
    evaluated = call("evaluate", "m", "--json")
    assert evaluated.exit_code == 0
    for row in map(json.loads, evaluated.stdout.splitlines()[:-1]):
        assert row["computed"] == pytest.approx(row["recorded"], abs=1e-5)
    predicted = call("predict", "m", "mine.csv", "--json")  # new texts need no such column
    assert len(predicted.stdout.splitlines()) == len(REVIEWS)
    assert_user_error(
        call("train", "text", "--data", "mine.csv", "--set", "data.group=autor", "--out", "n"),
        "mine.csv has no column 'autor'; did you mean 'author'?",
    )
