"""JSON objects in a file: one per line, or an array of them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from quatgraph.data.io.files import read_text
from quatgraph.errors import UserError

_BLANK = re.compile(r"[ \t\r\n]*+")
_ARRAY = "write an array of objects: [{...}, {...}]"


def json_objects(path: Path, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The location and the object of each line that is not blank, or of each item of an array;
    messages call it ``what``."""
    text = read_text(path)
    items = _array_items if text.lstrip().startswith("[") else _line_items
    for where, value in items(path, text):
        if not isinstance(value, dict):
            raise UserError(f"{where} is not a JSON object; write {{...}} for each {what}")
        yield where, value


def _line_items(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path} line {number}"
            with _refusing_others(path, number, "write one object per line"):
                value = json.loads(line, object_pairs_hook=partial(_unique_keys, where))
            yield where, value


def _array_items(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """The items of an array one by one, so that each has a line."""
    place = _skip_blank(text, text.index("[") + 1)
    number, line, counted = 0, 1, 0
    goes_on = not text.startswith("]", place)
    while goes_on:
        number, line, counted = number + 1, line + text.count("\n", counted, place), place
        where = f"{path} line {line} (object {number})"
        decoder = json.JSONDecoder(object_pairs_hook=partial(_unique_keys, where))
        with _refusing_others(path, 1, _ARRAY):
            value, place = decoder.raw_decode(text, place)
        yield where, value
        place = _skip_blank(text, place)
        goes_on = text.startswith(",", place)
        if goes_on:
            place = _skip_blank(text, place + 1)
        elif not text.startswith("]", place):
            raise UserError(f"{where} is followed by neither a comma nor ]; {_ARRAY}")
    if text[place + 1 :].strip():
        raise UserError(f"{path} goes on after its array; {_ARRAY}")


@contextmanager
def _refusing_others(path: Path, first_line: int, remedy: str) -> Iterator[None]:
    """Turns errors of the JSON decoder into a :class:`UserError` with its line and column."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path} line {first_line + error.lineno - 1} is not valid JSON ({error.msg}, column "
            f"{error.colno}); {remedy}"
        ) from error
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} line {first_line} is not valid JSON ({error}); {remedy}"
        ) from error


def _skip_blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _unique_keys(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a repeated key is a :class:`UserError`."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UserError(f"{where} has the key {key!r} twice; keep one of the two")
        found[key] = value
    return found
