"""Word vectors: read from published files, random for other words.

* text, as GloVe, fastText and word2vec write it: a word and its numbers per line, optionally after
  a line with the number of words and of dimensions; also packed as ``.gz`` or ``.xz``
* ``.bin``: word2vec's binary format; also packed
* ``.npz``: the arrays ``words_utf8``, the words joined by newlines, and ``vectors``
"""

import io
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.io import store
from quatgraph.data.io.files import NO_ARRAYS, open_packed, unpacked_suffix
from quatgraph.data.io.numbers import is_number
from quatgraph.data.splits import check_seed
from quatgraph.errors import UserError, did_you_mean

SPREAD = 0.01
"""Bound of the random vectors."""
_CHUNK = 1 << 20
_WIDEST = 1 << 16
_BOM = b"\xef\xbb\xbf"
_Vector = NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class WordVectors:
    """Distinct words and the vector of each, ``(V, D)`` float32."""

    words: list[str]
    matrix: Tensor

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.dimensions} dimensions)"

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self.matrix.size(1)

    def extended(self, others: "WordVectors") -> "WordVectors":
        """These words, then those that only the others have, so known words keep their numbers."""
        if others.dimensions != self.dimensions:
            raise UserError(
                f"the new vectors have {others.dimensions} dimensions but the model's "
                f"{self.dimensions}; take vectors of the same file as in training"
            )
        known = set(self.words)
        new = [place for place, word in enumerate(others.words) if word not in known]
        return WordVectors(
            self.words + [others.words[place] for place in new],
            torch.cat((self.matrix, others.matrix[new])),
        )


@np.errstate(over="ignore")
def load_vectors(source: str | Path, words: Collection[str] | None = None) -> WordVectors:
    """Reads word vectors, in the order of their source; a repeated word has its first vector.

    Args:
        source: A name of the catalog, as ``"glove-100d"``, or a file.
        words: The words to read; by default all.
    """
    entry = store.catalog().get(str(source))
    if entry is not None and entry.task == "vectors":
        return _select_words(_read_published(entry), words)
    path = Path(source)
    if not path.is_file():
        known = [name for name, one in store.catalog().items() if one.task == "vectors"]
        hint = did_you_mean(str(source), known) or f" or one of {', '.join(known)}"
        raise UserError(f"there is no file {path}; name a file of word vectors{hint}")
    if path.suffix.lower() == ".npz":
        return _select_words(_read_npz(path.read_bytes(), str(path)), words)
    wanted = None if words is None else {word.encode() for word in words}
    read = _read_binary if unpacked_suffix(path) == ".bin" else _read_text
    with open_packed(path) as stream:
        return read(stream, str(path), wanted)


def vectors_for(
    vocabulary: Sequence[str],
    vectors: WordVectors | None = None,
    *,
    dimensions: int = 300,
    seed: int = 0,
) -> tuple[Tensor, int]:
    """A vector for each word of a vocabulary, random for unknown words.

    A random vector depends only on the seed and the index of the word.

    Args:
        dimensions: Length of the vectors if none are known.

    Returns:
        The vectors, ``(V, D)`` float32, and the number of known ones.

    Example:
        >>> known = WordVectors(["cat"], torch.ones(1, 2))
        >>> matrix, found = vectors_for(["a", "cat"], known)
        >>> matrix[1], found
        (tensor([1., 1.]), 1)
    """
    check_seed(seed)
    width = dimensions if vectors is None else vectors.dimensions
    if width < 1:
        raise UserError(f"a vector must have at least 1 number, got {width} dimensions")
    # This generator gives the same numbers in every version of numpy.
    drawn = np.random.RandomState(seed).uniform(-SPREAD, SPREAD, (len(vocabulary), width))
    matrix = torch.from_numpy(drawn.astype(np.float32))
    if vectors is None:
        return matrix, 0
    number = {word: place for place, word in enumerate(vectors.words)}
    pairs = [(here, number[word]) for here, word in enumerate(vocabulary) if word in number]
    here, there = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T
    matrix[here] = vectors.matrix[there]
    return matrix, len(pairs)


def _read_published(entry: store.Entry) -> WordVectors:
    file = entry.files[0]
    if not store.is_present(entry.name, file.path):
        raise UserError(
            f"{entry.name} is not published as one file; put it at {entry.folder}/{file.path} in a "
            "folder that QUATGRAPH_DATA names, or give a file of word vectors, as glove.6B.100d.txt"
        )
    vectors = _read_npz(store.read_bytes(entry.name, file.path), file.path)
    entry.compare({"words": len(vectors), "dimensions": vectors.dimensions})
    return vectors


def _select_words(vectors: WordVectors, words: Collection[str] | None) -> WordVectors:
    if words is None:
        return vectors
    wanted = set(words)
    places = [place for place, word in enumerate(vectors.words) if word in wanted]
    return WordVectors([vectors.words[place] for place in places], vectors.matrix[places])


