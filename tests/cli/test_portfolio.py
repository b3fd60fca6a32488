"""``train`` on one's own graph: the portfolio, and what is printed about it."""

import csv
import json
import re
from pathlib import Path

import pytest
from commands import assert_user_error, call

NAMES = [f"{name}-{k}" for k in range(8) for name in ("ann", "bob", "eve")]
FEW = ["--set", "train.epochs=40", "--device", "cpu"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    folder = tmp_path / "pets"
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "size", "noise"])
        for place, name in enumerate(NAMES):
            label = ("cat", "dog")[place % 2]
            writer.writerow([name, label, 1 + 4 * (place % 2), place % 5])
    edges = [(name, NAMES[(place + 2) % len(NAMES)]) for place, name in enumerate(NAMES)]
    (folder / "edges.csv").write_text("".join(f"{a},{b}\n" for a, b in edges))
    return folder


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
