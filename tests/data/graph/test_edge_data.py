"""Labels and features of edges in all formats."""

import json
from pathlib import Path
from typing import Any

import networkx
import pytest
import torch
from torch_geometric.data import Data

from quatgraph.data.graph import Graphs, from_any, read
from quatgraph.data.graph.ablation import without_each_node
from quatgraph.data.graph.collection import flat_form, from_flat_form
from quatgraph.errors import UserError

FIRST = {"edges": [[0, 1], [2, 1]], "edge_labels": ["double", "single"], "label": "a"}
SECOND = {"edges": [[1, 0]], "edge_labels": ["single"], "label": "b"}
NAMES = ["double", "single"]
TAGS = [0, 0, 1, 1, 1, 1]
"""Those of both graphs: edges are sorted by sender and receiver, in both directions."""


def written(tmp_path: Path, *graphs: dict[str, Any]) -> Path:
    path = tmp_path / "graphs.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in graphs))
    return path


def without(graph: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in graph.items() if key not in keys}


def labels(graphs: Graphs) -> dict[tuple[int, int], str]:
    """The label of each edge, by its ends."""
    assert graphs.edge_tags is not None
    ends = (tuple(pair) for pair in graphs.edge_index.T.tolist())
    return {
        pair: graphs.edge_tag_names[tag] for pair, tag in zip(ends, graphs.edge_tags, strict=True)
    }


EXPECTED = {
    (0, 1): "double", (1, 0): "double", (1, 2): "single", (2, 1): "single",
    (3, 4): "single", (4, 3): "single",
}  # fmt: skip


def test_json_lines_have_a_label_or_features_per_edge(tmp_path: Path) -> None:
    numbers = [FIRST | {"edge_features": [[1, 2], [3, 4]]}, SECOND | {"edge_features": [[5, 6.5]]}]
    graphs = read(written(tmp_path, *numbers))
    assert labels(graphs) == EXPECTED
    assert graphs.edge_attributes is not None
    rows = graphs.edge_attributes.tolist()
    assert rows == [[1, 2], [1, 2], [3, 4], [3, 4], [5, 6.5], [5, 6.5]]


def test_a_tu_folder_may_have_files_for_edges(tmp_path: Path) -> None:
    files = {
        "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
        "graph_indicator": "1\n1\n1\n2\n2\n",
        "graph_labels": "a\nb\n",
        "edge_labels": "double\ndouble\nsingle\nsingle\nsingle\nsingle\n",
        "edge_attributes": "1, 2\n1, 2\n3, 4\n3, 4\n5, 6\n5, 6\n",
    }
    for key, content in files.items():
        (tmp_path / f"TOY_{key}.txt").write_text(content)
    graphs = read(tmp_path)
    assert labels(graphs) == EXPECTED
    assert graphs.edge_attributes is not None
    assert graphs.edge_attributes[:, 1].tolist() == [2, 2, 4, 4, 6, 6]
    for key in ("edge_labels", "edge_attributes"):
        path = tmp_path / f"TOY_{key}.txt"
        path.write_text("".join(files[key].splitlines(keepends=True)[:-1]))
        with pytest.raises(UserError, match=rf"TOY_{key}\.txt has 5 lines but there are 6 edges"):
            read(tmp_path)
        path.unlink()


def test_networkx_edges_have_attributes() -> None:
    one, other = networkx.Graph(label="a"), networkx.Graph(label="b")
    one.add_edge("x", "y", label="double", x=[1.0])
    one.add_edge("z", "y", label="single", x=[2.0])
    other.add_edge(0, 1, label="single", x=[3.0])
    graphs = from_any([one, other])
    assert labels(graphs) == EXPECTED
    assert graphs.edge_attributes is not None
    assert graphs.edge_attributes.flatten().tolist() == [1, 1, 2, 2, 3, 3]
    del one.edges["x", "y"]["label"]
    with pytest.raises(
        UserError, match=r"edge \('x', 'y'\) of graphs\[0\] has no attribute 'label'"
    ):
        from_any([one, other])


def some_data(first: Any, second: Any) -> list[Data]:
    index = torch.tensor([[0, 2], [1, 1]]), torch.tensor([[1], [0]])
    return [
        Data(edge_index=edges, edge_attr=rows, y=torch.tensor([y]), num_nodes=3 - y)
        for y, (edges, rows) in enumerate(zip(index, (first, second), strict=True))
    ]


