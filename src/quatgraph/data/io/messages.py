"""Parts of messages."""

from collections.abc import Iterable

_FEW = 5


def some(names: Iterable[str]) -> str:
    """A few of many names, for a message.

    Example:
        >>> some("abcdefg")
        "'a', 'b', 'c', 'd', 'e' and 2 more"
    """
    names = list(names)
    shown = ", ".join(map(repr, names[:_FEW]))
    return f"{shown} and {len(names) - _FEW:,} more" if len(names) > _FEW else shown
