"""A knowledge graph as a folder with a file per split, or as one file.

* ``train.tsv``, ``valid.tsv``, ``test.tsv``: triples, see :mod:`quatgraph.data.link.parts`; also
  as any other table, see :mod:`quatgraph.data.io.frame`, or as RDF, see
  :mod:`quatgraph.data.link.rdf`; text files also packed as ``.gz`` or ``.xz``. Missing splits are
  drawn from ``train``, see :func:`quatgraph.data.link.parts.spare_triples`
* ``entities.tsv``, ``relations.tsv``, optional: an id and a label per line
* ``entities`` may also be a table with column names, in any format of
  :mod:`quatgraph.data.io.frame`: names, labels and features, see
  :mod:`quatgraph.data.link.entities`
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from quatgraph.data.edges import sort_unique
from quatgraph.data.formats import RDF_SUFFIXES, TRIPLE_SUFFIXES, table_files
from quatgraph.data.io.files import TABLE_SUFFIXES, is_packed, read_content, unpacked_suffix
from quatgraph.data.io.frame import FRAME_SUFFIXES, Frame, read_frame
from quatgraph.data.io.messages import count_noun, quote_some
from quatgraph.data.io.name_table import NameTable
from quatgraph.data.link.entities import (
    LABEL_COLUMNS,
    NO_FEATURES,
    OWN_TABLE,
    EntitySource,
    add_entities,
)
from quatgraph.data.link.names import name_columns, name_rows
from quatgraph.data.link.parts import Part, Parts, Source, draw_parts, map_triples, read_parts
from quatgraph.data.link.rdf import RdfReader
from quatgraph.data.link.triples import Triples, assemble
from quatgraph.data.link.vocabulary import PLURAL, is_column_name, read_labels
from quatgraph.data.splits import PARTS, spelling_notes
from quatgraph.errors import UserError, did_you_mean

Unseen = Literal["refuse", "drop", "keep"]

STEMS = {
    "train": ("train",),
    "valid": ("valid", "val", "validation", "dev"),
    "test": ("test",),
    "entities": ("entities",),
    "relations": ("relations",),
}
"""Names of the files in a folder."""


def read_file(path: Path, *, entities: EntitySource = OWN_TABLE, **options: Any) -> Triples:
    """Reads one file with all triples; for the options see :func:`quatgraph.data.link.read`."""
    name = Path(path.stem).stem if is_packed(path) else path.stem
    return read_entities(_read_files(name, {"train": path}, **options), entities)


def read_folder(path: Path, *, entities: EntitySource = OWN_TABLE, **options: Any) -> Triples:
    """Reads a folder; for the options see :func:`quatgraph.data.link.read`."""
    suffixes: dict[str, Sequence[str]] = dict.fromkeys(PARTS, TRIPLE_SUFFIXES)
    suffixes |= {"entities": FRAME_SUFFIXES, "relations": TABLE_SUFFIXES}
    files = {key: file for key in STEMS if (file := _find_table(path, STEMS[key], suffixes[key]))}
    if "train" not in files:
        names = [file.name for file in sorted(path.iterdir())]
        hint = did_you_mean("train.tsv", names) or (
            f"; it holds {quote_some(names)}" if names else ""
        )
        raise UserError(f"{path} has no train.tsv, nor train.csv or train.txt{hint}")
    table = files.get("entities")
    if table is not None and (
        is_elsewhere(entities) or entities.column or not _is_label_list(table)
    ):
        del files["entities"]
    triples = _read_files(path.resolve().name, files, **options)
    return read_entities(triples, entities, None if "entities" in files else table)


def is_elsewhere(entities: EntitySource) -> bool:
    """Whether the table of entities is a file that a setting names."""
    return entities.path not in ("", NO_FEATURES)


def read_entities(triples: Triples, entities: EntitySource, own: Path | None = None) -> Triples:
    """Adds the table of entities, if there is one: a file elsewhere, or the graph's own."""
    with_features = entities.path != NO_FEATURES
    if not with_features and triples.features is not None:
        triples = replace(triples, features=None, feature_names=[])
    path = Path(entities.path) if is_elsewhere(entities) else own
    if path is None and entities.column:
        raise UserError(
            f"data.entity names the column {entities.column!r} of a table of entities, but there "
            "is none: choose one with data.entities, or leave data.entity out"
        )
    if path is None:
        return triples
    if path.is_dir() or unpacked_suffix(path) not in FRAME_SUFFIXES:
        known = ", ".join(FRAME_SUFFIXES)
        raise UserError(f"{path} is no table of entities; name a file that ends in {known}")
    frame = read_frame(path, "entity")
    return add_entities(triples, frame, entities.column, with_features=with_features)


