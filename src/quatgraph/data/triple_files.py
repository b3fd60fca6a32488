"""Files of triples as numbers: one file per part, one list of entities and of relations for all.

A file has three columns, head, relation and tail, see :mod:`quatgraph.data.words`. A first line
that names the columns, as ``subject predicate object``, is left out, and says in which order they
stand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quatgraph.data.distinct import Ids
from quatgraph.data.vocabulary import Numbering
from quatgraph.data.words import Column, words
from quatgraph.errors import Mistake

COLUMNS = {
    "head": {"head", "h", "subject", "subj", "s", "source", "src", "from"},
    "relation": {"relation", "rel", "r", "predicate", "pred", "p", "property", "relationship"},
    "tail": {"tail", "t", "object", "obj", "o", "target", "dst", "to"},
}
_ENDINGS = ("_id", " id", "_entity", " entity", "_name", " name")


@dataclass(frozen=True, slots=True)
class Part:
    """The triples of one file.

    Attributes:
        where: The file, for messages.
        triples: Head, relation and tail of each.
        lines: Which line of the file, counted from 1, each is.
        header: Whether the file's first line was taken for the names of its columns.

    Shape:
        - triples: ``(N, 3)``
        - lines: ``(N,)``
    """

    where: str
    triples: Ids
    lines: Ids
    header: bool = False

    def __len__(self) -> int:
        return len(self.triples)

    def at(self, row: int) -> str:
        """Where a triple, counted from 0, stands: ``"FILE line LINE"``."""
        return f"{self.where} line {self.lines[row]}"

    def take(self, rows: np.ndarray) -> "Part":
        """Some of the triples, by their places or by a mask."""
        return replace(self, triples=self.triples[rows], lines=self.lines[rows])


@dataclass(frozen=True, slots=True)
class Parts:
    """Files of triples that number the same entities and relations.

    Attributes:
        by_name: The parts.
        entities: Ids of the entities, sorted; a number in a triple is a place here.
        relations: Ids of the relations, likewise.
    """

    by_name: dict[str, Part]
    entities: list[str]
    relations: list[str]

    def keys(self, part: str) -> Ids:
        """A number for each triple of a part, the same for the same triple."""
        head, relation, tail = self.by_name[part].triples.T
        return (head * len(self.relations) + relation) * len(self.entities) + tail

    def used(self) -> "Parts":
        """The same triples, without entities and relations that are in none."""
        triples = np.concatenate([part.triples for part in self.by_name.values()])
        ends = np.zeros(len(self.entities), dtype=bool)
        ends[triples[:, [0, 2]]] = True
        kinds = np.zeros(len(self.relations), dtype=bool)
        kinds[triples[:, 1]] = True
        if ends.all() and kinds.all():
            return self
        place = (np.cumsum(ends) - 1, np.cumsum(kinds) - 1)
        return Parts(
            {key: _renumbered(part, *place) for key, part in self.by_name.items()},
            [name for name, kept in zip(self.entities, ends.tolist(), strict=True) if kept],
            [name for name, kept in zip(self.relations, kinds.tolist(), strict=True) if kept],
        )


def read_parts(contents: Mapping[str, tuple[str, bytes]], *, header: bool | None = None) -> Parts:
    """Reads the files of one knowledge graph.

    Args:
        contents: For each part the file's name, for messages, and its bytes.
        header: Whether the first line of each file names its columns; found out where it is left
            out.
    """
    ends, kinds = Numbering(), Numbering()
    parts = {
        key: _read(content, where, header, ends, kinds)
        for key, (where, content) in contents.items()
    }
    return _ordered(parts, ends, kinds)


def name_part(rows: Iterable[Sequence[str]]) -> Parts:
    """Rows of head, relation and tail as a training part."""
    rows = list(rows)
    for number, row in enumerate(rows, 1):
        if isinstance(row, str) or len(row) != len(COLUMNS):
            raise Mistake(f"triple {number} is {row!r}; give head, relation and tail of each")
    if not rows:
        raise Mistake("there are no triples; give head, relation and tail of each")
    lines = np.arange(len(rows))
    ends, kinds = Numbering(), Numbering()
    columns = [Column(list(map(str, names)), lines) for names in zip(*rows, strict=True)]
    part = Part("the list", _numbers(columns, ends, kinds), lines + 1)
    return _ordered({"train": part}, ends, kinds)


def _ordered(parts: Mapping[str, Part], ends: Numbering, kinds: Numbering) -> Parts:
    """The parts by places in sorted names."""
    for part in parts.values():
        _refuse_blank(part, ends.blank(), kinds.blank())
    (entities, end), (relations, kind) = ends.in_order(), kinds.in_order()
    check_size(len(entities), len(relations))
    numbered = {key: _renumbered(part, end, kind) for key, part in parts.items()}
    return Parts(numbered, entities, relations)


def _numbers(columns: Sequence[Column], ends: Numbering, kinds: Numbering) -> Ids:
    head, relation, tail = columns
    found = ends.numbers(head), kinds.numbers(relation), ends.numbers(tail)
    return np.stack(found, axis=1)


def check_size(num_entities: int, num_relations: int) -> None:
    """Refuses a graph whose triples, with inverse relations, cannot be numbered in 63 bits."""
    if 2 * num_relations * num_entities**2 >= 1 << 63:
        raise Mistake(
            f"the graph has {num_entities:,} entities and {num_relations:,} relations, which is "
            "too large; take a part of it"
        )


def _read(
    content: bytes, where: str, header: bool | None, ends: Numbering, kinds: Numbering
) -> Part:
    table = words(content, where, tuple(COLUMNS))
    named = column_order(table.first())
    header = named is not None if header is None else header
    order = named if named and header else [0, 1, 2]
    triples: list[Ids] = []
    lines: list[Ids] = []
    for piece in (table.without_first() if header else table).pieces():
        triples.append(_numbers([piece.columns[place] for place in order], ends, kinds))
        lines.append(piece.lines)
    if not lines:
        raise Mistake(f"{where} has no triples; write one per line: head, relation, tail")
    return Part(where, np.concatenate(triples), np.concatenate(lines), header=header)


def column_order(first: list[str]) -> list[int] | None:
    """Where head, relation and tail stand, for a line that names columns; ``None`` for others."""
    words = [cell.strip().casefold() for cell in first]
    for ending in _ENDINGS:
        words = [word.removesuffix(ending) for word in words]
    places = [
        [place for place, word in enumerate(words) if word in known] for known in COLUMNS.values()
    ]
    return [place[0] for place in places] if all(len(place) == 1 for place in places) else None


def _refuse_blank(part: Part, ends: Ids, kinds: Ids) -> None:
    for column, (name, blank) in enumerate(zip(COLUMNS, (ends, kinds, ends), strict=True)):
        if not len(blank):
            continue
        missing = np.isin(part.triples[:, column], blank)
        if missing.any():
            where = part.at(int(missing.argmax()))
            raise Mistake(f"{where} has an empty {name}; fill it in or remove the line")


def _renumbered(part: Part, end: Ids, kind: Ids) -> Part:
    head, relation, tail = part.triples.T
    return replace(part, triples=np.stack((end[head], kind[relation], end[tail]), axis=1))
