"""Graphs with splits and groups of their own."""

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from quatgraph.data.graph import Graphs, from_any, read
from quatgraph.errors import UserError

WORDS = ["train", "Training", "test", "train", "dev", "test"]


def objects(**columns: list[object]) -> list[dict[str, object]]:
    """Six paths with labels a and b in turn."""
    found = []
    for place in range(6):
        value: dict[str, object] = {"edges": [[n, n + 1] for n in range(place + 1)]}
        value |= {"label": "ab"[place % 2]}
        found.append(value | {key: cells[place] for key, cells in columns.items()})
    return found


def written(folder: Path, values: list[dict[str, object]], name: str = "g.jsonl") -> Path:
    path = folder / name
    lines = "\n".join(map(json.dumps, values))
    path.write_text(json.dumps(values, indent=1) if name.endswith(".json") else lines)
    return path


def test_a_list_of_objects_is_read_like_lines(tmp_path):
    values = objects(split=WORDS)
    lines, array = (read(written(tmp_path, values, name)) for name in ("g.jsonl", "g.json"))
    assert lines.digest == array.digest
    assert lines.name == array.name == "g"


def test_the_split_of_each_graph_is_kept_and_reported(tmp_path):
    path = written(tmp_path, objects(split=WORDS))
    graphs = read(path)
    assert graphs.parts is not None
    assert graphs.parts.tolist() == [0, 0, 2, 0, 1, 2]
    assert graphs.notes == [
        "the split 'dev' is read as valid",
        f"{path} gives its own split instead of folds: 3 for train, 1 for valid, 2 for test",
    ]
    named = read(written(tmp_path, objects(part=WORDS), "h.jsonl"), split="part")
    assert named.digest == graphs.digest
    assert graphs.select([5, 0]).parts.tolist() == [2, 0]
    assert read(written(tmp_path, objects(), "i.jsonl")).digest != graphs.digest


def test_graphs_in_no_part_and_classes_without_training_are_reported(tmp_path):
    values = objects(split=["train", "train", None, "train", "train", "test"])
    values[5]["label"] = "c"
    path = written(tmp_path, values)
    graphs = read(path)
    assert graphs.label_names == ["a", "b", "c"]
    assert graphs.notes == [
        f"{path} gives its own split instead of folds: 4 for train, 1 for test; a part of those "
        "for train is held out for validation",
        "1 labelled graph is in no part of the split",
        f"the class 'c' has no training graph in {path}: its graphs, 100.0 % of the test graphs, "
        "count as errors",
    ]


def test_groups_are_numbers_and_a_graph_without_one_is_its_own(tmp_path):
    path = written(tmp_path, objects(scaffold=["x", "y", "x", None, "y", None]))
    graphs = read(path, group="scaffold")
    assert graphs.groups is not None
    assert graphs.groups.tolist() == [0, 1, 0, 2, 1, 3]
    assert graphs.notes == [f"{path} has 4 groups of graphs, which the folds keep whole"]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"split": ["tran"] * 6}, {}, "line 1 has the unknown split 'tran'; write train, valid, t"),
        ({"split": [["train"]] * 6}, {}, "line 1: 'split' must be text or a number, not"),
        ({"split": ["test"] * 6}, {}, "has no labelled graph for the train part of its split"),
        ({"split": ["train"] * 6}, {}, "has no labelled graph for the test part of its split"),
        ({"split": ["train", "test"] * 3}, {}, "all training graphs in .* have the class 'a'"),
        (
            {"part": WORDS},
            {"split": "prt"},
            "has the key 'prt'; did you mean 'part'",
        ),
        ({"author": WORDS}, {"group": "who"}, "no graph in .* has the key 'who'; its keys are"),
    ],
)
def test_a_split_that_cannot_be_used_is_one_sentence(tmp_path, columns, options, words):
    with pytest.raises(UserError, match=words):
        read(written(tmp_path, objects(**columns)), **options)


def test_new_graphs_need_neither_labels_nor_parts(tmp_path):
    path = written(tmp_path, objects(split=["test"] * 6, scaffold=WORDS))
    assert len(read(path, labels_needed=False, group="scaffold")) == 6
    assert len(read(written(tmp_path, objects()), labels_needed=False, group="scaffold")) == 6


def test_a_format_without_keys_has_none_to_name(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("2\n1 0\n0 0\n1 1\n0 0\n")
    with pytest.raises(UserError, match=r"g.txt has no keys, so data.group=author names none"):
        read(path, group="author")


def pyg_graphs(**columns: list[object]) -> list[Data]:
    return [
        Data(
            edge_index=torch.tensor([[0], [1]]),
            num_nodes=2,
            y=place % 2,
            **{key: cells[place] for key, cells in columns.items()},
        )
        for place in range(6)
    ]


def test_pyg_graphs_hold_splits_and_groups_too():
    graphs = from_any(pyg_graphs(split=WORDS, group=[1, 1, 2, 2, 3, 3]))
    assert graphs.parts is not None
    assert graphs.groups is not None
    assert graphs.parts.tolist() == [0, 0, 2, 0, 1, 2]
    assert graphs.groups.tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(UserError, match=r"graphs\[0\].split must be text or a number"):
        from_any(pyg_graphs(split=[{}] * 6))


def test_networkx_graphs_give_what_their_objects_in_json_give(tmp_path):
    networkx = pytest.importorskip("networkx")
    values = objects(split=WORDS, id=list("uvwxyz"))
    graphs = []
    for place, value in enumerate(values):
        graph = networkx.path_graph([f"node {n}" for n in range(place + 2)])
        tags = {node: "CO"[n % 2] for n, node in enumerate(graph.nodes)}
        networkx.set_node_attributes(graph, tags, "label")
        vectors = {node: [float(n), 0.5] for n, node in enumerate(graph.nodes)}
        networkx.set_node_attributes(graph, vectors, "x")
        value |= {"node_labels": list(tags.values()), "node_features": list(vectors.values())}
        graph.graph |= {key: value[key] for key in ("label", "id", "split")}
        graphs.append(graph)
    expected = read(written(tmp_path, values)).digest
    assert from_any(graphs).digest == expected
    for graph in graphs:
        del graph.graph["label"]
    assert from_any(tuple(graphs), labels=list("ababab")).digest == expected
    assert isinstance(from_any(graphs[0], labels_needed=False), Graphs)


def test_networkx_graphs_that_do_not_fit_together_are_refused():
    networkx = pytest.importorskip("networkx")
    graphs = [networkx.path_graph(3), networkx.cycle_graph(3)]
    with pytest.raises(UserError, match="no graph in the list has a label"):
        from_any(graphs)
    with pytest.raises(UserError, match="there are 2 graphs but 3 labels; give one to each"):
        from_any(graphs, labels=["a", "b", "c"])
    with pytest.raises(UserError, match=r"graphs\[1\]: a graph's label must be text or a number"):
        from_any(graphs, labels=["a", ["b"]])
    with pytest.raises(UserError, match=r"graphs\[1\] is a Data among networkx graphs"):
        from_any([graphs[0], pyg_graphs()[0]], labels=["a", "b"])
    with pytest.raises(UserError, match="a list of labels is for networkx graphs"):
        from_any(pyg_graphs(), labels=list("ababab"))
    graphs[0].nodes[1]["label"] = "C"
    with pytest.raises(UserError, match=r"node 0 of graphs\[0\] has no attribute 'label' but oth"):
        from_any(graphs, labels=["a", "b"])
    with pytest.raises(UserError, match=r"graphs\[0\] is a graph without nodes"):
        from_any([networkx.Graph(), networkx.Graph()], labels=["a", "b"])
