"""Texts as numbers of words."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from quatgraph.data.group_splits import encode_groups, group_validation, split_groups
from quatgraph.data.io.messages import count_noun, quote_some
from quatgraph.data.labels import LabelType, encode_labels, leave_out, missing_hint
from quatgraph.data.splits import PARTS, SplitMasks, stratified_split
from quatgraph.data.tensors import select_ranges, sizes_to_ptr
from quatgraph.errors import UserError

FRACTIONS = (0.7, 0.1, 0.2)
"""Shares of train, valid and test in a drawn split."""


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How texts are read and cleaned.

    Attributes:
        text: Name of the text column; by default ``text``, or the longer one of only two columns.
        label: Name of the label column; by default ``label``, or the other one of only two columns.
        split: Name of the column that gives each text its split; by default ``split``, if any.
        group: Name of the column whose groups a drawn split keeps whole; none by default.
        validation: Share of the training documents for a validation part that is drawn by groups.
        split_seed: Seed of the split that is drawn if the files give none.
        stop_words: Whether to leave out English stop words.
        min_count: Minimum number of occurrences of a word in all documents.
        missing: Labels that count as missing, like an empty one.
        labels_needed: Whether to refuse texts without labels. Prediction needs none.
        for_training: Whether to refuse texts with labels that cannot be trained on: with one label
            only or, for a drawn split, with a label of a single document.
    """

    text: str = ""
    label: str = ""
    split: str = ""
    group: str = ""
    validation: float = 0.1
    split_seed: int = 0
    stop_words: bool = False
    min_count: int = 1
    missing: Sequence[str] = ()
    labels_needed: bool = True
    for_training: bool = True


