"""Numbers as spreadsheets write them: with decimal commas and thousands separators.

A column has one style. Of two that fit, as for ``1,234``, a file with semicolons between its cells
has decimal commas, and any other file has thousands separators.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, get_args

from quatgraph.data.io.numbers import is_number

Style = Literal["plain", "comma", "grouped"]
"""``1234.5``; ``1234,5`` or ``1.234,5``; ``1,234.5``."""
STYLES: tuple[Style, ...] = get_args(Style)
_SPACES = " '\u00a0\u202f\u2019"  # separators of thousands in either style
_EXPONENT = r"(?:[eE][-+]?[0-9]++)?"


def _pattern(group: str, point: str) -> re.Pattern[str]:
    grouped = rf"[0-9]{{1,3}}([{group}{_SPACES}])[0-9]{{3}}(?:\1[0-9]{{3}})*+"
    digits = rf"(?:(?:{grouped}|[0-9]++)(?:{point}[0-9]*+)?|{point}[0-9]++)"
    return re.compile(rf"[-+]?{digits}{_EXPONENT}")


_MATCH: dict[Style, Callable[[str], object]] = {
    "plain": is_number,
    "comma": _pattern(r"\.", ",").fullmatch,
    "grouped": _pattern(",", r"\.").fullmatch,
}
_TO_PLAIN: dict[Style, dict[int, int | None]] = {
    "plain": {},
    "comma": str.maketrans(",", ".", "." + _SPACES),
    "grouped": str.maketrans("", "", "," + _SPACES),
}


def number_style(
    cells: Collection[str], delimiter: str = "", known: Style | None = None
) -> Style | None:
    """The style in which all cells are numbers; None if there is none.

    Args:
        cells: The cells of a column, without missing ones.
        delimiter: What separates the cells of the file.
        known: The style of the same column in the training data, which decides where it fits.

    Example:
        >>> number_style(["1.234,5", "7"]), number_style(["1,234.5"]), number_style(["1,2,3"])
        ('comma', 'grouped', None)
    """
    fitting = [style for style in STYLES if all(map(_MATCH[style], cells))]
    if known in fitting and (known == "plain" or "plain" not in fitting or delimiter == ";"):
        return known
    if "plain" not in fitting and delimiter == ";" and "comma" in fitting:
        return "comma"
    if fitting == ["comma", "grouped"]:
        return "grouped"
    return fitting[0] if fitting else None


def to_plain_numbers(cells: Iterable[str], style: Style) -> list[str]:
    """The cells of a style in plain digits.

    Example:
        >>> to_plain_numbers(["1.234,5"], "comma"), to_plain_numbers(["1,234.5"], "grouped")
        (['1234.5'], ['1234.5'])
    """
    table = _TO_PLAIN[style]
    return [cell.translate(table) for cell in cells] if table else list(cells)


def looks_numeric(cells: Sequence[str]) -> bool:
    """Whether at least half of the cells are numbers in some style: the others are mistakes."""
    numbers = sum(any(match(cell) for match in _MATCH.values()) for cell in cells)
    return 2 * numbers >= len(cells)
