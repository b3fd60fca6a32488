"""Numbers as files have them: what Python or numpy would read beyond that is refused."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from quatgraph import config as configs
from quatgraph.data.graph.dgcnn import read_dgcnn
from quatgraph.data.graph.jsonl import read_jsonl
from quatgraph.data.graph.tu import read_tu
from quatgraph.data.io.numbers import is_number, real_numbers, whole_numbers
from quatgraph.data.node import read as read_folder
from quatgraph.data.text import load_vectors, read_texts
from quatgraph.errors import UserError
from quatgraph.tasks.node.config import NodeConfig

PYTHONIC = [
    "1_0",
    "1_000.5",
    "\uff11",
    "\u0661.5",
    "0x10",
    "1e",
    "e5",
    ".",
    "+",
    "1,5",
    "1.2.3",
    "--1",
]
NOT_FINITE = ["nan", "NaN", "inf", "-Infinity", "infinity", "1e39"]
PLAIN = ["1", "-1", "+1", "1.", ".5", "1.5", "1e5", "1E-5", "-.5e+05", "007"]


@pytest.mark.parametrize("word", PLAIN)
def test_a_plain_number_is_one(word: str) -> None:
    assert is_number(word)
    assert is_number(word.encode())
    assert real_numbers(word.encode(), "f").values.tolist() == [float(word)]


@pytest.mark.parametrize("word", [*PYTHONIC, *NOT_FINITE[:-1], "", " 1", "1 ", "1\n"])
def test_nothing_else_is_a_number(word: str) -> None:
    assert not is_number(word)
    assert not is_number(word.encode())


def graph_folder(path: Path, size: str, weight: str) -> Path:
    rows = [("a", "x", "train"), ("b", "y", "train"), ("c", "x", "valid"), ("d", "y", "test")]
    cells = [[*row, size if row[0] == "b" else "1"] for row in rows]
    lines = [["id", "label", "split", "size"], *cells]
    (path / "nodes.csv").write_text("".join(";".join(line) + "\n" for line in lines))
    (path / "edges.csv").write_text(f"source;target;weight\na;b;1\nc;d;{weight}\n")
    return path


@pytest.mark.parametrize("word", [word for word in (*PYTHONIC, *NOT_FINITE) if word != "1,5"])
def test_a_feature_and_a_weight_must_be_plain(word: str, tmp_path: Path) -> None:
    if word.lower() == "nan":
        assert read_folder(graph_folder(tmp_path, word, "1")).x.tolist() == [[1]] * 4
    else:
        with pytest.raises(UserError) as result:
            read_folder(graph_folder(tmp_path, word, "1"))
        where = f"{tmp_path / 'nodes.csv'} line 3 has {word!r} in column 'size'; write a "
        assert str(result.value).startswith(where)
    with pytest.raises(UserError) as result:
        read_folder(graph_folder(tmp_path, "1", word))
    where = f"{tmp_path / 'edges.csv'} line 3 has {word!r} in column 'weight'; write a "
    assert str(result.value).startswith(where)


@pytest.mark.parametrize("word", [word for word in PYTHONIC if "," not in word])
def test_text_full_of_numbers_must_be_plain(word: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"f line 2 has .*; write numbers only"):
        real_numbers(f"1 2\n3 {word}\n".encode(), "f")
    with pytest.raises(UserError, match=r"f line 2 has .*; write numbers only"):
        whole_numbers(f"1 2\n3 {word}\n".encode(), "f")
    with pytest.raises(UserError, match="f line 2 has"):
        read_dgcnn(f"1\n{word} 1\n0 0\n".encode(), name="d", where="f")
    (tmp_path / "D_A.txt").write_text("1, 2\n")
    (tmp_path / "D_graph_indicator.txt").write_text("1\n1\n2\n")
    (tmp_path / "D_graph_labels.txt").write_text("x\ny\n")
    (tmp_path / "D_node_attributes.txt").write_text(f"1\n{word}\n2\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"D_node_attributes\.txt line 2 has"):
        read_tu(tmp_path)


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1" + "0" * 40])
def test_a_whole_number_that_does_not_fit_is_refused(number: str) -> None:
    with pytest.raises(UserError, match="f line 3 has a number that is too large"):
        whole_numbers(f"1 2\n\n3 {number}\n4".encode(), "f")
    assert whole_numbers(b"9223372036854775806", "f").values.tolist() == [2**63 - 2]


@pytest.mark.parametrize("word", [*PYTHONIC, *NOT_FINITE[:-1]])
def test_vectors_of_words_must_be_plain(word: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"a_b 1 2\nc {word} 2\n", encoding="utf-8")
    with pytest.raises(UserError) as result:
        load_vectors(path)
    assert str(path) in str(result.value)
    assert "line 2 must have 2 numbers: " in str(result.value) or "'c'" in str(result.value)
    assert load_vectors(path, {"a_b"}).matrix.tolist() == [[1.0, 2.0]]


GOOD = {"edges": [[0, 1], [1, 2]], "node_features": [[1, 0.5]] * 3, "num_nodes": 3, "label": "x"}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("edges", [[0, True], [1, 2]], "'edges' must be pairs of whole numbers"),
        ("edges", [[False, True]], "'edges' must be pairs of whole numbers"),
        ("edges", [[0, 1.0]], "'edges' must be pairs of whole numbers"),
        ("edges", [["0", "1"]], "'edges' must be pairs of whole numbers"),
        ("edges", "01", "'edges' must be pairs of whole numbers"),
        ("edges", {"01": 2}, "'edges' must be pairs of whole numbers"),
        ("edges", 1, "'edges' must be pairs of whole numbers"),
        ("edges", [[0, 2**70]], "'edges' must be pairs of whole numbers"),
        ("node_features", [[1, 0.5], [True, 1], [1, 1]], "must be a list of numbers for each node"),
        ("node_features", [[1], ["1"], [1]], "must be a list of numbers for each node"),
        ("node_features", [1, 2, 3], "must be a list of numbers for each node"),
        ("node_features", [[1], [float("nan")], [1]], "is no finite number"),
        ("node_features", [[1], [float("inf")], [1]], "is no finite number"),
        ("num_nodes", True, "'num_nodes' must be a whole number, not True"),
    ],
)
def test_true_is_no_number_in_a_graph(key: str, value: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "graphs.jsonl"
    lines = [json.dumps(GOOD), json.dumps(GOOD | {key: value}), json.dumps(GOOD | {"label": "y"})]
    path.write_text("\n".join(lines))
    with pytest.raises(UserError) as result:
        read_jsonl(path)
    assert f"{path} line 2" in str(result.value)
    assert words in str(result.value)


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(
        '{"edges": [[0, 1]], "label": "x"}\n{"label": "x", "edges": [], "label": "y"}\n'
    )
    with pytest.raises(UserError) as result:
        read_jsonl(path)
    assert str(result.value) == f"{path} line 2 has the key 'label' twice; keep one of the two"
    path.write_text('{"text": "a", "label": "x", "more": {"a": 1, "a": 2}}\n')
    with pytest.raises(UserError, match="line 1 has the key 'a' twice"):
        read_texts(path)


@pytest.mark.parametrize("value", ["\uff11", "nan", "inf", "1_", "_1", "true", "1,5", "0x"])
def test_a_setting_must_be_a_number_too(value: str) -> None:
    with pytest.raises(UserError, match=r"train\.lr must be a number, got"):
        configs.build(NodeConfig, configs.override({}, [f"train.lr={value}"]))


def test_a_word_of_very_many_digits_is_read_in_time(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    digits = "1" * 400_000
    path.write_text(f"a 1 2\n{digits}x {digits}x 1 2\n{digits}.{digits}e{digits}x y 1 2\n")
    start = time.process_time()
    assert len(load_vectors(path)) == 3
    assert not is_number(digits + "x")
    assert not is_number("." + digits + "e")
    assert time.process_time() - start < 5