DEFAULTS = TextOptions()


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents as the files give them.

    Attributes:
        texts: The documents.
        labels: Label of each, empty if unknown.
        parts: For each 0, 1 or 2 for train, valid and test, ``-1`` for none; ``None`` if the files
            give no splits.
        ids: Name of each.
        at: Where a document, counted from 0, is, for messages.
        groups: Group of each document, empty for one of its own; ``None`` without groups.
        notes: What was inferred: sentences for the user.
    """

    texts: list[str]
    labels: list[str]
    parts: list[int] | None
    ids: list[str]
    at: Callable[[int], str]
    groups: list[str] | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False, repr=False)
class Documents:
    """Texts with a class each, as one list of word numbers.

    Attributes:
        name: The dataset's name.
        tokens: Index into the vocabulary of each word, in the order of the texts.
        ptr: Offset of the first word of each document, then the number of words.
        vocabulary: The words, sorted unless changed by :meth:`in_vocabulary`.
        y: Class of each document, ``-1`` if unknown.
        label_names: Name of each class, sorted, by value if all are numbers.
        train: Indices of the training documents, ascending.
        valid: Indices of the validation documents; if empty, training takes a part of ``train``,
            see :func:`quatgraph.data.splits.inner_validation`.
        test: Indices of the test documents.
        ids: Name of each document.
        notes: What was inferred: sentences for the user.
        label_type: The type of the labels in memory; ``str`` for those of files.
        corpus_index: Index of each document in the corpus that a model was trained on; ``None`` for
            other documents.

    Shape:
        - tokens: ``(T,)`` int64
        - ptr: ``(D + 1,)`` int64
        - y: ``(D,)`` int64
        - train, valid, test: ``(K,)`` int64
    """

    name: str
    tokens: Tensor
    ptr: Tensor
    vocabulary: list[str]
    y: Tensor
    label_names: list[str]
    train: Tensor
    valid: Tensor
    test: Tensor
    ids: list[str]
    notes: list[str] = field(default_factory=list)
    label_type: LabelType = "str"
    corpus_index: Tensor | None = None

    def __len__(self) -> int:
        return self.y.numel()

    def __repr__(self) -> str:
        return (
            f"Documents({self.name!r}, {len(self)} documents, {len(self.vocabulary)} words, "
            f"{self.num_classes} classes)"
        )

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.label_names)

    @cached_property
    def digest(self) -> str:
        """A sha256 of everything that can change a result: words, labels and splits.

        It does not depend on the source of the texts or their names.
        """
        total = hashlib.sha256(b"quatgraph text data 1")
        total.update(json.dumps((self.vocabulary, self.label_names)).encode())
        for key in ("tokens", "ptr", "y", *PARTS):
            array = getattr(self, key).contiguous().numpy().astype("<i8", copy=False)
            # Records hold digests from when this tensor had another name.
            total.update(f"\n{'start' if key == 'ptr' else key} {len(array)} ".encode())
            total.update(array.data)
        return total.hexdigest()

    def words(self, place: int) -> list[str]:
        """The words of one document."""
        start, end = self.ptr[place : place + 2].tolist()
        return [self.vocabulary[number] for number in self.tokens[start:end].tolist()]

    def select(self, places: Sequence[int]) -> "Documents":
        """The documents at some indices, in this order and in no split."""
        chosen = torch.tensor(places, dtype=torch.long)
        words, ptr = select_ranges(self.ptr, chosen)
        return replace(
            self,
            tokens=self.tokens[words],
            ptr=ptr,
            y=self.y[chosen],
            ids=[self.ids[place] for place in places],
            train=chosen[:0],
            valid=chosen[:0],
            test=chosen[:0],
            corpus_index=None if self.corpus_index is None else self.corpus_index[chosen],
        )

    def without_each(self, place: int, words: Tensor) -> "Documents":
        """Copies of one document, each without one of some distinct words, ``(W,)``."""
        copies = self.select([place] * len(words))
        tokens = copies.tokens.view(len(words), int(self.ptr[place : place + 2].diff()))
        remains = tokens != words[:, None]
        return replace(copies, tokens=tokens[remains], ptr=sizes_to_ptr(remains.sum(dim=1)))

    def in_vocabulary(self, vocabulary: Sequence[str]) -> "Documents":
        """The same documents in a vocabulary of distinct words; ``notes`` report unknown words."""
        place = {word: number for number, word in enumerate(vocabulary)}
        numbers = torch.tensor([place.get(word, -1) for word in self.vocabulary], dtype=torch.long)
        tokens = numbers[self.tokens]
        known = tokens >= 0
        ptr = sizes_to_ptr(known)[self.ptr]
        present = self.tokens.unique().tolist()
        unknown = [word for word in map(self.vocabulary.__getitem__, present) if word not in place]
        notes = [f"unknown words are left out: {quote_some(unknown)}"] if unknown else []
        if emptied := int(((ptr.diff() == 0) & (self.ptr.diff() > 0)).sum()):
            count = count_noun(emptied, "document")
            notes.append(f"{count} of {len(self):,} {have(emptied)} no known word")
        return replace(
            self,
            tokens=tokens[known],
            ptr=ptr,
            vocabulary=list(vocabulary),
            notes=self.notes + notes,
        )


def assemble(texts: Texts, name: str, options: TextOptions = DEFAULTS) -> Documents:
    """Builds documents from cleaned texts: words separated by spaces.

    A split that the files do not give is drawn class by class. A document without a label is in no
    split.
    """
    documents = [text.split() for text in texts.texts]
    words = list(chain.from_iterable(documents))
    vocabulary = sorted(set(words))
    place = {word: number for number, word in enumerate(vocabulary)}
    codes, label_names = encode_labels(texts.labels, options.missing)
    y = torch.from_numpy(codes)
    tokens = np.fromiter(map(place.__getitem__, words), dtype=np.int64, count=len(words))
    train, valid, test = (mask.nonzero().flatten() for mask in _draw_parts(y, texts, options))
    return Documents(
        name=name,
        tokens=torch.from_numpy(tokens),
        ptr=torch.from_numpy(np.cumsum([0, *map(len, documents)])),
        vocabulary=vocabulary,
        y=y,
        label_names=label_names,
        train=train,
        valid=valid,
        test=test,
        ids=texts.ids,
        notes=list(texts.notes),
    )


def _draw_parts(y: Tensor, texts: Texts, options: TextOptions) -> SplitMasks:
    """The masks of train, valid and test: those that the files give, and drawn ones."""
    seed = options.split_seed
    groups = None if texts.groups is None else encode_groups(texts.groups)
    if texts.parts is not None:
        part = torch.where(y >= 0, torch.tensor(texts.parts, dtype=torch.long), -1)
        train = (part == 0).nonzero().flatten()
        if groups is not None and len(train) and not bool((part == 1).any()):
            _, valid = group_validation(y, groups, train, seed, options.validation)
            part[valid] = 1
    elif groups is not None:
        part = split_groups(y, groups, FRACTIONS, seed)
    else:
        return stratified_split(y, seed, FRACTIONS)
    return part == 0, part == 1, part == 2


def check_trainable(documents: Documents, where: str) -> None:
    """Refuses documents that cannot be trained on or tested with."""
    y, names = documents.y, documents.label_names
    if not names:
        raise UserError(f"no document in {where} has a label; label every one you know")
    if len(names) < 2:
        raise UserError(
            f"all labelled documents in {where} have the label {names[0]!r}; "
            "training needs at least two different labels"
        )
    for part in ("train", "test"):
        if not len(getattr(documents, part)):
            raise UserError(
                f"{where} has no labelled document for the {part} part; "
                "label more documents or give a split of your own"
            )
    if len(y[documents.train].unique()) < 2:
        name = names[int(y[documents.train[0]])]
        raise UserError(
            f"all training documents in {where} have the label {name!r}; mark documents of another "
            "label as train"
        )


def untrained_notes(documents: Documents, where: str) -> list[str]:
    """Reports labels without a training document, which are never predicted well."""
    counts = {
        part: documents.y[getattr(documents, part)].bincount(minlength=documents.num_classes)
        for part in ("train", "test")
    }
    tested = max(1, len(documents.test))
    return [
        f"the label {name!r} has no training document in {where}: its documents, "
        f"{100 * int(test) / tested:.1f} % of the test documents, count as errors"
        f"{missing_hint(name)}"
        for name, train, test in zip(documents.label_names, *counts.values(), strict=True)
        if not train
    ]


def group_notes(texts: Texts, where: str) -> list[str]:
    """Reports groups that the files' own splits put into several parts."""
    if texts.groups is None or texts.parts is None:
        return []
    parts: dict[str, set[int]] = {}
    for group, part in zip(texts.groups, texts.parts, strict=True):
        if group and part >= 0:
            parts.setdefault(group, set()).add(part)
    shared = [group for group, own in parts.items() if len(own) > 1]
    if not shared:
        return []
    which = "the group" if len(shared) == 1 else "the groups"
    verb = "is" if len(shared) == 1 else "are"
    return [
        f"{which} {quote_some(shared)} {verb} in several parts of the split that {where} gives, "
        "which is kept"
    ]


