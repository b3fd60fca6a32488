"""Texts with splits and groups of their own, in fastText's format, and in frames."""

import json

import pytest
import torch
from reviews import LABELS, REVIEWS, TEXTS, written

from quatgraph.data.text import Documents, TextOptions, from_list, read
from quatgraph.errors import UserError

AUTHORS = [f"author {place // 5}" for place in range(60)]
WORDS = ("training", "Dev", "TESTING")


def parts_of(documents: Documents) -> list[list[int]]:
    return [documents.train.tolist(), documents.valid.tolist(), documents.test.tolist()]


@pytest.fixture
def table(tmp_path):
    """Reviews with an author and a part each."""
    rows = [
        (*row, author, WORDS[place % 3])
        for place, (row, author) in enumerate(zip(REVIEWS, AUTHORS, strict=True))
    ]
    return written(tmp_path / "mine.csv", rows, ("text", "label", "author", "part"))


def test_a_column_of_any_name_gives_the_split(table):
    documents = read(table, TextOptions(split="part"))
    assert parts_of(documents) == [[*range(place, 60, 3)] for place in range(3)]


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_other_tables_give_the_same_documents(table, tmp_path, suffix):
    pandas = pytest.importorskip("pandas")
    frame, path = pandas.read_csv(table), tmp_path / f"mine{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=suffix == ".jsonl")
    options = TextOptions(split="part")
    assert read(path, options).digest == read(table, options).digest


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_and_columns_give_the_same_documents(table, library):
    frame = pytest.importorskip(library).read_csv(table)
    options = TextOptions(split="part")
    assert from_list(frame, options=options).digest == read(table, options).digest
    drawn = from_list(frame["text"], frame["label"])
    assert drawn.digest == from_list(TEXTS, LABELS).digest
    grouped = from_list(frame, options=TextOptions(group="author"))
    assert grouped.digest == read(table, TextOptions(group="author")).digest
    with pytest.raises(UserError, match="the frame has no column 'parts'; did you mean 'part'"):
        from_list(frame, options=TextOptions(split="parts"))
    with pytest.raises(UserError, match="the frame has a column of labels; leave out the list"):
        from_list(frame, LABELS)


def test_a_drawn_split_keeps_groups_whole(table):
    documents = read(table, TextOptions(group="author"))
    authors = [{AUTHORS[place] for place in part} for part in parts_of(documents)]
    assert sum(map(len, authors)) == len(set(AUTHORS))
    assert all(authors)
    assert not any(authors[a] & authors[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    other = read(table, TextOptions(group="author", split_seed=1))
    assert parts_of(other) != parts_of(documents)


def test_validation_data_that_the_split_lacks_are_whole_groups(tmp_path):
    rows = [
        (*row, author, "test" if place < 15 else "train")
        for place, (row, author) in enumerate(zip(REVIEWS, AUTHORS, strict=True))
    ]
    path = written(tmp_path / "mine.csv", rows, ("text", "label", "author", "split"))
    assert not len(read(path).valid)
    documents = read(path, TextOptions(group="author", validation=0.3))
    train, valid, test = parts_of(documents)
    assert test == list(range(15))
    assert 5 <= len(valid) <= 20
    assert not {AUTHORS[place] for place in train} & {AUTHORS[place] for place in valid}


def test_groups_that_an_own_split_tears_apart_are_reported_and_kept(table):
    documents = read(table, TextOptions(split="part", group="author"))
    assert parts_of(documents) == [[*range(place, 60, 3)] for place in range(3)]
    (note,) = [note for note in documents.notes if "the groups" in note]
    assert note.startswith("the groups 'author 0', 'author 1', 'author 2', 'author 3', 'author 4'")
    assert note.endswith(f"in several parts of the split that {table} gives, which is kept")


def test_a_label_without_a_training_document_is_reported_and_kept(tmp_path):
    rows = [(*row, ("train", "test")[place % 4 > 1]) for place, row in enumerate(REVIEWS)]
    rows += [("Neither nor", "other", "test"), ("Nor this", "other", "test")]
    path = written(tmp_path / "mine.csv", rows, ("text", "label", "split"))
    documents = read(path)
    assert documents.label_names == ["blame", "other", "praise"]
    assert len(documents.test) == 32
    assert documents.notes[0] == (
        f"the label 'other' has no training document in {path}: its documents, 6.2 % of the test "
        "documents, count as errors"
    )
    assert bool((documents.y[torch.tensor([60, 61])] == 1).all())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (TextOptions(group="autor"), "mine.csv has no column 'autor'; did you mean 'author'?"),
        (TextOptions(split="when"), "mine.csv has no column 'when'; its columns are 'text'"),
        (TextOptions(split="author"), "mine.csv line 2 has the unknown split 'author 0'; write"),
        (TextOptions(group="part", split_seed=1 << 40), "a seed must be a whole number"),
    ],
)
def test_a_column_that_gives_no_split_is_refused(table, options, words):
    with pytest.raises(UserError, match=words):
        read(table, options)


def test_lines_in_the_format_of_fasttext_have_a_label_each(tmp_path, table):
    path = tmp_path / "reviews.txt"
    lines = [f"__label__{label} {text}" for text, label in REVIEWS]
    path.write_text("\n".join([*lines[:30], "", *lines[30:], "a text without a label"]))
    documents = read(path)
    assert documents.label_names == ["blame", "praise"]
    assert documents.y.tolist() == [int(label == "praise") for label in LABELS] + [-1]
    assert documents.words(0) == from_list(TEXTS, LABELS).words(0)
    asked = read(path, TextOptions(labels_needed=False))
    assert len(asked) == 61


@pytest.mark.parametrize(
    ("line", "options", "words"),
    [
        ("__label__a __label__b text", TextOptions(), "txt line 3 has 2 labels, __label__a and __"),
        ("__label__ text", TextOptions(), "txt line 3 has __label__ without a label"),
        ("text", TextOptions(group="author"), "has no columns, so data.group=author names none"),
        ("text", TextOptions(split="part"), "has no columns, so data.split=part names none"),
    ],
)
def test_what_is_wrong_with_fasttext_is_one_sentence_with_its_line(tmp_path, line, options, words):
    path = tmp_path / "reviews.txt"
    path.write_text(f"__label__a one text\n\n{line}\n")
    with pytest.raises(UserError, match=words):
        read(path, options)


def test_a_list_has_no_columns_to_name():
    with pytest.raises(UserError, match=r"a list of texts has no columns; leave out data.group"):
        from_list(TEXTS, LABELS, TextOptions(group="author"))


def test_a_label_that_is_a_list_is_refused_with_its_line(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([{"text": "a", "label": "x"}, {"text": "b", "label": ["y", "z"]}]))
    with pytest.raises(UserError, match=r"mine.json line 1 .object 2. has .* in column 'label'"):
        read(path)