def _read_npz(content: bytes, where: str) -> WordVectors:
    try:
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise zipfile.BadZipFile("it is no archive")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            text, matrix = archive["words_utf8"], archive["vectors"]
        words = text.astype(np.uint8, casting="safe").tobytes().decode("utf-8").split("\n")
    except NO_ARRAYS as error:
        raise UserError(
            f"{where} cannot be read as word vectors ({error}); write the plain arrays "
            "'words_utf8' and 'vectors' with numpy.savez"
        ) from error
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or len(matrix) != len(words):
        raise UserError(
            f"'vectors' in {where} must be real numbers of shape ({len(words)}, dimensions), a row "
            f"for each word, not {matrix.dtype} of shape {matrix.shape}"
        )
    if len(set(words)) < len(words):
        raise UserError(f"'words_utf8' in {where} has some word twice; give each word once")
    return _check_finite(words, matrix, where)


def _read_text(stream: IO[bytes], where: str, wanted: set[bytes] | None) -> WordVectors:
    found: dict[bytes, _Vector] = {}
    width = 0
    for number, line in enumerate(stream, 1):
        line = (line.removeprefix(_BOM) if number == 1 else line).strip()
        if not line:
            continue
        if not width:
            first, *others = line.split()
            if len(others) == 1 and first.isdigit() and others[0].isdigit():
                width = _parse_width(others[0], f"{where} line {number}")
                continue
            width = len(others)
        given, word = line.count(b" "), line[: line.find(b" ")]
        if given > width:  # a word may hold spaces, but it does not end with a number
            word = line.rsplit(b" ", width)[0].rstrip()
        if given < max(width, 1) or (given > width and is_number(word.split()[-1])):
            raise UserError(
                f"{where} line {number} has {given} numbers where {width or 'some'} are needed; "
                "write a word and its numbers, with spaces between them"
            )
        if word in found or (wanted is not None and word not in wanted):
            continue
        values = line.rsplit(b" ", width)[1:]  # most words are skipped before this
        try:
            found[word] = np.array([float(value) for value in values], dtype=np.float32)
            plain = b"_" not in line[len(word) :]
        except ValueError:
            plain = False
        if not plain:
            wrong = next(value for value in values if not is_number(value))
            raise UserError(
                f"{where} line {number} must have {width} numbers: "
                f"{wrong.decode('utf-8', 'replace')[:40]!r} is not a number in plain digits; "
                "correct or remove the line"
            )
    return _to_vectors(found, width, where)


def _read_binary(stream: IO[bytes], where: str, wanted: set[bytes] | None) -> WordVectors:
    """Reads the wanted words of a binary file: a line of sizes, then word, space, numbers."""
    sizes = stream.readline(64).split()
    if len(sizes) != 2 or not all(size.isdigit() for size in sizes):
        raise UserError(
            f"{where} does not start with the number of words and of dimensions, so it is not in "
            "word2vec's binary format; call a text .txt"
        )
    count, width = int(sizes[0]), _parse_width(sizes[1], f"{where} line 1")
    found: dict[bytes, _Vector] = {}
    buffer, start = b"", 0
    for row in range(count):
        space = buffer.find(b" ", start)
        while space < 0 or len(buffer) < space + 1 + 4 * width:
            more = stream.read(_CHUNK)
            if not more:
                raise UserError(f"{where} ends within word {row + 1} of {count}; get it whole")
            buffer, start = buffer[start:] + more, 0
            space = buffer.find(b" ")
        word = buffer[start:space].lstrip(b"\n")
        start = space + 1 + 4 * width
        if word not in found and (wanted is None or word in wanted):
            found[word] = np.frombuffer(buffer[space + 1 : start], dtype="<f4")
    return _to_vectors(found, width, where)


def _parse_width(cell: bytes, where: str) -> int:
    if len(cell) > len(str(_WIDEST)) or not 0 < int(cell) <= _WIDEST:
        shown = cell[:20].decode()
        raise UserError(f"{where} gives {shown} dimensions; there must be 1 to {_WIDEST}")
    return int(cell)


def _to_vectors(found: dict[bytes, _Vector], width: int, where: str) -> WordVectors:
    if not width:
        raise UserError(f"{where} is empty; write a word and its numbers per line")
    named: dict[str, _Vector] = {}
    for word, vector in found.items():
        named.setdefault(word.decode("utf-8", "replace"), vector)
    matrix = np.array(list(named.values()), dtype=np.float32).reshape(-1, width)
    return _check_finite(list(named), matrix, where)


def _check_finite(words: list[str], matrix: NDArray, where: str) -> WordVectors:
    matrix = matrix.astype(np.float32)
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        word = words[int(bad.argmax())]
        raise UserError(f"the vector of {word!r} in {where} has a value that is no finite number")
    return WordVectors(words, torch.from_numpy(matrix))
