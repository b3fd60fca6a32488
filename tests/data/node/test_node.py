"""The public face of the node datasets."""

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from quatgraph.data import node
from quatgraph.data.io import store
from quatgraph.data.node.pyg import MASKS
from quatgraph.errors import UserError

CLUB = [f"{k}" for k in range(1, 35)]


def test_the_karate_club_ships_with_the_package(monkeypatch):
    monkeypatch.delenv("QUATGRAPH_DATA", raising=False)
    data = node.load("karate")
    assert node.statistics(data) == store.catalog()["karate"].statistics
    assert data.x is None
    assert data.node_ids == CLUB
    assert data.label_names == ["Mr. Hi", "Officer"]
    assert data.y[0] == 0
    assert data.y[33] == 1
    parts = torch.cat((data.train_mask, data.val_mask, data.test_mask), dim=1)
    assert parts.sum(dim=0).tolist() == [8, 8, 18]
    # Degrees of the two leaders, as Zachary drew them.
    degree = data.edge_index[0].bincount()
    assert (int(degree[0]), int(degree[33])) == (16, 17)


def test_unknown_names_and_changed_data_are_mistakes(monkeypatch):
    with pytest.raises(UserError, match="did you mean 'karate'"):
        node.load("karat")
    entry = store.entry("karate")
    wrong = store.Entry(
        *(entry.name, "node", "", "", "", "", "", True, {"nodes": 35}, ()),
    )
    monkeypatch.setattr(store, "catalog", lambda: {"karate": wrong})
    with pytest.raises(UserError, match="karate has 34 nodes where the catalog expects 35"):
        node.load("karate")
    other = store.Entry("karate", "link", "", "", "", "", "", True, {}, ())
    monkeypatch.setattr(store, "catalog", lambda: {"karate": other})
    with pytest.raises(UserError, match="not of 'node'"):
        node.load("karate")


def own(**other) -> Data:
    """A path of twelve nodes in two classes, one node without a label."""
    forth = torch.stack((torch.arange(11), torch.arange(1, 12)))
    values = {
        "x": torch.arange(24.0).reshape(12, 2),
        "y": torch.tensor([0, 1] * 5 + [0, -1]),
        "edge_index": torch.cat((forth, forth.flip(0)), dim=1),
    }
    return Data(**{key: v for key, v in (values | other).items() if v is not None})


def part_masks(*splits: str) -> dict[str, torch.Tensor]:
    """Masks from one string of letters r, v and t per split."""
    return {
        key: torch.tensor([[s[k] == letter for s in splits] for k in range(12)])
        for key, letter in (("train_mask", "r"), ("val_mask", "v"), ("test_mask", "t"))
    }


def test_a_data_is_completed_in_a_copy():
    given = own()
    data = node.from_data(given)
    assert set(given.keys()) == {"x", "edge_index", "y"}
    assert torch.equal(data.x, given.x)
    assert torch.equal(data.edge_index, given.edge_index)
    assert data.train_mask.shape == (12, 1)
    assert int((data.train_mask | data.val_mask | data.test_mask).sum()) == 11
    assert data.label_names == ["0", "1"]
    assert data.node_ids[-1] == "11"
    assert data.directed is False
    assert data.name == "data"
    assert node.statistics(data) == {
        "nodes": 12,
        "labelled": 11,
        "edges": 11,
        "features": 2,
        "classes": 2,
        "splits": 1,
    }


def test_from_data_changes_nothing_the_second_time():
    data = node.from_data(own())
    again = node.from_data(data, split_seed=5)
    assert again.digest == data.digest


def test_the_karate_club_passes_through_from_data():
    data = node.load("karate")
    again = node.from_data(data)
    assert again.digest == data.digest
    assert again.name == "karate"


def test_classes_may_have_any_numbers():
    data = node.from_data(own(y=torch.tensor([7, 40] * 6)))
    assert data.label_names == ["7", "40"]
    assert data.y.tolist() == [0, 1] * 6


