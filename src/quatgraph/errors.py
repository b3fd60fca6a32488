"""The user-facing exception, suggestions for misspelt names, and safe terminal output."""

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher
from unicodedata import category

_FEW = 500
"""Up to this many names are compared one by one; of more, only the nearest."""
_LONGEST = 200
"""Longer words get no suggestion."""
_MIN_RATIO = 0.6
"""The least similarity of a suggestion, the default of :mod:`difflib`."""


class UserError(ValueError):
    """An error that the user can fix; the message says how.

    The command line prints only the message and exits with code 2.
    """


def did_you_mean(word: str, known: Iterable[str], under: str = "") -> str:
    """``"; did you mean 'x'?"`` for the closest known name, or an empty string.

    Letter case only breaks ties. A suggestion among a million names takes about 0.2 seconds.

    Args:
        under: Prefix of the suggested name.

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
    best, closest = (_MIN_RATIO, 0.0), ""
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


def check_known(name: str, known: Collection[str], message: str, remedy: str = "") -> None:
    """Rejects an unknown name: with the message, and a suggestion, a remedy or all names."""
    if name not in known:
        hint = did_you_mean(name, known) or remedy or f"; choose from {', '.join(known)}"
        raise UserError(f"{message}{hint}")


def printable(text: str) -> str:
    r"""Escapes control characters, line breaks and marks of writing direction as Python does.

    Example:
        >>> print(printable("red\x1b[31m\nand \u202eback"))
        red\x1b[31m\nand \u202eback
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode()
        if category(char) in ESCAPED and char not in JOINERS
        else char
        for char in text
    )


ESCAPED = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories: control, format, surrogate, line and paragraph separator."""
JOINERS = "\u200c\u200d"
"""Format characters that Persian, Indic scripts and emoji need."""
