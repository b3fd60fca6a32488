"""A table of entities: their names, labels and features by columns.

The column of names has a usual name, such as ``entity`` or ``id``, and holds the ids of the
triples; a column ``label`` names them for people. All other columns are features, see
:mod:`quatgraph.data.encoding`. Numbers are standardized. Medians, categories and moments are those
of the entities that training triples have.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from quatgraph.data.encoding import Encoded, encode
from quatgraph.data.io.frame import INDEX, Frame
from quatgraph.data.io.messages import count_noun, quote_some
from quatgraph.data.link.features import Features, compress
from quatgraph.data.link.triples import Triples
from quatgraph.data.scaling import Scaling
from quatgraph.errors import UserError, did_you_mean

NAME_COLUMNS = ("entity", "id", "entity_id", "qid", "iri", "uri", "name")
"""Usual names of the column of names, in lower case; no other column of such a name is a
feature."""
LABEL_COLUMNS = ("label", "name", "title")
"""Usual names of the column of labels, unless it holds the names."""
NO_FEATURES = "none"
"""The setting ``data.entities`` that leaves the features out."""


class EntitySource(NamedTuple):
    """Where the table of entities is."""

    path: str = ""
    """A table elsewhere; empty for that of the folder, :data:`NO_FEATURES` for its labels only."""
    column: str = ""
    """The column of names; empty to find it by its usual names."""


OWN_TABLE = EntitySource()


def add_entities(
    triples: Triples, frame: Frame, column: str = "", *, with_features: bool = True
) -> Triples:
    """Adds the labels and features of a table of entities to a knowledge graph.

    Rows of unknown entities are left out. Entities without a row have zeros as features. Notes
    report both.

    Args:
        column: The column of names; found by its usual names if empty.
        with_features: Whether other columns are features; else only labels are read.
    """
    index = {name: number for number, name in enumerate(triples.entities)}
    names_column, notes = _find_names(frame, column, index)
    place = _number_rows(frame, names_column)
    rows = {index[name]: row for name, row in place.items() if name in index}
    label_column = _find_usual([c for c in frame.names if c != names_column], LABEL_COLUMNS)
    labels = list(triples.entity_labels)
    if label_column is not None:
        words = frame.words(label_column)
        for number, row in rows.items():
            labels[number] = words[row] or labels[number]
    if unknown := len(place) - len(rows):
        count = count_noun(unknown, "row")
        notes.append(f"{frame.where}: {count} of entities that are in no triple left out")
    used = {names_column, label_column}
    ids = [c for c in frame.names if c.casefold() in NAME_COLUMNS and c not in used]
    if ids:
        notes.append(f"{frame.where}: other names of entities are not used: {quote_some(ids)}")
    others = [c for c in frame.names if c not in {*used, *ids}]
    if not with_features or not others:
        if label_column is None and not others:
            raise UserError(f"{frame.where} has names but no other column; add labels or features")
        return replace(triples, entity_labels=labels, notes=[*triples.notes, *notes])
    features, encoded = _encode(triples, frame, others, rows)
    if lacking := triples.num_entities - len(rows):
        notes.append(
            f"{frame.where} has no row for {lacking:,} of {triples.num_entities:,} entities; their "
            "features are zeros"
        )
    return replace(
        triples,
        entity_labels=labels,
        features=features,
        feature_names=encoded.encoding.feature_names,
        notes=[*triples.notes, *notes, *encoded.notes],
    )


def _find_names(frame: Frame, column: str, index: dict[str, int]) -> tuple[str, list[str]]:
    """The column of names, and a note on it if there was a choice."""
    where, found = frame.where, [column]
    if column and column not in frame.columns:
        hint = did_you_mean(column, frame.names) or f"; its columns are {quote_some(frame.names)}"
        raise UserError(f"{where} has no column {column!r}, which data.entity names{hint}")
    if not column:
        found = [c for c in frame.names if c.casefold() in NAME_COLUMNS]
        found = found or [INDEX] * (INDEX in frame.columns)
    if not found:
        raise UserError(
            f"{where} has no column of entity names, its columns are {quote_some(frame.names)}; "
            "name one of them 'entity', or choose it with data.entity (on the command line: --set "
            "data.entity=NAME)"
        )
    if not len(frame):
        raise UserError(f"{where} lists no entities; add a line for each")
    known = {c: sum(word in index for word in frame.words(c)) for c in found}
    best = max(found, key=lambda c: known[c])
    named = f"the column {best!r}" if best else "its unnamed index"
    if not known[best]:
        raise UserError(
            f"{where} names none of the {len(index):,} entities of the triples ({named} has "
            f"{quote_some(frame.words(best)[:3])}); write the ids of the triples, or choose their "
            "column with data.entity (on the command line: --set data.entity=NAME)"
        )
    if len(found) == 1 and best:
        return best, []
    return best, [f"{where}: {named} holds the names of entities"]


def _find_usual(columns: Sequence[str], words: Sequence[str]) -> str | None:
    """The column with the first of some usual names."""
    found = [column for column in columns if column.casefold() in words]
    return min(found, key=lambda column: words.index(column.casefold()), default=None)


def _number_rows(frame: Frame, column: str) -> dict[str, int]:
    """The row of each name; an empty or repeated one is a :class:`UserError`."""
    place: dict[str, int] = {}
    for row, name in enumerate(frame.words(column)):
        if not name:
            raise UserError(
                f"{frame.at(row)} has no entity in column {column!r}; fill it in or remove the row"
            )
        if name in place:
            raise UserError(
                f"{frame.at(row)} repeats the entity {name!r} of {frame.at(place[name])} in column "
                f"{column!r}; list each entity once"
            )
        place[name] = row
    return place


def _encode(
    triples: Triples, frame: Frame, columns: Sequence[str], rows: dict[int, int]
) -> tuple[Features, Encoded]:
    """The features of all entities, learned from those that training triples have."""
    entities = np.fromiter(rows, dtype=np.int64)
    trained = np.isin(entities, triples.train[:, [0, 2]].numpy())
    if not trained.any():
        raise UserError(
            f"{frame.where} has no row for an entity of a training triple, so nothing can be "
            "learned from its columns; add such rows"
        )
    known = frame.take(list(rows.values()))
    encoded = encode(known, columns, learn_from=np.flatnonzero(trained).tolist())
    if not encoded.encoding.columns:
        raise UserError(
            f"{frame.where} has no column that can be a feature; {'; '.join(encoded.notes)}; name "
            "a column of labels 'label'"
        )
    x = torch.from_numpy(encoded.x)
    kinds = [c.kind for c in encoded.encoding.columns for _ in c.feature_names]
    if numbers := [place for place, kind in enumerate(kinds) if kind == "number"]:
        scaling = Scaling.fit(x[torch.from_numpy(trained)][:, numbers], "standard")
        x[:, numbers] = scaling.apply(x[:, numbers]) / len(numbers) ** 0.5
    if bool((beyond := ~x.isfinite()).any()):
        row, feature = beyond.nonzero()[0].tolist()
        raise UserError(
            f"{known.at(row)} has a number in column {encoded.encoding.feature_names[feature]!r} "
            "that is too far from those of training entities; correct it or remove the column"
        )
    features = x.new_zeros(triples.num_entities, x.size(1))
    features[torch.from_numpy(entities)] = x
    return compress(features), encoded
