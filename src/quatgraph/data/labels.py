"""Labels as class numbers, and labels that mark a missing one."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from shlex import quote
from typing import Any, Literal, cast, get_args

import numpy as np

from quatgraph.data.io.files import to_list
from quatgraph.data.io.numbers import Ids, is_number
from quatgraph.errors import UserError

Label = str | int | float | bool
"""A label as the user gave it; the names of classes are text."""
LabelType = Literal["str", "int", "float", "bool"]
MISSING_MARKERS = frozenset({"na", "n/a", "nan", "null", "none", "?", "-"})
"""What files write for a missing value, in lower case."""


def encode_labels(labels: Sequence[str], missing: Collection[str] = ()) -> tuple[Ids, list[str]]:
    """The class of each label and the names of the classes; ``-1`` for a missing label.

    Labels in ``missing`` count as missing, like an empty one. Names are sorted, by value if all of
    them are numbers.

    Example:
        >>> encode_labels(["10", "9", "", "10", "NA"], missing=["NA"])
        (array([ 1,  0, -1,  1, -1]), ['9', '10'])
    """
    found = set(labels).difference(missing, [""])
    numeric = all(is_number(name) and math.isfinite(float(name)) for name in found)
    names = sorted(found, key=(lambda name: (float(name), name)) if numeric else None)
    place = {name: number for number, name in enumerate(names)}
    return np.array([place.get(label, -1) for label in labels], dtype=np.int64), names


def encode_numbers(values: Ids) -> tuple[Ids, list[str]]:
    """Like :func:`encode_labels`, for whole numbers, none of them missing."""
    names, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int64), [str(name) for name in names.tolist()]


def list_labels(labels: object, what: str) -> list[Any]:
    """The labels of a list, an array, a tensor or a generator; refuses unordered values and others.

    Args:
        what: What a label belongs to, for the message.
    """
    listed = to_list(labels)
    if listed is None:
        raise UserError(f"labels must be a list, one for each {what}, not {type(labels).__name__}")
    return listed


def label_type(labels: Iterable[object]) -> LabelType:
    """The type that all labels share; ``str`` if they share none, or if there are none.

    Example:
        >>> label_type([0, 1, None]), label_type([True, False]), label_type([0, "a"])
        ('int', 'bool', 'str')
    """
    kinds = {type(label).__name__ for label in labels if label is not None and label != ""}
    kind = kinds.pop() if len(kinds) == 1 else "str"
    return cast(LabelType, kind) if kind in get_args(LabelType) else "str"


def restore_labels(names: Iterable[str], kind: LabelType) -> list[Label]:
    """Labels in the type that they were given in, from the names of their classes.

    Example:
        >>> restore_labels(["0", "1"], "int"), restore_labels(["false", "true"], "bool")
        ([0, 1], [False, True])
    """
    return [_FROM_NAME[kind](name) for name in names]


_FROM_NAME: dict[LabelType, Callable[[str], Label]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda name: name.lower() == "true",
}


def missing_labels(setting: str | int) -> list[str]:
    """The labels that the setting ``data.missing`` lists, separated by commas.

    Example:
        >>> missing_labels("NA,?"), missing_labels(-1), missing_labels("")
        (['NA', '?'], ['-1'], [])
    """
    return [label for word in str(setting).split(",") if (label := word.strip())]


def label_notes(labels: Iterable[str], missing: Sequence[str], what: tuple[str, str]) -> list[str]:
    """Reports labels of ``missing`` that do not occur, and those that look like a missing one.

    ``what`` is the singular and the plural of an item.

    Example:
        >>> label_notes(["-", "x"], ["NA"], ("node", "nodes"))
        ["no node has the label 'NA' of data.missing", "labels that may mean missing are read as \
classes: '-' (1 node); --set data.missing=NA,- makes them missing"]
    """
    counts = Counter(labels)
    absent = (name for name in missing if name not in counts)
    notes = [f"no {what[0]} has the label {name!r} of data.missing" for name in absent]
    return notes + _marker_notes(counts, missing, what)


def class_notes(
    codes: Iterable[int], names: Sequence[str], missing: Sequence[str], what: tuple[str, str]
) -> list[str]:
    """Like :func:`label_notes`, for encoded labels: only those that look like a missing one."""
    return _marker_notes(Counter(names[code] for code in codes if code >= 0), missing, what)


def missing_hint(name: str) -> str:
    """The end of an error about a label that looks like a missing one; empty for other labels.

    Example:
        >>> missing_hint("?"), missing_hint("x")
        (", or count it as missing with --set 'data.missing=?'", '')
    """
    return f", or count it as missing with {_missing_setting([name])}" if _is_marker(name) else ""


def leave_out(name: str) -> str:
    """The end of an error about a class that is too small.

    Example:
        >>> leave_out("rare one")
        "leave the class out with --set 'data.missing=rare one'"
    """
    how = "" if "," in name else f" with {_missing_setting([name])}"  # commas separate labels
    return f"leave the class out{how}"


def _marker_notes(
    counts: Mapping[str, int], missing: Sequence[str], what: tuple[str, str]
) -> list[str]:
    found = sorted(name for name in counts if _is_marker(name) and name not in missing)
    if not found:
        return []
    shown = (f"{name!r} ({counts[name]:,} {what[counts[name] != 1]})" for name in found)
    return [
        f"labels that may mean missing are read as classes: {', '.join(shown)}; "
        f"{_missing_setting([*missing, *found])} makes them missing"
    ]


def _is_marker(name: str) -> bool:
    return name.casefold() in MISSING_MARKERS


def _missing_setting(names: Sequence[str]) -> str:
    """The option that makes labels missing, safe to paste into a shell."""
    return f"--set {quote('data.missing=' + ','.join(names))}"
