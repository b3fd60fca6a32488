"""Vectors of words: read from files as they are published, drawn where a word has none.

* text, as GloVe, fastText and word2vec write it: a word and its numbers per line, perhaps after a
  line with the number of words and of dimensions; also packed as ``.gz`` or ``.xz``
* ``.bin``: word2vec's binary format; also packed
* ``.npz``: the arrays ``words_utf8``, the words joined by line ends, and ``vectors``
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
from quatgraph.errors import Mistake, did_you_mean

SPREAD = 0.01
"""Words without a vector get numbers between minus and plus this."""
_CHUNK = 1 << 20
_WIDEST = 1 << 16
_BOM = b"\xef\xbb\xbf"
_Vector = NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class WordVectors:
    """Words and the vector of each.

    Attributes:
        words: Different words.
        matrix: The vector of each.

    Shape:
        - matrix: ``(V, D)`` float32
    """

    words: list[str]
    matrix: Tensor

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.dimensions} dimensions)"

    @property
    def dimensions(self) -> int:
        """Numbers of each vector."""
        return self.matrix.size(1)

    def extended(self, others: "WordVectors") -> "WordVectors":
        """These, and after them the words that only the others have.

        So a model learns new words without being trained again: the words it has keep their
        numbers and vectors.
        """
        if others.dimensions != self.dimensions:
            raise Mistake(
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
    """Reads vectors of words.

    Args:
        source: A name of the catalog, as ``"glove-100d"``, or a file.
        words: Which to keep; all where it is left out.

    Returns:
        The words that the source has, in its order. A word that comes twice has its first vector.
    """
    entry = store.catalog().get(str(source))
    if entry is not None and entry.task == "vectors":
        return _kept(_published(entry), words)
    path = Path(source)
    if not path.is_file():
        known = [name for name, one in store.catalog().items() if one.task == "vectors"]
        hint = did_you_mean(str(source), known) or f" or one of {', '.join(known)}"
        raise Mistake(f"there is no file {path}; name a file of word vectors{hint}")
    if path.suffix.lower() == ".npz":
        return _kept(_read_npz(path.read_bytes(), str(path)), words)
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
    """A vector for each word of a vocabulary, drawn where there is none.

    What is drawn for a word depends on the seed and on the word's place alone.

    Args:
        vocabulary: The words.
        vectors: Those there are; without, all are drawn.
        dimensions: Numbers of each vector, where all are drawn.
        seed: Zero or more.

    Returns:
        The vectors, and how many of them were not drawn.

    Shape:
        - output: ``(V, D)`` float32

    Example:
        >>> known = WordVectors(["cat"], torch.ones(1, 2))
        >>> matrix, found = vectors_for(["a", "cat"], known)
        >>> matrix[1], found
        (tensor([1., 1.]), 1)
    """
    check_seed(seed)
    width = dimensions if vectors is None else vectors.dimensions
    if width < 1:
        raise Mistake(f"a vector must have at least 1 number, got {width} dimensions")
    # numpy keeps this generator as it is
    drawn = np.random.RandomState(seed).uniform(-SPREAD, SPREAD, (len(vocabulary), width))
    matrix = torch.from_numpy(drawn.astype(np.float32))
    if vectors is None:
        return matrix, 0
    number = {word: place for place, word in enumerate(vectors.words)}
    pairs = [(here, number[word]) for here, word in enumerate(vocabulary) if word in number]
    here, there = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T
    matrix[here] = vectors.matrix[there]
    return matrix, len(pairs)


def _published(entry: store.Entry) -> WordVectors:
    file = entry.files[0]
    if not store.is_present(entry.name, file.path):
        raise Mistake(
            f"{entry.name} is not published as one file; put it at {entry.folder}/{file.path} in a "
            "folder that QUATGRAPH_DATA names, or give a file of word vectors, as glove.6B.100d.txt"
        )
    vectors = _read_npz(store.read_bytes(entry.name, file.path), file.path)
    entry.compare({"words": len(vectors), "dimensions": vectors.dimensions})
    return vectors


def _kept(vectors: WordVectors, words: Collection[str] | None) -> WordVectors:
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
        raise Mistake(
            f"{where} cannot be read as word vectors ({error}); write the plain arrays "
            "'words_utf8' and 'vectors' with numpy.savez"
        ) from error
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or len(matrix) != len(words):
        raise Mistake(
            f"'vectors' in {where} must be real numbers of shape ({len(words)}, dimensions), a row "
            f"for each word, not {matrix.dtype} of shape {matrix.shape}"
        )
    if len(set(words)) < len(words):
        raise Mistake(f"'words_utf8' in {where} has some word twice; give each word once")
    return _finite(words, matrix, where)


def _read_text(stream: IO[bytes], where: str, wanted: set[bytes] | None) -> WordVectors:
    """Of a text the words that are wanted."""
    found: dict[bytes, _Vector] = {}
    width = 0
    for number, line in enumerate(stream, 1):
        line = (line.removeprefix(_BOM) if number == 1 else line).strip()
        if not line:
            continue
        if not width:
            first, *others = line.split()
            if len(others) == 1 and first.isdigit() and others[0].isdigit():
                width = _width(others[0], f"{where} line {number}")
                continue
            width = len(others)
        given, word = line.count(b" "), line[: line.find(b" ")]
        if given > width:  # a word may hold spaces, but it does not end with a number
            word = line.rsplit(b" ", width)[0].rstrip()
        if given < max(width, 1) or (given > width and is_number(word.split()[-1])):
            raise Mistake(
                f"{where} line {number} has {given} numbers where {width or 'some'} are needed; "
                "write a word and its numbers, with spaces between them"
            )
        if word in found or (wanted is not None and word not in wanted):
            continue
        values = line.rsplit(b" ", width)[1:]  # only now: most words are not wanted
        try:
            found[word] = np.array([float(value) for value in values], dtype=np.float32)
            plain = b"_" not in line[len(word) :]
        except ValueError:
            plain = False
        if not plain:
            wrong = next(value for value in values if not is_number(value))
            raise Mistake(
                f"{where} line {number} must have {width} numbers: "
                f"{wrong.decode('utf-8', 'replace')[:40]!r} is not a number in plain digits; "
                "correct or remove the line"
            )
    return _assembled(found, width, where)


def _read_binary(stream: IO[bytes], where: str, wanted: set[bytes] | None) -> WordVectors:
    """Of a binary file the words that are wanted: a line of sizes, then word, space, numbers."""
    sizes = stream.readline(64).split()
    if len(sizes) != 2 or not all(size.isdigit() for size in sizes):
        raise Mistake(
            f"{where} does not begin with the number of words and of dimensions, so it is not in "
            "word2vec's binary format; call a text .txt"
        )
    count, width = int(sizes[0]), _width(sizes[1], f"{where} line 1")
    found: dict[bytes, _Vector] = {}
    held, begin = b"", 0
    for row in range(count):
        space = held.find(b" ", begin)
        while space < 0 or len(held) < space + 1 + 4 * width:
            more = stream.read(_CHUNK)
            if not more:
                raise Mistake(f"{where} ends within word {row + 1} of {count}; get it whole")
            held, begin = held[begin:] + more, 0
            space = held.find(b" ")
        word = held[begin:space].lstrip(b"\n")
        begin = space + 1 + 4 * width
        if word not in found and (wanted is None or word in wanted):
            found[word] = np.frombuffer(held[space + 1 : begin], dtype="<f4")
    return _assembled(found, width, where)


def _width(cell: bytes, where: str) -> int:
    if len(cell) > len(str(_WIDEST)) or not 0 < int(cell) <= _WIDEST:
        told = cell[:20].decode()
        raise Mistake(f"{where} tells of {told} dimensions; there must be 1 to {_WIDEST}")
    return int(cell)


def _assembled(found: dict[bytes, _Vector], width: int, where: str) -> WordVectors:
    if not width:
        raise Mistake(f"{where} is empty; write a word and its numbers per line")
    named: dict[str, _Vector] = {}
    for word, vector in found.items():
        named.setdefault(word.decode("utf-8", "replace"), vector)
    matrix = np.array(list(named.values()), dtype=np.float32).reshape(-1, width)
    return _finite(list(named), matrix, where)


def _finite(words: list[str], matrix: NDArray, where: str) -> WordVectors:
    matrix = matrix.astype(np.float32)
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        word = words[int(bad.argmax())]
        raise Mistake(f"the vector of {word!r} in {where} has a value that is no finite number")
    return WordVectors(words, torch.from_numpy(matrix))
