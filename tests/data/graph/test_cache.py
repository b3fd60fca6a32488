"""Graphs that were read once."""

import threading

import pytest
import safetensors.torch
import torch

from quatgraph.data.graph import cache
from quatgraph.data.graph.cache import load_cached, save_cached
from quatgraph.data.graph.dgcnn import read_dgcnn
from quatgraph.data.io import store

TEXT = b"2\n3 5\n0 1 1\n7 2 0 2\n0 1 1\n2 -1\n7 1 1\n7 1 0\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path / "cache"))


def toy():
    return read_dgcnn(TEXT, name="toy", where="toy")


def the_file():
    (place,) = (store.cache_root() / "graph").iterdir()
    return place


def test_load_cached_come_back_as_they_were():
    assert load_cached("toy", "abc") is None
    save_cached(toy(), "abc")
    found = load_cached("toy", "abc")
    assert found.digest == toy().digest == found.select([0, 1]).digest
    assert torch.equal(found.edge_index, toy().edge_index)
    assert (found.name, found.label_names, found.tag_names) == ("toy", ["-1", "5"], ["0", "7"])
    assert the_file().name.startswith("toy-")


def test_another_source_or_version_is_not_taken(monkeypatch):
    save_cached(toy(), "abc")
    assert load_cached("toy", "abd") is None
    monkeypatch.setattr(cache, "_VERSION", "other")
    assert load_cached("toy", "abc") is None


def test_a_file_with_any_changed_byte_is_not_taken():
    save_cached(toy(), "abc")
    content = the_file().read_bytes()
    for place in range(0, len(content), 3):
        changed = bytearray(content)
        changed[place] ^= 0x41
        the_file().write_bytes(changed)
        found = load_cached("toy", "abc")
        # A space in the header may change without changing what is read.
        assert found is None or found.select([0, 1]).digest == toy().digest
    the_file().write_bytes(content)
    assert load_cached("toy", "abc") is not None


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 100])
def test_a_file_that_is_something_else_is_not_taken_and_is_replaced(content):
    save_cached(toy(), "abc")
    the_file().write_bytes(content)
    assert load_cached("toy", "abc") is None
    save_cached(toy(), "abc")
    assert load_cached("toy", "abc").digest == toy().digest


def test_arrays_that_do_not_fit_or_are_not_there_are_not_taken():
    save_cached(toy(), "abc")
    tensors = safetensors.torch.load_file(the_file())
    for message in (None, {"digest": "0"}, {"digest": "0", "names": "[1]"}, {"names": "{"}):
        safetensors.torch.save_file(tensors, the_file(), message)
        assert load_cached("toy", "abc") is None


def test_a_cache_that_cannot_be_written_is_no_mistake(tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    save_cached(toy(), "abc")
    assert load_cached("toy", "abc") is None


def test_several_may_write_at_once_and_leave_one_whole_file():
    threads = [threading.Thread(target=save_cached, args=(toy(), "abc")) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert the_file().suffix == ".safetensors"
    assert load_cached("toy", "abc").digest == toy().digest
