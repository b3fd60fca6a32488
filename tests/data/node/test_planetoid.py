"""Planetoid's pickles: read without trusting them."""

import io
import os
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from quatgraph.data import node
from quatgraph.data.io import store
from quatgraph.data.node import planetoid
from quatgraph.data.node.planetoid import read_planetoid, to_array, unpickle
from quatgraph.errors import UserError


class Raw(bytes):
    """Opcodes, ready to be put into a pickle."""


def opcodes(value: Any) -> bytes:
    """A value as Python 2 wrote it."""
    match value:
        case Raw():
            return value
        case bool() | None:
            return {True: b"\x88", False: b"\x89", None: b"N"}[value]
        case int():
            return b"J" + struct.pack("<i", value)
        case str():
            return b"T" + struct.pack("<i", len(value)) + value.encode("latin1")
        case tuple() | list():
            end = b"t" if isinstance(value, tuple) else b"l"
            return b"(" + b"".join(map(opcodes, value)) + end
        case dict():
            return b"(" + b"".join(opcodes(k) + opcodes(v) for k, v in value.items()) + b"d"
    raise TypeError(value)


def mention(module: str, name: str) -> Raw:
    return Raw(f"c{module}\n{name}\n".encode())


def called(what: Raw, *arguments: Any) -> Raw:
    return Raw(opcodes(what) + opcodes(arguments) + b"R")


def built(what: Raw, state: Any) -> Raw:
    return Raw(opcodes(what) + opcodes(state) + b"b")


def array_from(*state: Any) -> Raw:
    make = mention("numpy.core.multiarray", "_reconstruct")
    return built(called(make, mention("numpy", "ndarray"), (0,), "b"), state)


def dtype(code: str, order: str = "<") -> Raw:
    plain = called(mention("numpy", "dtype"), code, 0, 1)
    return built(plain, (3, order, None, None, None, -1, -1, 0))


def array(values: Any, code: str) -> Raw:
    a = np.array(values, dtype=code)
    return array_from(1, a.shape, dtype(code), False, a.tobytes().decode("latin1"))


def sparse(rows: list[list[float]], **other: Any) -> Raw:
    a = np.array(rows)
    row, column = np.nonzero(a)
    parts = {
        "_shape": a.shape,
        "data": array(a[row, column], "f4"),
        "indices": array(column, "i4"),
        "indptr": array(np.searchsorted(row, np.arange(len(a) + 1)), "i4"),
    }
    empty = Raw(opcodes(mention("scipy.sparse.csr", "csr_matrix")) + opcodes(()) + b"\x81")
    return built(empty, parts | other)


def links(neighbours: dict[Any, Any]) -> Raw:
    empty = called(mention("collections", "defaultdict"), mention("__builtin__", "list"))
    items = b"".join(opcodes(k) + opcodes(v) for k, v in neighbours.items())
    return Raw(opcodes(empty) + b"(" + items + b"u")


def pickled(value: Any) -> bytes:
    return b"\x80\x02" + opcodes(value) + b"."