def test_whole_numbers_in_edge_attr_are_labels_and_real_ones_features() -> None:
    graphs = from_any(some_data(torch.tensor([7, 9]), torch.tensor([9])))
    assert graphs.edge_attributes is None
    assert list(labels(graphs).values()) == ["7", "7", "9", "9", "9", "9"]
    again = from_any(graphs.to_data_list())
    assert again.edge_tags is not None
    assert again.edge_tags.tolist() == TAGS
    several = from_any(some_data(torch.tensor([[7, 0], [9, 1]]), torch.tensor([[9, 1]])))
    assert several.edge_tag_names == ["7,0", "9,1"]
    numbers = from_any(some_data(torch.tensor([0.5, 1.5]), torch.tensor([2.5])))
    assert numbers.edge_tags is None
    assert numbers.edge_attributes is not None
    assert numbers.edge_attributes.flatten().tolist() == [0.5, 0.5, 1.5, 1.5, 2.5, 2.5]
    back = from_any(numbers.to_data_list())
    assert back.digest == numbers.digest


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([1], [1], r"graphs\[0\]\.edge_attr has 1 rows but there are 2 edges"),
        ([1, 2], None, r"graphs\[1\] has no edge_attr but others do"),
        ([[1], [2]], [[1, 2]], r"graphs\[1\]\.edge_attr has 2 features but graphs\[0\]"),
        ([1, 2], [1.5], r"graphs\[1\]\.edge_attr and graphs\[0\]\.edge_attr differ in type"),
        ([1.0, float("nan")], [1.0], r"graphs\[0\]\.edge_attr\[1, 0\] is not a finite number"),
    ],
)
def test_a_wrong_edge_attr_is_named(first: Any, second: Any, words: str) -> None:
    given = (None if rows is None else torch.tensor(rows) for rows in (first, second))
    with pytest.raises(UserError, match=words):
        from_any(some_data(*given))


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        ([FIRST | {"edge_labels": ["x"]}], r"line 1 has 2 edges but 1 'edge_labels'"),
        ([FIRST | {"edge_features": [[1]]}], r"line 1 has 2 edges but 1 'edge_features'"),
        (
            [FIRST, without(SECOND, "edge_labels")],
            r"line 1 has 'edge_labels' but .*line 2 has none",
        ),
        ([FIRST | {"edge_labels": ["x", ""]}], r"line 1: edge 1 has no label"),
        (
            [FIRST | {"edge_labels": "xy"}],
            r"line 1: 'edge_labels' must be a list, a label per edge",
        ),
        ([FIRST | {"edge_features": [[1], ["a"]]}], r"line 1: 'edge_features' must be a list of"),
        (
            [{"edges": [], "num_nodes": 1}, SECOND, without(FIRST, "edge_labels")],
            r"line 2 has 'edge_labels' but .*line 3 has none",
        ),
        (
            [FIRST | {"edge_features": [[1], [2]]}, SECOND | {"edge_features": [[1, 2]]}],
            r"line 2 has 2 features per edge but .*line 1 has 1",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(
    graphs: list[dict[str, Any]], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        read(written(tmp_path, *graphs))


def test_a_graph_without_edges_needs_no_labels(tmp_path: Path) -> None:
    graphs = read(written(tmp_path, {"edges": [], "num_nodes": 2, "label": "c"}, FIRST, SECOND))
    assert graphs.edge_tags is not None
    assert graphs.edge_tags.tolist() == TAGS


def test_the_first_label_of_a_repeated_edge_counts(tmp_path: Path) -> None:
    odd = {"edges": [[0, 1], [1, 0], [0, 1], [1, 1]], "edge_labels": ["b", "a", "b", "z"]}
    graphs = read(written(tmp_path, odd | {"label": 0}, SECOND))
    assert labels(graphs)[0, 1] == labels(graphs)[1, 0] == "b"
    assert graphs.notes == [
        "1 repeated edge has another label or features than the first; the first counts"
    ]


def test_edge_data_is_part_of_the_digest_and_stays_with_its_edges(tmp_path: Path) -> None:
    plain = read(written(tmp_path, without(FIRST, "edge_labels"), without(SECOND, "edge_labels")))
    graphs = read(written(tmp_path, FIRST, SECOND))
    other = read(written(tmp_path, FIRST | {"edge_labels": NAMES[::-1]}, SECOND))
    renamed = read(
        written(tmp_path, FIRST | {"edge_labels": ["x", "y"]}, SECOND | {"edge_labels": ["y"]})
    )
    assert len({one.digest for one in (plain, graphs, other, renamed)}) == 4
    # Recorded before edges had labels.
    assert plain.digest.startswith("353b35c5fd8a0dbe")
    swapped = graphs.select([1, 0])
    assert labels(swapped) == {
        (0, 1): "single", (1, 0): "single",
        (2, 3): "double", (3, 2): "double", (3, 4): "single", (4, 3): "single",
    }  # fmt: skip
    names = {"label_names", "tag_names", "graph_ids", "edge_tag_names", "name"}
    again = from_flat_form(flat_form(graphs), **{key: getattr(graphs, key) for key in names})
    assert again.digest == graphs.digest
    pieces = without_each_node(graphs, 0)
    assert [labels(pieces.select([node])) for node in range(3)] == [
        {(0, 1): "single", (1, 0): "single"},
        {},
        {(0, 1): "double", (1, 0): "double"},
    ]
