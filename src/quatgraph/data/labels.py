"""Labels as class numbers, and labels that mark a missing one."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from shlex import quote

import numpy as np

from quatgraph.data.io.distinct import Ids
from quatgraph.data.io.numbers import is_number

_NO_LABEL = frozenset({"na", "n/a", "nan", "null", "none", "?", "-"})
"""What files write where a label is missing, in small letters."""


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
