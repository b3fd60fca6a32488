"""JSON lines: an object per line."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from quatgraph.data.io.files import read_text
from quatgraph.errors import UserError


def json_objects(path: Path, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The location and the object of each line that is not blank; messages call it ``what``."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        try:
            value = json.loads(line, object_pairs_hook=partial(_unique_keys, where))
        except UserError:
            raise
        except json.JSONDecodeError as error:
            raise UserError(
                f"{where} is not valid JSON ({error.msg}, column {error.colno}); "
                "write one object per line"
            ) from error
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{where} is not valid JSON ({error}); write one object per line"
            ) from error
        if not isinstance(value, dict):
            raise UserError(f"{where} is not a JSON object; write {{...}} for each {what}")
        yield where, value


def _unique_keys(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a repeated key is a :class:`UserError`."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UserError(f"{where} has the key {key!r} twice; keep one of the two")
        found[key] = value
    return found
