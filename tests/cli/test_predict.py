"""Commands that query a trained model: evaluate and predict."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from commands import assert_user_error, call, change_card

from quatgraph.predictors import PREDICTORS
from quatgraph.training.bundle import Bundle

IDS = ["alice", "bob smith", 'say "hi"', "d,e"] + [f"n{k}" for k in range(16)]


def write_graph(folder: Path, columns: dict[str, list]) -> None:
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *columns])
        writer.writerows(zip(IDS, *columns.values(), strict=True))
    with (folder / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows((IDS[k], IDS[(k + 2) % 20]) for k in range(20))


COLUMNS = {"label": ["sun, moon", "star"] * 10, "x": [0.1, 4.0] * 10, "y": list(range(20))}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of one's own with awkward ids, and a model of it."""
    place = tmp_path_factory.mktemp("world")
    write_graph(place / "graph", COLUMNS)
    settings = ["--set", "train.epochs=30", "--set", "model.hidden_quats=2", "--device", "cpu"]
    trained = call(
        "train", "node", "--data", str(place / "graph"), *settings, "--out", f"{place}/m"
    )
    assert trained.exit_code == 0
    return place


def test_a_place_that_cannot_be_is_told_before_the_bundle_is_opened(world: Path) -> None:
    for place in ("", str(world), f"{world}/nowhere/answers.csv"):
        assert_user_error(call("predict", "no bundle", "--out", place), "cannot write ")


def test_predictions_are_csv_with_the_persons_own_words(world: Path) -> None:
    result = call("predict", f"{world}/m")
    assert result.exit_code == 0
    assert result.stderr == ""
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    known = ["label", "split"]
    assert list(rows[0]) == ["id", "prediction", "probability", *known, "p(star)", "p(sun, moon)"]
    assert [row["label"] for row in rows] == COLUMNS["label"]
    assert {row["split"] for row in rows} == {"train", "valid", "test"}
    assert [row["id"] for row in rows] == IDS
    assert {row["prediction"] for row in rows} <= {"star", "sun, moon"}
    for row in rows:
        assert float(row["p(star)"]) + float(row["p(sun, moon)"]) == pytest.approx(1, abs=1e-5)


def test_predictions_are_json_lines_for_programs(world: Path) -> None:
    nodes = ["--node", "d,e", "--node", "alice"]
    result = call("predict", f"{world}/m", *nodes, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["id"] for row in rows] == ["d,e", "alice"]
    chosen = {"id", "prediction", "probability", "label", "split"}
    assert rows[0].keys() == {*chosen, "p(star)", "p(sun, moon)"}


