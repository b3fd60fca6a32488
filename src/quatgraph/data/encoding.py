"""Columns of a table as features: numbers, booleans and categories.

What is learned from the training table (medians, categories, decimal commas) is applied to later
ones: an :class:`Encoding` travels in the card of a bundle.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from quatgraph.data.io.decimals import STYLES, Style, looks_numeric, number_style, to_plain_numbers
from quatgraph.data.io.frame import Frame
from quatgraph.data.io.messages import count_noun, list_some, quote_some
from quatgraph.data.io.numbers import column_numbers
from quatgraph.data.labels import MISSING_MARKERS
from quatgraph.errors import UserError

Kind = Literal["number", "boolean", "category"]
MAX_CATEGORIES = 100
"""The most categories of a column; the rarest become zeros."""
FEW_CATEGORIES = 10
"""A column with more categories, and more than half as many as values, is left out."""
_BOOLEANS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_NUMBERED = _BOOLEANS | {"1": 1.0, "0": 0.0}
_PAIRS = ({"true", "false"}, {"yes", "no"})

_TITLES = {
    "one-hot": "text columns are one-hot encoded",
    "median": "missing numbers become the median of their column",
    "zeros": "missing categories become zeros",
    "unknown": "categories that the training data lacks become zeros",
    "comma": "numbers are read with decimal commas",
    "grouped": "numbers are read with thousands separators",
    "distinct": "text columns with too many different values are left out",
    "empty": "empty columns are left out",
}
_OF_COLUMNS = ("one-hot", "distinct", "empty")
"""Notes on whole columns; the others count rows, or follow from the columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """How one column becomes features.

    Attributes:
        style: How its numbers are written.
        median: Stands for missing numbers; of a boolean, the more frequent value.
        categories: Each becomes a feature that is 1 or 0.
    """

    name: str
    kind: Kind = "number"
    style: Style = "plain"
    median: float = 0.0
    categories: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        if self.kind != "category":
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the columns of a table become features, in this order."""

    columns: tuple[Column, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.feature_names]

    @property
    def mixes_kinds(self) -> bool:
        """Whether there are both numbers and categories, whose sums have no meaning."""
        return {"number", "category"} <= {column.kind for column in self.columns}

    def to_dict(self) -> dict[str, Any]:
        """The encoding as values that JSON can hold, without defaults."""
        plain = asdict(Column(""))
        columns = [
            {key: value for key, value in asdict(column).items() if value != plain[key]}
            for column in self.columns
        ]
        return {"columns": columns}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The encoding that :meth:`to_dict` wrote."""
        try:
            columns = tuple(
                Column(**one | {"categories": tuple(map(str, one.get("categories", ())))})
                for one in values["columns"]
            )
            for column in columns:
                known = column.kind in get_args(Kind) and column.style in STYLES
                if not known or not isinstance(column.name, str):
                    raise ValueError(column.name)
                float(column.median)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"the stored encoding of columns is damaged ({error!r})") from error
        return cls(columns)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Features, how they were encoded, and what the user should know about it."""

    encoding: Encoding
    x: NDArray[np.float32]
    notes: list[str]


def encode(
    frame: Frame,
    names: Sequence[str],
    known: Encoding | None = None,
    *,
    learn_from: Sequence[int] | None = None,
) -> Encoded:
    """Encodes columns of a table as features.

    Args:
        names: The columns that may be features.
        known: The encoding of the training data; its columns must be there, others are not used.
        learn_from: The rows that medians and categories are learned from; all by default.
    """
    report = _Report()
    if known is None and learn_from is not None:
        known = _learn(frame.take(learn_from), names, report)
    if known is None:
        found = [_Cells(frame, name, report).learn() for name in names]
    else:
        found = [_Cells(frame, one.name, report).encode(one) for one in known.columns]
    used = [one for one in found if one is not None]
    encoding = Encoding(tuple(column for column, _ in used))
    blocks = [block.reshape(len(frame), -1) for _, block in used]
    x = np.concatenate(blocks, axis=1) if blocks else np.empty((len(frame), 0), np.float32)
    return Encoded(encoding, x, report.notes(frame.where))


def _learn(frame: Frame, names: Sequence[str], report: "_Report") -> Encoding:
    """Learns an encoding; reports which columns are used, not the cells of these rows."""
    own = _Report()
    found = [_Cells(frame, name, own).learn() for name in names]
    report.rare = own.rare
    report.items |= {kind: own.items[kind] for kind in _OF_COLUMNS if kind in own.items}
    return Encoding(tuple(column for column, _ in filter(None, found)))


_Block = tuple[Column, NDArray[np.float32]]


@dataclass(slots=True)
class _Report:
    """What was inferred, by kind: a note lists all columns of a kind."""

    items: dict[str, list[str]] = field(default_factory=dict)
    rare: dict[str, set[str]] = field(default_factory=dict)
    """By column the categories that are too rare for a feature."""

    def add(self, kind: str, name: str, detail: str = "") -> None:
        self.items.setdefault(kind, []).append(f"{name!r}{detail and f' ({detail})'}")

    def notes(self, where: str) -> list[str]:
        return [
            f"{where}: {title}: {list_some(self.items[kind])}"
            for kind, title in _TITLES.items()
            if kind in self.items
        ]


@dataclass(frozen=True, slots=True)
class _Cells:
    """A column that is being encoded."""

    frame: Frame
    name: str
    report: _Report

    def learn(self) -> _Block | None:
        """Infers how to encode the column; None for one that is left out."""
        cells = self.frame.numbers_or_words(self.name)
        if not isinstance(cells, list):
            if not len(cells) or np.isnan(cells).all():
                self.report.add("empty", self.name)
                return None
            return self._encode_numbers(cells, Column(self.name, median=_median(cells)))
        if (plain := _parse_plain(cells)) is not None:
            return self._encode_numbers(plain, Column(self.name, median=_median(plain)))
        words = [cell for cell in cells if not _is_missing(cell)]
        distinct = set(words)
        if not distinct:
            self.report.add("empty", self.name)
            return None
        if any({word.casefold() for word in distinct} <= pair for pair in _PAIRS):
            numbers = self._parse_booleans(cells)
            majority = float(np.nanmean(numbers) >= 0.5)
            return self._encode_numbers(numbers, Column(self.name, "boolean", median=majority))
        style = number_style(distinct, self.frame.delimiter)
        if style is None and not looks_numeric(words):
            return self._learn_categories(cells)
        numbers = self._parse_numbers(cells, style)
        column = Column(self.name, style=style or "plain", median=_median(numbers))
        return self._encode_numbers(numbers, column)

    def encode(self, column: Column) -> _Block:
        """Encodes the column as in the training data."""
        if column.kind == "category":
            return self._encode_categories(self.frame.words(self.name), column)
        cells = self.frame.numbers_or_words(self.name)
        if isinstance(cells, list):
            if column.kind == "boolean":
                cells = self._parse_booleans(cells)
            elif (plain := _parse_plain(cells)) is not None and column.style != "comma":
                cells = plain
            else:
                words = {cell for cell in cells if not _is_missing(cell)}
                style = number_style(words, self.frame.delimiter, column.style)
                cells = self._parse_numbers(cells, style)
        return self._encode_numbers(cells, column)

    def _parse_booleans(self, cells: list[str]) -> NDArray[np.float64]:
        for row, cell in enumerate(cells):
            if cell.casefold() not in _NUMBERED and not _is_missing(cell):
                raise UserError(
                    f"{self.frame.at(row)} has {cell!r} in column {self.name!r}; write true or "
                    "false, as in the training data"
                )
        return np.array([_NUMBERED.get(cell.casefold(), np.nan) for cell in cells])

    def _parse_numbers(self, cells: list[str], style: Style | None) -> NDArray[np.float64]:
        """Numbers of a style, NaN where missing; without a style, a cell is refused."""
        rows = [row for row, cell in enumerate(cells) if not _is_missing(cell)]
        filled = to_plain_numbers((cells[row] for row in rows), style or "plain")
        numbers = np.full(len(cells), np.nan)
        numbers[rows] = column_numbers(filled, self.name, lambda row: self.frame.at(rows[row]))
        if style in _TITLES:
            self.report.add(style, self.name)
        return numbers

    def _encode_numbers(self, numbers: NDArray[np.float64], column: Column) -> _Block:
        missing = np.isnan(numbers)
        if missing.any():
            self.report.add("median", self.name, count_noun(int(missing.sum()), "row"))
            numbers = np.where(missing, column.median, numbers)
        if (beyond := np.abs(numbers) > np.finfo(np.float32).max).any():
            row = int(beyond.argmax())
            raise UserError(
                f"{self.frame.at(row)} has '{numbers[row]:g}' in column {self.name!r}; write a "
                "finite number"
            )
        return column, numbers.astype(np.float32)

    def _learn_categories(self, cells: list[str]) -> _Block | None:
        counts = Counter(cell for cell in cells if cell)
        if len(counts) > max(FEW_CATEGORIES, counts.total() // 2):
            detail = f"{len(counts):,} in {count_noun(counts.total(), 'row')}"
            self.report.add("distinct", self.name, detail)
            return None
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:MAX_CATEGORIES]
        detail = f"{len(counts):,} categories"
        if rare := counts.keys() - frequent:
            detail += f", the {len(rare):,} rarest as zeros"
        self.report.rare[self.name] = set(rare)
        self.report.add("one-hot", self.name, detail)
        column = Column(self.name, "category", categories=tuple(sorted(frequent)))
        return self._encode_categories(cells, column)

    def _encode_categories(self, cells: list[str], column: Column) -> _Block:
        place = {category: number for number, category in enumerate(column.categories)}
        codes = np.array([place.get(cell, -1) for cell in cells], dtype=np.int64)
        block = np.zeros((len(cells), len(place)), dtype=np.float32)
        block[codes >= 0, codes[codes >= 0]] = 1
        if missing := sum(not cell for cell in cells):
            self.report.add("zeros", self.name, count_noun(missing, "row"))
        known = place.keys() | self.report.rare.get(self.name, set())
        if unknown := Counter(cell for cell in cells if cell and cell not in known):
            found = quote_some(word for word, _ in unknown.most_common())
            self.report.add(
                "unknown", self.name, f"{found} in {count_noun(unknown.total(), 'row')}"
            )
        return column, block


def _parse_plain(cells: list[str]) -> NDArray[np.float64] | None:
    """The numbers of a column without missing ones, in plain digits; None for any other."""
    try:
        numbers = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
    except ValueError:
        return None
    text = "".join(cells)
    finite = bool((np.abs(numbers) <= np.finfo(np.float32).max).all())
    return numbers if finite and "_" not in text and text.isascii() else None


def _median(numbers: NDArray[np.float64]) -> float:
    return float(np.median(numbers[~np.isnan(numbers)]))


def _is_missing(cell: str) -> bool:
    return not cell or cell.casefold() in MISSING_MARKERS
