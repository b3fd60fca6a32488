"""A person's mistake, told in one sentence, with the name that was probably meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEW = 500
"""Names that are compared one by one; of more, only the nearest are."""
_NEAREST = 32
_LONGEST = 200
"""Letters of a word for which a suggestion is looked for."""
_ALIKE = 0.6
"""The ratio of :mod:`difflib` from which on two names are alike, its own default."""
_WINDOW = 16
"""Letters of a long word that are compared at once: a bit each."""
_BLOCK = 1 << 15
"""Names at once: few enough for the processor's cache."""


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
    names = list(known)
    if len(names) > _FEW:
        names = _nearest(word, names)
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


def _nearest(word: str, names: list[str]) -> list[str]:
    """A few of very many names: of about the same length, with the fewest edits to the word.

    A long word is compared window by window, its end first; a name that is two edits behind the
    best is left out of the next window.
    """
    import numpy as np

    sizes = np.fromiter(map(len, names), np.int64, len(names))
    near = np.abs(sizes - len(word)) <= max(2, len(word) // 5)
    if not near.all():
        names, sizes = list(compress(names, near.tolist())), sizes[near]
    text, sought = np.frombuffer(_letters("".join(names)), np.uint8), _letters(word)
    starts = np.cumsum(sizes) - sizes
    left, edits = np.arange(len(names)), np.zeros(len(names), np.int16)
    for window in _windows(len(word)):
        if len(left) <= _NEAREST:
            break
        for size in np.unique(sizes[left]).tolist():
            rows = left[sizes[left] == size]
            first, last, _ = window.indices(size)
            if first < last:
                edits[rows] += _edits(sought[window], text, starts[rows] + first, last - first)
        # An edit may cost two: it moves a letter out of the window and another one into it.
        left = left[edits[left] <= edits[left].min() + 4]
    order = left[np.argsort(edits[left], kind="stable")]
    return [names[place] for place in order[:_NEAREST].tolist()]


def _letters(text: str) -> bytes:
    """A byte for each letter, small ones for those of ASCII."""
    import numpy as np

    if text.isascii():
        return text.encode().lower()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return codes.astype(np.uint8).tobytes().lower()  # a script differs in its lowest bytes


def _windows(length: int) -> list[slice]:
    """Which letters of a word of so many are compared, one window after the other."""
    if length <= _WINDOW:
        return [slice(0, None)]
    starts = range(0, length - _WINDOW, _WINDOW)
    return [slice(-_WINDOW, None), *(slice(at, at + _WINDOW) for at in starts)]


def _edits(
    word: bytes, text: "NDArray[np.uint8]", begins: "NDArray[np.int64]", width: int
) -> "NDArray[np.int16]":
    """The edit distance of a word of at most 16 letters to each of many of one width.

    By Myers's bits (1999), for all at once: a number holds a column of the table of distances,
    its bits whether the distance grows (``up``) or falls (``down``) from one row to the next.

    Args:
        text: What the names stand in.
        begins: Where each begins, ``(N,)``.
    """
    import numpy as np

    held = [sum(1 << place for place, own in enumerate(word) if own == code) for code in range(256)]
    low, high = bytes(bits & 255 for bits in held), bytes(bits >> 8 for bits in held)
    views = np.lib.stride_tricks.sliding_window_view(text, width)
    one, last = np.uint16(1), np.uint16(len(word) - 1)
    found = []
    for at in range(0, len(begins), _BLOCK):
        rows = views[begins[at : at + _BLOCK]]
        up, down = (np.full(len(rows), bits, np.uint16) for bits in ((1 << len(word)) - 1, 0))
        edits = np.full(len(rows), len(word), np.int16)
        for column in rows.T:
            letters = column.tobytes()
            same = np.frombuffer(letters.translate(high), np.uint8).astype(np.uint16) << np.uint16(
                8
            )
            same |= np.frombuffer(letters.translate(low), np.uint8)
            level = (((same & up) + up) ^ up) | same
            grows, falls = down | ~(level | up), up & level
            edits += (grows >> last & one).astype(np.int16)
            edits -= (falls >> last & one).astype(np.int16)
            grows = grows << one | one
            up, down = falls << one | ~(same | down | grows), grows & (same | down)
        found.append(edits)
    return np.concatenate(found)
