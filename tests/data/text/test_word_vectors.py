"""Vectors of words: every format, what is drawn, what is refused."""

import gzip
import lzma
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from quatgraph.data.io import store
from quatgraph.data.text import load
from quatgraph.data.text.word_vectors import SPREAD, WordVectors, load_vectors, vectors_for
from quatgraph.errors import UserError

WORDS = ["the", "caf\u00e9", "of", "New York"]
ROWS = [[0.5, -1.0, 2.0], [0.25, 0.0, -0.75], [1e-3, 7.0, 8.0], [3.0, 2.0, 1.0]]
COVERED = {"mr": 17_377, "r8": 7_385, "r52": 8_538, "ohsumed": 11_654}


def as_text(words=WORDS, rows=ROWS, header="", end="\n") -> bytes:
    pairs = zip(words, rows, strict=True)
    lines = [" ".join((word, *map(str, row))) for word, row in pairs]
    return (header + "".join(line + end for line in lines)).encode()


def as_binary(words=WORDS, rows=ROWS, between=b"\n") -> bytes:
    head = f"{len(words)} {len(rows[0])}\n".encode()
    pairs = zip(words, rows, strict=True)
    return head + b"".join(
        word.replace(" ", "_").encode() + b" " + struct.pack("<3f", *row) + between
        for word, row in pairs
    )


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def as_npz(path: Path, **arrays: np.ndarray) -> Path:
    words = np.frombuffer("\n".join(WORDS).encode(), dtype=np.uint8)
    np.savez(path, **{"words_utf8": words, "vectors": np.array(ROWS)} | arrays)
    return path


def refused(path: Path, message: str, **options) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_vectors(path, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", as_text()),
        ("glove.txt", as_text().rstrip()),
        ("glove.txt", as_text().replace(b" 0", b"  0", 1).replace(b"York ", b"York  ")),
        ("glove.vec", b"\xef\xbb\xbf" + as_text(header="4 3\n", end=" \r\n")),
        ("glove.txt.gz", gzip.compress(as_text(), mtime=0)),
        ("glove.txt.xz", lzma.compress(as_text(header="4 3\n"))),
    ],
)
def test_a_text_of_vectors(tmp_path, name, content):
    path = written(tmp_path, name, content)
    vectors = load_vectors(path)
    assert vectors.words == WORDS
    assert torch.equal(vectors.matrix, torch.tensor(ROWS))
    assert repr(vectors) == "WordVectors(4 words, 3 dimensions)"
    some = load_vectors(path, ["of", "caf\u00e9", "unheard"])
    assert some.words == ["caf\u00e9", "of"]
    assert torch.equal(some.matrix, torch.tensor(ROWS[1:3]))
    assert load_vectors(path, ["unheard"]).matrix.shape == (0, 3)


@pytest.mark.parametrize("between", [b"", b"\n"])
@pytest.mark.parametrize("name", ["w.bin", "w.bin.gz", "w.bin.xz"])
def test_a_binary_file_of_vectors(tmp_path, name, between):
    content = as_binary(between=between)
    packed = {".gz": gzip.compress, ".xz": lzma.compress}.get(name[-3:], bytes)(content)
    path = written(tmp_path, name, packed)
    vectors = load_vectors(path)
    assert vectors.words == ["the", "caf\u00e9", "of", "New_York"]
    assert torch.equal(vectors.matrix, torch.tensor(ROWS))
    assert load_vectors(path, {"of"}).matrix.tolist() == torch.tensor(ROWS[2:3]).tolist()


def test_a_binary_file_is_read_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("quatgraph.data.text.word_vectors._CHUNK", 5)
    vectors = load_vectors(written(tmp_path, "w.bin", as_binary()))
    assert torch.equal(vectors.matrix, torch.tensor(ROWS))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_an_archive_of_vectors(tmp_path, kind):
    path = as_npz(tmp_path / "a.npz", vectors=np.array(ROWS, dtype=kind))
    vectors = load_vectors(path)
    assert vectors.words == WORDS
    assert vectors.matrix.dtype == torch.float32
    torch.testing.assert_close(vectors.matrix, torch.tensor(ROWS), rtol=1e-3, atol=0)
    assert load_vectors(path, ["the", "x"]).words == ["the"]


