"""Files as bytes and text, packed or not, and cells as words."""

import codecs
import gzip
import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from quatgraph.errors import UserError

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
"""What reading an archive of plain arrays raises if the file is something else, or damaged."""
TABLE_SUFFIXES = (".tsv", ".csv", ".txt")
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
PACKINGS = ("", *_OPENERS)
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_FIRST_LINE = 1 << 16


def read_content(path: Path) -> bytes:
    """The bytes of a file, unpacked if it ends in ``.gz`` or ``.xz``, without a byte-order mark."""
    if not path.is_file():
        raise UserError(f"there is no file {path}; put it there or name another place")
    with open_packed(path) as stream:
        return stream.read().removeprefix(codecs.BOM_UTF8)


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, without a byte-order mark."""
    return decode_text(read_content(path), str(path))


@contextmanager
def open_packed(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading, unpacked if it ends in ``.gz`` or ``.xz``."""
    try:
        with _open(path) as stream:
            yield stream
    except _DAMAGED as error:
        raise UserError(f"{path} is damaged and cannot be unpacked; pack it again") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def _open(path: Path) -> IO[bytes]:
    return _OPENERS.get(path.suffix.lower(), Path.open)(path, "rb")


def is_packed(path: Path) -> bool:
    """Whether a file's name says that it is packed."""
    return path.suffix.lower() in _OPENERS


def unpacked_suffix(path: Path) -> str:
    """The suffix of a file in lower case, without ``.gz`` and ``.xz``."""
    return Path(path.stem if is_packed(path) else path.name).suffix.lower()


def first_line(path: Path) -> str:
    """The beginning of the first line that is not blank, also of a packed file; empty for a file
    that cannot be unpacked. Bytes that are not UTF-8 become U+FFFD."""
    with _open(path) as stream:
        try:
            start = stream.read(_FIRST_LINE)
        except _DAMAGED:
            return ""
    # The last character may be cut.
    lines = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(start).splitlines()
    return next((line.strip("\n ") for line in lines if line.strip()), "")


def decode_text(content: bytes, where: str) -> str:
    """A text in UTF-8, without a byte-order mark; messages call it ``where``."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{where} line {line} is not UTF-8 text; save it as UTF-8") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UserError(f"{where} line {line} holds a NUL byte, so it is no text; remove the byte")
    return text


def to_word(value: object) -> str | None:
    """A string, a number or a boolean as a word; None for anything else.

    Whole numbers lose their decimal point. NaN, which marks a missing value, becomes empty.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        value = int(value) if value.is_integer() else value
    return str(value).strip() if isinstance(value, str | int | float) else None


def to_plain(values: Any) -> Any:
    """An array or a tensor as Python's lists and numbers; anything else as it is."""
    return values.tolist() if hasattr(values, "tolist") else values


def to_list(values: Any) -> list[Any] | None:
    """The items of a list, an array, a tensor or a generator; None for text, unordered values and
    others."""
    items = to_plain(values)
    if isinstance(items, str | bytes | Mapping | Set) or not isinstance(items, Iterable):
        return None
    return [to_plain(item) for item in items]


def is_unicode(text: str) -> bool:
    """Whether a string can be encoded: it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
