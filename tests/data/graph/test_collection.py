"""Many graphs as one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from quatgraph.data.edges import merge_edges
from quatgraph.data.graph import from_list
from quatgraph.data.graph.collection import (
    Graphs,
    check_labels,
    flat_form,
    from_flat_form,
    merge_graphs,
)
from quatgraph.errors import UserError


def some_graphs() -> Graphs:
    """A path of three nodes, one lone node, and a pair."""
    graphs = merge_graphs(
        name="some",
        sizes=np.array([3, 1, 2]),
        edges=np.array([[1, 0, 1, 4, 4, 1], [0, 1, 2, 5, 4, 2]]),
        labels=(np.array([1, 0, -1]), ["no", "yes"]),
        tags=(np.array([0, 1, 0, 2, 2, 2]), ["C", "N", "O"]),
        attributes=np.arange(12, dtype=np.float32).reshape(6, 2),
    )
    return replace(graphs, graph_ids=["a", "b", "c"])


def test_edges_get_both_directions_once_and_self_loops_go():
    graphs = some_graphs()
    assert graphs.edge_index.tolist() == [[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]]
    assert graphs.node_ptr.tolist() == [0, 3, 4, 6]
    assert graphs.edge_ptr.tolist() == [0, 4, 4, 6]
    assert graphs.degrees.tolist() == [1, 2, 1, 0, 1, 1]
    assert (len(graphs), graphs.num_nodes, graphs.num_classes, graphs.num_tags) == (3, 6, 2, 3)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=40))
def test_edges_are_merged_as_those_of_one_graph(pairs):
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    graphs = merge_graphs(name="", sizes=np.array([9]), edges=ends.T, labels=(np.array([0]), ["0"]))
    expected, _ = merge_edges(ends[:, 0], ends[:, 1], 9, directed=False)
    assert torch.equal(graphs.edge_index, expected)
    assert graphs.tag_names == ["0"]
    assert graphs.tags.tolist() == [0] * 9


@pytest.mark.parametrize("index", [[2, 0], [1], [0, 1, 2], [0, 0, 2, 1], []])
def test_selected_graphs_equal_the_same_entries_of_the_list(index):
    graphs = some_graphs()
    chosen = graphs.select(torch.tensor(index, dtype=torch.long))
    everything = graphs.to_data_list()
    for found, place in zip(chosen.to_data_list(), index, strict=True):
        for key in ("x", "tag", "y", "edge_index"):
            assert torch.equal(found[key], everything[place][key])
        assert found.num_nodes == everything[place].num_nodes
    assert chosen.graph_ids == [graphs.graph_ids[place] for place in index]
    assert chosen.label_names == graphs.label_names
    assert chosen.node_ptr[-1] == chosen.num_nodes
    assert chosen.edge_ptr[-1] == chosen.edge_index.size(1)


def test_a_mask_selects_and_places_beyond_the_end_are_refused():
    graphs = some_graphs()
    assert graphs.select(torch.tensor([True, False, True])).graph_ids == ["a", "c"]
    assert graphs.select([2]).graph_ids == ["c"]
    with pytest.raises(UserError, match=r"no graph 3; the graphs are 0\.\.2"):
        graphs.select([0, 3])
    with pytest.raises(UserError, match="no graph -1"):
        graphs.select([-1])
    with pytest.raises(UserError, match="a mask over 3 graphs"):
        graphs.select(torch.tensor([True]))


def test_a_graph_of_the_list_counts_its_own_nodes_from_zero():
    path, lone, pair = some_graphs().to_data_list()
    assert pair.edge_index.tolist() == [[0, 1], [1, 0]]
    assert pair.x.tolist() == [[8, 9], [10, 11]]
    assert lone.edge_index.shape == (2, 0)
    assert lone.num_nodes == 1
    assert path.y.tolist() == [1]
    assert path.tag.tolist() == [0, 1, 0]


def test_degrees_stand_in_for_tags():
    graphs = some_graphs().with_degrees_as_tags()
    assert graphs.tag_names == ["0", "1", "2"]
    assert graphs.tags.tolist() == [1, 2, 1, 0, 1, 1]
    assert torch.equal(graphs.edge_index, some_graphs().edge_index)


def test_the_digest_follows_the_content_and_not_the_name():
    graphs = some_graphs()
    assert graphs.digest == some_graphs().digest
    assert graphs.select([0, 1, 2]).digest == graphs.digest
    assert len({graphs.digest, graphs.select([0, 2, 1]).digest, graphs.select([0]).digest}) == 3
    assert graphs.with_degrees_as_tags().digest != graphs.digest


def test_the_flat_form_gives_the_same_graphs_back():
    graphs = some_graphs()
    again = from_flat_form(
        flat_form(graphs),
        name="some",
        label_names=graphs.label_names,
        tag_names=graphs.tag_names,
        graph_ids=graphs.graph_ids,
    )
    for key in ("node_ptr", "edge_ptr", "edge_index", "tags", "attributes", "y"):
        assert torch.equal(getattr(again, key), getattr(graphs, key))
        assert getattr(again, key).dtype == getattr(graphs, key).dtype
    assert again.digest == graphs.digest


def test_graphs_need_two_classes_to_be_learned_from():
    check_labels(some_graphs(), "here")
    graph = {"name": "", "sizes": np.array([1]), "edges": np.empty((2, 0), dtype=np.int64)}
    with pytest.raises(UserError, match="no graph in here has a label"):
        check_labels(merge_graphs(**graph, labels=(np.array([-1]), [])), "here")
    with pytest.raises(UserError, match="all labelled graphs in here have the class 'a'"):
        check_labels(merge_graphs(**graph, labels=(np.array([0]), ["a"])), "here")


def test_names_of_classes_that_no_graph_has_are_left_out_and_unknown_stays_unknown() -> None:
    listed = [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, y=y) for y in (0, 1, 2, -1)]
    some = from_list(listed).select([1, 2, 3]).with_present_labels()
    assert some.label_names == ["1", "2"]
    assert some.y.tolist() == [0, 1, -1]


def test_a_number_of_nodes_may_be_a_tensor_of_one_number():
    edges = torch.tensor([[0], [4]])
    graphs = [
        Data(edge_index=edges, num_nodes=torch.tensor([5]), y=torch.tensor([k])) for k in (0, 1)
    ]
    assert from_list(graphs).node_ptr.tolist() == [0, 5, 10]
