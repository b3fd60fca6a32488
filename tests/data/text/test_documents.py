"""Texts as numbers."""

from dataclasses import replace

import pytest
import torch

from quatgraph.data.splits import inner_validation
from quatgraph.data.text.documents import (
    Documents,
    TextOptions,
    Texts,
    assemble,
    check_drawn_split,
    check_trainable,
    statistics,
)
from quatgraph.errors import UserError


def some_documents(**changes) -> Documents:
    values = {
        "name": "some",
        "texts": ["b a b", "", "c", "a c c", "d"],
        "labels": ["yes", "no", "no", "", "yes"],
        "parts": [0, 0, 2, 0, 2],
        "ids": list("vwxyz"),
    }
    return documents_of(values | changes)


def documents_of(values: dict) -> Documents:
    """Documents of values, which belong to the texts or to the assembly."""
    name, options = values.pop("name"), TextOptions(split_seed=values.pop("split_seed", 0))
    return assemble(Texts(**values, at=str), name, options)


def labelled(*labels: str, **changes) -> Documents:
    """A document of one word for each label, the parts drawn."""
    texts = [f"w{place}" for place in range(len(labels))]
    ids = [str(place) for place in range(len(labels))]
    values = {"name": "", "texts": texts, "labels": labels, "parts": None, "ids": ids}
    return documents_of(values | changes)


def test_words_are_places_in_the_sorted_vocabulary():
    documents = some_documents()
    assert documents.vocabulary == ["a", "b", "c", "d"]
    assert documents.tokens.tolist() == [1, 0, 1, 2, 0, 2, 2, 3]
    assert documents.ptr.tolist() == [0, 3, 3, 4, 7, 8]
    assert documents.words(0) == ["b", "a", "b"]
    assert documents.words(1) == []
    assert len(documents) == 5
    assert repr(documents) == "Documents('some', 5 documents, 4 words, 2 classes)"


def test_labels_are_places_in_their_sorted_names():
    documents = some_documents()
    assert documents.label_names == ["no", "yes"]
    assert documents.y.tolist() == [1, 0, 0, -1, 1]
    assert labelled("10", "9", "10").label_names == ["9", "10"]


def test_a_document_without_a_label_is_in_no_part():
    documents = some_documents()
    assert documents.train.tolist() == [0, 1]
    assert documents.valid.tolist() == []
    assert documents.test.tolist() == [2, 4]
    assert statistics(documents) == {
        "documents": 5,
        "labelled": 4,
        "train": 2,
        "valid": 0,
        "test": 2,
        "classes": 2,
        "vocabulary": 4,
        "words": 8,
    }


def test_parts_are_drawn_class_by_class_and_by_the_seed():
    labels = ["a"] * 50 + ["b"] * 30 + [""] * 5
    documents = labelled(*labels)
    assert [len(documents.train), len(documents.valid), len(documents.test)] == [56, 8, 16]
    assert documents.y[documents.test].bincount().tolist() == [10, 6]
    places = torch.cat((documents.train, documents.valid, documents.test))
    assert places.sort().values.tolist() == list(range(80))
    assert torch.equal(labelled(*labels).test, documents.test)
    assert not torch.equal(labelled(*labels, split_seed=1).test, documents.test)
    assert documents.notes == []


def test_a_label_too_rare_to_be_split_is_for_training_and_reported():
    documents = labelled(*"aaaaabbbbbcc")
    assert {10, 11} <= set(documents.train.tolist())
    check_trainable(documents, "here")
    (note,) = check_drawn_split(documents, "here")
    assert note.startswith("the label 'c' has fewer than 3 documents, too few to be split")
    with pytest.raises(UserError, match="the label 'c' has a single document in here"):
        check_drawn_split(labelled(*"aaaaabbbbbc"), "here")


def test_a_part_of_the_training_documents_can_be_put_aside():
    documents = labelled(*"ab" * 50, parts=[0] * 80 + [2] * 20)
    train, valid = inner_validation(documents.y, documents.train, seed=3)
    assert [len(train), len(valid)] == [72, 8]
    assert not set(valid.tolist()) & set(documents.test.tolist())


@pytest.mark.parametrize(
    ("labels", "parts", "message"),
    [
        (["", ""], None, "no document in here has a label"),
        (["a", "a", ""], None, "all labelled documents in here have the label 'a'"),
        (["a", "b"], None, "here has no labelled document for the test part"),
        (["a", "b", "a"], [2, 2, -1], "here has no labelled document for the train part"),
        (["a", "b", "a"], [0, 2, 2], "all training documents in here have the label 'a'"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(labels, parts, message):
    with pytest.raises(UserError, match=message):
        check_trainable(labelled(*labels, parts=parts), "here")


def test_the_digest_follows_all_that_can_change_a_number_and_nothing_else():
    documents = some_documents()
    same = some_documents(name="other", ids=list("abcde"), notes=["a note"])
    assert same.digest == documents.digest
    others = [
        some_documents(texts=["b a b", "", "c", "a c c", "e"]),
        some_documents(texts=["b a", "b", "c", "a c c", "d"]),
        some_documents(labels=["yes", "no", "no", "", "no"]),
        some_documents(labels=["ja", "no", "no", "", "ja"]),
        some_documents(parts=[0, 0, 2, 0, 1]),
        some_documents(parts=[0, -1, 2, 0, 2]),
    ]
    assert len({documents.digest, *(other.digest for other in others)}) == 7


def test_selected_documents_have_the_given_order():
    documents = some_documents()
    some = documents.select([3, 1, 3])
    assert [some.words(place) for place in range(3)] == [documents.words(p) for p in (3, 1, 3)]
    assert (some.ids, some.vocabulary) == (["y", "w", "y"], documents.vocabulary)
    assert some.y.tolist() == documents.y[[3, 1, 3]].tolist()
    assert [len(some.train), len(some.valid), len(some.test)] == [0, 0, 0]
    assert len(documents.select([])) == 0


def test_new_documents_are_numbered_as_a_model_knows_words():
    documents = some_documents().in_vocabulary(["x", "c", "b"])
    assert documents.vocabulary == ["x", "c", "b"]
    assert documents.tokens.tolist() == [2, 2, 1, 1, 1]
    assert documents.ptr.tolist() == [0, 2, 2, 3, 5, 5]
    assert documents.words(3) == ["c", "c"]
    assert documents.notes == [
        "unknown words are left out: 'a', 'd'",
        "1 document of 5 has no known word",
    ]


def test_in_its_own_vocabulary_nothing_changes():
    documents = some_documents()
    again = documents.in_vocabulary(documents.vocabulary)
    assert again.digest == documents.digest
    assert again.notes == []
    nothing = documents.in_vocabulary([])
    assert nothing.tokens.numel() == 0
    assert nothing.ptr.tolist() == [0] * 6
    assert replace(nothing, notes=[]).in_vocabulary(["a"]).notes == []
