"""Graphs of NumPy arrays and SciPy matrices."""

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from quatgraph.data.node import ReadOptions, from_any, from_data
from quatgraph.errors import UserError

RANDOM = np.random.default_rng(0)
A = np.triu(RANDOM.random((12, 12)) < 0.4, 1)
A = (A | A.T).astype(np.int64)
X = RANDOM.normal(size=(12, 3))
Y = np.array([0, 1] * 6)


def expected(**values) -> Data:
    edges = torch.from_numpy(np.stack(A.nonzero()))
    return from_data(Data(x=torch.from_numpy(X), y=torch.from_numpy(Y), edge_index=edges, **values))


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_an_adjacency_matrix_features_and_labels_are_a_graph(form):
    digest = expected().digest
    assert from_any((form(A), X, Y)).digest == digest
    assert from_any((form(A.astype(bool)), scipy.sparse.csr_matrix(X), Y.tolist())).digest == digest
    assert from_any({"adjacency": form(A), "x": X, "y": Y}).digest == digest
    assert from_any({"edge_index": np.stack(A.nonzero()), "x": X, "y": Y}).digest == digest


def test_entries_other_than_one_are_weights_from_row_to_column():
    matrix = scipy.sparse.csr_array(([2.0, 0.5], ([0, 3], [1, 2])), shape=(12, 12))
    data = from_any((matrix, None, Y))
    assert data.edge_index.T.tolist() == [[0, 1], [3, 2]]
    assert data.edge_weight.tolist() == [2, 0.5]
    assert data.directed is True
    assert data.x is None


def test_labels_may_be_of_any_type():
    words = np.array(["b", "a"] * 6, dtype=object)
    words[3] = None
    data = from_any((A, X, words))
    assert (data.label_names, data.label_values) == (["a", "b"], ["a", "b"])
    assert int(data.y[3]) == -1
    unknown = from_any((A, X, np.where(np.arange(12) == 5, -1, Y)))
    assert int(unknown.y[5]) == -1
    assert unknown.label_values == [0, 1]


def test_masks_and_names_are_taken():
    parts = np.arange(12) % 4
    masks = {"train_mask": parts < 2, "val_mask": parts == 2, "test_mask": parts == 3}
    names = {"node_ids": range(100, 112), "feature_names": list("abc")}
    data = from_any({"adjacency": A, "x": X, "y": Y, **masks, **names})
    assert data.train_mask[:, 0].tolist() == (parts < 2).tolist()
    assert data.node_ids[0] == "100"
    assert data.feature_names == ["a", "b", "c"]


def test_features_may_be_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": X[:, 0], "colour": ["red", "blue"] * 6})
    data = from_any((A, frame, Y))
    assert data.feature_names == ["size", "colour=blue", "colour=red"]
    assert data.encoding is not None
    assert data.notes == [
        "x: text columns are one-hot encoded: 'colour' (2 categories)",
        "the graph has no split: drawn with seed 0, 8 nodes for train, 2 for valid and 2 for test",
    ]
    assert from_any((A, frame, Y), ReadOptions(labels_needed=False)).notes == data.notes[:1]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"adjacency": A[:5]}, r"'adjacency' must be a square matrix, not of shape \(5, 12\)"),
        ({"adjacency": -A}, r"adjacency\[0, \d+\] is -1; weights must be finite and zero or more"),
        ({"adjacency": A.astype(str)}, "'adjacency' must hold numbers"),
        ({"adjacency": None}, "need either 'adjacency' or 'edge_index'"),
        ({"edge_index": np.zeros((2, 1))}, "need either 'adjacency' or 'edge_index'"),
        ({"x": np.full((12, 2), np.nan)}, r"x\[0, 0\] is not a finite number"),
        ({"x": np.full((12, 2), "a")}, "'x' must hold numbers, not <U1"),
        ({"x": X[:5]}, "names the node"),
        ({"y": Y[:5]}, r"data\.y has shape \(5,\) but must be \(12,\)"),
        ({"y": [[1]] * 12}, r"y\[0\] has \[1\] in column 'y'"),
        ({"y": [1] * 12}, "have one class"),
        ({"Y": Y}, "a graph has no array 'Y'; did you mean 'y'"),
    ],
)
def test_a_mistake_names_the_array(arrays, words):
    with pytest.raises(UserError, match=words):
        from_any({"adjacency": A, "x": X, "y": Y} | arrays)


def test_prediction_needs_no_labels():
    assert from_any((A, X), ReadOptions(labels_needed=False)).label_names == []
