"""The snippets that ship with the package: that they make sense as a corpus."""

from collections import Counter

import torch

from quatgraph.data.io import store
from quatgraph.data.text import Documents, clean, load, statistics

SNIPPETS = store.SAMPLES / "snippets.tsv"


def counts(documents: Documents) -> torch.Tensor:
    """How often each document has each word, as vectors of length one."""
    table = torch.zeros(len(documents), len(documents.vocabulary))
    batch = torch.arange(len(documents)).repeat_interleave(documents.ptr.diff())
    table.index_put_((batch, documents.tokens), torch.ones(len(batch)), accumulate=True)
    spread = len(documents) / (table > 0).sum(dim=0)
    return torch.nn.functional.normalize(table * spread.log())


def test_the_snippets_are_what_the_catalog_says():
    documents = load("snippets")
    assert statistics(documents) == store.entry("snippets").statistics
    assert documents.label_names == ["cooking", "sports", "technology", "travel", "weather"]
    assert documents.notes == []


def test_no_snippet_comes_twice_or_nearly_so():
    documents = load("snippets")
    sets = [frozenset(documents.words(place)) for place in range(len(documents))]
    assert len(set(sets)) == len(sets)
    likeness = counts(documents)
    likeness = likeness @ likeness.T - torch.eye(len(documents))
    assert likeness.max() < 0.7


def test_every_part_has_the_same_mixture_of_topics():
    documents = load("snippets")
    for part, count in (("train", 75), ("valid", 15), ("test", 30)):
        assert documents.y[getattr(documents, part)].bincount().tolist() == [count] * 5


def test_no_snippet_names_its_topic():
    documents = load("snippets")
    for place, label in enumerate(documents.y.tolist()):
        assert documents.label_names[label] not in documents.words(place)


def test_snippets_are_written_text_of_a_sentence_or_two():
    lines = SNIPPETS.read_text()
    texts = [line.split("\t")[0] for line in lines.splitlines()[1:]]
    assert all(text[0].isupper() and text[-1] in ".?!" and text == text.strip() for text in texts)
    assert all(5 <= len(clean(text).split()) <= 30 for text in texts)
    beginnings = Counter(tuple(text.split()[:3]) for text in texts)
    assert max(beginnings.values()) <= 4


def test_topics_differ_in_their_words():
    documents = load("snippets")
    table, train = counts(documents), documents.train
    centres = torch.stack(
        [table[train[documents.y[train] == label]].mean(dim=0) for label in range(5)]
    )
    guess = (table[documents.test] @ torch.nn.functional.normalize(centres).T).argmax(dim=1)
    accuracy = (guess == documents.y[documents.test]).float().mean()
    assert accuracy > 0.7  # chance is 0.2
