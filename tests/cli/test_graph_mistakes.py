"""Mistakes in a person's graphs: one sentence with file and line, exit code 2, nothing lost."""

import csv
import hashlib
import json
import lzma
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import assert_user_error, call
from rings import lines, options, with_features, without, written

from quatgraph.data.io import store
from quatgraph.predictors import graph as predicting
from quatgraph.tasks.graph import task as running

SHORT = [*options(), "--device", "cpu", "--out", "m"]
TRAIN = ["train", "graph", *SHORT, "--data"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command writes by default lands in the test's own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path / "cache"))


def assert_refused(arguments: list[str], *words: str) -> None:
    """One sentence, and no file more, less or other than before."""

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    before = files()
    assert_user_error(call(*arguments), *words)
    assert files() == before
    assert not Path("m").exists() or "m/card.json" in map(str, before)


JSONL = {
    "a graph without nodes and edges": (
        [{"edges": [], "label": "a"}],
        "mine.jsonl line 31 has no edges and no nodes; set 'num_nodes'",
    ),
    "a graph without nodes": (
        [{"edges": [], "num_nodes": 0, "label": "a"}],
        "mine.jsonl line 31 is a graph without nodes; give it at least one or remove it",
    ),
    "an edge to a node that is not there": (
        [{"edges": [[0, 5]], "node_labels": ["C", "C"], "label": "a"}],
        "mine.jsonl line 31 has an edge to the node 5 but the nodes are 0..1",
    ),
    "a line that was cut": (['{"edges": [[0, 1], [1'], "mine.jsonl line 31 is not valid JSON"),
    "JSON that is no graph": (["[[0, 1]]"], "mine.jsonl line 31 is not a JSON object"),
    "a graph of other words": (
        [{"nodes": 3}],
        "mine.jsonl line 31 has the unknown key 'nodes'; did you mean 'num_nodes'?",
    ),
    "a number that is none": (
        [{"edges": [], "node_features": [[float("nan")]]}],
        "mine.jsonl line 31: feature 0 of node 0 is no finite number; replace it",
    ),
    "a class with fewer graphs than folds": (
        [{"edges": [[0, 1]], "node_labels": ["C", "C"], "label": "pair", "id": k} for k in "ab"],
        "the class 'pair' has 2 graphs, too few for 3 folds: take fewer with "
        "data.num_folds=2, add graphs, or leave the class out",
    ),
    "a class with one graph": (
        [{"edges": [[0, 1]], "node_labels": ["C", "C"], "label": "pair"}],
        "the class 'pair' has 1 graph, too few for 3 folds: add graphs, or leave the class out "
        "with --set data.missing=pair",
    ),
    "the same id twice": ([lines()[3]], "mine.jsonl line 31 repeats the id 'chain-3' of"),
    "nodes described otherwise": (
        [{"edges": [[0, 1]], "label": "ring"}],
        "line 1 has 'node_labels' but",
    ),
}


@pytest.mark.parametrize("case", JSONL)
def test_a_mistake_in_json_lines_is_told(case: str, tmp_path: Path) -> None:
    more, words = JSONL[case]
    text = "".join(f"{json.dumps(graph)}\n" for graph in lines())
    text += "\n".join(line if isinstance(line, str) else json.dumps(line) for line in more)
    (tmp_path / "mine.jsonl").write_text(text)
    assert_refused([*TRAIN, "mine.jsonl"], words)


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        (without(lines(), "label"), ["no graph in", "has a label; give a class to every graph"]),
        (
            lines()[::2],
            [
                "all labelled graphs in",
                "have the class 'ring'; training needs at least two classes",
            ],
        ),
        ([], ["mine.jsonl has no graphs; write one JSON object per line"]),
    ],
    ids=["no labels", "one class", "nothing"],
)
def test_graphs_that_nothing_can_be_learned_from_are_told(
    graphs: list[dict[str, Any]], words: list[str], tmp_path: Path
) -> None:
    written(tmp_path / "mine.jsonl", graphs)
    assert_refused([*TRAIN, "mine.jsonl"], *words)


TU = {
    "A": "1, 2\n2, 3\n4, 5\n6, 7\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n3\n",
    "graph_labels": "a\nb\na\n",
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"A": "1, 2\n3, 4\n"},
            "R_A.txt line 2 joins the graphs 1 and 2; an edge must stay within one graph",
        ),
        ({"A": "1, 2\n3, 9\n"}, "R_A.txt line 2 names the node 9 but the nodes are 1..7"),
        ({"graph_labels": "a\nb\n"}, "R_graph_labels.txt has 2 lines but there are 3 graphs"),
        ({"graph_labels": None}, "there is no file"),
        (
            {"node_attributes": "1\n2\n3\nnan\n5\n6\n7\n"},
            "R_node_attributes.txt line 4 has a value that is no finite number; replace it",
        ),
        ({"node_labels": "0\n1\n"}, "R_node_labels.txt has 2 lines but there are 7 nodes"),
        ({"A": None}, "has no file NAME_A.txt"),
    ],
)
def test_a_mistake_in_the_files_of_a_folder_is_told(
    changes: dict[str, str | None], words: str, tmp_path: Path
) -> None:
    (tmp_path / "R").mkdir()
    for key, text in (TU | changes).items():
        if text is not None:
            (tmp_path / "R" / f"R_{key}.txt").write_text(text)
    assert_refused([*TRAIN, "R"], words)


