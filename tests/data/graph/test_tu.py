"""The TU collection's raw format."""

from pathlib import Path

import pytest
import torch
from torch_geometric.io import read_tu_data

from quatgraph.data.graph.tu import read_tu
from quatgraph.errors import UserError

FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n3, 3\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "0\n3\n0\n10\n3\n0\n",
    "node_attributes": "0.5, 1\n1, 2\n2, -3e1\n3, 4\n4, 5\n5, 6\n",
}


def folder(tmp_path: Path, name: str = "TOY", **changes: str | bytes | None) -> Path:
    """The small dataset with some files changed, or left out for ``None``."""
    for key, content in (FILES | changes).items():
        if content is not None:
            content = content if isinstance(content, bytes) else content.encode()
            (tmp_path / f"{name}_{key}.txt").write_bytes(content)
    return tmp_path


def test_a_folder_is_read(tmp_path):
    graphs = read_tu(folder(tmp_path))
    assert graphs.name == "TOY"
    assert graphs.label_names == ["-1", "1"]
    assert graphs.y.tolist() == [1, 0, 1]
    assert graphs.tag_names == ["0", "3", "10"]
    assert graphs.tags.tolist() == [0, 1, 0, 2, 1, 0]
    assert graphs.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert graphs.node_ptr.tolist() == [0, 3, 5, 6]
    assert graphs.attributes[2].tolist() == [2.0, -30.0]
    assert graphs.attributes.dtype == torch.float32


def test_a_folder_is_read_as_pyg_reads_it(tmp_path):
    # One node more: PyG leaves a last graph without edges out of its edge slices.
    last = {
        "A": FILES["A"] + "6, 7\n7, 6\n",
        "graph_indicator": FILES["graph_indicator"] + "3\n",
        "node_labels": FILES["node_labels"] + "3\n",
        "node_attributes": FILES["node_attributes"] + "6, 7\n",
    }
    graphs = read_tu(folder(tmp_path, **last))
    data, slices, sizes = read_tu_data(str(tmp_path), "TOY")
    assert torch.equal(graphs.node_ptr, slices["x"])
    assert torch.equal(graphs.edge_ptr, slices["edge_index"])
    # PyG numbers the nodes of each graph anew.
    assert torch.equal(
        torch.cat([graph.edge_index for graph in graphs.to_data_list()], dim=1), data.edge_index
    )
    assert torch.equal(graphs.attributes, data.x[:, : sizes["num_node_attributes"]])
    assert torch.equal(graphs.y, data.y)


def test_only_edges_and_graphs_are_needed_for_predicting(tmp_path):
    folder(tmp_path, node_labels=None, node_attributes=None, graph_labels=None)
    with pytest.raises(UserError, match=r"there is no file .*TOY_graph_labels\.txt"):
        read_tu(tmp_path)
    graphs = read_tu(tmp_path, labels_needed=False)
    assert graphs.y.tolist() == [-1, -1, -1]
    assert graphs.attributes is None
    assert graphs.num_tags == 1


def test_one_direction_of_an_edge_is_enough(tmp_path):
    both = read_tu(folder(tmp_path)).edge_index
    assert torch.equal(read_tu(folder(tmp_path, A="1,2\n3,2\n5 4\n")).edge_index, both)


def test_graphs_without_edges_are_graphs(tmp_path):
    assert read_tu(folder(tmp_path, A="")).edge_ptr.tolist() == [0, 0, 0, 0]