def _is_label_list(file: Path) -> bool:
    """Whether a file is a list of ids and labels, not a table with column names."""
    if unpacked_suffix(file) not in TABLE_SUFFIXES:
        return False
    cells = NameTable.parse(read_content(file), str(file), ("id", "label")).first_row()
    if len(cells) != 2:
        return len(cells) < 2
    return not is_column_name(cells[0]) or cells[1].casefold() in LABEL_COLUMNS


def from_names(rows: object, *, split_seed: int = 0, columns: Mapping[str, str] = {}) -> Triples:
    """Builds a knowledge graph from rows of head, relation and tail; valid and test are drawn.

    Names may be whole numbers, also in an array or a tensor. Missing cells are rejected.

    Args:
        rows: A list of rows, an array, or a frame of pandas or polars.
        split_seed: Seed of the splits.
        columns: Names of the columns ``head``, ``relation`` and ``tail`` of a frame, where they
            have others.

    Example:
        >>> from_names([("Peru", "borders", "Chile"), ("Chile", "borders", "Peru")])
        Triples('triples', 2 entities, 1 relations, 1 + 1 + 0 triples)
    """
    parts = _clean_parts(read_parts({"train": name_rows(rows, columns)}, header=False), "keep")
    return assemble(draw_parts(parts, split_seed), name="triples")


def _read_files(
    name: str,
    files: Mapping[str, Path],
    *,
    header: bool | None,
    split_seed: int,
    unseen: Unseen,
    columns: Mapping[str, str],
) -> Triples:
    """Builds a knowledge graph from the files of its splits and of labels."""
    if unseen not in get_args(Unseen):
        known = get_args(Unseen)
        raise UserError(f"unseen must be one of {', '.join(known)}{did_you_mean(unseen, known)}")
    rdf = RdfReader()
    sources: dict[str, Source] = {}
    for key in (key for key in PARTS if key in files):
        content = read_any(files[key], rdf)
        sources[key] = name_columns(content, columns) if isinstance(content, Frame) else content
    parts = _clean_parts(read_parts(sources, header=header, columns=columns), unseen)
    parts.notes.extend(rdf.notes)
    if "valid" in files:
        parts.notes.extend(spelling_notes([files["valid"].name.partition(".")[0]]))
    labels = {f"{kind}_labels": rdf.labels for kind in PLURAL} | {
        f"{kind}_labels": _read_label_file(files[plural], plural, parts)
        for kind, plural in PLURAL.items()
        if plural in files
    }
    return assemble(draw_parts(parts, split_seed), name=name, **labels)


def read_any(file: Path, rdf: RdfReader) -> Source | Frame:
    """Reads what a file has by its suffix: triples of RDF, a table of JSON objects or Parquet, or
    else a text, by its name and bytes."""
    suffix = unpacked_suffix(file)
    if suffix in RDF_SUFFIXES:
        return rdf.read(read_content(file), str(file), suffix)
    if suffix in FRAME_SUFFIXES and suffix not in TABLE_SUFFIXES:
        return read_frame(file, "triple")
    return str(file), read_content(file)


def find_part(folder: Path, part: str) -> Path | None:
    """The file of a split in a folder."""
    return _find_table(folder, STEMS[part], TRIPLE_SUFFIXES)


def _find_table(folder: Path, stems: Sequence[str], suffixes: Sequence[str]) -> Path | None:
    found = list(table_files(folder, stems, suffixes))
    if len(found) > 1:
        raise UserError(f"{folder} has both {found[0].name} and {found[1].name}; keep one of them")
    return found[0] if found else None


