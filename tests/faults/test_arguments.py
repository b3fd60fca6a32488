"""What ``train_nodes`` and the like take, and how they refuse all else."""

from pathlib import Path
from typing import Any

import karate
import pytest
import reviews
import torch
from torch_geometric.data import Data, HeteroData

import quatgraph
from quatgraph.data import graph, text
from quatgraph.errors import UserError
from quatgraph.predictors import train_graphs, train_nodes, train_texts


@pytest.mark.parametrize("given", [None, 5, [Data()], {}, HeteroData(), torch.ones(2)])
def test_training_nodes_refuses_what_is_no_graph(given: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        train_nodes(given, tmp_path / "model")
    assert str(refused.value) == (
        "the graph must be a folder with nodes.csv and edges.csv, a PyG Data, a networkx graph, a "
        f"pair of frames (nodes, edges) or arrays (adjacency, x, y), not {type(given).__name__}"
    )


@pytest.mark.parametrize("given", [None, 5, {}, HeteroData(), torch.ones(2), b"x"])
def test_training_graphs_refuses_what_is_no_list_of_graphs(given: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^graphs must be a list of PyG's Data, or the path of"):
        train_graphs(given, tmp_path / "model")
    with pytest.raises(UserError, match=r"^graphs\[0\] is a int; give a list of PyG's Data"):
        train_graphs([1], tmp_path / "model")


def test_paths_that_are_not_there_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file or folder .*nowhere"):
        train_nodes("nowhere", tmp_path / "model")
    with pytest.raises(UserError, match=r"there is no .*nowhere"):
        train_graphs("nowhere", tmp_path / "model")


def test_a_generator_of_graphs_is_a_list_of_them() -> None:
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    made = [Data(edge_index=ring, num_nodes=3, y=place % 2) for place in range(4)]
    assert graph.from_any(iter(made)).digest == graph.from_list(made).digest


def test_a_folder_of_nodes_is_read_by_its_settings(tmp_path: Path) -> None:
    rows = [f"{k},{'?' if k == 5 else 'xy'[k % 2]},{k}" for k in range(24)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,size", *rows]))
    ring = [f"{k},{(k + 1) % 24}" for k in range(24)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *ring]))
    config = karate.config_of(**{"train.epochs": 2, "data.name": "", "data.missing": "?"})
    predictor = train_nodes(str(tmp_path), tmp_path / "model", config=config, device="cpu")
    assert predictor.card["labels"] == ["x", "y"]
    again = quatgraph.load(tmp_path / "model", device="cpu")
    expected = predictor.predict().probabilities
    torch.testing.assert_close(again.predict().probabilities, expected)


@pytest.mark.parametrize("given", [None, 5, {"a": 1}, {"a"}, [1], b"ab"])
def test_texts_that_are_no_list_of_strings_are_refused(given: Any, tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"^texts must be a list of strings, a document each(, but text 1 is of type int)?$",
    ):
        train_texts(given, ["a"], tmp_path / "model")


@pytest.mark.parametrize("labels", [5, "ab", {"a": 1, "b": 2}, {"a", "b"}])
def test_labels_that_are_no_list_are_refused(labels: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^labels must be a list, one for each text, not "):
        train_texts(["good", "bad"], labels, tmp_path / "model")


def test_a_label_of_another_type_is_refused_by_its_text() -> None:
    with pytest.raises(UserError, match=r"^text 1 of the list: 'label' must be text or a number"):
        text.from_list(["good", "bad"], ["a", object()])


def test_generators_and_tensors_of_labels_are_lists() -> None:
    texts = [words for words, _ in reviews.REVIEWS]
    labels = [int(label == reviews.REVIEWS[0][1]) for _, label in reviews.REVIEWS]
    expected = text.from_list(texts, labels).digest
    assert text.from_list(iter(texts), iter(labels)).digest == expected
    assert text.from_list(texts, torch.tensor(labels)).digest == expected
    assert text.from_list(texts, list(torch.tensor(labels))).digest == expected
