"""The command plot: figures of records and bundles, and errors about what cannot be drawn."""

from pathlib import Path

import pytest
from cities import cities, config_of
from commands import assert_user_error, call
from crossvalidated import honest, published

from quatgraph.plot import style
from quatgraph.predictors import train_triples
from quatgraph.training.record import append_records


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = tmp_path / "results" / "records" / "graph-mutag.jsonl"
    append_records(records, published([[0.5, 0.75]] * 10, epochs_run=2))
    append_records(records, honest([(0.5, 0.25)] * 10))
    (tmp_path / "other.jsonl").write_text('{"case": "c", "ms": 1}\n')


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "cities.v1"
    train_triples(cities(), folder, config=config_of(), device="cpu")
    return str(folder)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["table", "graph"], "table-graph.png"),
        (["table", "graph", "--only", "qgnn", "--out", "here.pdf"], "here.pdf"),
        (["curves", "results/records/graph-mutag.jsonl"], "curves-graph-mutag.png"),
        (["results/records/graph-mutag.jsonl", "--out", "here.png"], "here.png"),
    ],
)
def test_a_figure_is_written_and_its_place_is_told(arguments: list[str], file: str) -> None:
    result = call("plot", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"saved {file}\n"
    assert Path(file).stat().st_size > 1000


def test_a_bundle_has_ranks_and_curves(bundle: str) -> None:
    assert call("plot", "ranks", bundle, "--device", "cpu").stdout == "saved ranks-cities.png\n"
    for said in (["curves", bundle], [bundle]):
        assert call("plot", *said).stdout == "saved curves-cities.png\n"


def test_a_classifier_has_a_confusion_matrix(bundle: str) -> None:
    small = ["--set", "train.epochs=2", "--set", "model.hidden_quats=2", "--device", "cpu"]
    assert call("train", "node/karate-qgnn", *small, "--out", "karate").exit_code == 0
    result = call("plot", "confusion", "karate", "--device", "cpu")
    assert (result.exit_code, result.stdout) == (0, "saved confusion-karate.png\n")
    refused = call("plot", "confusion", bundle, "--device", "cpu")
    assert_user_error(refused, "predicts triples, which have no classes to confuse")


MISTAKES = [
    (["table", "grap"], "there is no table 'grap'; did you mean 'graph'?"),
    (["tabel", "graph"], "no figure, file or folder is named 'tabel'; did you mean 'table'?"),
    (["my-modell"], "no figure, file or folder is named 'my-modell'; see `quatgraph plot --help`"),
    (["table", "node"], "no run of table 'node' is recorded"),
    (["table", "graph", "--results", "nowhere"], "no run of table 'graph' is recorded"),
    (["table", "graph", "--only", "qgn"], "table 'graph' has no 'qgn'; did you mean 'qgnn'?"),
    (
        ["table", "graph", "--out", "a.jpg"],
        "cannot save a figure as a.jpg; use one of .png, .svg, .pdf",
    ),
    (["table", "graph", "--out", "figure"], "cannot save a figure as figure; use one of"),
    (["table", "graph", "--out", "nowhere/a.png"], "cannot write nowhere/a.png"),
    (["curves", "nowhere.jsonl"], "cannot read the records in nowhere.jsonl"),
    (["curves", "results"], "results is not a training folder: it has no records.jsonl"),
    (["curves", "other.jsonl"], "other.jsonl is not a run record"),
    (["curves", "results/records/graph-mutag.jsonl", "--only", "honest"], "have no curves"),
    (["ranks", "results"], "results is not a bundle: it has no card.json"),
    (["ranks", "nowhere"], "there is no bundle nowhere"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES)
def test_what_cannot_be_drawn_is_told_in_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    assert_user_error(call("plot", *arguments), sentence)
    assert {path.name for path in tmp_path.iterdir()} == {"results", "other.jsonl"}


def test_a_bundle_of_another_task_has_no_ranks(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "card.json").write_text('{"task": "node", "format": 3}')
    assert_user_error(call("plot", "ranks", "m"), "the bundle m is for the task 'node', not 'link'")


def test_without_matplotlib_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    assert_user_error(call("plot", "table", "graph"), "pip install quatgraph[plot]")
