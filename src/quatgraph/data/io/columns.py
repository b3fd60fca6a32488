"""Columns of a table by their names in the first line."""

from collections.abc import Collection, Container, Mapping, Sequence

from quatgraph.data.io.messages import quote_some
from quatgraph.errors import UserError, did_you_mean

EDGE_ENDS = {
    "source": "target",
    "from": "to",
    "src": "dst",
    "head": "tail",
    "u": "v",
    "sender": "receiver",
}
"""Names of the two columns that hold the ends of an edge."""
_TRIPLE_WORDS = {
    "head": "head h subject subj s source src from entity1 entity_1 node1 node_1",
    "relation": "relation rel r predicate pred p property relationship type edge relation_type "
    "rel_type relationship_type edge_type edge_label",
    "tail": "tail t object obj o target dst to entity2 entity_2 node2 node_2",
}
TRIPLE_COLUMNS = {role: frozenset(words.split()) for role, words in _TRIPLE_WORDS.items()}
"""Names of the columns of a triple, in lower case."""
_ENDINGS = ("_id", " id", "_entity", " entity", "_node", " node", "_name", " name")


def column_word(cell: str) -> str:
    """The word in a column's name, in lower case: ``head`` for ``Head_ID``."""
    word = cell.strip().casefold()
    for ending in _ENDINGS:
        word = word.removesuffix(ending)
    return word


def places_by_role(
    cells: Sequence[str], roles: Mapping[str, Container[str]]
) -> dict[str, list[int]]:
    """The columns whose name is one of the words for each role.

    Example:
        >>> places_by_role(["to", "Source_ID", "when"], {"head": {"source"}, "tail": {"to"}})
        {'head': [1], 'tail': [0]}
    """
    words = [column_word(cell) for cell in cells]
    return {
        role: [place for place, word in enumerate(words) if word in known]
        for role, known in roles.items()
    }


def refuse_repeated(cells: Sequence[str], found: Mapping[str, Sequence[int]], where: str) -> None:
    """Refuses a first line in which two columns name the same role."""
    for role, places in found.items():
        if len(places) > 1:
            names = " and ".join(repr(cells[place]) for place in places[:2])
            raise UserError(
                f"the first line of {where} names the {role} twice, as {names}; rename or remove "
                "one of these columns"
            )


def unused_columns(cells: Sequence[str], used: Container[int]) -> str:
    """The end of a sentence about columns: ``"; not used: 'id'"``, or nothing."""
    names = [cell or f"column {place + 1}" for place, cell in enumerate(cells) if place not in used]
    return f"; not used: {quote_some(names)}" if names else ""


def find_column(path: str, columns: Collection[str], name: str, usual: str) -> str | None:
    """The column of a name; without a name the column of the usual name in any letter case."""
    if not name:
        found = [key for key in columns if key.casefold() == usual]
        if len(found) > 1:
            raise UserError(
                f"{path} has the columns {quote_some(found)}, which differ in letter case alone; "
                "rename all but one of them"
            )
        return found[0] if found else None
    if name not in columns:
        hint = did_you_mean(name, columns) or (
            f"; its columns are {quote_some(columns)}; rename one of them, or choose another"
        )
        raise UserError(f"{path} has no column {name!r}{hint}")
    return name
