"""Which cells are the same, against Python's own dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.io import distinct
from quatgraph.data.io.distinct import distinct_cells

names = st.lists(st.text("abé", max_size=20).map(str.encode), max_size=30)


def laid_out(cells: list[bytes]) -> tuple[bytes, np.ndarray, np.ndarray]:
    lengths = np.array([len(cell) for cell in cells], dtype=np.int64)
    return b"\t".join(cells), np.cumsum(lengths + 1) - lengths - 1, lengths


@given(names)
def test_equal_cells_and_only_those_have_one_place(cells):
    found, places = distinct_cells(*laid_out(cells))
    assert sorted(cells[cell] for cell in found) == sorted(set(cells))
    assert [cells[found[place]] for place in places] == cells


def test_words_of_eight_bytes_make_no_seams():
    cells = [b"x" * length for length in range(40)] * 2 + [b"x" * 15 + b"y", b"y" + b"x" * 15]
    found, places = distinct_cells(*laid_out(cells))
    assert len(found) == 42
    assert [cells[found[place]] for place in places] == cells


@pytest.mark.parametrize("cells", [[b"a", b"b", b"a"], [b"a", b"ab"], [b"x" * 8 + b"a", b"x" * 9]])
def test_equal_keys_of_different_names_merge_nothing(cells, monkeypatch):
    monkeypatch.setattr(distinct, "_hash", lambda key: key & np.uint64(0))
    found, places = distinct_cells(*laid_out(cells))
    assert [cells[found[place]] for place in places] == cells
