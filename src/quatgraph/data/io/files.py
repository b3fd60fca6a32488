"""What a file holds: its bytes, its text, and what numpy raises where it should hold arrays."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

from quatgraph.errors import Mistake

NO_ARRAYS = (
    OSError,
    EOFError,
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    MemoryError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading an archive of plain arrays raises where the file is something else, or damaged."""
_BOM = b"\xef\xbb\xbf"


def read_content(path: Path) -> bytes:
    """The bytes of a file, without a byte-order mark."""
    if not path.is_file():
        raise Mistake(f"there is no file {path}; put it there or name another place")
    try:
        return path.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, without a byte-order mark."""
    return decoded(read_content(path), str(path))


def plain_word(value: object) -> str | None:
    """A text, a number or a truth as a word: whole numbers without a point, nothing for NaN, which
    is how a missing one is written; None for what is none of these."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        value = int(value) if value.is_integer() else value
    return str(value).strip() if isinstance(value, str | int | float) else None


def to_plain(values: Any) -> Any:
    """An array or a tensor as Python's lists and numbers; all else as it is."""
    return values.tolist() if hasattr(values, "tolist") else values


def is_unicode(text: str) -> bool:
    """Whether it holds no half of a character, as bytes become that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decoded(content: bytes, where: str) -> str:
    """A text in UTF-8, without a byte-order mark.

    Args:
        where: What it was read from, for messages.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Mistake(f"{where} line {line} is not UTF-8 text; save it as UTF-8") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Mistake(f"{where} line {line} holds a NUL byte, so it is no text; remove the byte")
    return text
