"""What is drawn of a large graph."""

import numpy as np

from quatgraph.serve.drawing import draw_around

PATH = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])


def test_the_nodes_around_one_come_with_their_distance() -> None:
    assert draw_around(PATH, 6, 2, 1, 10) == ([(2, 0), (1, 1), (3, 1)], [1, 2])
    nodes, edges = draw_around(PATH, 6, 2, 2, 10)
    assert nodes == [(2, 0), (1, 1), (3, 1), (0, 2), (4, 2)]
    assert edges == [0, 1, 2, 3]


def test_of_equally_near_nodes_those_with_most_edges_are_drawn() -> None:
    edges = np.array([[0, 0, 0, 2, 3], [1, 2, 3, 0, 0]])
    assert draw_around(edges, 4, 0, 1, 3) == ([(0, 0), (2, 1), (3, 1)], [1, 2, 3, 4])


def test_no_more_nodes_are_drawn_than_wanted() -> None:
    star = np.stack([np.zeros(50, int), np.arange(1, 51)])
    nodes, edges = draw_around(star, 51, 0, 2, 10)
    assert len(nodes) == 10
    assert len(edges) == 9


def test_a_node_without_edges_is_drawn_alone() -> None:
    assert draw_around(np.empty((2, 0), int), 3, 1, 2, 10) == ([(1, 0)], [])


def test_an_edge_from_a_node_to_itself_is_drawn_once() -> None:
    assert draw_around(np.array([[0, 0], [0, 1]]), 2, 0, 1, 5) == ([(0, 0), (1, 1)], [0, 1])
