"""The graph of a corpus against windows counted one by one, and against scikit-learn."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from quatgraph.data.text import CorpusGraph, Documents, append_nodes, corpus_graph, from_list, load
from quatgraph.data.text.corpus_graph import Counts
from quatgraph.errors import UserError

WORDS = 9


def random_texts() -> list[list[str]]:
    """Texts of no word, of one, of about a window and of several, with repeated words."""
    rng = np.random.default_rng(3)
    lengths = [0, 1, 2, 3, 4, 5, 6, 7, 12, 30, 45]
    return [[f"w{k}" for k in rng.integers(WORDS, size=length)] for length in lengths]


TEXTS = random_texts()


def documents() -> Documents:
    return from_list([" ".join(text) for text in TEXTS])


def built(window: int, counts: Counts = "released") -> CorpusGraph:
    texts = documents()
    return corpus_graph(texts.tokens, texts.ptr, len(texts.vocabulary), window, counts)


def windows_of(text: list[str], size: int) -> list[list[str]]:
    return [text[k : k + size] for k in range(max(1, len(text) - size + 1))]


def pmi_by_windows(size: int, counts: Counts) -> tuple[int, dict[tuple[str, str], float]]:
    """The number of windows, and the PMI of each pair of words that is positive."""
    windows = [window for text in TEXTS for window in windows_of(text, size)]
    words: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for window in windows:
        words.update(set(window))
        together = [tuple(sorted(pair)) for pair in combinations(window, 2) if len({*pair}) == 2]
        pairs.update(together if counts == "released" else set(together))
    total = len(windows)
    pmi = {(a, b): math.log(n * total / (words[a] * words[b])) for (a, b), n in pairs.items()}
    return total, {pair: value for pair, value in pmi.items() if value > 0}


def unnormalized(graph: CorpusGraph) -> np.ndarray:
    root = graph.degree.double().sqrt()
    return (root[:, None] * graph.adjacency.to_dense().double() * root).numpy()


@pytest.mark.parametrize("counts", ["released", "windows"])
@pytest.mark.parametrize("window", [1, 2, 5, 20, 100])
def test_words_are_connected_by_their_mutual_information_in_windows(window, counts):
    graph, vocabulary = built(window, counts), documents().vocabulary
    total, pmi = pmi_by_windows(window, counts)
    assert (graph.num_windows, graph.num_word_pairs) == (total, len(pmi))
    expected = np.eye(len(vocabulary))
    for (a, b), value in pmi.items():
        i, j = vocabulary.index(a), vocabulary.index(b)
        expected[i, j] = expected[j, i] = value
    size = len(vocabulary)
    np.testing.assert_allclose(unnormalized(graph)[:size, :size], expected, atol=1e-5)


def test_repeated_words_make_both_ways_of_counting_differ():
    released, windows = (pmi_by_windows(5, counts)[1] for counts in ("released", "windows"))
    assert released != windows
    assert built(5).num_word_pairs >= built(5, "windows").num_word_pairs


def test_documents_are_connected_with_words_by_tf_idf():
    graph, texts = built(5), documents()
    size = len(texts.vocabulary)
    theirs = TfidfVectorizer(
        norm=None, smooth_idf=False, analyzer=str.split, vocabulary=texts.vocabulary
    )
    lines = [" ".join(text) for text in TEXTS]
    weighted = theirs.fit_transform(lines).toarray()
    counts = np.array([[text.count(word) for word in texts.vocabulary] for text in TEXTS])
    whole = unnormalized(graph)
    np.testing.assert_allclose(whole[size:, :size], weighted - counts, atol=1e-5)
    np.testing.assert_allclose(graph.idf, theirs.idf_ - 1, atol=1e-6)
    np.testing.assert_allclose(whole[size:, size:], np.eye(len(TEXTS)), atol=1e-6)
    assert graph.num_document_words == np.count_nonzero(counts)


def test_the_matrix_is_normalized_and_exactly_symmetric():
    graph = built(5)
    dense = graph.adjacency.to_dense()
    assert torch.equal(dense, dense.T)
    sums = unnormalized(graph).sum(axis=1)
    np.testing.assert_allclose(graph.degree, sums, rtol=1e-5)
    assert torch.equal(graph.documents.to_dense(), dense[len(documents().vocabulary) :])


def test_texts_without_any_words_are_nodes_of_their_own():
    graph = corpus_graph(torch.empty(0, dtype=torch.long), torch.zeros(3, dtype=torch.long), 0)
    assert torch.equal(graph.adjacency.to_dense(), torch.eye(2))
    assert (graph.num_windows, graph.num_word_pairs, graph.num_document_words) == (2, 0, 0)


def test_a_window_without_words_and_an_unknown_way_to_count_are_mistakes():
    with pytest.raises(UserError, match="a window must hold at least 1 word, got 0"):
        built(0)
    with pytest.raises(UserError, match="counts must be 'released' or 'windows', got 'both'"):
        built(5, "both")  # type: ignore[arg-type]


def test_the_node_of_a_document_comes_after_its_words():
    texts = from_list(["b a b", "", "a"]).select([2, 1, 0])
    texts = Documents(**{**vars(texts), "corpus_index": torch.tensor([0, 4, 7])})
    nodes = append_nodes(texts)
    assert nodes.tokens.tolist() == [0, 2, 2 + 4, 1, 0, 1, 2 + 7]
    assert nodes.ptr.tolist() == [0, 2, 3, 7]
    assert nodes.select([2, 0]).corpus_index.tolist() == [7, 0]


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "windows", "word_pairs", "document_words", "entries"),
    [
        ("mr", 53_708, 752_299, 196_826, 1_927_676),
        pytest.param("r8", 367_611, 1_420_880, 323_670, 3_504_462, marks=pytest.mark.slow),
        pytest.param("r52", 473_225, 1_787_081, 407_084, 4_406_322, marks=pytest.mark.slow),
        pytest.param("ohsumed", 864_473, 3_433_745, 588_958, 8_066_963, marks=pytest.mark.slow),
    ],
)
def test_the_graphs_of_the_published_corpora_have_their_known_sizes(
    name, windows, word_pairs, document_words, entries
):
    texts = load(name)
    graph = corpus_graph(texts.tokens, texts.ptr, len(texts.vocabulary))
    found = graph.num_windows, graph.num_word_pairs, graph.num_document_words
    assert found == (windows, word_pairs, document_words)
    assert graph.adjacency.num_edges == entries