def check_drawn_split(documents: Documents, where: str) -> list[str]:
    """Refuses a label with a single document, and reports labels that are too rare to be split."""
    sizes = documents.y[documents.y >= 0].bincount(minlength=documents.num_classes).tolist()
    names = documents.label_names
    if 1 in sizes:
        name = names[sizes.index(1)]
        raise UserError(
            f"the label {name!r} has a single document in {where}, so nothing could be validated; "
            f"add documents, correct the label, or {leave_out(name)}"
        )
    small = [name for name, size in zip(names, sizes, strict=True) if size < len(PARTS)]
    if not small:
        return []
    who = "the label" if len(small) == 1 else "the labels"
    return [
        f"{who} {quote_some(small)} {have(len(small))} fewer than {len(PARTS)} documents, "
        "too few to be split: all are for training, none is tested"
    ]


def accuracy_notes(documents: Documents, texts: Sequence[str]) -> list[str]:
    """Reports repeated (cleaned) texts and words without spaces: both make the accuracy
    misleading."""
    notes = []
    seen = {texts[place] for place in documents.train.tolist()}
    tested = [texts[place] for place in documents.test.tolist()]
    repeated = [text for text in tested if text and text in seen]
    if repeated:
        notes.append(
            f"{len(repeated):,} of {count_noun(len(tested), 'test document')} "
            f"{have(len(repeated))} the same words as a training document, for example "
            f"{_shorten(repeated[0])}: remove repeated documents to measure accuracy on new ones"
        )
    runs = [run for text in texts for run in _UNSPACED.findall(text)]
    if 2 * len(runs) > len(texts) and sum(map(len, runs)) > _LONG * len(runs):
        notes.append(
            f"words are separated by spaces, so {_shorten(runs[0])} is one word: put spaces "
            "between the words of such texts"
        )
    return notes


_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+")
"""Letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_LONG = 6
"""Maximum average length of such words if the text has spaces between words."""


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}\N{HORIZONTAL ELLIPSIS}")


def statistics(documents: Documents) -> dict[str, int]:
    """The sizes of a corpus, as the catalog lists them."""
    return {
        "documents": len(documents),
        "labelled": int((documents.y >= 0).sum()),
        **{part: len(getattr(documents, part)) for part in PARTS},
        "classes": documents.num_classes,
        "vocabulary": len(documents.vocabulary),
        "words": documents.tokens.numel(),
    }


def have(count: int) -> str:
    """The verb for a number of things."""
    return "has" if count == 1 else "have"
