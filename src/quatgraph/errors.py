"""A person's mistake, told in one sentence."""

from collections.abc import Iterable
from difflib import get_close_matches


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