def test_several_labels_of_a_node_are_one_tag(tmp_path):
    graphs = read_tu(folder(tmp_path, node_labels="0, 1\n0, 2\n0, 1\n1, 1\n1, 1\n1, 1\n"))
    assert graphs.tag_names == ["0,1", "0,2", "1,1"]
    assert graphs.tags.tolist() == [0, 1, 0, 2, 2, 2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"A": None}, "has no file NAME_A.txt"),
        ({"graph_indicator": None}, "there is no file .*TOY_graph_indicator.txt"),
        ({"graph_indicator": ""}, "lists no nodes"),
        ({"graph_indicator": "1\n1\n2\n2\n1\n3\n"}, "indicator.txt line 5 names the graph 1 after"),
        ({"graph_indicator": "0\n0\n0\n1\n1\n2\n"}, "indicator.txt line 1 names the graph 0"),
        (
            {"graph_indicator": "1\n1\n1\n3\n3\n5\n", "graph_labels": "1\n" * 4},
            "there are 5 graphs",
        ),
        ({"graph_indicator": "1\n1\n1\n3\n3\n9\n", "A": "3, 4\n"}, "joins the graphs 1 and 3"),
        ({"graph_indicator": "1\n1\n1 1\n2\n2\n3\n"}, "line 3 has 2 numbers where 1 is needed"),
        ({"A": "1, 2\n3, 4\n"}, "A.txt line 2 joins the graphs 1 and 2"),
        ({"A": "1, 2\n\n1, 7\n"}, r"A.txt line 3 names the node 7 but the nodes are 1\.\.6"),
        ({"A": "0, 1\n"}, "A.txt line 1 names the node 0"),
        ({"A": "1, 2\n1\n"}, "A.txt line 2 has 1 number where 2 are needed"),
        ({"A": "1, 2\n1, b\n"}, "A.txt line 2 has 'b'"),
        ({"A": b"1, 2\n1, \xff\n"}, "A.txt line 2 has"),
        ({"graph_labels": "1\n-1\n"}, "graph_labels.txt has 2 lines but there are 3 graphs"),
        ({"graph_labels": "1\n0\n\n1\n0\n"}, "has 4 lines .* from .* line 5 on too many"),
        ({"graph_labels": "1,2\n0,1\n1,1\n"}, "line 1 has 2 cells"),
        ({"graph_labels": ""}, "graph_labels.txt has 0 lines"),
        ({"graph_labels": b"1\n\xff\n1\n"}, "graph_labels.txt line 2 is not UTF-8"),
        ({"node_labels": "1\n1\n \n1\n1\n1\n"}, "node_labels.txt line 3 has no label"),
        ({"node_labels": "1\n1\n"}, "node_labels.txt has 2 lines but there are 6 nodes"),
        ({"node_labels": "1\n" * 7}, "has 7 lines .* from .* line 7 on too many"),
        ({"node_attributes": "1\n" * 7}, "has 7 lines .* from .* line 7 on too many"),
        ({"node_attributes": "1\n1\n"}, "node_attributes.txt has 2 lines"),
        ({"node_attributes": "1,2\n1,2\n1\n1,2\n1,2\n1,2\n"}, "line 3 has 1 number where 2"),
        ({"node_attributes": "1\n1\n1\nnan\n1\n1\n"}, "line 4 has a value that is no finite"),
        ({"node_attributes": "1\n1\n1\n1\nx\n1\n"}, "line 5 has 'x'"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(changes, words, tmp_path):
    with pytest.raises(UserError, match=words):
        read_tu(folder(tmp_path, **changes))


@pytest.mark.parametrize("labels", ["1\n-1\n1\n", "1\nx\n-1\nx\n1\n"])
def test_graphs_whose_number_is_skipped_are_reported_and_left_out(labels, tmp_path):
    whole = read_tu(folder(tmp_path))
    graphs = read_tu(folder(tmp_path, graph_indicator="1\n1\n1\n3\n3\n5\n", graph_labels=labels))
    assert graphs.node_ptr.tolist() == whole.node_ptr.tolist()
    assert graphs.edge_index.tolist() == whole.edge_index.tolist()
    assert graphs.label_names == ["-1", "1"]
    assert graphs.y.tolist() == whole.y.tolist()
    assert graphs.graph_ids == ["0", "2", "4"]
    indicator = tmp_path / "TOY_graph_indicator.txt"
    assert graphs.notes == [
        f"{indicator} skips 2 graphs, for instance 2: they have no nodes and are left out"
    ]


def test_a_graph_with_a_huge_number_takes_no_memory(tmp_path):
    graphs = read_tu(folder(tmp_path, graph_indicator=f"2\n2\n2\n3\n3\n{10**15}\n"))
    assert graphs.graph_ids == ["1", "2", str(10**15 - 1)]
    assert "skips 999,999,999,999,997 graphs, for instance 1:" in graphs.notes[0]


def test_a_folder_holds_one_dataset(tmp_path):
    folder(tmp_path)
    folder(tmp_path, "OTHER")
    with pytest.raises(UserError, match=r"OTHER_A\.txt and TOY_A\.txt"):
        read_tu(tmp_path)