def split(num_nodes: int, kind: type = np.uint8) -> bytes:
    part = np.arange(num_nodes) % 3
    file = io.BytesIO()
    masks = {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part == 2}
    np.savez(file, **{key: mask.astype(kind) for key, mask in masks.items()})
    return file.getvalue()


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Six nodes as Planetoid writes them: 0, 1, 2, then the tested 5 and 3; 4 is missing."""
    made = {
        "ind.toy.allx": pickled(sparse([[1, 0], [0, 2], [0, 0]])),
        "ind.toy.ally": pickled(array([[1, 0], [0, 1], [0, 1]], "i4")),
        "ind.toy.tx": pickled(sparse([[5, 0], [3, 3]])),
        "ind.toy.ty": pickled(array([[0, 1], [1, 0]], "i4")),
        "ind.toy.graph": pickled(links({0: [1, 1, 0], 1: [0], 2: [5], 4: [3]})),
        "ind.toy.test.index": b"5\n3\n",
        **{f"splits/toy_split_0.6_0.2_{k}.npz": split(6) for k in range(10)},
    }
    monkeypatch.setattr(planetoid, "read_bytes", lambda name, path: made[path])
    return made


def test_nodes_edges_and_masks_come_in_the_order_of_the_graph(files):
    data = read_planetoid("toy")
    assert data.x.tolist() == [[1, 0], [0, 2], [0, 0], [3, 3], [0, 0], [5, 0]]
    assert data.y.tolist() == [0, 1, 1, 0, -1, 1]
    edges = [[0, 1], [1, 0], [2, 5], [3, 4], [4, 3], [5, 2]]
    assert data.edge_index.T.tolist() == edges
    assert data.train_mask.shape == (6, 10)
    assert data.train_mask[:, 0].tolist() == [True, False, False, True, False, False]
    # Node 4 would be in the valid part, but has no label.
    assert data.val_mask[:, 9].tolist() == [False, True, False, False, False, False]


@pytest.mark.parametrize(
    "value",
    [
        called(mention("os", "system"), "touch refused"),
        called(mention("builtins", "eval"), "1"),
        called(mention("__builtin__", "getattr"), 1, "real"),
        called(mention("numpy", "load"), "file"),
        mention("quatgraph.errors", "UserError"),
    ],
)
def test_a_pickle_that_asks_for_anything_else_is_refused(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^file names .* get the published file"):
        unpickle(pickled(value), where="file")
    assert os.listdir() == []  # noqa: PTH208


def test_a_pickle_of_todays_python_that_runs_code_is_refused():
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, ("false",)

    with pytest.raises(UserError, match=r"names .*system"):
        unpickle(pickle.dumps(Evil()), where="file")


def test_a_pickle_cannot_change_the_classes_that_read_the_next_one():
    change = (None, {"values": 1})
    unpickle(pickled(built(mention("collections", "defaultdict"), change)), where="file")
    read = unpickle(pickled(links({0: [1]})), where="file")
    assert list(read.values()) == [[1]]


@pytest.mark.parametrize("content", [b"", b"no pickle", pickled([1])[:-1], b"\x80\x02(((((R."])
def test_bytes_that_are_no_pickle_are_refused(content):
    with pytest.raises(UserError, match="file is not a readable pickle"):
        unpickle(content, where="file")


@pytest.mark.parametrize(
    "value",
    [
        array_from(1, (2,), dtype("f4"), False, "1234"),
        array_from(1, (-1,), dtype("f4"), False, "1234"),
        array_from(1, (1,), dtype("O8"), False, "12345678"),
        array_from(1, (1,), dtype("f4", "x"), False, "1234"),
        array_from(1, (1,), dtype("f4", ""), False, "1234\u00ff"),
        array_from(1, (1,), "f4", False, "1234"),
        array_from(1, (1,), dtype("f4"), False, [1]),
        array_from(1, ("a",), dtype("f4"), False, "1234"),
        array_from(1, 5, dtype("f4"), False, "1234"),
        array_from(1, (1, 1, 1), dtype("f4"), False, "1234"),
        array_from(1),
        called(mention("numpy.core.multiarray", "_reconstruct"), (0,)),
    ],
)
def test_an_array_that_contradicts_itself_is_refused(value):
    read = unpickle(pickled(value), where="file")
    with pytest.raises(UserError, match="file holds a damaged array"):
        to_array(read, "file")


def test_arrays_keep_their_byte_order_and_layout():
    big = np.array([[1, 2, 3], [4, 5, 6]], dtype=">i4", order="F")
    content = big.tobytes(order="F").decode("latin1")
    value = array_from(1, (2, 3), dtype("i4", ">"), True, content)
    assert to_array(unpickle(pickled(value), where="file"), "file").tolist() == big.tolist()


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("allx", [1, 2]),
        ("allx", sparse([[1, 0]], data=5)),
        ("allx", sparse([[1, 0]], _shape=(1,))),
        ("allx", sparse([[1, 0]], _shape=("1", "2"))),
        ("allx", sparse([[1, 0]], indices=array([7], "i4"))),
        ("allx", sparse([[1, 0, 0], [0, 1, 0], [0, 0, 1]])),
        ("ally", sparse([[1, 0]])),
        ("ally", array([1, 0, 1], "i4")),
        ("ally", array([[0.5, 0.5]] * 3, "f4")),
        ("ty", array([[1, 0]], "i4")),
        ("graph", links({0: [6]})),
        ("graph", links({-1: [0]})),
        ("graph", links({0: [True]})),
        ("graph", links({0: ["1"]})),
        ("graph", links({0: 1})),
        ("graph", [1]),
    ],
)
def test_files_that_do_not_fit_are_refused(file, value, files):
    files[f"ind.toy.{file}"] = pickled(value)
    with pytest.raises(UserError, match=r"ind\.toy"):
        read_planetoid("toy")


@pytest.mark.parametrize(
    "index", [b"5\nx\n", b"5\n5\n", b"5\n0\n", b"5\n999999999999\n", b"9" * 40]
)
def test_a_wrong_test_index_is_refused(index, files):
    files["ind.toy.test.index"] = index
    with pytest.raises(UserError, match="get the published"):
        read_planetoid("toy")


@pytest.mark.parametrize("content", [b"", b"no archive", split(5), split(6, np.float32)])
def test_a_wrong_split_file_is_refused(content, files):
    files["splits/toy_split_0.6_0.2_3.npz"] = content
    with pytest.raises(UserError, match=r"toy_split_0\.6_0\.2_3\.npz of toy"):
        read_planetoid("toy")


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_the_published_files_are_complete_and_give_the_catalogs_statistics(name):
    assert {status for _, status in store.check(name)} == {"ok"}
    data = node.load(name)
    assert node.statistics(data) == store.catalog()[name].statistics
    assert data.x.dtype == torch.float32
    assert not bool((data.edge_index[0] == data.edge_index[1]).any())
    assert not bool((data.train_mask & data.val_mask).any())
    assert not bool((data.train_mask & data.test_mask).any())
    assert not bool((data.val_mask & data.test_mask).any())
    assert data.digest == node.load(name).digest


@pytest.mark.realdata
def test_the_splits_have_the_measured_sizes():
    cora, citeseer, pubmed = (
        [data[key].sum(dim=0).tolist() for key in ("train_mask", "val_mask", "test_mask")]
        for data in map(node.load, ("cora", "citeseer", "pubmed"))
    )
    assert cora == [[1192] * 10, [796] * 10, [497] * 10]
    assert pubmed == [[9463] * 10, [6310] * 10, [3944] * 10]
    removed = (
        (10, 7, 11, 5, 8, 4, 5, 10, 7, 8),
        (4, 6, 0, 7, 2, 5, 7, 3, 4, 5),
        (1, 2, 4, 3, 0, 1, 3, 2, 4, 2),
    )
    for kept, gone, most, fewer in zip(
        citeseer, removed, (1596, 1065, 666), (1017, 679, 424), strict=True
    ):
        marked = [fewer if number in (4, 5) else most for number in range(10)]
        assert kept == [all_ - some for all_, some in zip(marked, gone, strict=True)]


@pytest.mark.realdata
def test_citeseers_empty_nodes_have_no_features_no_label_and_no_part():
    data = node.load("citeseer")
    empty = data.y == -1
    assert int(empty.sum()) == 15
    assert data.x[empty].abs().sum() == 0
    assert (data.x[~empty].sum(dim=1) > 0).all()
    assert not (data.train_mask | data.val_mask | data.test_mask)[empty].any()
