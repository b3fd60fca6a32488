"""Files in formats that are not read, and how to make them ones that are."""

import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quatgraph.data.io.name_table import PACKINGS
from quatgraph.errors import Mistake

_UNPACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_FIRST_LINE = 1 << 16
_CONVERSIONS = {
    (".nt", ".nq", ".n3", ".ttl", ".trig", ".rdf", ".owl", ".jsonld"): (
        "write the triples as a .tsv file: head, relation and tail, separated by tabs"
    ),
    (".json",): (
        "write a .jsonl file, one object per line, as `jq -c '.[]'` makes of a list of objects"
    ),
    (".xlsx", ".xls", ".ods"): "save the sheet as .csv",
    (".parquet", ".feather", ".arrow", ".orc", ".h5", ".hdf5"): (
        "write the table as .csv, as pandas' to_csv(index=False) does"
    ),
    (".gml", ".graphml", ".gexf", ".net", ".mtx", ".dot"): (
        "write a folder with nodes.csv and edges.csv"
    ),
    (".zip", ".tar", ".tgz", ".bz2", ".zst", ".7z", ".rar"): "unpack it and name what it holds",
}
_FASTTEXT = "__label__"


def refuse_foreign(path: Path) -> None:
    """Refuses a file whose name or beginning says that it has a format that is not read."""
    ending = unpacked_suffix(path)
    for endings, remedy in _CONVERSIONS.items():
        if ending in endings:
            raise Mistake(f"{path} cannot be read, for {ending} files are not supported; {remedy}")
    if path.is_file() and first_line(path).startswith(_FASTTEXT):
        raise Mistake(
            f"{path} cannot be read, for fastText's format is not supported; write a .csv file "
            "with the columns text and label"
        )


def is_packed(path: Path) -> bool:
    """Whether a file's name says that it is packed."""
    return path.suffix.lower() in _UNPACKED


def unpacked_suffix(path: Path) -> str:
    """How a file's name ends, in small letters, without ``.gz`` and ``.xz``."""
    name = path.name.lower()
    for packing in PACKINGS:
        name = name.removesuffix(packing)
    return Path(name).suffix


def first_line(path: Path) -> str:
    """The beginning of the first line that is not blank, also of a packed file; nothing of one that
    cannot be unpacked. What is not UTF-8 becomes U+FFFD."""
    with _UNPACKED.get(path.suffix.lower(), Path.open)(path, "rb") as stream:
        try:
            start = stream.read(_FIRST_LINE)
        except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError):
            return ""
    # Not whole: the last character may be cut.
    lines = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(start).splitlines()
    return next((line.strip("\n ") for line in lines if line.strip()), "")
