"""Texts for text classification: datasets of the catalog, files, or a list.

Each source gives one :class:`Documents`. :func:`word_graphs` builds a graph of each document,
:func:`corpus_graph` one of all documents. :func:`load_vectors` and :func:`vectors_for` give word
vectors.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quatgraph.data.formats import (
    Reader,
    is_fasttext,
    match_folder,
    match_suffix,
    select_reader,
)
from quatgraph.data.io import store
from quatgraph.data.io.files import to_list
from quatgraph.data.io.frame import JSON_SUFFIXES, is_frame
from quatgraph.data.io.messages import count_noun
from quatgraph.data.labels import label_notes, label_type, list_labels
from quatgraph.data.splits import PARTS, SPLIT_WORDS, check_classes, drawn_note, part_numbers
from quatgraph.data.text.cleaning import STOP_WORDS, clean, clean_corpus
from quatgraph.data.text.corpus_graph import CorpusGraph, append_nodes, corpus_graph
from quatgraph.data.text.documents import (
    DEFAULTS,
    Documents,
    TextOptions,
    Texts,
    accuracy_notes,
    assemble,
    check_drawn_split,
    check_trainable,
    group_notes,
    have,
    statistics,
    untrained_notes,
)
from quatgraph.data.text.files import (
    cell_word,
    from_frame,
    lines_of,
    read_fasttext,
    read_folder,
    read_lines,
    read_objects,
    read_sheet,
)
from quatgraph.data.text.word_graphs import NO_WORD, word_graphs
from quatgraph.data.text.word_vectors import WordVectors, load_vectors, vectors_for
from quatgraph.errors import UserError

__all__ = [
    "NO_WORD",
    "READERS",
    "STOP_WORDS",
    "CorpusGraph",
    "Documents",
    "TextOptions",
    "WordVectors",
    "append_nodes",
    "check_trainable",
    "clean",
    "clean_corpus",
    "corpus_graph",
    "from_list",
    "lines_of",
    "load",
    "load_vectors",
    "names_a_file",
    "read",
    "read_texts",
    "statistics",
    "vectors_for",
    "word_graphs",
]


READERS = (
    Reader(
        "table",
        "a .csv or .tsv file with a text and a label column",
        match_suffix(".csv", ".tsv"),
        read_sheet,
    ),
    Reader(
        "jsonl",
        "a .jsonl or .json file of objects with a text and a label each",
        match_suffix(*JSON_SUFFIXES),
        read_objects,
    ),
    Reader(
        "parquet",
        "a .parquet file with a text and a label column (extra [tables])",
        match_suffix(".parquet"),
        read_objects,
    ),
    Reader(
        "fasttext",
        "a .txt file in fastText format, with __label__NAME in each line",
        is_fasttext,
        read_fasttext,
    ),
    Reader(
        "folder",
        "a folder with one sub-folder of texts per label",
        match_folder("text"),
        read_folder,
    ),
    Reader(
        "lines",
        "a .txt file with one unlabelled text per line",
        match_suffix(".txt"),
        read_lines,
    ),
)
_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", *JSON_SUFFIXES)


def load(name: str) -> Documents:
    """Reads a dataset of the catalog and checks its statistics.

    The published corpora have no validation split: training takes a part of the training split, see
    :func:`quatgraph.data.splits.inner_validation`.

    Example:
        >>> load("snippets")
        Documents('snippets', 600 documents, 2106 words, 5 classes)
    """
    entry = store.entry(name, "text")
    documents = read(store.SAMPLES / f"{name}.tsv") if entry.builtin else _load_published(entry)
    entry.compare(statistics(documents))
    return documents


def read(path: Path, options: TextOptions = DEFAULTS) -> Documents:
    """Reads texts in a format of :data:`READERS` and cleans them; letters of any script stay."""
    path = Path(path)
    name = path.resolve().name if path.is_dir() else path.stem
    return _clean_texts(read_texts(path, options), name, str(path), options)


def read_texts(path: Path, options: TextOptions = DEFAULTS) -> Texts:
    """Reads texts as the files give them."""
    return select_reader("text", READERS, path).read(path, options=options)


def names_a_file(text: str) -> bool:
    """Whether a string is the name of a file or folder: an existing one, or one with the suffix of
    a format."""
    # Not as a Path: a long one raises, and an empty one is a folder.
    return os.path.exists(text) or text.lower().endswith(_SUFFIXES)  # noqa: PTH110


_NO_TEXTS = "texts must be a list of strings, a document each"


def check_strings(texts: Sequence[object]) -> None:
    """Checks that texts are strings; names the first that is none."""
    for row, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(f"{_NO_TEXTS}, but text {row} is of type {type(text).__name__}")


def from_list(
    texts: Any,
    labels: Iterable[object] | None = None,
    options: TextOptions = DEFAULTS,
) -> Documents:
    """Builds documents from a list of texts, cleaned like those of :func:`read`.

    Args:
        texts: A list, an array or a column of texts; or a frame of pandas or polars with columns
            for text and label.
        labels: Label of each text, empty if unknown; texts without labels cannot be trained on.
            None for a frame, which has its own.
        options: Names of columns are for a frame only.

    Example:
        >>> from_list(["A cat sat.", "It's raining!"]).words(1)
        ['it', "'s", 'raining', '!']
    """
    if is_frame(texts):
        if labels is not None:
            raise UserError("the frame has a column of labels; leave out the list of labels")
        return _clean_texts(from_frame(texts, options), "texts", "the frame", options)
    if options.group or options.split:
        raise UserError("a list of texts has no columns; leave out data.group and data.split")
    listed = to_list(texts)
    if listed is None:
        raise UserError(_NO_TEXTS)
    check_strings(listed)
    given = [""] * len(listed) if labels is None else list_labels(labels, "text")
    if len(given) != len(listed):
        raise UserError(f"there are {len(listed)} texts but {len(given)} labels; give one to each")
    if not listed:
        raise UserError("the list has no texts; give at least one")
    at = "text {} of the list".format
    found = Texts(
        texts=listed,
        labels=[
            "" if type(label).__name__ == "NAType" else cell_word(label, at, row, "label")
            for row, label in enumerate(given)
        ],
        parts=None,
        ids=[str(place) for place in range(len(listed))],
        at=at,
    )
    options = replace(options, labels_needed=labels is not None)
    documents = _clean_texts(found, "texts", "the list", options)
    return replace(documents, label_type=label_type(given))


def _clean_texts(texts: Texts, name: str, where: str, options: TextOptions) -> Documents:
    cleaned = clean_corpus(
        texts.texts,
        stop_words=options.stop_words,
        min_count=options.min_count,
        any_letters=True,
    )
    notes = list(texts.notes)
    blank = [row for row, text in enumerate(cleaned) if not text]
    if len(blank) == len(cleaned) and options.labels_needed:
        raise UserError(
            f"no document in {where} has a word left: check the text column, and "
            "data.stop_words and data.min_count if you set them"
        )
    if blank:
        count = count_noun(len(blank), "document")
        notes.append(f"{count} {have(len(blank))} no words, for example {texts.at(blank[0])}")
    documents = assemble(replace(texts, texts=cleaned, notes=notes), name, options)
    if options.labels_needed and options.for_training:
        if texts.parts is None:
            check_classes(documents.y, documents.label_names, "documents")
        check_trainable(documents, where)
        documents.notes.extend(untrained_notes(documents, where))
        documents.notes.extend(group_notes(texts, where))
        if texts.parts is None:
            sizes = [len(getattr(documents, part)) for part in PARTS]
            note = drawn_note(sizes, "documents", where, options.split_seed)
            documents.notes.append(note)
            documents.notes.extend(check_drawn_split(documents, where))
        documents.notes.extend(accuracy_notes(documents, cleaned))
        what = ("document", "documents")
        documents.notes.extend(label_notes(texts.labels, options.missing, what))
    return documents


def _load_published(entry: store.Entry) -> Documents:
    """Reads text_gcn's two files: a line per document with its split and label, and its words."""
    listed, words = (
        store.read_bytes(entry.name, file.path).decode("ascii").removesuffix("\n").split("\n")
        for file in entry.files
    )
    rows = (line.split("\t") for line in listed)
    ids, parts, labels = (list(cells) for cells in zip(*rows, strict=True))

    def at(row: int) -> str:
        return f"{entry.files[0].path} of {entry.name} line {row + 1}"

    texts = Texts(words, labels, part_numbers(parts, SPLIT_WORDS, at), ids, at)
    return assemble(texts, entry.name)
