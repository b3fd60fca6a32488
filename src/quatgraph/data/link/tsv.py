"""A person's own knowledge graph: a folder with a file per part, or one file.

* ``train.tsv``, ``valid.tsv``, ``test.tsv``: triples, see :mod:`quatgraph.data.link.parts`; also
  as ``.csv`` or ``.txt``, and packed as ``.gz`` or ``.xz``. Of ``valid`` and ``test`` what is
  missing is drawn out of ``train``, see :func:`quatgraph.data.link.split.spare_triples`
* ``entities.tsv``, ``relations.tsv``: perhaps, in the same formats: an id and a label per line
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from quatgraph.data.io.foreign import refuse_foreign, unpacked_suffix
from quatgraph.data.io.messages import some
from quatgraph.data.io.name_table import PACKINGS, SUFFIXES, read_packed
from quatgraph.data.link.parts import Part, Parts, name_part, read_parts
from quatgraph.data.link.split import draw_parts
from quatgraph.data.link.triples import Triples, assemble
from quatgraph.data.link.vocabulary import PLURAL, read_labels
from quatgraph.data.splits import PARTS
from quatgraph.errors import Mistake, did_you_mean

Unseen = Literal["refuse", "drop", "keep"]

STEMS = {"train": ("train",), "valid": ("valid", "val", "validation", "dev"), "test": ("test",)}


def read(
    path: Path,
    *,
    header: bool | None = None,
    split_seed: int = 0,
    unseen: Unseen = "refuse",
) -> Triples:
    """Reads a knowledge graph of one's own.

    A triple that comes twice in a file is kept once; this and what else is worth knowing is told
    in ``notes``.

    Args:
        path: A folder with ``train.tsv`` and perhaps ``valid.tsv``, ``test.tsv``,
            ``entities.tsv``, ``relations.tsv``, or one file with all triples.
        header: Whether the first line of each file names its columns; found out where it is left
            out.
        split_seed: Seed of the draw of parts that have no file.
        unseen: What becomes of a triple of valid or test with an entity or a relation that no
            training triple has: ``"refuse"`` makes it a :class:`Mistake`, ``"drop"`` leaves the
            triple out, ``"keep"`` keeps it.
    """
    path = Path(path)
    if unseen not in get_args(Unseen):
        known = get_args(Unseen)
        raise Mistake(f"unseen must be one of {', '.join(known)}{did_you_mean(unseen, known)}")
    if split_seed < 0:
        raise Mistake(f"the seed of a split must be 0 or more, got {split_seed}")
    files = _files(path)
    contents = {key: (str(file), read_packed(file)) for key, file in files.items()}
    parts, notes = _cleaned(read_parts(contents, header=header), unseen)
    labels = {kind: _labels(path, kind, getattr(parts, PLURAL[kind]), notes) for kind in PLURAL}
    return assemble(
        draw_parts(parts, split_seed, notes),
        name=_name(path),
        entity_labels=labels["entity"],
        relation_labels=labels["relation"],
        notes=notes,
    )


def from_names(rows: Iterable[Sequence[object]], *, split_seed: int = 0) -> Triples:
    """A knowledge graph of rows of names: head, relation and tail; valid and test are drawn.

    Whole numbers, also in an array or a tensor, are names too. A missing cell is a
    :class:`Mistake`.

    Example:
        >>> from_names([("Peru", "borders", "Chile"), ("Chile", "borders", "Peru")])
        Triples('triples', 2 entities, 1 relations, 1 + 1 + 0 triples)
    """
    parts, notes = _cleaned(name_part(rows), "refuse")
    return assemble(draw_parts(parts, split_seed, notes), name="triples", notes=notes)


def holds_triples(path: Path) -> bool:
    """Whether a path looks like a knowledge graph: a folder with ``train.tsv``, or a table.

    A single ``.txt`` file does not say what it holds, so it does not count.
    """
    path = Path(path)
    if path.is_dir():
        return training_file(path) is not None
    return path.is_file() and unpacked_suffix(path) in (".tsv", ".csv")


def training_file(folder: Path) -> Path | None:
    """The file of training triples in a folder, if there is one."""
    return next((place for place in _places(folder, STEMS["train"]) if place.is_file()), None)


def _files(path: Path) -> dict[str, Path]:
    """The file of each part that has one."""
    if path.is_file():
        refuse_foreign(path)
        return {"train": path}
    if not path.is_dir():
        raise Mistake(f"there is no {path}; name a folder with train.tsv, or a file of triples")
    found = {key: file for key in PARTS if (file := _one_of(path, STEMS[key]))}
    if "train" not in found:
        names = [file.name for file in sorted(path.iterdir())]
        hint = did_you_mean("train.tsv", names) or (f"; it holds {some(names)}" if names else "")
        raise Mistake(f"{path} has no train.tsv, nor train.csv or train.txt{hint}")
    return found


def _one_of(folder: Path, stems: tuple[str, ...]) -> Path | None:
    found = [place for place in _places(folder, stems) if place.is_file()]
    if len(found) > 1:
        raise Mistake(f"{folder} has both {found[0].name} and {found[1].name}; keep one of them")
    return found[0] if found else None


def _places(folder: Path, stems: tuple[str, ...]) -> Iterator[Path]:
    for stem, suffix, packing in product(stems, SUFFIXES, PACKINGS):
        yield folder / f"{stem}{suffix}{packing}"


def _name(path: Path) -> str:
    name = path.resolve().name
    if path.is_file():
        for ending in (*PACKINGS[1:], *SUFFIXES):
            name = name.removesuffix(ending)
    return name


def _cleaned(parts: Parts, unseen: Unseen) -> tuple[Parts, list[str]]:
    """Parts without repeated triples and unwanted unseen names, and what is to be told."""
    notes = [part.header for part in parts.by_name.values() if part.header]
    notes += parts.notes
    by_name = dict(parts.by_name)
    for key, part in parts.by_name.items():
        keys = parts.keys(key)
        if again := int((np.diff(np.sort(keys)) == 0).sum()):
            by_name[key] = part.take(np.sort(np.unique(keys, return_index=True)[1]))
            notes.append(f"{part.where} repeats {_counted(again)}, each is kept once")
    parts = Parts(by_name, parts.entities, parts.relations)
    notes += _shared(parts)
    for key, part in by_name.items():
        if key != "train" and unseen != "keep":
            by_name[key] = _seen(part, parts, unseen, notes)
    return Parts(by_name, parts.entities, parts.relations).used(), notes


def _shared(parts: Parts) -> Iterator[str]:
    """Tells of triples that are in two parts."""
    keys = {key: parts.keys(key) for key in parts.by_name}
    for first, second in (("train", "valid"), ("train", "test"), ("valid", "test")):
        if not {first, second} <= keys.keys():
            continue
        if both := int(np.isin(keys[second], keys[first]).sum()):
            yield (
                f"{_counted(both)} of {parts.by_name[second].where} "
                f"{'is' if both == 1 else 'are'} in {parts.by_name[first].where} too, "
                f"which makes {second} results look better than they are"
            )


def _seen(part: Part, parts: Parts, unseen: Unseen, notes: list[str]) -> Part:
    """A part without triples that name what no training triple has."""
    train = parts.by_name["train"].triples
    unknown = np.zeros(part.triples.shape, dtype=bool)
    for columns, names in (([0, 2], parts.entities), ([1], parts.relations)):
        known = np.zeros(len(names), dtype=bool)
        known[train[:, columns]] = True
        unknown[:, columns] = ~known[part.triples[:, columns]]
    rows = np.asarray(unknown.any(axis=1))
    if not rows.any():
        return part
    if unseen == "drop":
        notes.append(
            f"{_counted(int(rows.sum()))} of {part.where} left out for an entity or a relation "
            "that no training triple has"
        )
        return part.take(~rows)
    kind, columns = ("relation", [1]) if unknown[:, 1].any() else ("entity", [0, 2])
    numbers = np.unique(part.triples[:, columns][unknown[:, columns]])
    names = [getattr(parts, PLURAL[kind])[number] for number in numbers.tolist()]
    where = part.at(int(unknown[:, columns].any(axis=1).argmax()))
    raise Mistake(
        f"{where}: no training triple has the {kind if len(names) == 1 else PLURAL[kind]} "
        f"{some(names)} of this part; add training triples, or leave such triples out with "
        "unseen='drop' (for a command: --set data.unseen=drop)"
    )


def _labels(path: Path, kind: str, ids: list[str], notes: list[str]) -> dict[str, str]:
    """The labels in a folder's label file; none where there is no such file."""
    plural = PLURAL[kind]
    file = _one_of(path, (plural,)) if path.is_dir() else None
    if file is None:
        return {}
    known = set(ids)
    labels = read_labels(read_packed(file), str(file), ("id", "label"), known)
    if not labels:
        raise Mistake(f"{file} has no labels; write an id and a label per line, or remove it")
    found = known & labels.keys()
    if not found:
        raise Mistake(
            f"{file} names none of the {len(ids):,} {plural} of {path} (it has {some(labels)}); "
            "write the ids of the triples in its first column, or remove it"
        )
    if len(found) < len(known):
        less = len(known) - len(found)
        notes.append(f"{file} has no label for {less:,} of {len(ids):,} {plural}, their ids serve")
    if len(found) < len(labels):
        more = len(labels) - len(found)
        notes.append(f"{file} labels {more:,} {plural} that are in no triple; they are left out")
    return {name: labels[name] for name in found}


def _counted(count: int) -> str:
    return "1 triple" if count == 1 else f"{count:,} triples"
