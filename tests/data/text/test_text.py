"""Texts: the catalog's, one's own, and new ones for a trained model."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from quatgraph.data.io import store
from quatgraph.data.text import (
    NO_WORD,
    TextOptions,
    WordVectors,
    from_list,
    load,
    read,
    statistics,
    vectors_for,
    word_graphs,
)
from quatgraph.errors import UserError

CORPORA = {  # the first document's beginning, part and label; the classes
    "mr": ("'moore is like a progressive bull", "train", "1", ["0", "1"]),
    "r8": ("champion products approves stock split", "train", "earn", ["acq", "crude", "earn"]),
    "r52": ("bahia cocoa review continued", "train", "cocoa", ["acq", "alum", "bop"]),
    "ohsumed": ("infection total joint replacement", "test", "C01", ["C01", "C02", "C03"]),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path / "cache"))


def table(folder: Path, *rows: str, header: str = "text,label") -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join((header, *rows)))
    return path


@pytest.mark.realdata
@pytest.mark.parametrize("name", CORPORA)
def test_a_published_corpus_is_what_the_catalog_says(name):
    start = time.process_time()
    documents = load(name)
    assert time.process_time() - start < 3
    assert statistics(documents) == store.entry(name).statistics
    beginning, part, label, names = CORPORA[name]
    assert " ".join(documents.words(0)).startswith(beginning)
    assert 0 in getattr(documents, part)
    assert documents.label_names[documents.y[0]] == label
    assert documents.label_names[:3] == names
    assert documents.label_names == sorted(documents.label_names)
    assert documents.vocabulary == sorted(documents.vocabulary)
    assert len(set(documents.ids)) == len(documents)
    assert documents.ptr.diff().min() >= 1
    clean = store.read_bytes(name, store.entry(name).files[1].path).decode()
    for place in range(0, len(documents), 1009):
        assert " ".join(documents.words(place)) == clean.split("\n")[place]


def test_a_dataset_of_another_task_is_refused():
    with pytest.raises(UserError, match="'cora' is a dataset of the task 'node', not of"):
        load("cora")
    with pytest.raises(UserError, match="'glove-100d' is a dataset of the task 'vectors'"):
        load("glove-100d")
    with pytest.raises(UserError, match="no dataset 'snippet'; did you mean 'snippets'"):
        load("snippet")


def test_texts_are_cleaned_and_split(tmp_path):
    rows = [f"Caf\u00e9 number {place}!,{'ab'[place % 2]}" for place in range(40)]
    documents = read(table(tmp_path, *rows))
    assert documents.name == "mine"
    assert documents.words(0) == ["caf\u00e9", "number", "0", "!"]
    assert documents.label_names == ["a", "b"]
    assert [len(documents.train), len(documents.valid), len(documents.test)] == [28, 4, 8]
    again = read(table(tmp_path, *rows), TextOptions(split_seed=1))
    assert again.digest != documents.digest
    fewer = read(table(tmp_path, *rows), TextOptions(min_count=2))
    assert fewer.vocabulary == ["!", "caf\u00e9", "number"]
    assert "the" not in from_list(["the end"], options=TextOptions(stop_words=True)).vocabulary


def test_a_given_split_is_used_and_an_empty_document_reported(tmp_path):
    path = table(
        tmp_path,
        "some words,a,train",
        "other words,b,train",
        "...,a,train",
        "more,b,test",
        "unlabelled,,train",
        header="text,label,split",
    )
    documents = read(path)
    assert documents.train.tolist() == [0, 1, 2]
    assert documents.valid.tolist() == []
    assert documents.test.tolist() == [3]
    assert documents.notes == [f"1 document has no words, for example {path} line 4"]
    graphs = word_graphs(documents)
    assert graphs.tag_names[graphs.tags[4]] == NO_WORD


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["one,a", "two,a", "three,a"], "all labelled documents in .* have the label 'a'"),
        (["one,", "two,"], "no document in .*mine.csv has a label"),
        (["...,a", "!.?,b"], "mine.csv has no labelled document for the test part"),
        (["...,a", "--,b"], "no document in .*mine.csv has a word left: check the text column"),
        (["one,a", "two,b"], "mine.csv has no labelled document for the test part"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(tmp_path, rows, message):
    path = table(tmp_path, *rows)
    with pytest.raises(UserError, match=message):
        read(path)
    documents = read(path, TextOptions(labels_needed=False))
    assert len(documents) == len(rows)
    assert len(word_graphs(documents)) == len(rows)


def test_a_label_seen_twice_is_reported_and_one_seen_once_refused(tmp_path):
    rows = [f"word {place},{'ab'[place % 2]}" for place in range(12)]
    path = table(tmp_path, *rows, "two,c", "of them,c")
    documents = read(path)
    assert documents.notes == [
        f"{path} has no split: drawn with seed 0, 10 documents for train, 2 for valid and 2 for "
        "test",
        "the label 'c' has fewer than 3 documents, too few to be split: all are for training, "
        "none is tested",
    ]
    assert {12, 13} <= set(documents.train.tolist())
    lonely = table(tmp_path, *rows, "lonely,c")
    with pytest.raises(UserError, match=r"the label 'c' has a single document in .*mine\.csv"):
        read(lonely)
    assert read(lonely, TextOptions(labels_needed=False)).notes == []
    rows = [f"{row},{'train' if place < 8 else 'test'}" for place, row in enumerate(rows)]
    split = table(tmp_path, *rows, "lonely,c,train", header="text,label,split")
    assert read(split).notes == []


def test_test_documents_that_repeat_training_documents_are_reported(tmp_path):
    rows = ["a b,x,train", "c,y,train", "A  b.,x,test", "d,y,test", ".,x,train", ".,y,test"]
    (note,) = read(table(tmp_path, *rows, header="text,label,split")).notes[1:]
    assert note == (
        "1 of 3 test documents has the same words as a training document, for example 'a b': "
        "remove repeated documents to measure accuracy on new ones"
    )
    assert not read(table(tmp_path, *rows[:2], rows[3], header="text,label,split")).notes


def test_words_without_spaces_are_reported():
    film = "\N{CJK UNIFIED IDEOGRAPH-7535}\N{CJK UNIFIED IDEOGRAPH-5F71}"
    labels = ["x", "y"] * 10
    texts = [f"{film * 4}{'x' * place}" for place in range(20)]
    _, note = from_list(texts, labels).notes  # the first one is on the split
    assert note.startswith(f"words are separated by spaces, so '{film * 4}' is one word:")
    spaced = [" ".join([film] * 4) + " x" * place for place in range(20)]
    assert len(from_list(spaced, labels).notes) == 1
    some = [f"film {place}" for place in range(15)]
    assert len(from_list(some + texts[15:], labels).notes) == 1


def test_a_folder_gives_its_name(tmp_path):
    for label in ("ham", "spam"):
        for number in range(4):
            place = tmp_path / "mails" / label / f"{number}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{label} {number}")
    documents = read(tmp_path / "mails")
    assert documents.name == "mails"
    assert documents.ids[0] == "ham/0.txt"
    assert documents.label_names == ["ham", "spam"]


def test_texts_come_in_a_list_too():
    documents = from_list(["One.", "Two!", "Three?"] * 4, ["x", "y", "x"] * 4)
    assert documents.label_names == ["x", "y"]
    assert from_list(["One.", ""]).notes == [
        "1 document has no words, for example text 1 of the list"
    ]
    assert from_list([""]).tokens.numel() == 0
    numbers = [1.0, 2.0, float("nan")] * 4  # as pandas has them where one is missing
    for labels in (numbers, np.array(numbers), [" 1", 2, None] * 4):
        documents = from_list(np.array(["One.", "Two!", "Three?"] * 4), labels)
        assert documents.label_names == ["1", "2"]
        assert (documents.y < 0).sum() == 4
    for texts, labels, message in (
        ("a text", None, "a list of strings"),
        (np.array("a text"), None, "a list of strings"),
        (["a", 5], None, "a list of strings, a document each, but text 2 is of type int"),
        (["a", None, "b"], ["x", "y", "x"], "but text 2 is of type NoneType"),
        (["a", ["token"] * 2000], None, "but text 2 is of type list$"),
        ([], None, "the list has no texts"),
        (["a"], ["x", "y"], "1 texts but 2 labels"),
    ):
        with pytest.raises(UserError, match=message):
            from_list(texts, labels)


def test_a_million_words_are_read_soon(tmp_path):
    words = " ".join(f"word{place % 50_000}" for place in range(1_000_000))
    start = time.process_time()
    documents = read(table(tmp_path, f"{words},a", "x,b"), TextOptions(labels_needed=False))
    assert time.process_time() - start < 10
    assert documents.tokens.numel() == 1_000_001
    assert len(documents.vocabulary) == 50_001


def test_new_texts_meet_the_vectors_of_a_model_and_those_of_a_file():
    trained = from_list(["rain and wind", "sun"])
    matrix, _ = vectors_for(trained.vocabulary, dimensions=4)
    model = WordVectors(trained.vocabulary, matrix)
    asked = from_list(["hail and rain", "frost", ""])
    known = asked.in_vocabulary(model.words)
    assert [known.words(place) for place in range(3)] == [["and", "rain"], [], []]
    assert known.notes[1:] == [
        "unknown words are left out: 'frost', 'hail'",
        "1 document of 3 has no known word",
    ]
    more = model.extended(WordVectors(["hail", "rain"], torch.ones(2, 4)))
    known = asked.in_vocabulary(more.words)
    graphs = word_graphs(known)
    assert [graphs.tag_names[tag] for tag in graphs.tags.tolist()] == [
        "hail",
        "and",
        "rain",
        NO_WORD,
        NO_WORD,
    ]
    # A tag is a row of the vectors; the rows a model was trained with stay where they were.
    rows = graphs.tags[: known.ptr[1]]
    assert torch.equal(more.matrix[rows[1:]], matrix[[0, 1]])
    assert torch.equal(more.matrix[rows[0]], torch.ones(4))
