"""A person's mistake, told in one sentence, with the name that was probably meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from unicodedata import category

_FEW = 500
"""Names that are compared one by one; of more, only the nearest are."""
_LONGEST = 200
"""Letters of a word for which a suggestion is looked for."""
_ALIKE = 0.6
"""The ratio of :mod:`difflib` from which on two names are alike, its own default."""


class Mistake(Exception):  # noqa: N818
    """Something the person can put right; the message says what and how.

    The command line prints the message alone and exits with code 2.
    """


def did_you_mean(word: str, known: Iterable[str], under: str = "") -> str:
    """``"; did you mean 'x'?"`` for the closest known name, or nothing; ``under`` stands before it.

    Letter case counts only between names that are otherwise equally close. Among a million names
    the suggestion takes about a fifth of a second.

    Example:
        >>> did_you_mean("epoch", ["epochs", "lr"])
        "; did you mean 'epochs'?"
        >>> did_you_mean("zzz", ["epochs", "lr"])
        ''
    """
    if len(word) > _LONGEST:
        return ""
    names = known if isinstance(known, list) else list(known)
    if len(names) > _FEW:
        from quatgraph.suggestions import nearest

        names = nearest(word, names)
    folded, exact = SequenceMatcher(b=word.casefold()), SequenceMatcher(b=word)
    best, closest = (_ALIKE, 0.0), ""
    for name in names:
        folded.set_seq1(name.casefold())
        # The cheap bounds first: the ratio itself is quadratic in the worst case.
        if folded.real_quick_ratio() < best[0] or folded.quick_ratio() < best[0]:
            continue
        if (ratio := folded.ratio()) >= best[0]:
            exact.set_seq1(name)
            if (found := (ratio, exact.ratio())) > best:
                best, closest = found, name
    return f"; did you mean {under + closest!r}?" if closest else ""


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
