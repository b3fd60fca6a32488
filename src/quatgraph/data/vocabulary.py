"""Names as numbers, and back: labels, the ids of a knowledge graph, what people call them."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from shlex import quote

import numpy as np

from quatgraph.data.distinct import Ids
from quatgraph.data.numbers import is_number
from quatgraph.data.words import Column, words
from quatgraph.errors import Mistake, did_you_mean

PLURAL = {"entity": "entities", "relation": "relations"}
_COLUMN_WORDS = frozenset({"id", "entity", "relation", "name", "label", "qid", "key", "code"})
_FEW = 5
_NO_LABEL = frozenset({"na", "n/a", "nan", "null", "none", "?", "-"})
"""What files write where a label is missing, in small letters."""


class Numbering:
    """Gives every new name the next number."""

    def __init__(self) -> None:
        self._number: defaultdict[str, int] = defaultdict()
        self._number.default_factory = self._number.__len__

    def __len__(self) -> int:
        return len(self._number)

    def __contains__(self, name: str) -> bool:
        return name in self._number

    def numbers(self, column: Column) -> Ids:
        """The number of each cell's name."""
        numbers = map(self._number.__getitem__, column.names)
        return np.fromiter(numbers, dtype=np.int64, count=len(column.names))[column.places]

    def in_order(self) -> tuple[list[str], Ids]:
        """The names without surrounding spaces, sorted, and for each number its place there."""
        names = [name.strip() for name in self._number]
        ordered = sorted(set(names))
        place = dict(zip(ordered, range(len(ordered)), strict=True))
        return ordered, np.fromiter(map(place.__getitem__, names), dtype=np.int64, count=len(names))

    def blank(self) -> Ids:
        """The numbers of names that are nothing but spaces."""
        names = enumerate(self._number)
        return np.array([number for number, name in names if not name.strip()], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The entities, or the relations, of a knowledge graph.

    Attributes:
        kind: ``"entity"`` or ``"relation"``.
        ids: Their ids; an index is a place here.
        labels: What people call each; its id where there is nothing else. Several may share one.
    """

    kind: str
    ids: list[str]
    labels: list[str]

    def find(self, name: str) -> int:
        """The index of what has this id or this label.

        An id goes before a label, and letter case is looked past only where nothing is written
        exactly so. What is not there, and what several are called, is a :class:`Mistake`.

        Example:
            >>> cities = Vocabulary("entity", ["Q64", "Q90"], ["Berlin", "Paris"])
            >>> cities.find("Q64"), cities.find("paris")
            (0, 1)
        """
        name = name.strip()
        if name in self._by_id:
            return self._by_id[name]
        places = self._by_label.get(name) or self._by_folded.get(name.casefold(), [])
        if len(places) == 1:
            return places[0]
        plural = PLURAL[self.kind]
        if not places:
            raise Mistake(f"there is no {self.kind} {name!r}{self._hint(name)}")
        ids = [self.ids[place] for place in places]
        raise Mistake(f"{len(ids)} {plural} are called {name!r}: {some(ids)}; name one by its id")

    @cached_property
    def _by_id(self) -> dict[str, int]:
        return dict(zip(self.ids, range(len(self.ids)), strict=True))

    @cached_property
    def _by_label(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, label in enumerate(self.labels):
            found.setdefault(label, []).append(place)
        return found

    @cached_property
    def _by_folded(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, pair in enumerate(zip(self.ids, self.labels, strict=True)):
            for name in {name.casefold() for name in pair}:
                found.setdefault(name, []).append(place)
        return found

    def _hint(self, name: str) -> str:
        known = self.ids if self.labels == self.ids else [*self.labels, *self.ids]
        if hint := did_you_mean(name, known):
            return hint
        few = list(dict.fromkeys((*self.labels[:_FEW], *self.ids[:_FEW])))[:3]
        return f"; {PLURAL[self.kind]} are, for instance, {some(few)}" if few else ""


def read_labels(
    content: bytes, where: str, columns: tuple[str, ...], known: Collection[str] = ()
) -> dict[str, str]:
    """The label of each id, out of a table whose first columns are ids and labels.

    A first line that names the columns is left out, and ids with an empty label are. An id with
    two labels is a :class:`Mistake`.

    Args:
        content: The text, see :mod:`quatgraph.data.words`.
        where: The file, for messages.
        columns: What all its columns are.
        known: Ids that begin no line of column names.
    """
    table = words(content, where, columns)
    first = table.first()
    if first and first[0] not in known and _names_a_column(first[0]):
        table = table.without_first()
    labels: dict[str, str] = {}
    for piece in table.pieces():
        ids, names = (column.cells() for column in piece.columns[:2])
        for line, key, label in zip(piece.lines.tolist(), ids, names, strict=True):
            if not key:
                raise Mistake(f"{where} line {line} has a label but no id; give it one")
            if label and labels.setdefault(key, label) != label:
                raise Mistake(
                    f"{where} line {line} calls {key!r} {label!r} but an earlier line calls it "
                    f"{labels[key]!r}; keep one of the two"
                )
    return labels


def labelled(ids: list[str], labels: Mapping[str, str]) -> list[str]:
    """The label of each id, the id itself where there is none."""
    return [labels.get(name, name) for name in ids]


def some(names: Iterable[str]) -> str:
    """A few of many names, for a message.

    Example:
        >>> some("abcdefg")
        "'a', 'b', 'c', 'd', 'e' and 2 more"
    """
    names = list(names)
    shown = ", ".join(map(repr, names[:_FEW]))
    return f"{shown} and {len(names) - _FEW:,} more" if len(names) > _FEW else shown


def encoded(cells: Sequence[str], missing: Collection[str] = ()) -> tuple[Ids, list[str]]:
    """Names as places in their sorted list; ``-1`` for an empty one.

    Args:
        missing: Names that count as empty.

    Example:
        >>> encoded(["10", "9", "", "10", "NA"], missing=["NA"])
        (array([ 1,  0, -1,  1, -1]), ['9', '10'])
    """
    names = _in_order(set(cells).difference(missing, [""]))
    place = {name: number for number, name in enumerate(names)}
    return np.array([place.get(cell, -1) for cell in cells], dtype=np.int64), names


def encoded_numbers(values: Ids) -> tuple[Ids, list[str]]:
    """Like :func:`encoded`, for whole numbers, none of them empty."""
    names, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int64), [str(name) for name in names.tolist()]


def missing_labels(setting: str | int) -> list[str]:
    """The labels that the setting ``data.missing`` lists, separated by commas.

    Example:
        >>> missing_labels("NA,?"), missing_labels(-1), missing_labels("")
        (['NA', '?'], ['-1'], [])
    """
    return [label for word in str(setting).split(",") if (label := word.strip())]


def label_notes(cells: Iterable[str], missing: Sequence[str], what: tuple[str, str]) -> list[str]:
    """What a person should know of labels: see :func:`marker_notes`, and which labels are to count
    as missing but are not there.

    Args:
        cells: Label of each item.
        missing: Labels that count as missing.
        what: What an item is called, one and several of them.

    Example:
        >>> label_notes(["-", "x"], ["NA"], ("node", "nodes"))
        ["no node has the label 'NA' of data.missing", "labels that may mean missing are read as \
classes: '-' (1 node); --set data.missing=NA,- makes them missing"]
    """
    sizes = Counter(cells)
    absent = (name for name in missing if name not in sizes)
    notes = [f"no {what[0]} has the label {name!r} of data.missing" for name in absent]
    return notes + marker_notes(sizes, missing, what)


def marker_notes(
    sizes: Mapping[str, int], missing: Sequence[str], what: tuple[str, str]
) -> list[str]:
    """Reports labels that usually mark a missing one but are classes; like :func:`label_notes`.

    Args:
        sizes: How many items have each label.
    """
    found = sorted(name for name in sizes if _is_marker(name) and name not in missing)
    if not found:
        return []
    shown = (f"{name!r} ({sizes[name]:,} {what[sizes[name] != 1]})" for name in found)
    return [
        f"labels that may mean missing are read as classes: {', '.join(shown)}; "
        f"{_missing_setting([*missing, *found])} makes them missing"
    ]


def class_notes(
    codes: Iterable[int], names: Sequence[str], missing: Sequence[str], what: tuple[str, str]
) -> list[str]:
    """Like :func:`marker_notes`, for what :func:`encoded` gave."""
    return marker_notes(Counter(names[code] for code in codes if code >= 0), missing, what)


def missing_hint(name: str) -> str:
    """A way out for the end of a refusal of a label that usually marks a missing one; else
    nothing.

    Example:
        >>> missing_hint("?"), missing_hint("x")
        (", or count it as missing with --set 'data.missing=?'", '')
    """
    return f", or count it as missing with {_missing_setting([name])}" if _is_marker(name) else ""


def _is_marker(name: str) -> bool:
    return name.casefold() in _NO_LABEL


def _missing_setting(names: Sequence[str]) -> str:
    """The option that makes labels missing, safe to paste into a shell."""
    return f"--set {quote('data.missing=' + ','.join(names))}"


def _in_order(names: set[str]) -> list[str]:
    """Names sorted, by value where all of them are numbers."""
    if not all(map(is_number, names)):
        return sorted(names)
    values = {name: float(name) for name in names}
    if not all(map(math.isfinite, values.values())):
        return sorted(names)
    return sorted(names, key=lambda name: (values[name], name))


def _names_a_column(cell: str) -> bool:
    cell = cell.casefold()
    return cell in _COLUMN_WORDS or cell.endswith(("_id", " id"))
