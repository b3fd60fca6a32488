"""``train`` on one's own graph: the portfolio, and what is printed about it."""

import csv
import json
import re
from pathlib import Path

import pytest
from commands import assert_user_error, call
from pets import NAMES

from quatgraph.cli.results import describe_shares
from quatgraph.training.bundle import load_bundle
from quatgraph.training.runtime import Deadline

FEW = ["--set", "train.epochs=40", "--device", "cpu"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_ones_own_graph_is_trained_evaluated_and_asked(pets: Path, tmp_path: Path) -> None:
    trained = call("train", "node", "--data", "pets", "--out", "model", *FEW)
    assert trained.exit_code == 0
    lines = trained.stdout.splitlines()
    assert lines[0].startswith("test accuracy ")
    assert lines[2].split() == ["model", "configurations", "valid", "accuracy", "share"]
    rows = [line.split() for line in lines[3 : lines.index("", 3)]]
    assert {"mlp", "gcn", "qgnn", "combined"} <= {row[0] for row in rows}
    shares = [float(row[-2]) for row in rows if row[0] != "combined"]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert "nodes: 24 in 2 classes, 50.0 % in the largest, 24 edges" in lines
    assert "features: each column standardised" in lines
    assert lines[-2].startswith("saved ")
    assert lines[-1] == "predict with: quatgraph predict model"

    evaluated = call("evaluate", "model", "--device", "cpu")
    assert evaluated.exit_code == 0
    assert re.match("valid/accuracy +recorded ", evaluated.stdout)

    predicted = call("predict", "model", "--device", "cpu")
    assert predicted.exit_code == 0
    assert predicted.stderr == ""
    rows = list(csv.DictReader(predicted.stdout.splitlines()))
    assert [row["id"] for row in rows] == NAMES
    assert {row["prediction"] for row in rows} == {"cat", "dog"}
    assert [row["prediction"] for row in rows].count("dog") in range(10, 15)


@pytest.mark.parametrize(("steps", "is_smoothed"), [((2, 4, 6), True), ((1, 3, 5), False)])
def test_the_table_says_whether_the_combination_is_smoothed(
    steps: tuple[int, ...], is_smoothed: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "clubs"
    folder.mkdir()
    nodes = [(f"{n}", "ab"[n % 2], f"{n * 7 % 11}", f"{n * 5 % 13}") for n in range(60)]
    edges = [(f"{n}", f"{(n + step) % 60}") for n in range(60) for step in steps]
    for name, rows in (("nodes", [("id", "label", "x", "y"), *nodes]),
                       ("edges", [("source", "target"), *edges])):  # fmt: skip
        (folder / f"{name}.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    models = ["--only", "mlp", "--only", "linear"]
    trained = call("train", "node", "--data", "clubs", "--out", "m", *models, *FEW)
    lines = trained.stdout.splitlines()
    assert any(line.startswith("combined, smoothed ") for line in lines) == is_smoothed
    smoothed = "predictions: smoothed over the graph (correct and smooth)"
    assert (smoothed in lines) == is_smoothed
    assert sum(line.startswith("the best single model alone: test ") for line in lines) == 1


def test_only_some_models_are_tried(pets: Path) -> None:
    some = ["--only", "gcn", "--only", "mlp"]
    trained = call("train", "node", "--data", "pets", "--out", "m", *some, *FEW, "--json")
    result = json.loads(trained.stdout)
    assert set(result["shares"]) <= {"gcn", "mlp"}
    assert {"test", "single"} <= result.keys()
    alone = call("train", "node", "--data", "pets", "--out", "n", "--fast", *FEW, "--json")
    assert set(json.loads(alone.stdout)["shares"]) == {"qgnn"}


def test_the_portfolio_is_for_ones_own_data(pets: Path) -> None:
    wrong = ["train", "node", "--data", "pets", "--only", "gnc"]
    assert_user_error(call(*wrong), "has no model 'gnc'; did you mean 'gcn'")
    for option in (["--fast"], ["--only", "qgnn"]):
        mistaken = call("train", "node/karate-qgnn", *option)
        assert_user_error(mistaken, "--only and --fast choose from the portfolio")


def test_the_members_are_told_with_their_shares_in_one_line(pets: Path) -> None:
    some = ["--only", "gcn", "--only", "mlp"]
    trained = call("train", "node", "--data", "pets", "--out", "m", *some, *FEW)
    (line,) = (line for line in trained.stdout.splitlines() if line.startswith("saved "))
    members = load_bundle(Path("m")).card["members"]
    total = sum(member["weight"] for member in members)
    if len(members) == 1:
        assert line.startswith("saved the best run on validation data: ")
        assert members[0]["config"]["model"]["name"] in line
        return
    shares = re.findall(r"(\d+) % (gcn|mlp)", line)
    expected = sorted((round(100 * m["weight"] / total) for m in members), reverse=True)
    assert [int(share) for share, _ in shares] == expected


def test_configurations_of_one_model_are_told_apart_by_what_differs() -> None:
    def member(weight: int, **settings: object) -> dict:
        return {"weight": weight, "config": {"model": {"name": "gcn"}, "train": settings}}

    members = [member(1, lr=0.1, clip=1), member(3, lr=0.2, clip=1), member(1, lr=0.1, clip=1)]
    tried = [each["config"] for each in members]
    assert describe_shares(tried, members) == "60 % gcn (lr 0.2), 40 % gcn (lr 0.1)"
    assert describe_shares(tried[:1], members[:1]) == "100 % gcn"


def test_a_paused_training_says_what_its_model_holds(
    pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = ["train", "node", "--data", "pets", "--out", "m", "--only", "gcn", "--only", "mlp", *FEW]

    def passed(self: Deadline) -> bool:
        return Path("m/records.jsonl").exists()  # as soon as an ensemble is done

    monkeypatch.setattr(Deadline, "passed", passed)
    stopped, model = call(*some).stdout.splitlines()
    assert stopped.startswith("stopped after 1 of 40 epochs: repeat the command with --resume ")
    assert re.match("the best model so far is in m, from 6 of 12 configurations: .* % mlp", model)
    assert load_bundle(Path("m")).card["unfinished"] == {"configurations": 6, "of": 12}
    monkeypatch.undo()
    monkeypatch.chdir(pets.parent)
    assert call(*some, "--resume").exit_code == 0
    assert "unfinished" not in load_bundle(Path("m")).card
