"""Graphs as JSON lines."""

import json

import pytest

from quatgraph.data.graph import read
from quatgraph.data.graph.jsonl import read_jsonl
from quatgraph.errors import UserError

FIRST = {"edges": [[0, 1], [1, 2]], "node_labels": ["C", "N", "C"], "label": "toxic", "id": "m1"}
SECOND = {"edges": [[1, 0], [0, 1], [1, 1]], "node_labels": ["C", "O"], "label": "harmless"}
PLAIN = {"edges": [[0, 1]], "label": "a"}


def written(tmp_path, *lines: object):
    path = tmp_path / "mine.jsonl"
    parts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(parts))
    return path


def test_lines_are_read_as_graphs(tmp_path):
    graphs = read_jsonl(written(tmp_path, FIRST, b"", SECOND, {**SECOND, "label": None}))
    assert graphs.name == "mine"
    assert graphs.label_names == ["harmless", "toxic"]
    assert graphs.y.tolist() == [1, 0, -1]
    assert graphs.tag_names == ["C", "N", "O"]
    assert graphs.tags.tolist() == [0, 1, 0, 0, 2, 0, 2]
    assert graphs.edge_index.tolist() == [[0, 1, 1, 2, 3, 4, 5, 6], [1, 0, 2, 1, 4, 3, 6, 5]]
    assert graphs.graph_ids == ["m1", "1", "2"]
    assert graphs.attributes is None


def test_features_and_numbers_are_read(tmp_path):
    one = {"edges": [], "node_features": [[1, 2.5]], "label": 10}
    two = {"edges": [[0, 1]], "node_features": [[0, 0], [3, 4]], "label": 9}
    graphs = read_jsonl(written(tmp_path, one, two))
    assert graphs.attributes.tolist() == [[1, 2.5], [0, 0], [3, 4]]
    assert graphs.label_names == ["9", "10"]
    assert graphs.num_tags == 1


def test_the_number_of_nodes_may_be_given(tmp_path):
    graphs = read_jsonl(written(tmp_path, {**PLAIN, "num_nodes": 4}, {**PLAIN, "label": True}))
    assert graphs.node_ptr.tolist() == [0, 4, 6]
    assert graphs.label_names == ["a", "true"]


def test_a_label_may_be_missing_as_nan_and_a_whole_number_have_a_point(tmp_path):
    labels = [1, 1.0, float("nan"), 2.5, None]
    graphs = read_jsonl(written(tmp_path, *({**PLAIN, "label": label} for label in labels)))
    assert graphs.label_names == ["1", "2.5"]
    assert graphs.y.tolist() == [0, 0, -1, 1, -1]


def test_labels_are_needed_only_for_learning(tmp_path):
    path = written(tmp_path, {"edges": [[0, 1]]}, {"edges": [[0, 2]]})
    with pytest.raises(UserError, match=r"no graph in .*mine\.jsonl has a label"):
        read(path)
    graphs = read(path, labels_needed=False)
    assert graphs.y.tolist() == [-1, -1]
    with pytest.raises(UserError, match="have the class 'a'"):
        read(written(tmp_path, PLAIN, PLAIN))


def test_other_keys_are_not_used_and_a_note_names_them_once(tmp_path):
    more = {"year": 2000, "source": {"of": ["x"]}}
    lines = {**FIRST, **more}, SECOND, {**SECOND, "year": None, "who": "me"}
    path, plain = written(tmp_path, *lines), (FIRST, SECOND, SECOND)
    graphs = read(path)
    assert graphs.notes == [f"{path}: not used: 'year', 'source', 'who'"]
    assert read(path, labels_needed=False).notes == []
    assert graphs.digest == read(written(tmp_path, *plain)).digest


def test_the_number_of_edges_is_no_misspelt_number_of_nodes(tmp_path):
    path = written(tmp_path, {**PLAIN, "num_edges": 1}, {**PLAIN, "label": "b"})
    assert read(path).notes == [f"{path}: not used: 'num_edges'"]


