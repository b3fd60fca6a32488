"""Files of triples as numbers: one file per split, one list of entities and of relations for all.

A file has three columns, head, relation and tail, see :mod:`quatgraph.data.io.name_table`. A first
line that names all three, as ``subject predicate object`` does (see ``TRIPLE_COLUMNS``), sets their
order; other columns are not used. ``columns`` names columns of any other name. A first line of
other names that occur nowhere else may be a triple or a header, so it is refused unless ``header``
says which; one of two such names is read as a triple, with a note.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np

from quatgraph.data.io.columns import TRIPLE_COLUMNS, places_by_role
from quatgraph.data.io.name_table import NameTable
from quatgraph.data.io.numbers import Ids
from quatgraph.data.link.names import (
    SELECT_THEM,
    NamedTriples,
    complete_columns,
    find_columns,
    select_columns,
)
from quatgraph.data.splits import PARTS
from quatgraph.errors import UserError

_FEW = 5
"""In files of at most so many triples, names that occur once are usual."""
SHARE = 0.05
"""Share of all triples that drawn valid and test splits get, each."""


class Numbering(dict[str, int]):
    """Gives every new name the next number."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))

    def encode(self, names: Sequence[str]) -> Ids:
        """The number of each name."""
        return np.fromiter(map(self.__getitem__, names), dtype=np.int64, count=len(names))

    def sort(self) -> tuple[list[str], Ids]:
        """The names, sorted, and the new number of each old one."""
        names = sorted(self)
        return names, np.argsort(self.encode(names))


@dataclass(frozen=True, slots=True)
class Part:
    """The triples of one file.

    Attributes:
        where: The file, for messages.
        triples: Head, relation and tail of each, ``(N, 3)``.
        lines: Line number of each, counted from 1.
        header: A note on the header; empty without one.
        unit: What the numbers count: lines, or triples of a source without lines.
    """

    where: str
    triples: Ids
    lines: Ids
    header: str = ""
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.triples)

    def at(self, row: int) -> str:
        """The location of a triple, counted from 0: ``"FILE line LINE"``."""
        return f"{self.where} {self.unit} {self.lines[row]}"

    def take(self, rows: np.ndarray) -> "Part":
        """The triples at some rows, or of a mask."""
        return replace(self, triples=self.triples[rows], lines=self.lines[rows])


@dataclass(frozen=True, slots=True)
class Parts:
    """Files of triples with the same numbers for entities and relations.

    Attributes:
        by_name: The files by split.
        entities: Ids of the entities, sorted; triples hold indices into them.
        relations: Ids of the relations, likewise.
        notes: What was inferred: sentences for the user.
    """

    by_name: dict[str, Part]
    entities: list[str]
    relations: list[str]
    notes: list[str] = field(default_factory=list)

    def keys(self, part: str) -> Ids:
        """A unique number for each triple of a split."""
        head, relation, tail = self.by_name[part].triples.T
        return (head * len(self.relations) + relation) * len(self.entities) + tail

    def find_used(self, triples: Ids) -> tuple[np.ndarray, np.ndarray]:
        """Masks of the entities and of the relations that occur in some triples."""
        ends = np.bincount(triples[:, [0, 2]].ravel(), minlength=len(self.entities))
        kinds = np.bincount(triples[:, 1], minlength=len(self.relations))
        return ends > 0, kinds > 0

    def without_unused(self) -> "Parts":
        """The same triples without unused entities and relations."""
        triples = np.concatenate([part.triples for part in self.by_name.values()])
        ends, kinds = self.find_used(triples)
        return replace(
            self,
            by_name=_renumber(self.by_name, np.cumsum(ends) - 1, np.cumsum(kinds) - 1),
            entities=list(compress(self.entities, ends)),
            relations=list(compress(self.relations, kinds)),
        )


Source = tuple[str, bytes] | NamedTriples
"""A table of triples: its name and its bytes; or triples that are read already."""