def test_a_text_file_that_ends_early_is_told(tmp_path: Path) -> None:
    (tmp_path / "R.txt").write_text("2\n2 0\n0 1 1\n0 1 0\n2 1\n0 1 1\n")
    assert_refused([*TRAIN, "R.txt"], "R.txt ends within graph 2 of 2; complete it")
    (tmp_path / "R.txt").write_text("1\n2 0\n0 1 5\n0 1 0\n")
    assert_refused([*TRAIN, "R.txt"], "R.txt line 3 names the neighbour 5")


def test_what_is_no_collection_of_graphs_is_told(tmp_path: Path) -> None:
    assert_refused(
        [*TRAIN, "nowhere.jsonl"],
        "there is no",
        "nowhere.jsonl; the task graph reads a .jsonl file",
    )
    (tmp_path / "mine.csv").write_text("a,b\n")
    assert_refused(
        [*TRAIN, "mine.csv"],
        "mine.csv is not graph data: the task graph reads",
        "it looks like text data",
    )
    assert_refused(["train", "graph"], "no data given; use `quatgraph train graph --data PATH`")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("train.lrr=1", "unknown key 'train.lrr'; did you mean 'train.lr'?"),
        (
            "train.patience=5",
            "unknown key 'train.patience'; did you mean 'train.plateau_",
        ),
        ("train.dropout=0.1", "unknown key 'train.dropout'; did you mean 'model.dropout'?"),
        ("data.num_folds=1", "data.num_folds must be at least 2, got 1"),
        ("data.folds=fixed", "data.folds=fixed needs a dataset with published folds"),
        ("data.validation=0", "train.select=best-valid needs data.validation above 0"),
        ("model.name=mlp", "model.name must be one of 'qgnn', 'gcn', 'sage', 'gat'"),
        ("data.name=cycles", "set either data.name, a dataset of the catalog, or data.path"),
    ],
)
def test_a_setting_that_makes_no_sense_is_told(setting: str, words: str, tmp_path: Path) -> None:
    written(tmp_path / "mine.jsonl", lines())
    assert_refused([*TRAIN, "mine.jsonl", "--set", setting], words)


def test_a_graph_far_larger_than_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    star = {"edges": [[0, node] for node in range(1, 5000)], "label": "ring", "id": "huge"}
    written(tmp_path / "mine.jsonl", [*without(lines(), "node_labels"), star])
    monkeypatch.setattr(running, "total_memory", lambda device: 2_000_000)
    result = call(*TRAIN, "mine.jsonl")
    assert_user_error(
        result, "graph 'huge' has 5,000 nodes, and a batch with it does not fit into memory"
    )
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert call(*TRAIN, "mine.jsonl", "--resume").exit_code == 0
    monkeypatch.setattr(predicting, "total_memory", lambda device: 100_000)
    assert_user_error(
        call("predict", "m"), "graph 'huge' has 5,000 nodes, which do not fit into memory"
    )
    assert call("predict", "m", "--graph", "ring-0").exit_code == 0