def test_a_word_that_comes_twice_has_its_first_vector(tmp_path):
    words, rows = ["a", "b", "a"], ROWS[:3]
    for name, content in (("a.txt", as_text(words, rows)), ("a.bin", as_binary(words, rows))):
        vectors = load_vectors(written(tmp_path, name, content))
        assert vectors.words == ["a", "b"]
        assert torch.equal(vectors.matrix, torch.tensor(ROWS[:2]))
    unreadable = as_text(["x", "y", "z"], rows).replace(b"x", b"\xff").replace(b"y", b"\xfe")
    assert load_vectors(written(tmp_path, "b.txt", unreadable)).words == ["\ufffd", "z"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "a.txt is empty"),
        ("a.txt", b"word\n", "line 1 has 0 numbers where some are needed"),
        ("a.txt", b"a 1 2 3\nb 1 2\n", "line 2 has 2 numbers where 3 are needed"),
        ("a.txt", b"a 1 2 3\nb 1 2 3 4.5e-1\n", "line 2 has 4 numbers where 3 are needed"),
        ("a.txt", b"2 3\na 1 2\n", "line 2 has 2 numbers where 3 are needed"),
        ("a.txt", b"a 1 2\n\nb 1 x\n", "a.txt line 3 must have 2 numbers: 'x' is not a number"),
        ("a.txt", b"a 1 nan\n", "the vector of 'a' in .*a.txt has a value that is no finite"),
        ("a.txt", b"a 1 1e300\n", "the vector of 'a' in .*a.txt has a value that is no finite"),
        ("a.txt", b"2 0\na\n", "line 1 gives 0 dimensions"),
        ("a.txt", b"2 " + b"9" * 5000 + b"\na\n", "line 1 gives 9+ dimensions"),
        ("a.txt.gz", b"not packed", "a.txt.gz is damaged and cannot be unpacked"),
        ("a.txt.gz", gzip.compress(as_text() * 99, mtime=0)[:-20], "a.txt.gz is damaged"),
        ("a.txt.xz", lzma.compress(as_text())[:-20], "a.txt.xz is damaged"),
        ("a.bin", as_text(), "a.bin does not start with the number of words and of dim"),
        ("a.bin", as_binary()[:-9], "a.bin ends within word 4 of 4"),
        ("a.bin", b"9 3\n", "a.bin ends within word 1 of 9"),
        ("a.bin", b"1 99999\n", "line 1 gives 99999 dimensions"),
        ("a.npz", b"no archive", r"a.npz cannot be read as word vectors \(it is no archive\)"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported(tmp_path, name, content, message):
    refused(written(tmp_path, name, content), message)


def test_a_broken_line_is_reported_even_if_its_word_is_not_wanted(tmp_path):
    path = written(tmp_path, "a.txt", b"a 1 2 3\nb 1 2\nc 1 2 3\n")
    refused(path, "line 2 has 2 numbers", words=["c"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"vectors": np.zeros((3, 2))}, r"must be real numbers of shape \(4, dimensions\)"),
        ({"vectors": np.zeros(4)}, "must be real numbers of shape"),
        ({"vectors": np.zeros((4, 2), dtype=int)}, "not int64 of shape"),
        ({"vectors": np.full((4, 2), np.inf)}, "the vector of 'the' in .* no finite number"),
        ({"vectors": np.full((4, 2), None)}, "cannot be read as word vectors"),
        ({"words_utf8": np.frombuffer(b"a\na\nb\nc", np.uint8)}, "has some word twice"),
        ({"words_utf8": np.frombuffer(b"\xff\na\nb\nc", np.uint8)}, "cannot be read as word vec"),
        ({"words_utf8": np.array(["a", "b", "c", "d"])}, "cannot be read as word vectors"),
    ],
)
def test_what_is_wrong_with_an_archive_is_reported(tmp_path, arrays, message):
    refused(as_npz(tmp_path / "a.npz", **arrays), message)