def read_parts(
    sources: Mapping[str, Source],
    *,
    header: bool | None = None,
    columns: Mapping[str, str] = {},
) -> Parts:
    """Reads the triples of one knowledge graph, by split.

    Args:
        header: Whether the first line of each table names its columns; inferred by default.
        columns: Names of the columns ``head``, ``relation`` and ``tail``, where they have others.
    """
    ends, kinds = Numbering(), Numbering()
    numberings = ends, kinds, ends
    by_name = {
        key: _encode_names(source, numberings)
        if isinstance(source, NamedTriples)
        else _read(*source, header, columns, numberings)
        for key, source in sources.items()
    }
    parts = _sort_names(by_name, ends, kinds)
    parts.notes.extend(part.header for part in by_name.values() if part.header)
    if header is None:
        parts.notes.extend(_check_first_lines(parts))
    return parts


def draw_parts(parts: Parts, seed: int) -> Parts:
    """Draws missing valid and test splits from the training triples, in their order; adds a note.

    Each gets :data:`SHARE` of them, at least one, or fewer if fewer are spare, see
    :func:`spare_triples`.
    """
    if seed < 0:
        raise UserError(f"the seed of a split must be 0 or more, got {seed}")
    missing = [key for key in PARTS if key not in parts.by_name]
    if not missing:
        return parts
    train = parts.by_name["train"]
    spare = spare_triples(train.triples, seed)
    wanted = max(1, int(len(train) * SHARE + 0.5))
    drawn: dict[str, Part] = {}
    left = np.ones(len(train), dtype=bool)
    for turn, key in enumerate(missing):
        # The splits share the spare triples if there are too few.
        fair = -(-len(spare) // (len(missing) - turn))
        rows, spare = np.split(spare, [min(wanted, fair)])
        drawn[key] = train.take(np.sort(rows))
        left[rows] = False
    sizes = " and ".join(f"{len(part):,} for {key}" for key, part in drawn.items())
    parts.notes.append(f"{sizes} were drawn from the triples of {train.where} with seed {seed}")
    return replace(parts, by_name={**parts.by_name, "train": train.take(left), **drawn})


def spare_triples(triples: Ids, seed: int) -> Ids:
    """Indices of triples, shuffled, that can be removed together without losing an entity or a
    relation: in a random order, a triple that is the first to name one stays.

    Example:
        >>> len(spare_triples(np.array([[0, 0, 1], [1, 0, 0], [1, 0, 2]]), seed=0))
        1
    """
    order = np.random.default_rng(seed).permutation(len(triples))
    shuffled = triples[order]
    stays = np.zeros(len(triples), dtype=bool)
    for columns in ([0, 2], [1]):
        names = shuffled[:, columns]
        first = np.full(names.max(initial=-1) + 1, len(triples))
        for column in names.T:
            np.minimum.at(first, column, np.arange(len(triples)))
        stays[first[first < len(triples)]] = True
    return order[~stays]


def check_size(num_entities: int, num_relations: int) -> None:
    """Refuses a graph whose triples, with inverse relations, exceed 63 bits."""
    if 2 * num_relations * num_entities**2 >= 1 << 63:
        raise UserError(
            f"the graph has {num_entities:,} entities and {num_relations:,} relations, which is "
            "too large; take a part of it"
        )


def map_triples(triples: Ids, ends: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """The values of each triple's head, relation and tail in arrays by entity and by relation."""
    head, relation, tail = triples.T
    return np.stack((ends[head], kinds[relation], ends[tail]), axis=1)


def _renumber(parts: Mapping[str, Part], ends: Ids, kinds: Ids) -> dict[str, Part]:
    return {
        key: replace(part, triples=map_triples(part.triples, ends, kinds))
        for key, part in parts.items()
    }


def _sort_names(parts: Mapping[str, Part], ends: Numbering, kinds: Numbering) -> Parts:
    """The splits by sorted entities and relations."""
    (entities, end), (relations, kind) = ends.sort(), kinds.sort()
    check_size(len(entities), len(relations))
    return Parts(_renumber(parts, end, kind), entities, relations)


def _encode(columns: Sequence[Sequence[str]], numberings: Sequence[Numbering]) -> Ids:
    pairs = zip(numberings, columns, strict=True)
    return np.stack([numbering.encode(names) for numbering, names in pairs], axis=1)


def _encode_names(source: NamedTriples, numberings: Sequence[Numbering]) -> Part:
    triples = _encode(source.columns, numberings)
    numbers = np.arange(1, len(triples) + 1)
    return Part(source.where, triples, numbers, header=source.note, unit="triple")


def _read(
    where: str,
    content: bytes,
    header: bool | None,
    columns: Mapping[str, str],
    numberings: Sequence[Numbering],
) -> Part:
    parsed = NameTable.parse(content, where, tuple(TRIPLE_COLUMNS))
    table, note = without_header(parsed, header, columns)
    chunks = [(_encode(cells, numberings), lines) for cells, lines in table.chunks()]
    if not chunks:
        raise UserError(f"{where} has no triples; write one per line: head, relation, tail")
    if header is None and note and not any(columns.values()):
        names = [table.names[place] for place in table.places]
        if all(name in known for name, known in zip(names, numberings, strict=True)):
            raise _ambiguous(f"the first line of {where}", names, "occur in other lines too")
    triples, lines = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
    for column, (role, numbering) in enumerate(zip(TRIPLE_COLUMNS, numberings, strict=True)):
        blank = triples[:, column] == numbering.get("", -1)
        if blank.any():
            line = lines[blank.argmax()]
            raise UserError(
                f"{where} line {line} has an empty {role}; fill it in or remove the line"
            )
    return Part(where, triples, lines, header=note)


def without_header(
    table: NameTable,
    header: bool | None = None,
    columns: Mapping[str, str] = {},
    *,
    remedy: str = SELECT_THEM,
) -> tuple[NameTable, str]:
    """Skips a header, inferred by default, and selects the columns head, relation and tail.

    The remedy ends an error about columns that cannot be told apart.

    Returns:
        The table and a note on its header, empty without one.
    """
    cells, where = table.first_row(), table.where
    found = find_columns(cells, where, columns)
    if any(columns.values()):
        if header is False:
            raise UserError(
                f"data.header=false says that {where} does not name its columns, so data.head, "
                "data.relation and data.tail cannot either; leave out one or the other"
            )
        header = True
        complete_columns(cells, found)
    elif header and [*found.values()].count([]) == 1:
        # Two columns are named, so the third is the remaining one.
        complete_columns(cells, found)
    named = all(found.values())
    if not named and len(cells) > len(TRIPLE_COLUMNS):
        raise UserError(
            f"{where} line {table.line} has {len(cells)} columns where 3 are needed; leave out the "
            f"others, or {remedy}"
        )
    if header is False or not (header or named):
        return table, ""
    if not named:
        used = ", ".join(
            f"{cell!r} as {role}" for cell, role in zip(cells, TRIPLE_COLUMNS, strict=False)
        )
        note = (
            f"the first line of {where} is read as column names, and the columns by place: {used}"
        )
        return table.skip_first(), note
    places, note = select_columns(cells, found, where)
    return table.skip_first().select_columns(cells, places), note


def _check_first_lines(parts: Parts) -> Iterator[str]:
    """Refuses a first line of names that occur in no other line, which may be a header or a triple.
    Reports one with two such names."""
    first = {
        key: part.triples[0]
        for key, part in parts.by_name.items()
        if not part.header and part.unit == "line"
    }
    others = [part.triples[key in first :] for key, part in parts.by_name.items()]
    ends, kinds = parts.find_used(np.concatenate(others))
    for key, (head, relation, tail) in first.items():
        part = parts.by_name[key]
        names = [parts.entities[head], parts.relations[relation], parts.entities[tail]]
        if len(part) <= _FEW and not _is_half_named(names):
            continue
        again = ends[head], kinds[relation], ends[tail]
        if not any(again):
            raise _ambiguous(part.at(0), names, "do not occur anywhere else")
        once = [repr(name) for name, seen in zip(names, again, strict=True) if not seen]
        if len(once) > 1:
            yield (
                f"{part.at(0)} is read as a triple: {', '.join(map(repr, names))}, though "
                f"{' and '.join(once)} do not occur anywhere else; --set data.header=true if it "
                "names columns"
            )


def _is_half_named(names: Sequence[str]) -> bool:
    """Whether two of the names are names of columns longer than a letter."""
    found = places_by_role([name if len(name) > 1 else "" for name in names], TRIPLE_COLUMNS)
    return sum(map(bool, found.values())) > 1


def _ambiguous(line: str, names: Sequence[str], why: str) -> UserError:
    return UserError(
        f"{line} may be a triple or column names: {', '.join(map(repr, names))} {why}; use --set "
        "data.header=false or --set data.header=true (in Python header=False or header=True), or "
        "name the columns head, relation and tail"
    )
