"""Labels come back in the type they were given; those of files are text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reviews
import rings
import torch
from torch_geometric.data import Data

import quatgraph
from quatgraph.data.labels import label_type, restore_labels


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((0, 1), int),
        ((-3, 12), int),
        ((True, False), bool),
        ((0.5, 2.0), float),
        (("a", "b"), str),
        (("0", "1"), str),
        ((0, "a"), str),
    ],
)
def test_labels_of_texts(names: tuple[Any, Any], expected: type, tmp_path: Path) -> None:
    labels = [names[place % 2] for place in range(60)]
    model = quatgraph.train_texts(
        reviews.TEXTS, labels, tmp_path / "m", config=reviews.config_of(), device="cpu"
    )
    again = quatgraph.load(tmp_path / "m", device="cpu")
    wanted = set(map(str, names)) if expected is str else set(names)
    for one in (model, again):
        found = one.predict(reviews.TEXTS).labels
        assert {type(label) for label in found} == {expected}
        assert set(found) <= wanted
        assert set(one.classes) == wanted


def test_arrays_of_labels_count_as_lists_of_numbers(tmp_path: Path) -> None:
    labels = np.arange(60) % 2
    model = quatgraph.train_texts(
        reviews.TEXTS, labels, tmp_path / "m", config=reviews.config_of(), device="cpu"
    )
    assert model.classes == [0, 1]


@pytest.mark.parametrize("names", [None, ["no", "yes"], [10, 20]])
def test_labels_of_nodes(names: list[Any] | None, tmp_path: Path) -> None:
    y = torch.arange(20) % 2
    ring = torch.stack((torch.arange(20), (torch.arange(20) + 2) % 20))
    data = Data(x=torch.rand(20, 3) + y[:, None], y=y, edge_index=ring)
    if names is not None:
        data.label_names = names
    model = quatgraph.train_nodes(data, tmp_path / "m", device="cpu", epochs=2)
    assert model.classes == (names or [0, 1])
    assert quatgraph.load(tmp_path / "m", device="cpu").classes == model.classes


def test_labels_of_graphs_and_of_files(tmp_path: Path) -> None:
    collection = rings.collection(tmp_path)
    graphs = collection.to_data_list()
    config = rings.config_of()
    model = quatgraph.train_graphs(graphs, tmp_path / "m", config=config, device="cpu")
    assert model.classes == [0, 1]
    assert {type(label) for label in model.predict().labels} == {int}
    model = quatgraph.train_graphs(collection, tmp_path / "n", config=config, device="cpu")
    assert model.classes == ["chain", "ring"]


def test_a_type_is_what_all_labels_share() -> None:
    assert label_type([]) == "str"
    assert label_type([1, 2.0]) == "str"
    assert label_type([1, None, ""]) == "int"
    assert label_type([object()]) == "str"
    assert restore_labels(["1.5", "2"], "float") == [1.5, 2.0]
