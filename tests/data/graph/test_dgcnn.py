"""The text format of DGCNN and GIN."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.graph.collection import Graphs
from quatgraph.data.graph.dgcnn import read_dgcnn
from quatgraph.data.io import store
from quatgraph.errors import UserError

TWO = b"2\n3 5\n0 1 1\n7 2 0 2\n0 1 1\n2 -1\n7 1 1\n7 1 0\n"


def by_loops(content: bytes) -> list[tuple[int, list[int], set[tuple[int, int]]]]:
    """Label, tags and directed edges of each graph, read word by word."""
    lines = iter(content.decode().splitlines())
    graphs = []
    for _ in range(int(next(lines))):
        size, label = map(int, next(lines).split())
        tags, edges = [], set()
        for node in range(size):
            tag, count, *neighbours = map(int, next(lines).split())
            assert count == len(neighbours)
            tags.append(tag)
            edges |= {(node, other) for other in neighbours if other != node}
            edges |= {(other, node) for other in neighbours if other != node}
        graphs.append((label, tags, edges))
    return graphs


def assert_equal_to_loops(graphs: Graphs, content: bytes) -> None:
    expected = by_loops(content)
    assert len(graphs) == len(expected)
    for found, (label, tags, edges) in zip(graphs.to_data_list(), expected, strict=True):
        assert graphs.label_names[int(found.y)] == str(label)
        assert [int(graphs.tag_names[tag]) for tag in found.tag.tolist()] == tags
        assert found.edge_index.T.tolist() == sorted(map(list, edges))


def test_a_small_file_is_read():
    graphs = read_dgcnn(TWO, name="two", where="f")
    assert graphs.label_names == ["-1", "5"]
    assert graphs.tag_names == ["0", "7"]
    assert graphs.y.tolist() == [1, 0]
    assert graphs.tags.tolist() == [0, 1, 0, 1, 1]
    assert graphs.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]


@st.composite
def files(draw) -> bytes:
    lines = []
    count = draw(st.integers(1, 4))
    for _ in range(count):
        size = draw(st.integers(1, 5))
        lines.append(f"{size} {draw(st.integers(-1, 3))}")
        for _ in range(size):
            ends = draw(st.lists(st.integers(0, size - 1), max_size=4))
            lines.append(" ".join(map(str, [draw(st.integers(0, 12)), len(ends), *ends])))
    return "\n".join([str(count), *lines]).encode()


@given(files())
def test_any_file_is_read_as_by_loops(content):
    assert_equal_to_loops(read_dgcnn(content, name="", where="f"), content)


def test_one_sided_repeated_and_looping_edges_become_plain_ones():
    graphs = read_dgcnn(b"1\n3 0\n0 4 0 1 1 2\n0 0\n0 1 2\n", name="", where="f")
    assert graphs.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "f has no graphs"),
        (b"0\n", "f has no graphs"),
        (b"1 2\n", "f has no graphs"),
        (TWO.replace(b"2\n3 5", b"3\n3 5"), "f ends within graph 2 of 3"),
        (TWO[:-6], "f ends within graph 2 of 2"),
        (TWO + b"\n7 0\n", "f line 10 is left over after the 2 graphs"),
        (TWO.replace(b"3 5", b"2 5"), "f line 5 must be a graph's number of nodes"),
        (TWO.replace(b"3 5", b"0 5"), "f line 2 must be a graph's number of nodes"),
        (TWO.replace(b"7 2 0 2", b"7 3 0 2"), "f line 4 lists 2 neighbours but promises 3"),
        (TWO.replace(b"7 2 0 2", b"7"), "f line 4 must be a node's tag"),
        (TWO.replace(b"7 1 1\n", b"7 1 2\n"), r"f line 7 names the neighbour 2 .* 0\.\.1"),
        (TWO.replace(b"7 2 0 2", b"7 2 -1 2"), "f line 4 names the neighbour -1"),
        (TWO.replace(b"7 2 0 2", b"C 2 0 2"), "f line 4 has 'C'"),
    ],
)
def test_a_mistake_is_named_with_its_line(content, words):
    with pytest.raises(UserError, match=words):
        read_dgcnn(content, name="", where="f")


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["mutag", "ptc", "imdb-m"])
def test_published_files_are_read_as_by_loops(name):
    content = store.read_bytes(name, store.entry(name).files[0].path)
    graphs = read_dgcnn(content, name=name, where=name)
    assert_equal_to_loops(graphs, content)
    assert torch.equal(graphs.edge_index.flip(0).unique(dim=1), graphs.edge_index)