def test_an_archive_without_its_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", other=np.zeros(3))
    refused(tmp_path / "a.npz", "cannot be read as word vectors")


def test_an_unknown_name_is_refused_with_known_ones(tmp_path, monkeypatch):
    refused(tmp_path / "none.txt", "there is no file .*none.txt; name a file .* or one of glove-")
    refused("glove-10d", "did you mean 'glove-100d'")
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path))
    monkeypatch.delenv("QUATGRAPH_DATA", raising=False)
    refused("glove-100d", "glove-100d is not published as one file; put it at vectors/glove6b")


def test_words_without_a_vector_are_drawn_by_seed_and_place():
    known = WordVectors(["b", "z"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    matrix, found = vectors_for(["a", "b", "c"], known, seed=1)
    assert found == 1
    assert matrix.dtype == torch.float32
    assert matrix[1].tolist() == [1.0, 2.0]
    assert matrix[[0, 2]].abs().max() <= SPREAD
    assert matrix[0].tolist() != matrix[2].tolist()
    # A word's own draw is the same whatever the others are, and whether they have vectors.
    longer, _ = vectors_for(["x", "y", "c", "d"], known, seed=1)
    assert torch.equal(longer[[0, 2]], matrix[[0, 2]])
    drawn, found = vectors_for(["a", "b", "c"], dimensions=2, seed=1)
    assert found == 0
    assert torch.equal(drawn[[0, 2]], matrix[[0, 2]])
    assert not torch.equal(vectors_for(["a"], dimensions=2, seed=2)[0], drawn[:1])


def test_drawn_numbers_are_spread_evenly_and_stay_the_same_for_ever():
    matrix, _ = vectors_for([str(number) for number in range(500)])
    assert matrix.shape == (500, 300)
    assert abs(float(matrix.mean())) < 1e-4
    assert float(matrix.std()) == pytest.approx(SPREAD / 3**0.5, rel=0.01)
    expected = [0.0009762700647115707, 0.004303787369281054, 0.0020552675705403090]
    assert matrix[0, :3].tolist() == pytest.approx(expected, rel=1e-5)


def test_no_words_and_impossible_numbers():
    assert vectors_for([])[0].shape == (0, 300)
    with pytest.raises(UserError, match="at least 1 number, got 0 dimensions"):
        vectors_for(["a"], dimensions=0)
    with pytest.raises(UserError, match="a seed must be a whole number from 0"):
        vectors_for(["a"], seed=-1)


def test_new_words_follow_those_a_model_has():
    own = WordVectors(["b", "a"], torch.tensor([[1.0], [2.0]]))
    more = WordVectors(["c", "a", "d"], torch.tensor([[3.0], [9.0], [4.0]]))
    both = own.extended(more)
    assert both.words == ["b", "a", "c", "d"]
    assert both.matrix.flatten().tolist() == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(UserError, match="have 2 dimensions but the model's 1"):
        own.extended(WordVectors(["c"], torch.zeros(1, 2)))


@pytest.mark.realdata
def test_the_published_vectors_cover_the_corpora():
    whole = load_vectors("glove-100d")
    statistics = store.entry("glove-100d").statistics
    assert {"words": len(whole), "dimensions": whole.dimensions} == statistics
    assert whole.matrix[whole.words.index("the"), 0] == pytest.approx(-0.038194, rel=1e-3)
    for name, count in COVERED.items():
        vocabulary = load(name).vocabulary
        vectors = load_vectors("glove-100d", vocabulary)
        matrix, found = vectors_for(vocabulary, vectors)
        assert len(vectors) == found == count
        assert matrix.shape == (len(vocabulary), 100)
        place = vocabulary.index(vectors.words[7])
        assert torch.equal(matrix[place], vectors.matrix[7])
