"""Texts for text classification: the catalog's corpora, a person's own files, or a list.

Whatever the source, the result is one :class:`Documents`; :func:`word_graphs` makes a graph of
each, :func:`load_vectors` and :func:`vectors_for` give the words their vectors.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import Any

from quatgraph.data.io import store
from quatgraph.data.io.files import to_plain
from quatgraph.data.labels import label_notes
from quatgraph.data.splits import part_numbers
from quatgraph.data.text.cleaning import STOP_WORDS, clean, clean_corpus
from quatgraph.data.text.documents import (
    Documents,
    assemble,
    check_drawn,
    check_trainable,
    counted,
    statistics,
    unsound,
)
from quatgraph.data.text.files import (
    SPLIT_WORDS,
    Texts,
    holds_texts,
    lines_of,
    names_a_file,
    read_texts,
    word_of,
)
from quatgraph.data.text.word_graphs import NO_WORD, word_graphs
from quatgraph.data.text.word_vectors import WordVectors, load_vectors, vectors_for
from quatgraph.errors import Mistake

__all__ = [
    "NO_WORD",
    "STOP_WORDS",
    "Documents",
    "WordVectors",
    "check_trainable",
    "clean",
    "clean_corpus",
    "from_list",
    "holds_texts",
    "lines_of",
    "load",
    "load_vectors",
    "names_a_file",
    "read",
    "statistics",
    "vectors_for",
    "word_graphs",
]


def load(name: str) -> Documents:
    """Reads a dataset of the catalog and checks that it is what the catalog describes.

    The published corpora have no validation part: one is put aside from the training part, see
    :func:`quatgraph.data.splits.inner_validation`.

    Example:
        >>> load("snippets")
        Documents('snippets', 600 documents, 2106 words, 5 classes)
    """
    entry = store.entry(name)
    if entry.task != "text":
        raise Mistake(f"{name!r} is a dataset for {entry.task!r}, not for text classification")
    documents = read(store.SAMPLES / f"{name}.tsv") if entry.builtin else _load_published(entry)
    entry.compare(statistics(documents))
    return documents


def read(
    path: Path,
    *,
    text: str = "",
    label: str = "",
    split_seed: int = 0,
    stop_words: bool = False,
    min_count: int = 1,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
) -> Documents:
    """Reads texts of one's own and cleans them, letters of any script kept.

    Args:
        path: A ``.csv``, ``.tsv`` or ``.jsonl`` file, a folder with a sub-folder per label, or,
            without labels, a ``.txt`` file, see :mod:`quatgraph.data.text.files`.
        text: Name of the column that holds the texts, see
            :func:`quatgraph.data.text.files.read_texts`.
        label: Name of the column that holds the labels.
        split_seed: Seed of the split that is drawn where the files give none.
        stop_words: Whether to leave out English stop words.
        min_count: How often a word must come in all documents together to be kept.
        missing: Labels that count as missing, like an empty one.
        labels_needed: Whether to refuse texts that cannot be trained on: no labels, one label
            only, a label without a training document, or, where parts are drawn, with a single
            document. Predicting needs none.
    """
    path = Path(path)
    return _cleaned(
        read_texts(path, text=text, label=label, labels_needed=labels_needed),
        name=path.resolve().name if path.is_dir() else path.stem,
        where=str(path),
        split_seed=split_seed,
        stop_words=stop_words,
        min_count=min_count,
        missing=missing,
        labels_needed=labels_needed,
    )


def from_list(
    texts: Iterable[str],
    labels: Iterable[object] | None = None,
    *,
    name: str = "texts",
    split_seed: int = 0,
    stop_words: bool = False,
    min_count: int = 1,
    missing: Sequence[str] = (),
) -> Documents:
    """Takes texts of one's own from a list; like :func:`read`.

    Args:
        labels: Label of each text, empty where it is unknown; texts without labels cannot be
            trained on.

    Example:
        >>> from_list(["A cat sat.", "It's raining!"]).words(1)
        ['it', "'s", 'raining', '!']
    """
    listed = _listed(texts)
    if listed is None or not all(isinstance(text, str) for text in listed):
        raise Mistake("texts must be a list of strings, a document each")
    texts, given = listed, [""] * len(listed) if labels is None else _listed(labels)
    if given is None:
        raise Mistake(f"labels must be a list, one for each text, not {type(labels).__name__}")
    if len(given) != len(texts):
        raise Mistake(f"there are {len(texts)} texts but {len(given)} labels; give one to each")
    if not texts:
        raise Mistake("the list has no texts; give at least one")
    at = "text {} of the list".format
    return _cleaned(
        Texts(
            texts=texts,
            labels=[word_of(label, at, row, "label") for row, label in enumerate(given)],
            parts=None,
            ids=[str(place) for place in range(len(texts))],
            at=at,
        ),
        name=name,
        where="the list",
        split_seed=split_seed,
        stop_words=stop_words,
        min_count=min_count,
        missing=missing,
        labels_needed=labels is not None,
    )


def _listed(values: object) -> list[Any] | None:
    """What a list, an array, a tensor or a generator holds; None for what has no order."""
    if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
        return None
    return [to_plain(value) for value in to_plain(values)]


def _cleaned(
    texts: Texts,
    *,
    name: str,
    where: str,
    split_seed: int,
    stop_words: bool,
    min_count: int,
    missing: Sequence[str],
    labels_needed: bool,
) -> Documents:
    cleaned = clean_corpus(
        texts.texts, stop_words=stop_words, min_count=min_count, any_letters=True
    )
    notes = list(texts.notes)
    blank = [row for row, text in enumerate(cleaned) if not text]
    if len(blank) == len(cleaned) and labels_needed:
        raise Mistake(
            f"no document in {where} has a word that is kept: check the column of texts, and "
            "data.stop_words and data.min_count if you set them"
        )
    if blank:
        has = "has" if len(blank) == 1 else "have"
        notes.append(f"{counted(len(blank))} {has} no words: {texts.at(blank[0])} for one")
    documents = assemble(
        name=name,
        texts=cleaned,
        labels=texts.labels,
        parts=texts.parts,
        ids=texts.ids,
        split_seed=split_seed,
        missing=missing,
        notes=notes,
    )
    if labels_needed:
        check_trainable(documents, where)
        if texts.parts is None:
            documents.notes.extend(check_drawn(documents, where))
        documents.notes.extend(unsound(documents, cleaned))
        what = ("document", "documents")
        documents.notes.extend(label_notes(texts.labels, missing, what))
    return documents


def _load_published(entry: store.Entry) -> Documents:
    """Reads text_gcn's two files: a line per document with its part and label, and its words."""
    paths = {PurePosixPath(file.path).suffixes[0]: file.path for file in entry.files}
    listed, words = (
        store.read_bytes(entry.name, paths[kind]).decode("ascii").removesuffix("\n").split("\n")
        for kind in (".txt", ".clean")
    )
    ids, parts, labels = (list(cells) for cells in zip(*map(_row, listed), strict=True))
    return assemble(
        name=entry.name,
        texts=words,
        labels=labels,
        parts=part_numbers(
            parts, SPLIT_WORDS, lambda row: f"{paths['.txt']} of {entry.name} line {row + 1}"
        ),
        ids=ids,
    )


def _row(line: str) -> tuple[str, str, str]:
    document, part, label = line.split("\t")
    return document, part, label
