"""Graphs of the words of documents."""

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.adjacency import Adjacency
from quatgraph.data.text import load
from quatgraph.data.text.documents import Documents, Texts, assemble
from quatgraph.data.text.word_graphs import NO_WORD, word_graphs
from quatgraph.errors import UserError

CORPORA = {  # nodes and edges of all graphs together
    "mr": (196_826, 391_600),
    "r8": (323_670, 844_488),
    "r52": (407_084, 1_072_250),
    "ohsumed": (588_958, 1_684_961),
}


def documents_of(*texts: str) -> Documents:
    labels = ["ab"[place % 2] for place in range(len(texts))]
    ids = [f"text {place}" for place in range(len(texts))]
    return assemble(Texts(texts, labels, None, ids, at=str), "texts")


def by_windows(words: list[str], window: int) -> tuple[list[str], set[tuple[int, int]]]:
    """Nodes and edges of one document, window by window and pair by pair."""
    nodes = list(dict.fromkeys(words))
    last = max(0, len(words) - window)
    edges = set()
    for begin in range(last + 1):
        inside = words[begin : begin + window]
        for one in inside:
            for other in inside:
                if one != other:
                    edges.add((nodes.index(one), nodes.index(other)))
    return nodes or [NO_WORD], edges


@given(
    st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), min_size=1, max_size=6),
    st.integers(1, 6),
)
def test_the_graphs_are_those_of_sliding_windows(documents, window):
    graphs = word_graphs(documents_of(*map(" ".join, documents)), window)
    assert len(graphs) == len(documents)
    for graph, words in zip(graphs.to_data_list(), documents, strict=True):
        nodes, edges = by_windows(words, window)
        assert [graphs.tag_names[tag] for tag in graph.tag.tolist()] == nodes
        assert {*zip(*graph.edge_index.tolist(), strict=True)} == edges
        assert graph.edge_index.size(1) == len(edges)


def test_a_window_of_three_joins_words_up_to_two_apart():
    graphs = word_graphs(documents_of("the cat saw the dog run"))
    names = [graphs.tag_names[tag] for tag in graphs.tags.tolist()]
    assert names == ["the", "cat", "saw", "dog", "run"]
    joined = {(names[a], names[b]) for a, b in graphs.edge_index.T.tolist() if a < b}
    assert joined == {
        ("the", "cat"),
        ("the", "saw"),
        ("cat", "saw"),
        ("saw", "dog"),
        ("the", "dog"),
        ("the", "run"),
        ("dog", "run"),
    }


def test_a_tag_is_the_number_of_a_word_and_what_is_known_of_a_document_stays():
    documents = documents_of("b a", "", "c")
    graphs = word_graphs(documents)
    assert graphs.tag_names == ["a", "b", "c", NO_WORD]
    assert graphs.tags.tolist() == [1, 0, 3, 2]
    assert graphs.node_ptr.tolist() == [0, 2, 3, 4]
    assert graphs.edge_ptr.tolist() == [0, 2, 2, 2]
    assert graphs.graph_ids == documents.ids
    assert torch.equal(graphs.y, documents.y)
    assert graphs.label_names == documents.label_names


def test_a_document_of_one_word_has_one_node_and_no_edge():
    for text in ("word", "word word word word"):
        graphs = word_graphs(documents_of(text))
        assert (graphs.num_nodes, graphs.edge_index.size(1)) == (1, 0)


def test_documents_without_any_word_still_have_a_node_each():
    graphs = word_graphs(documents_of("", ""))
    assert graphs.tags.tolist() == [0, 0]
    assert graphs.node_ptr.tolist() == [0, 1, 2]


def test_the_matrix_of_all_graphs_is_normalised_within_each():
    graphs = word_graphs(documents_of("a b c d a", "a b"))
    edges = Adjacency.from_edge_index(graphs.edge_index, graphs.num_nodes)
    dense = edges.normalized("symmetric") @ torch.eye(graphs.num_nodes)
    plain = torch.zeros(graphs.num_nodes, graphs.num_nodes)
    plain[graphs.edge_index[0], graphs.edge_index[1]] = 1
    scale = plain.sum(dim=1).rsqrt()
    torch.testing.assert_close(dense, scale[:, None] * plain * scale)
    assert not dense[:4, 4:].any()


def test_a_window_must_hold_a_word():
    with pytest.raises(UserError, match="at least 1 word, got 0"):
        word_graphs(documents_of("a b"), window=0)


def test_a_document_of_a_million_words_is_one_graph_soon():
    numbers = (torch.arange(1_000_000) ** 2 % 9973).tolist()
    documents = documents_of(" ".join(map(str, numbers)), "1 2")
    start = time.process_time()
    graphs = word_graphs(documents)
    assert time.process_time() - start < 10
    assert graphs.node_ptr[1] == len(set(numbers))


@pytest.mark.realdata
def test_the_graphs_of_all_corpora_are_built_soon():
    for name, sizes in CORPORA.items():
        documents = load(name)
        start = time.process_time()
        graphs = word_graphs(documents)
        assert time.process_time() - start < 5
        assert (graphs.num_nodes, graphs.edge_index.size(1) // 2) == sizes
        for place in range(0, len(documents), 997):
            graph = graphs.select([place])
            nodes, edges = by_windows(documents.words(place), 3)
            assert [graphs.tag_names[tag] for tag in graph.tags.tolist()] == nodes
            assert {*zip(*graph.edge_index.tolist(), strict=True)} == edges
