"""Entities and relations by id or label."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from quatgraph.data.io.messages import quote_some
from quatgraph.data.io.name_table import NameTable
from quatgraph.errors import UserError, did_you_mean

PLURAL = {"entity": "entities", "relation": "relations"}
_COLUMN_WORDS = frozenset({"id", "entity", "relation", "name", "label", "qid", "key", "code"})
_FEW = 5


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The entities, or the relations, of a knowledge graph; labels are not necessarily unique."""

    kind: Literal["entity", "relation"]
    ids: list[str]
    labels: list[str]

    def find(self, name: str) -> int:
        """The index of an id or a label.

        Ids come before labels, and exact matches before those in another letter case. An unknown
        or ambiguous name is a :class:`UserError`.

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
        if not places:
            raise UserError(f"there is no {self.kind} {name!r}{self._hint(name)}")
        ids = quote_some(self.ids[place] for place in places)
        raise UserError(
            f"{len(places)} {PLURAL[self.kind]} are called {name!r}: {ids}; name one by its id"
        )

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
        return f"; {PLURAL[self.kind]} are, for instance, {quote_some(few)}" if few else ""


def read_labels(
    content: bytes, where: str, columns: tuple[str, ...], known: Collection[str] = ()
) -> dict[str, str]:
    """The label of each id, from a table whose first two columns are ids and labels.

    A header and ids with an empty label are skipped. A first line with a known id is no header. An
    id with two labels is a :class:`UserError`.
    """
    table = NameTable.parse(content, where, columns)
    first = table.first_row()
    if first and first[0] not in known and is_column_name(first[0]):
        table = table.skip_first()
    labels: dict[str, str] = {}
    for (ids, names, *_), lines in table.chunks():
        for line, key, label in zip(lines.tolist(), ids, names, strict=True):
            if not key:
                raise UserError(f"{where} line {line} has a label but no id; give it one")
            if label and labels.setdefault(key, label) != label:
                raise UserError(
                    f"{where} line {line} calls {key!r} {label!r} but an earlier line calls it "
                    f"{labels[key]!r}; keep one of the two"
                )
    return labels


def is_column_name(cell: str) -> bool:
    """Whether a cell of a first line names a column of ids."""
    cell = cell.casefold()
    return cell in _COLUMN_WORDS or cell.endswith(("_id", " id"))