def _clean_parts(parts: Parts, unseen: Unseen) -> Parts:
    """Removes repeated triples, and refuses or removes unseen names; adds notes."""
    by_name = dict(parts.by_name)
    for key, part in parts.by_name.items():
        keys = parts.keys(key)
        if again := len(keys) - len(sort_unique(keys)):
            by_name[key] = part.take(np.sort(np.unique(keys, return_index=True)[1]))
            times = count_noun(again, "triple")
            parts.notes.append(f"{part.where} repeats {times}; each counts once")
    parts = replace(parts, by_name=by_name)
    parts.notes.extend(_leak_notes(parts))
    return _treat_unseen(parts, unseen)


def _leak_notes(parts: Parts) -> Iterator[str]:
    """Reports triples that are in two splits."""
    keys = {key: parts.keys(key) for key in parts.by_name}
    for first, second in combinations(keys, 2):
        if both := int(np.isin(keys[second], keys[first]).sum()):
            yield (
                f"{count_noun(both, 'triple')} of {parts.by_name[second].where} "
                f"{'is' if both == 1 else 'are'} in {parts.by_name[first].where} too, "
                f"which makes {second} results look better than they are"
            )


def _treat_unseen(parts: Parts, unseen: Unseen) -> Parts:
    """Refuses, removes or reports triples with names that are in no training triple."""
    by_name = dict(parts.by_name)
    known = parts.find_used(by_name["train"].triples)
    for key, part in parts.by_name.items():
        unknown = ~map_triples(part.triples, *known)
        rows = np.asarray(unknown.any(axis=1))
        if not rows.any():
            continue
        if unseen == "refuse":
            raise _unseen_names(part, parts, unknown)
        count = count_noun(int(rows.sum()), "triple")
        if unseen == "drop":
            by_name[key] = part.take(~rows)
            parts.notes.append(
                f"{count} of {part.where} left out for an entity or a relation that no training "
                "triple has"
            )
            continue
        apart = ", and test metrics are reported apart for seen and unseen ones" * (key == "test")
        parts.notes.append(
            f"{count} of {part.where}, the first in {part.unit} {part.lines[rows.argmax()]}, "
            f"{'has' if rows.sum() == 1 else 'have'} an entity or a relation that no training "
            f"triple has; they are kept{apart} (--set data.unseen=drop leaves them out)"
        )
    parts = replace(parts, by_name=by_name)
    return parts if unseen == "keep" else parts.without_unused()


def _unseen_names(part: Part, parts: Parts, unknown: np.ndarray) -> UserError:
    kind, columns = ("relation", [1]) if unknown[:, 1].any() else ("entity", [0, 2])
    numbers = np.unique(part.triples[:, columns][unknown[:, columns]])
    names = [getattr(parts, PLURAL[kind])[number] for number in numbers.tolist()]
    where = part.at(int(unknown[:, columns].any(axis=1).argmax()))
    return UserError(
        f"{where}: no training triple has the {kind if len(names) == 1 else PLURAL[kind]} "
        f"{quote_some(names)} of this part; add training triples, or leave such triples out with "
        "unseen='drop' (for a command: --set data.unseen=drop)"
    )


def _read_label_file(file: Path, plural: str, parts: Parts) -> dict[str, str]:
    """The labels of entities or relations, by id; adds notes."""
    known = set(getattr(parts, plural))
    labels = read_labels(read_content(file), str(file), ("id", "label"), known)
    if not labels:
        raise UserError(f"{file} has no labels; write an id and a label per line, or remove it")
    found = known & labels.keys()
    if not found:
        raise UserError(
            f"{file} names none of the {len(known):,} {plural} of the triples (it has "
            f"{quote_some(labels)}); write the ids of the triples in its first column, or remove it"
        )
    if less := len(known) - len(found):
        parts.notes.append(
            f"{file} has no label for {less:,} of {len(known):,} {plural}; their ids are used"
        )
    if more := len(labels) - len(found):
        parts.notes.append(
            f"{file}: {count_noun(more, 'label')} of {plural} that are in no triple left out"
        )
    first = next(iter(labels))
    if plural == "entities" and first not in known:
        parts.notes.append(
            f"{file} is read as a list of ids and labels; if its first line names the columns, and "
            f"{labels[first]!r} is a feature, set data.entity={first} (on the command line: --set "
            f"data.entity={first})"
        )
    return labels
