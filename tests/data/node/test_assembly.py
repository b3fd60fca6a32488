"""What every graph has."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from quatgraph.data.node.assembly import complete_data, dense, digest
from quatgraph.errors import UserError

NOTHING = torch.zeros(3, 1, dtype=torch.bool)


def graph(**other):
    y = torch.tensor([0, 1, -1])
    values = {
        "name": "toy",
        "x": torch.eye(3),
        "y": y,
        "edge_index": torch.tensor([[0, 1], [1, 0]]),
        "edge_weight": None,
        "masks": (NOTHING | True, NOTHING, NOTHING),
        "label_names": ["a", "b"],
        "directed": False,
    }
    values |= other
    masks = values.pop("masks")
    return complete_data(Data(**values), masks)


def test_nodes_without_a_label_leave_the_masks():
    assert graph().train_mask.flatten().tolist() == [True, True, False]


def test_what_has_no_name_is_numbered():
    data = graph()
    assert data.node_ids == ["0", "1", "2"]
    assert data.feature_names == ["x0", "x1", "x2"]


def test_no_columns_are_no_features():
    data = graph(x=torch.empty(3, 0))
    assert data.x is None
    assert data.feature_names == []


def test_the_digest_changes_with_everything_but_the_name():
    plain = graph()
    assert digest(plain) == plain.digest == graph(name="other").digest
    others = [
        graph(x=None),
        graph(x=torch.eye(3) * 2),
        graph(y=torch.tensor([1, 0, -1])),
        graph(edge_index=torch.tensor([[0, 2], [2, 0]])),
        graph(edge_weight=torch.ones(2)),
        graph(masks=(NOTHING,) * 3),
        graph(label_names=["a", "c"]),
        graph(directed=True),
        graph(node_ids=["0", "1", "3"]),
        graph(feature_names=["x0", "x1", "x3"]),
    ]
    assert len({plain.digest, *(other.digest for other in others)}) == len(others) + 1


def test_the_digest_is_the_same_everywhere():
    # Written down: a digest that changes unnoticed would part records from their data.
    assert graph().digest.startswith("c85a5d0809af56c2")


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
    with pytest.raises(UserError, match="file does not hold a valid sparse matrix"):
        dense(*arrays, shape, where="file")
