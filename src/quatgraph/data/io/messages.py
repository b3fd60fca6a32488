"""Words for messages."""

from collections.abc import Iterable

_FEW = 5


def quote_some(names: Iterable[str]) -> str:
    """The first few of many names.

    Example:
        >>> quote_some("abcdefg")
        "'a', 'b', 'c', 'd', 'e' and 2 more"
    """
    return list_some(map(repr, names))


def list_some(items: Iterable[str]) -> str:
    """The first few of many items, without quotes."""
    items = list(items)
    shown = ", ".join(items[:_FEW])
    return f"{shown} and {len(items) - _FEW:,} more" if len(items) > _FEW else shown


def count_noun(count: int, noun: str) -> str:
    """A number and its noun, as ``"1 node"`` or ``"2,000 nodes"``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