def test_masks_may_be_for_one_split_or_for_many():
    one = {key: mask[:, 0] for key, mask in part_masks("rrvvttrrrrrr").items()}
    assert node.from_data(own(**one)).train_mask.shape == (12, 1)
    many = part_masks("rrvvttrrrrrr", "ttvvrrtttttt")
    data = node.from_data(own(**many))
    assert data.train_mask.shape == (12, 2)
    assert not data.train_mask[11, 0]  # it has no label


def test_other_kinds_of_tensors_are_taken():
    plain = node.from_data(own())
    edge_index = EdgeIndex(own().edge_index.to(torch.int32), sparse_size=(12, 12))
    y = own().y.int().unsqueeze(1)
    data = node.from_data(own(edge_index=edge_index, y=y, x=own().x.double().to_sparse()))
    assert data.digest == plain.digest
    assert type(data.edge_index) is torch.Tensor


def test_edges_that_go_one_way_make_a_directed_graph():
    edge_index = own().edge_index[:, :11]
    data = node.from_data(own(edge_index=edge_index))
    assert data.directed is True
    assert torch.equal(data.edge_index, edge_index)
    assert node.statistics(data)["edges"] == 11


def test_a_graph_without_features_or_labels_can_be_given_for_predicting():
    data = node.from_data(own(x=None, y=None, num_nodes=12), labels_needed=False)
    assert data.x is None
    assert data.num_nodes == 12
    assert data.label_names == []
    with pytest.raises(UserError, match=r"set data\.num_nodes"):
        node.from_data(own(x=None, y=None), labels_needed=False)


def nan_at(row: int) -> torch.Tensor:
    x = own().x.clone()
    x[row, 1] = torch.nan
    return x


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"x": nan_at(3)}, r"data\.x\[3, 1\] is not a finite number"),
        ({"x": torch.zeros(12)}, r"data\.x must be"),
        ({"x": "abc"}, r"data\.x must be"),
        ({"x": torch.zeros(0, 2), "y": None}, "no nodes"),
        ({"edge_index": None}, r"data\.edge_index must be"),
        ({"edge_index": torch.zeros(2, 3)}, r"data\.edge_index must be"),
        ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, r"data\.edge_index must be"),
        ({"edge_index": torch.tensor([[0], [12]])}, "names the node 12 but the nodes are 0..11"),
        ({"edge_index": torch.tensor([[-1], [1]])}, "names the node -1"),
        ({"edge_weight": torch.ones(3)}, "one real number per edge"),
        ({"edge_weight": torch.arange(22.0) - 1}, r"edge_weight\[0\] must be finite and zero"),
        ({"x": None, "y": torch.tensor(3)}, r"neither x nor y; set data\.num_nodes"),
        ({"y": torch.zeros(12)}, r"data\.y must be a tensor of whole numbers"),
        ({"y": torch.zeros(11, dtype=torch.long)}, r"data\.y has shape \(11,\)"),
        ({"y": torch.full((12,), -2)}, r"data\.y holds -2"),
        ({"y": torch.full((12,), -1)}, "no node of the graph has a label"),
        ({"y": None}, "no node of the graph has a label"),
        ({"label_names": ["a"]}, r"data\.y holds 1 but data\.label_names has 1"),
        ({"node_ids": ["a"]}, r"data\.node_ids has 1 names where 12"),
        ({"train_mask": torch.ones(12, dtype=torch.bool)}, "no val_mask"),
        (part_masks("rvvvttrvrvrv"), "all training nodes in the split of the graph have one class"),
        (part_masks("rrvvttrrrrrr", "rvvvttrvrvrv"), "all training nodes in the split"),
        (part_masks("rrttttrrrrrr"), "no labelled node for the valid part"),
        (
            {key: torch.ones(12, 1, dtype=torch.bool) for key in MASKS},
            "two parts of one split",
        ),
        ({key: torch.arange(3) for key in MASKS}, r"data\.train_mask must be a boolean"),
        (
            {key: torch.ones(3, dtype=torch.bool) for key in MASKS},
            "train_mask has 3 rows but the graph 12",
        ),
        (
            part_masks("rrvvttrrrrrr") | {"val_mask": torch.zeros(12, 2, dtype=torch.bool)},
            "same number of splits",
        ),
    ],
)
def test_a_mistake_in_data_is_reported(values, words):
    with pytest.raises(UserError, match=words):
        node.from_data(own(**values))