def test_predictions_go_to_a_file_when_told(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.csv"
    result = call("predict", f"{world}/m", "--out", str(out))
    assert (result.exit_code, result.stdout) == (0, f"20 predictions in {out}\n")
    assert out.read_text() == call("predict", f"{world}/m").stdout
    assert [path.name for path in tmp_path.iterdir()] == ["answers.csv"]
    nowhere = call("predict", f"{world}/m", "--out", str(tmp_path / "no" / "answers.csv"))
    assert_user_error(nowhere, "cannot write", "answers.csv")


def test_training_data_is_known_wherever_it_lies(world: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(world / "graph", tmp_path / "moved")
    expected = call("predict", f"{world}/m").stdout
    for place in (world / "graph", moved):
        found = call("predict", f"{world}/m", str(place))
        assert found.stdout == expected
    table = (moved / "nodes.csv").read_text().replace("label", "kind", 1)
    (moved / "nodes.csv").write_text(table)
    named = ["--set", "data.label=kind", "--set", "train.epochs=1", "--device", "cpu"]
    train = ["train", "node", "--data", str(moved), "--only", "qgnn", *named]
    assert call(*train, "--out", f"{tmp_path}/m").exit_code == 0
    found = call("predict", f"{tmp_path}/m", str(moved))
    assert "label,split," in found.stdout
    assert found.stdout == call("predict", f"{tmp_path}/m").stdout


def test_a_new_graph_without_labels_is_predicted_for(world: Path, tmp_path: Path) -> None:
    write_graph(tmp_path / "new", {"y": COLUMNS["y"], "x": COLUMNS["x"]})
    result = call("predict", f"{world}/m", str(tmp_path / "new"), "--json")
    trained = call("predict", f"{world}/m", "--json")
    found, known = (map(json.loads, one.stdout.splitlines()) for one in (result, trained))
    for row, same in zip(found, known, strict=True):
        assert same.keys() - row.keys() == {"label", "split"}
        assert row.items() <= same.items()


def test_a_new_graph_without_a_feature_is_a_mistake(world: Path, tmp_path: Path) -> None:
    write_graph(tmp_path / "new", {"x": COLUMNS["x"]})
    result = call("predict", f"{world}/m", str(tmp_path / "new"))
    assert_user_error(result, "lacks the feature 'y' of the training data")
    assert_user_error(
        call("predict", f"{world}/m", str(tmp_path / "nowhere")), "there is no file or folder"
    )


def test_an_unknown_node_is_a_mistake_with_a_hint(world: Path) -> None:
    result = call("predict", f"{world}/m", "--node", "alise")
    assert_user_error(result, "no node 'alise' in the graph; did you mean 'alice'?")


class Echo:
    """A predictor of another task, which takes an input and nothing else."""

    notes = ("of another task",)

    def __init__(self, bundle: Bundle, device: torch.device) -> None:
        self.card = bundle.card

    def predict(self, source: Path | None) -> "Echo":
        self.source = source
        return self

    def rows(self) -> list[dict[str, str]]:
        return [{"id": "g0", "prediction": f"of {self.source}"}]


def test_a_model_of_another_task_takes_no_nodes(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PREDICTORS, "sound", Echo)
    model = copied(world, tmp_path, task="sound")
    answered = call("predict", model, "new.jsonl")
    assert answered.stdout == "id,prediction\ng0,of new.jsonl\n"
    assert answered.stderr == "quatgraph: of another task\n"
    for option in ("node", "graph"):
        result = call("predict", model, f"--{option}", "alice")
        assert_user_error(
            result, f"--{option} is an option for {option} models", "for the task 'sound'"
        )


def test_evaluating_gives_the_recorded_metrics(world: Path) -> None:
    result = call("evaluate", f"{world}/m", "--json")
    assert result.exit_code == 0
    *lines, report = map(json.loads, result.stdout.splitlines())
    rows = {row["metric"]: row for row in lines}
    assert report["report"]["accuracy"] == pytest.approx(rows["test/accuracy"]["computed"])
    assert rows.keys() == {
        f"{part}/{name}" for part in ("valid", "test") for name in ("accuracy", "loss", "macro-f1")
    }
    for row in rows.values():
        assert row["computed"] == pytest.approx(row["recorded"], abs=1e-4)


def copied(world: Path, tmp_path: Path, **changes: object) -> str:
    """The model with something changed on its card."""
    for name in ("card.json", "model.safetensors"):
        (tmp_path / name).write_bytes((world / "m" / name).read_bytes())
    change_card(tmp_path, **changes)
    return str(tmp_path)


def test_metrics_that_are_not_the_recorded_ones_exit_with_1(world: Path, tmp_path: Path) -> None:
    card = json.loads((world / "m" / "card.json").read_text())
    wrong = card["metrics"] | {"test/accuracy": card["metrics"]["test/accuracy"] - 0.5}
    result = call("evaluate", copied(world, tmp_path, metrics=wrong))
    assert result.exit_code == 1
    assert "test/accuracy" in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["evaluate", "predict"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 99}, "made by another version of quatgraph (format 99, this one reads 3)"),
        ({"task": "sound"}, "for the task 'sound', which this version cannot predict"),
        ({"sha256": "0"}, "is not the file its card.json describes"),
    ],
)
def test_a_bundle_that_cannot_be_used_is_a_mistake(
    command: str, changes: dict, words: str, world: Path, tmp_path: Path
) -> None:
    assert_user_error(call(command, copied(world, tmp_path, **changes)), words)


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_card_that_was_changed_by_hand_is_a_mistake(
    command: str, world: Path, tmp_path: Path
) -> None:
    card = Path(copied(world, tmp_path), "card.json")
    card.write_text(card.read_text().replace('"hidden_quats": ', '"hidden_quats": 1'))
    assert_user_error(call(command, str(tmp_path)), "card.json was changed after the training")


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_folder_that_is_no_bundle_is_a_mistake(command: str, tmp_path: Path) -> None:
    assert_user_error(call(command, str(tmp_path / "no")), "there is no bundle")
    assert_user_error(call(command, str(tmp_path)), "is not a bundle: it has no card.json")
    assert_user_error(call(command, str(tmp_path), "--device", "tpu"), "quatgraph: ")


