"""Texts, their graphs and the words' vectors as the models take them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from quatgraph.data.text import NO_WORD, from_list, word_graphs
from quatgraph.errors import UserError
from quatgraph.models.text import MODELS
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import TextConfig
from quatgraph.tasks.text.problem import Corpus, build_collection, split_indices

CPU = torch.device("cpu")


def test_the_data_is_either_named_or_at_a_path(configured: Any) -> None:
    for config in (TextConfig(), configured(**{"data.name": "snippets"})):
        with pytest.raises(UserError, match=r"set either data\.name, .* or data\.path"):
            TEXT.load(config)


def test_words_have_the_vectors_of_a_file_and_drawn_ones_where_it_has_none(
    configured: Any, tmp_path: Path
) -> None:
    (tmp_path / "own.txt").write_text("cat 1 2 3 4\ndog 5 6 7 8\nunheard 0 0 0 0\n")
    corpus = TEXT.load(configured(**{"data.vectors": str(tmp_path / "own.txt")}))
    vocabulary = corpus.documents.vocabulary
    assert corpus.found == 2
    assert corpus.vectors.shape == (len(vocabulary), 4)
    assert corpus.vectors[vocabulary.index("dog")].tolist() == [5, 6, 7, 8]
    assert 0 < float(corpus.vectors[vocabulary.index("house")].abs().max()) <= 0.01


def test_a_digest_tells_vectors_apart_that_were_read(configured: Any, tmp_path: Path) -> None:
    digests = set()
    for name, line in (("a", "cat 1 2 3 4\n"), ("b", "cat 1 2 3 5\n")):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "own.txt"
        path.write_text(line)
        digests.add(TEXT.load(configured(**{"data.vectors": str(path)})).digest)
    drawn = TEXT.load(configured())
    assert len(digests | {drawn.digest}) == 3
    assert drawn.digest == drawn.documents.digest


def test_a_graph_has_the_different_words_and_is_normalised_without_self_loops() -> None:
    documents = from_list(["one fish two fish", "", "red"])
    whole, graphs = build_collection(documents, 2, CPU), word_graphs(documents, 2)
    assert whole.num_nodes.tolist() == [3, 1, 1]
    tags = [graphs.tag_names[tag] for tag in graphs.tags]
    assert tags == ["one", "fish", "two", NO_WORD, "red"]
    assert whole.features.weight.tolist() == [1, 1, 1, 0, 1]
    half = 0.5**0.5
    expected = torch.zeros(5, 5)
    expected[0, 1] = expected[1, 0] = expected[1, 2] = expected[2, 1] = half
    torch.testing.assert_close(whole.adjacency.to_dense(), expected)
    pooled = [[1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert whole.pool.to_dense().tolist() == pooled


def test_words_in_order_come_as_often_as_they_stand_there() -> None:
    documents = from_list(["one fish two fish", "", "red"])
    whole = build_collection(documents, None, CPU)
    assert whole.num_nodes.tolist() == [4, 0, 1]
    assert whole.features.code.tolist() == documents.tokens.tolist()
    assert whole.adjacency.num_edges == 0


def test_each_seed_puts_a_tenth_aside_by_a_draw_of_its_own(corpus: Corpus, configured: Any) -> None:
    documents, config = corpus.documents, configured().data
    first, again, other = (split_indices(documents, config, seed) for seed in (0, 0, 1))
    assert torch.equal(first["valid"], again["valid"])
    assert not torch.equal(first["valid"], other["valid"])
    for parts in (first, other):
        assert (len(parts["train"]), len(parts["valid"])) == (26, 4)
        both = torch.cat((parts["train"], parts["valid"])).sort().values
        assert torch.equal(both, documents.train)
        assert torch.equal(parts["test"], documents.test)


def test_a_validation_part_that_the_data_has_is_taken() -> None:
    config = TextConfig()
    documents = from_list([f"word {n}" for n in range(40)], ["a", "b"] * 20)
    assert len(documents.valid)
    for seed in (0, 1):
        parts = split_indices(documents, config.data, seed)
        assert torch.equal(parts["valid"], documents.valid)
        assert torch.equal(parts["train"], documents.train)


@pytest.mark.parametrize("name", [name for name in MODELS if not MODELS[name].fitted])
@pytest.mark.parametrize("learned", [False, True])
def test_fixed_vectors_are_no_weights_and_learned_ones_are(
    configured: Any, name: str, learned: bool
) -> None:
    config = configured(**{"model.name": name, "model.learned_vectors": learned})
    corpus = TEXT.load(config)
    problem = TEXT.prepare(corpus, config, CPU)
    model = TEXT.build(config, problem).eval()
    whole = problem.collection
    logits = model(whole.features, whole.adjacency, whole.pool)
    assert logits.shape == (60, 2)
    words = len(corpus.documents.vocabulary)
    held = any(weight.size(0) == words for weight in model.state_dict().values() if weight.dim())
    assert held == (learned or name == "fasttext")
