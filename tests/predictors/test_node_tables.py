"""Tables and graphs in memory, trained on and predicted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import settings
import torch

import quatgraph
from quatgraph.errors import UserError
from quatgraph.predictors import load, train_nodes
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.training.bundle import load_bundle, save_bundle

N = 40
SMALL = {"train.epochs": 30, "train.lr": 0.05, "model.hidden_quats": 2}
SMALL |= {"model.num_layers": 1, "model.skip": False}
COLUMNS = {"data.id": "paper", "data.label": "topic", "data.source": "from", "data.target": "to"}


def config_of(**values: Any) -> NodeConfig:
    return settings.built(NodeConfig, values, SMALL)


def paper(number: int) -> dict[str, str]:
    """A row whose price and colour both tell the topic."""
    price = (3.5 if number % 2 else -3.5) + number / 100
    return {
        "paper": f"p{number}",
        "topic": ("biology", "physics")[number % 2],
        "price": "" if number == 7 else f"{price:.2f}".replace(".", ","),
        "colour": ("green", "blue")[number % 2],
        "open": ("yes", "no")[number % 3 == 0],
    }


def written(folder: Path, rows: list[dict[str, str]], delimiter: str = ";") -> Path:
    folder.mkdir()
    lines = [delimiter.join(row.values()) for row in rows]
    (folder / "nodes.csv").write_text("\n".join([delimiter.join(rows[0]), *lines]))
    ids = [row["paper"] for row in rows]
    edges = [f"{a};{b}" for a, b in zip(ids, ids[2:], strict=False)]
    (folder / "edges.csv").write_text("\n".join(["from;to", *edges]))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("own") / "papers", [paper(k) for k in range(N)])


@pytest.fixture(scope="module")
def bundle(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    train_nodes(folder, out, config=config_of(**COLUMNS), device="cpu")
    return out


def test_a_model_of_a_table_predicts_its_classes(bundle: Path) -> None:
    predicted = load(bundle, device="cpu").predict()
    assert predicted.labels == [paper(k)["topic"] for k in range(N)]
    assert predicted.ids[:2] == ["p0", "p1"]


def test_the_training_folder_as_a_new_graph_gives_the_same_predictions(
    bundle: Path, folder: Path
) -> None:
    predictor = load(bundle, device="cpu")
    again = predictor.predict(folder)
    assert torch.equal(again.probabilities, predictor.predict().probabilities)


def test_a_new_table_is_encoded_as_the_training_table_was(bundle: Path, tmp_path: Path) -> None:
    predictor = load(bundle, device="cpu")
    new = {"paper": "new", "price": "3,500", "colour": "blue", "open": ""}
    other = {"paper": "other", "price": "", "colour": "mauve", "open": "yes"}
    predicted = predictor.predict(written(tmp_path / "new", [new, other]))
    assert predicted.labels[0] == "physics"
    assert [note.partition(": ")[2] for note in predicted.notes[:3]] == [
        "missing numbers become the median of their column: 'price' (1 row), 'open' (1 row)",
        "categories that the training data lacks become zeros: 'colour' ('mauve' in 1 row)",
        "numbers are read with decimal commas: 'price'",
    ]
    # One node alone: the median and the zeros of a hand-made row give the same answer.
    prices = [paper(k)["price"].replace(",", ".") for k in range(N) if k != 7]
    median = f"{np.median(np.array(prices, dtype=float)):.6f}"
    alone = predictor.predict(written(tmp_path / "alone", [other]))
    given = predictor.predict(
        written(tmp_path / "given", [other | {"price": median, "colour": ""}])
    )
    torch.testing.assert_close(alone.probabilities, given.probabilities)


def test_a_new_table_needs_the_columns_of_the_training_table(bundle: Path, tmp_path: Path) -> None:
    row = {"paper": "a", "price": "1", "color": "blue", "open": "yes"}
    words = "lacks the feature 'colour' of the training data; did you mean 'color'"
    with pytest.raises(UserError, match=words):
        load(bundle, device="cpu").predict(written(tmp_path / "new", [row]))


def test_numbers_and_categories_are_standardised_together(bundle: Path) -> None:
    card = load_bundle(bundle).card
    assert card["scaling"]["kind"] == "standard"
    assert card["features"] == ["price", "colour=blue", "colour=green", "open"]
    assert card["encoding"]["columns"][1] == {
        "name": "colour",
        "kind": "category",
        "categories": ["blue", "green"],
    }


def test_a_bundle_without_an_encoding_reads_new_tables_as_they_are(
    bundle: Path, folder: Path, tmp_path: Path
) -> None:
    older = load_bundle(bundle)
    del older.card["encoding"]
    save_bundle(tmp_path / "older", older)
    predicted = load(tmp_path / "older", device="cpu").predict(folder)
    expected = load(bundle, device="cpu").predict()
    assert torch.equal(predicted.probabilities, expected.probabilities)


def test_evaluating_a_moved_table_gives_the_recorded_metrics(bundle: Path, folder: Path) -> None:
    predictor = load(bundle, device="cpu")
    assert predictor.evaluate(folder) == pytest.approx(predictor.evaluate())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_trained_on_and_predicted(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    rows = [paper(k) | {"price": float(k % 2) if k else None} for k in range(N)]
    nodes = module.DataFrame(rows)
    edges = module.DataFrame({"from": nodes["paper"][:-2], "to": nodes["paper"][2:].to_list()})
    predictor = quatgraph.train_nodes(
        (nodes, edges), tmp_path / "model", config=config_of(**COLUMNS), device="cpu"
    )
    predicted = predictor.predict()
    assert predicted.labels == [row["topic"] for row in rows]
    again = load(tmp_path / "model", device="cpu").predict({"nodes": nodes, "edges": edges})
    assert torch.equal(again.probabilities, predicted.probabilities)
    new = module.DataFrame([paper(k) | {"price": None, "topic": None} for k in (100, 101)])
    ends = module.DataFrame({"from": ["p100"], "to": ["p100"]})
    assert predictor.predict((new, ends)).labels == ["biology", "physics"]


def test_arrays_are_trained_on_and_predicted(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    y = np.array(["a", "b"] * 15)
    x = np.random.default_rng(0).normal(size=(30, 4)) + 3 * (y == "b")[:, None]
    ring = sparse.coo_array((np.ones(30), (np.arange(30), np.roll(np.arange(30), 2))), (30, 30))
    matrix = ring + ring.T
    predictor = train_nodes((matrix, x, y), tmp_path, config=config_of(), device="cpu")
    assert predictor.predict().labels == y.tolist()
    given = load(tmp_path, device="cpu").predict((matrix, x))
    assert torch.equal(given.probabilities, predictor.predict().probabilities)


def test_a_networkx_graph_is_trained_on_and_predicted(tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.ladder_graph(12)
    for node in graph:
        graph.nodes[node].update(kind="ab"[node // 12], size=-1.0 + 2 * (node // 12))
    config = config_of(**{"data.label": "kind"})
    predictor = train_nodes(graph, tmp_path, config=config, device="cpu")
    assert predictor.predict().labels == ["ab"[node // 12] for node in graph]
    new = networkx.path_graph(["x", "y"])
    new.nodes["x"]["size"], new.nodes["y"]["size"] = -1.0, -1.0
    assert predictor.predict(new).labels == ["a", "a"]


def test_a_class_without_a_training_node_is_never_predicted_right(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows = [paper(k) | {"split": ("train", "valid", "test")[k % 3]} for k in range(N)]
    rows[2]["topic"] = "chemistry"
    nodes = pandas.DataFrame(rows)
    edges = pandas.DataFrame({"from": ["p0"], "to": ["p2"]})
    predictor = train_nodes((nodes, edges), tmp_path, config=config_of(**COLUMNS), device="cpu")
    assert predictor.card["labels"] == ["biology", "chemistry", "physics"]
    assert predictor.predict().labels[2] != "chemistry"
    tested = sum(row["split"] == "test" for row in rows)
    assert predictor.card["metrics"]["test/accuracy"] == pytest.approx(1 - 1 / tested)
