"""Sparse matrices from files."""

import numpy as np
import pytest

from quatgraph.data.node.sparse import dense
from quatgraph.errors import Mistake


def test_entries_land_in_their_places_and_repeated_ones_are_summed():
    matrix = dense(
        np.array([1.0, 2.0, 3.0]),
        np.array([2, 0, 0]),
        np.array([0, 1, 1, 3]),
        (3, 4),
        where="file",
    )
    assert matrix.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [5, 0, 0, 0]]
    assert matrix.dtype == np.float32


@pytest.mark.parametrize(
    ("data", "indices", "indptr", "shape"),
    [
        ([1.0], [4], [0, 1], (1, 4)),
        ([1.0], [-1], [0, 1], (1, 4)),
        ([1.0], [0], [0, 1, 1], (1, 4)),
        ([1.0], [0], [0, 2], (1, 4)),
        ([1.0], [0], [1, 1], (1, 4)),
        ([1.0, 1.0], [0, 1], [0, 3, 2], (2, 4)),
        ([1.0, 1.0], [0], [0, 2], (1, 4)),
        ([[1.0]], [0], [0, 1], (1, 4)),
        ([1j], [0], [0, 1], (1, 4)),
        ([1.0], [0.5], [0, 1], (1, 4)),
        ([1.0], [0], [0, 1], (1, 2**40)),
        ([1.0], [0], [0, 1], (-1, 4)),
    ],
)
def test_a_matrix_that_contradicts_itself_is_refused(data, indices, indptr, shape):
    arrays = (np.array(data), np.array(indices), np.array(indptr))
    with pytest.raises(Mistake, match="file does not hold a valid sparse matrix"):
        dense(*arrays, shape, where="file")