def test_the_usual_key_is_not_used_if_another_one_is_named(tmp_path):
    words = ["train", "test", "train", "test"]
    lines = [{**PLAIN, "label": "ab"[n // 2], "part": words[n], "split": "x"} for n in range(4)]
    path = written(tmp_path, *lines)
    assert f"{path}: not used: 'split'" in read(path, split="part").notes
    lines = [{**line, "part": None, "my_split": line["part"], "my_splits": 1} for line in lines]
    path = written(tmp_path, *lines)
    notes = read(path, split="my_split").notes
    assert f"{path}: not used: 'part', 'split', 'my_splits'" in notes


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "has no graphs"),
        ([b"", b"  "], "has no graphs"),
        ([PLAIN, b"{"], r"mine\.jsonl line 2 is not valid JSON"),
        ([PLAIN, b"", b"[" * 100_000], "line 3 is not valid JSON"),
        ([PLAIN, b'{"label": "\xff"}'], "line 2 is not UTF-8"),
        ([PLAIN, b"[1]"], "line 2 is not a JSON object"),
        ([{**PLAIN, "lable": 1}], "line 1 has the unknown key 'lable'; did you mean 'label'"),
        ([{"edgs": [[0, 1]]}], "line 1 has the unknown key 'edgs'; did you mean 'edges'"),
        ([{**PLAIN, "node_label": [1, 2]}], "the unknown key 'node_label'; did you mean 'node_l"),
        ([PLAIN, {"edges": [[0, 1]], "labels": "a"}], "line 2 has the unknown key 'labels'; did"),
        ([{**PLAIN, "splits": "test"}], "line 1 has the unknown key 'splits'; did you mean 'spl"),
        ([{"edge_index": [[0], [1]]}], "line 1 has no 'edges', its unknown keys are 'edge_index'"),
        ([{"label": 1}], "line 1 has no 'edges'"),
        ([{"edges": [[0, 1, 2]]}], "line 1: 'edges' must be pairs"),
        ([{"edges": [[0, 1], [2]]}], "line 1: 'edges' must be pairs"),
        ([{"edges": [[0, 1.5]]}], "line 1: 'edges' must be pairs"),
        ([{"edges": [["a", "b"]]}], "line 1: 'edges' must be pairs"),
        ([{"edges": [[0, 10**30]]}], "line 1: 'edges' must be pairs"),
        ([{"edges": {"0": 1}}], "line 1: 'edges' must be pairs"),
        ([{"edges": [[0, -1]]}], "edge to the node -1"),
        ([{"edges": []}], "line 1 has no edges and no nodes"),
        ([{"edges": [], "num_nodes": 0}], "line 1 is a graph without nodes"),
        ([{"edges": [], "num_nodes": "3"}], "'num_nodes' must be a whole number"),
        ([{**PLAIN, "num_nodes": 10**30}], "line 1 is a graph of 10+ nodes; at most"),
        ([{"edges": [[0, 2**40]]}], "line 1 is a graph of 1099511627777 nodes; at most"),
        ([{**PLAIN, "num_nodes": 1}], r"edge to the node 1 but the nodes are 0\.\.0"),
        ([{**FIRST, "num_nodes": 2}], "num_nodes for 2, node_labels for 3 nodes"),
        ([{**FIRST, "node_features": [[1]]}], "node_labels for 3, node_features for 1 nodes"),
        ([FIRST, PLAIN], "line 1 has 'node_labels' but .* line 2 has none"),
        ([PLAIN, FIRST], "line 2 has 'node_labels' but .* line 1 has none"),
        ([{**PLAIN, "node_features": [[1], [2]]}, PLAIN], "'node_features' but"),
        ([{**PLAIN, "node_features": [[1], [2, 3]]}], "all of one length"),
        ([{**PLAIN, "node_features": [1, 2]}], "all of one length"),
        ([{**PLAIN, "node_features": [["1"], ["2"]]}], "list of numbers for each node"),
        ([{**PLAIN, "node_features": [[1], [None]]}], "list of numbers for each node"),
        ([{**PLAIN, "node_features": [[1], [float("nan")]]}], "feature 0 of node 1 is no finite"),
        ([{**PLAIN, "node_features": [[1e39], [1]]}], "feature 0 of node 0 is no finite"),
        (
            [
                {**PLAIN, "node_features": [[1], [1]]},
                {**PLAIN, "node_features": [[1, 2], [1, 2]]},
            ],
            "line 2 has 2 features per node but .* line 1 has 1",
        ),
        ([{**PLAIN, "node_labels": ["C", ""]}], "node 1 has no label"),
        ([{**PLAIN, "node_labels": ["C", None]}], "a node label must be text or a number"),
        ([{**PLAIN, "node_labels": "CN"}], "'node_labels' must be a list"),
        ([{**PLAIN, "label": ["a"]}], "a graph's label must be text or a number"),
        ([{**PLAIN, "label": "\ud800"}], "line 1: a graph's label holds half a character"),
        ([{**PLAIN, "id": "m\ud800"}], "line 1: an id holds half a character"),
        ([{**PLAIN, "id": "x"}, {**PLAIN, "id": "x"}], "line 2 repeats the id 'x' of .* line 1"),
    ],
)
def test_a_mistake_is_named_with_its_line(lines, words, tmp_path):
    with pytest.raises(UserError, match=words):
        read_jsonl(written(tmp_path, *lines))
