"""A person's mistake, told in one sentence."""

from collections.abc import Iterable
from difflib import get_close_matches
from unicodedata import category


class Mistake(Exception):  # noqa: N818
    """Something the person can put right; the message says what and how.

    The command line prints the message alone and exits with code 2.
    """


def did_you_mean(word: str, known: Iterable[str], under: str = "") -> str:
    """``"; did you mean 'x'?"`` for the closest known name, or nothing; ``under`` stands before it.

    Example:
        >>> did_you_mean("epoch", ["epochs", "lr"])
        "; did you mean 'epochs'?"
        >>> did_you_mean("zzz", ["epochs", "lr"])
        ''
    """
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {under + close[0]!r}?" if close else ""


def printable(text: str) -> str:
    r"""The text on one line, with what a terminal would obey instead of showing it, as escapes,
    line ends and marks that turn the direction of writing, written out as in Python.

    Example:
        >>> print(printable("red\x1b[31m\nand \u202eback"))
        red\x1b[31m\nand \u202eback
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode()
        if category(char) in UNSHOWN and char not in JOINERS
        else char
        for char in text
    )


UNSHOWN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of Unicode: controls, formats, surrogates, line and paragraph separators."""
JOINERS = "\u200c\u200d"
"""Formats that Persian, the scripts of India and emoji are written with."""
