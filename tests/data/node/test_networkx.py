"""Graphs of networkx."""

import numpy as np
import pytest

from quatgraph.data.node import ReadOptions, from_any, load
from quatgraph.errors import UserError

networkx = pytest.importorskip("networkx")
CLUB = ReadOptions(label="club")


def test_the_karate_club_is_the_one_that_ships_with_the_package():
    data, own = from_any(networkx.karate_club_graph(), CLUB), load("karate")
    assert data.label_names == own.label_names == ["Mr. Hi", "Officer"]
    assert data.edge_index.tolist() == own.edge_index.tolist()
    assert data.y.tolist() == own.y.tolist()
    assert data.name == "Zachary's Karate Club"
    assert data.x is None
    weights = networkx.to_numpy_array(networkx.karate_club_graph())
    assert data.edge_weight.tolist() == weights[tuple(data.edge_index.numpy())].tolist()


def ladder(**attributes) -> "networkx.Graph":
    graph = networkx.ladder_graph(6)
    for node in graph:
        values = {"label": "ab"[node % 2], "size": node, "kind": "xy"[node // 6]}
        graph.nodes[node].update({key: make(node) for key, make in attributes.items()} or values)
    return graph


def test_attributes_of_nodes_are_labels_and_features():
    data = from_any(ladder())
    assert data.feature_names == ["size", "kind=x", "kind=y"]
    assert data.x[:, 0].tolist() == list(range(12))
    assert data.label_names == ["a", "b"]
    assert data.directed is False


def test_a_vector_x_holds_the_features():
    graph = ladder(
        x=lambda node: np.array([node, 1.0]), label=lambda k: k % 2, pos=lambda k: (k, k)
    )
    data = from_any(graph)
    assert data.x.tolist() == [[node, 1] for node in range(12)]
    assert data.label_values == [0, 1]
    assert data.notes[-1] == (
        "the networkx graph: the features are the attribute 'x'; not used: 'pos'"
    )


def test_directions_and_repeated_edges_are_those_of_the_graph():
    graph = networkx.DiGraph([("a", "b"), ("b", "c")])
    networkx.set_node_attributes(graph, dict(zip("abc", "xyx", strict=True)), "label")
    data = from_any(graph, ReadOptions(labels_needed=False))
    assert data.edge_index.T.tolist() == [[0, 1], [1, 2]]
    assert data.directed is True
    several = networkx.MultiGraph([(0, 1), (0, 1), (1, 2, {"weight": 3.0})])
    data = from_any(several, ReadOptions(labels_needed=False))
    assert data.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert data.edge_weight.tolist() == [2, 2, 3, 3]


def test_nodes_may_be_any_objects():
    grid = networkx.grid_2d_graph(2, 2)
    data = from_any(grid, ReadOptions(labels_needed=False))
    assert data.node_ids == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]
    assert data.edge_index.size(1) == 8


@pytest.mark.parametrize(
    ("attributes", "options", "words"),
    [
        ({"size": lambda k: k}, {}, r"the networkx graph has no column 'label', its columns are"),
        (
            {"label": str, "x": lambda k: [1] * (k + 1)},
            {},
            r"node '1' of .* 'x' of shape \(2,\)",
        ),
        ({"label": str, "x": lambda k: ["a"]}, {}, "the attribute 'x' of .* must hold numbers"),
        (
            {"label": str, "pos": lambda k: (k, k)},
            {},
            r"node '0' .* has \[0, 0\] in column",
        ),
        ({"label": str}, {"weight": "w"}, "no edge of .* has the attribute 'w', which data.weight"),
        ({"label": str}, {"label": "lable"}, "no column 'lable', .*; did you mean 'label'"),
    ],
)
def test_a_mistake_names_the_node(attributes, options, words):
    with pytest.raises(UserError, match=words):
        from_any(ladder(**attributes), ReadOptions(**options))


def test_an_edge_with_a_negative_weight_is_named():
    graph = ladder()
    graph.edges[0, 1]["weight"] = -2
    with pytest.raises(UserError, match=r"the edge from '0' to '1' of .* the negative weight -2"):
        from_any(graph)


def test_a_graph_without_nodes_is_refused():
    with pytest.raises(UserError, match="the networkx graph lists no nodes"):
        from_any(networkx.Graph(), ReadOptions(labels_needed=False))