def test_a_published_file_that_was_cut_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUATGRAPH_DATA", str(tmp_path / "data"))
    place = tmp_path / "data" / "graph" / "MUTAG" / "MUTAG.txt.xz"
    place.parent.mkdir(parents=True)
    packed = lzma.compress(os.urandom(2000))
    place.write_bytes(packed[: len(packed) // 2])
    damaged = "MUTAG.txt.xz is damaged and cannot be unpacked; delete or replace it"
    assert_refused(["train", "graph/mutag-qgnn", *SHORT], damaged)
    place.write_bytes(packed)
    assert_refused(["train", "graph/mutag-qgnn", *SHORT], "is not the published file")


def toy_catalog(folder: Path, monkeypatch: pytest.MonkeyPatch, test: str) -> None:
    """Makes ``toy``, six graphs with the given list of test graphs, the whole catalog."""
    texts = {"toy.txt": "6\n" + "".join(f"2 {k % 2}\n0 1 1\n0 1 0\n" for k in range(6))}
    for fold in range(1, 11):
        texts[f"10fold_idx/train_idx-{fold}.txt"] = "0\n1\n3\n4\n"
        texts[f"10fold_idx/test_idx-{fold}.txt"] = test
    files = []
    for path, text in texts.items():
        (folder / "graph/toy" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "graph/toy" / path).write_text(text)
        files.append(store.File(path, "", hashlib.sha256(text.encode()).hexdigest()))
    sizes = {"graphs": 6, "labelled": 6, "nodes": 12, "edges": 6, "tags": 1, "features": 0}
    sizes["classes"] = 2
    toy = store.Entry("toy", "graph", "Toy", "", "", "", "graph/toy", False, sizes, tuple(files))
    monkeypatch.setattr(store, "catalog", lambda: {"toy": toy})
    monkeypatch.setenv("QUATGRAPH_DATA", str(folder))


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("5\n6\n", "of toy do not share out its 6 graphs: there is no graph 6; run"),
        ("5\n3\n", "of toy do not share out its 6 graphs: graph 3 comes twice; run"),
        ("5\n", "of toy do not share out its 6 graphs: graph 2 is missing; run"),
        ("5\nx\n", "test_idx-1.txt of toy line 2 has 'x'; write numbers only"),
    ],
)
def test_a_list_of_folds_with_unknown_or_repeated_graphs_is_told(
    test: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_catalog(tmp_path / "data", monkeypatch, test)
    fixed = ["--set", "data.name=toy", "--set", "data.folds=fixed"]
    result = call("train", "graph/mutag-qgnn", *SHORT, *fixed)
    assert_user_error(result, words)
    assert not (tmp_path / "m").exists()


def test_published_folds_are_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy_catalog(tmp_path / "data", monkeypatch, "5\n2\n")
    fixed = ["--set", "data.name=toy", "--set", "data.folds=fixed"]
    trained = call("train", "graph/mutag-qgnn", *SHORT, *fixed)
    assert trained.exit_code == 0, trained.stderr
    assert "% over 10 folds" in trained.stdout


@pytest.mark.realdata
def test_a_published_list_of_folds_that_was_changed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "data" / "graph" / "MUTAG"
    shutil.copytree(Path(os.environ["QUATGRAPH_DATA"]) / "graph" / "MUTAG", own)
    monkeypatch.setenv("QUATGRAPH_DATA", str(tmp_path / "data"))
    changed = own / "10fold_idx" / "test_idx-3.txt"
    text = changed.read_text()
    changed.unlink()  # the copy may be read-only
    changed.write_text(text + text.splitlines()[0] + "\n")
    result = call("train", "graph/mutag-qgnn", *SHORT, "--set", "data.folds=fixed")
    assert_user_error(
        result, "test_idx-3.txt is not the published file", "quatgraph data fetch mutag"
    )


@pytest.fixture
def single(tmp_path: Path) -> str:
    """A graph of the task node, and a model of it."""
    folder = tmp_path / "single"
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        rows = ((f"n{k}", "xy"[k % 2], k % 2, k % 3) for k in range(20))
        csv.writer(file).writerows([("id", "label", "f", "g"), *rows])
    (folder / "edges.csv").write_text("".join(f"n{k},n{k + 1}\n" for k in range(19)))
    short = ["--set", "train.epochs=2", "--set", "model.hidden_quats=2", "--device", "cpu"]
    assert call("train", "node", "--data", "single", *short, "--out", "nodes").exit_code == 0
    return "nodes"


def test_models_of_nodes_and_of_graphs_are_not_mixed_up(single: str, tmp_path: Path) -> None:
    written(tmp_path / "mine.jsonl", lines())
    assert call(*TRAIN, "mine.jsonl").exit_code == 0
    graphs = "it looks like graph data, which `quatgraph train graph` reads"
    nodes = "it looks like node data, which `quatgraph train node` reads"
    for name in ("predict", "evaluate"):
        assert_user_error(call(name, single, "mine.jsonl"), "mine.jsonl is not node data", graphs)
        assert_user_error(call(name, "m", "single"), "single is not graph data", nodes)
    assert_user_error(
        call("predict", single, "--graph", "n1"),
        "--graph is an option for graph models, but the model is for the task 'node'",
    )
    assert_user_error(
        call("predict", "m", "--node", "n1"),
        "--node is an option for node models, but the model is for the task 'graph'",
    )
    assert_refused(["train", "graph", "--data", "single"], nodes)
    assert_refused(["train", "node", "--data", "mine.jsonl"], graphs)


def test_new_graphs_that_a_model_cannot_read_are_told(tmp_path: Path) -> None:
    written(tmp_path / "mine.jsonl", with_features(lines()))
    assert call(*TRAIN, "mine.jsonl").exit_code == 0
    for graphs, words in (
        (lines(), "the graphs have no node attributes, but the model was trained with some"),
        (with_features(lines(), 3), "trained with 2 features a node"),
        (without(with_features(lines()), "node_labels"), "the graphs have no node tags"),
    ):
        written(tmp_path / "new.jsonl", graphs)
        assert_refused(["predict", "m", "new.jsonl"], words)
    (tmp_path / "new.jsonl").write_text('{"edges": [[0, 1]]')
    assert_refused(["predict", "m", "new.jsonl"], "new.jsonl line 1 is not valid JSON")
    assert_refused(["predict", "m", "nowhere.jsonl"], "there is no file or folder nowhere.jsonl")