def test_new_labelled_data_is_reported_on(world: Path, tmp_path: Path) -> None:
    labels = [*COLUMNS["label"][:17], "comet", "", "star"]
    write_graph(tmp_path / "new", COLUMNS | {"label": labels})
    result = call("evaluate", f"{world}/m", str(tmp_path / "new"))
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "quatgraph: 1 item of 19 with a label that the model does not know ('comet') "
        "counts as wrong",
        "quatgraph: 1 item without a label left out",
    ]
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["items", "19"]
    assert [line.split()[0] for line in lines[1:6]] == [
        *("accuracy", "majority", "macro-F1", "ROC-AUC", "average")
    ]
    assert lines[-1].split()[0] == "comet"
    rows = call("evaluate", f"{world}/m", str(tmp_path / "new"), "--json")
    report = json.loads(rows.stdout)
    predicted = csv.DictReader(
        io.StringIO(call("predict", f"{world}/m", str(tmp_path / "new")).stdout)
    )
    right = sum(row["prediction"] == row["label"] for row in predicted)
    assert report["accuracy"] == pytest.approx(right / 19)
    assert lines[1].split()[1] == f"{100 * right / 19:.2f}"


def test_new_data_that_cannot_be_compared_is_a_mistake(world: Path, tmp_path: Path) -> None:
    write_graph(tmp_path / "none", {"x": COLUMNS["x"], "y": COLUMNS["y"]})
    result = call("evaluate", f"{world}/m", str(tmp_path / "none"))
    assert_user_error(result, "none has no labels to compare predictions with")
    write_graph(tmp_path / "other", COLUMNS | {"label": ["dog", "cat"] * 10})
    result = call("evaluate", f"{world}/m", str(tmp_path / "other"))
    assert_user_error(result, "has the labels 'cat', 'dog', none of which is a class of the model")
    assert_user_error(call("evaluate", f"{world}/m", "nowhere"), "there is no file or folder")


def test_a_metric_and_class_weights_are_set_as_any_setting(world: Path, tmp_path: Path) -> None:
    settings = ["--set", "train.epochs=5", "--set", "model.hidden_quats=2", "--device", "cpu"]
    train = ["train", "node", "--data", f"{world}/graph", *settings, "--out", f"{tmp_path}/m"]
    weights = ["--set", 'train.class_weights="sun, moon:2,star:1"']
    result = call(*train, *weights, "--set", "train.metric=average-precision")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("test average precision ")
    assert "valid average precision " in result.stdout
    again = ["--overwrite", "--set"]
    assert_user_error(
        call(*train, *again, "train.metric=mrr"), "train.metric must be one of 'accuracy', "
    )
    assert_user_error(
        call(*train, *again, "train.class_weights=stars:2"),
        "names 'stars', which is not a class; did you mean 'star'?",
        notes=True,
    )
    assert (tmp_path / "m" / "card.json").exists()
