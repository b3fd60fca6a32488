"""A trained model answers for its own graph and for new ones, in the person's own words."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import settings
import torch
from on_cpu import train_in_folder
from torch_geometric.data import Data

import quatgraph
from quatgraph.algebra import hamilton_matrix
from quatgraph.errors import UserError
from quatgraph.predictors import NodePredictor, load, train_nodes
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.training.bundle import Bundle, load_bundle, save_bundle
from quatgraph.training.record import read_records

CPU = torch.device("cpu")
NAMES = [f"{name}-{k}" for k in range(6) for name in ("ann", "bob", "eve", "zoë")]
COLUMNS = ["height", "weight", "mood"]
N = len(NAMES)
SMALL = {"train.epochs": 40, "train.lr": 0.05, "model.hidden_quats": 2}
SMALL |= {"model.num_layers": 1, "model.skip": False}


def feature_rows() -> dict[str, list[float]]:
    """Three columns of which the first tells the class, with negative numbers."""
    draw = np.random.default_rng(3)
    x = draw.normal(size=(N, 3)).round(3)
    x[:, 0] += np.where(np.arange(N) % 2, 3.0, -3.0)
    return {name: x[:, k].tolist() for k, name in enumerate(COLUMNS)}


def write_graph(
    folder: Path,
    columns: dict[str, list[Any]],
    ids: list[str] = NAMES,
    edges: list[tuple[str, str]] | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *columns])
        writer.writerows(zip(ids, *columns.values(), strict=True))
    if edges is None:
        edges = [(a, ids[(k + 2) % len(ids)]) for k, a in enumerate(ids)]
    ends = [("source", "target"), *edges]
    (folder / "edges.csv").write_text("".join(f"{a},{b}\n" for a, b in ends))
    return folder


def labels() -> list[str]:
    return ["cat", "dog"] * (N // 2)


def config_of(**values: Any) -> NodeConfig:
    return settings.built(NodeConfig, values, SMALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("own") / "pets"
    return write_graph(place, {"label": labels(), **feature_rows()})


@pytest.fixture(scope="module")
def bundle(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    config = config_of(seeds=2, **{"data.path": str(folder), "data.scaling": "standard"})
    train_in_folder(NODE, [config], out)
    return out


@pytest.fixture
def predictor(bundle: Path) -> NodePredictor:
    return load(bundle, device="cpu")


def test_the_training_graph_is_answered_for_in_the_persons_own_words(
    predictor: NodePredictor,
) -> None:
    answer = predictor.predict()
    assert answer.ids == NAMES
    assert answer.classes == ["cat", "dog"]
    assert sum(a == b for a, b in zip(answer.labels, labels(), strict=True)) >= 0.9 * N


def test_probabilities_are_positive_and_sum_to_one(predictor: NodePredictor) -> None:
    probabilities = predictor.predict().probabilities
    assert probabilities.shape == (N, 2)
    assert bool((probabilities > 0).all())
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(N))


def test_rows_hold_the_class_its_probability_and_all_others(predictor: NodePredictor) -> None:
    answer = predictor.predict(nodes=["zoë-0"])
    (row,) = answer.rows()
    names = ["id", "prediction", "probability", "label", "split", "p(cat)", "p(dog)"]
    assert list(row) == names
    assert row["id"] == "zoë-0"
    assert row["prediction"] == "dog"
    assert row["probability"] == row["p(dog)"] > row["p(cat)"]
    assert row["p(cat)"] == round(float(answer.probabilities[0, 0]), 6)


def test_some_nodes_are_answered_for_in_the_order_they_were_asked(
    predictor: NodePredictor,
) -> None:
    everything, some = predictor.predict(), predictor.predict(nodes=["eve-3", "ann-0", "eve-3"])
    assert some.ids == ["eve-3", "ann-0", "eve-3"]
    places = [NAMES.index(name) for name in some.ids]
    assert torch.equal(some.probabilities, everything.probabilities[places])


def test_an_unknown_node_is_a_mistake_with_a_hint(predictor: NodePredictor) -> None:
    with pytest.raises(
        UserError, match="there is no node 'eve-33' in the graph; did you mean 'eve-"
    ):
        predictor.predict(nodes=["ann-0", "eve-33"])


def test_a_model_answers_the_same_after_it_was_saved_and_loaded(bundle: Path) -> None:
    first, second = (load(str(bundle), device="cpu").predict() for _ in range(2))
    assert torch.equal(first.probabilities, second.probabilities)


def test_evaluating_again_gives_the_recorded_metrics(predictor: NodePredictor) -> None:
    again = predictor.evaluate()
    assert again.keys() == predictor.card["metrics"].keys()
    for name, value in predictor.card["metrics"].items():
        assert again[name] == pytest.approx(value, rel=1e-4, abs=1e-6)


def test_a_new_graph_may_have_its_columns_in_any_order_and_more_of_them(
    predictor: NodePredictor, tmp_path: Path
) -> None:
    rows = feature_rows()
    columns = {"mood": rows["mood"], "shoes": [7.0] * N, "height": rows["height"]}
    new = write_graph(tmp_path / "new", columns | {"weight": rows["weight"]})
    answer, known = predictor.predict(new), predictor.predict()
    assert answer.ids == NAMES
    assert answer.classes == ["cat", "dog"]
    torch.testing.assert_close(answer.probabilities, known.probabilities)


def test_a_new_graph_is_answered_for_with_its_own_edges_and_ids(
    predictor: NodePredictor, tmp_path: Path
) -> None:
    # A node beside dogs leans towards dog, and beside cats towards cat.
    columns = {"height": [0.0, 3.0, 3.0], "weight": [0.0] * 3, "mood": [0.0] * 3}
    ids = ["new", "p", "q"]
    edges = [("new", "p"), ("new", "q")]
    dogs = predictor.predict(write_graph(tmp_path / "dogs", columns, ids, edges), nodes=["new"])
    columns["height"] = [0.0, -3.0, -3.0]
    cats = predictor.predict(write_graph(tmp_path / "cats", columns, ids, edges), nodes=["new"])
    assert (dogs.labels, cats.labels) == (["dog"], ["cat"])


def test_a_missing_column_is_a_mistake(predictor: NodePredictor, tmp_path: Path) -> None:
    rows = feature_rows()
    near = write_graph(tmp_path / "near", {"heigth": rows["height"], "mood": rows["mood"]})
    words = "lacks the feature 'height' and 1 more of the training data; did you mean 'heigth'"
    with pytest.raises(UserError, match=words):
        predictor.predict(near)
    with pytest.raises(UserError, match="the graph has no features; the model needs 3 of them"):
        predictor.predict(write_graph(tmp_path / "none", {}))


def test_a_new_graph_is_scaled_as_the_training_graph_was(
    predictor: NodePredictor, bundle: Path, tmp_path: Path
) -> None:
    # One node alone: its self-loop has weight one, so only the formula of the layers is left.
    values = [1.5, -0.25, 2.0]
    single = {name: [value] for name, value in zip(COLUMNS, values, strict=True)}
    answer = predictor.predict(write_graph(tmp_path / "one", single, ["only"], []))
    x = np.array(list(feature_rows().values())).T
    scaled = torch.tensor((np.array(values) - x.mean(axis=0)) / x.std(axis=0)).float()
    weights = load_bundle(bundle).select_tensors("members.0")
    hidden = torch.relu(hamilton_matrix(weights["convs.0.linear.weight"]) @ scaled.repeat(4))
    logits = weights["prediction.weight"] @ hidden
    torch.testing.assert_close(answer.probabilities[0], logits.softmax(dim=0))


def test_a_data_in_memory_is_taken_as_a_new_graph(predictor: NodePredictor) -> None:
    x = torch.tensor(list(feature_rows().values())).T
    ring = torch.stack((torch.arange(N), (torch.arange(N) + 2) % N))
    edge_index = torch.cat((ring, ring.flip(0)), dim=1)
    named = Data(x=x, edge_index=edge_index, feature_names=COLUMNS)
    answer = predictor.predict(named)
    assert answer.ids[:2] == ["0", "1"]
    torch.testing.assert_close(answer.probabilities, predictor.predict().probabilities)
    plain = predictor.predict(Data(x=x, edge_index=edge_index))
    torch.testing.assert_close(plain.probabilities, answer.probabilities)
    (note,) = plain.notes
    assert note == (
        "the graph has no data.feature_names, so its columns are taken in the order of the "
        f"training data: {', '.join(map(repr, COLUMNS))}"
    )
    assert answer.notes == []
    with pytest.raises(
        UserError, match=r"has 2 features; give it the 3 .*, or name its columns in "
    ):
        predictor.predict(Data(x=x[:, :2], edge_index=edge_index))
    with pytest.raises(UserError, match="lacks the feature 'height'"):
        predictor.predict(Data(x=x, edge_index=edge_index, feature_names=["a", "b", "c"]))


def test_a_folder_that_does_not_exist_is_a_mistake(predictor: NodePredictor) -> None:
    with pytest.raises(UserError, match="there is no file or folder nowhere"):
        predictor.predict("nowhere")


def test_graphs_of_the_task_graph_are_a_mistake(predictor: NodePredictor, tmp_path: Path) -> None:
    (tmp_path / "many.jsonl").write_text('{"edges": [[0, 1]]}')
    (tmp_path / "TU_A.txt").write_text("1, 2")
    for path in (tmp_path / "many.jsonl", tmp_path):
        with pytest.raises(UserError, match=r"is not node data: .* it looks like graph data"):
            predictor.predict(path)
    with pytest.raises(UserError, match="predict one graph at a time: pass a folder or a PyG Data"):
        predictor.predict([Data(num_nodes=1)])  # type: ignore[arg-type]


def test_training_data_that_has_changed_is_a_mistake(tmp_path: Path) -> None:
    columns = {"label": labels(), **feature_rows()}
    own = write_graph(tmp_path / "pets", columns)
    out = tmp_path / "model"
    train_in_folder(NODE, [config_of(**{"data.path": str(own)})], out)
    columns["height"][0] += 1
    write_graph(own, columns)
    for ask in (load(out).predict, load(out).evaluate):
        with pytest.raises(UserError, match="'pets' is no longer what the model was trained on"):
            ask()
    # As a new graph it is welcome.
    assert len(load(out).predict(own).ids) == N


def ring_graph() -> Data:
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(20) % 2
    x = torch.rand(20, 3, generator=draw) + y[:, None]
    ring = torch.stack((torch.arange(20), (torch.arange(20) + 2) % 20))
    return Data(x=x, y=y, edge_index=torch.cat((ring, ring.flip(0)), dim=1))


def test_a_data_is_learned_and_asked_in_three_lines(tmp_path: Path) -> None:
    data = ring_graph()
    predictor = quatgraph.train_nodes(data, tmp_path / "model", epochs=20, device="cpu")
    answer = predictor.predict()
    assert answer.classes == [0, 1]
    # The portfolio was tried on the ring.
    records = read_records(tmp_path / "model" / "records.jsonl")
    tried = len(default_candidates(NODE))
    assert len({record.config_digest for record in records}) == len(records) == tried
    assert predictor.evaluate()["valid/accuracy"] == pytest.approx(
        json.loads((tmp_path / "model" / "card.json").read_text())["metrics"]["valid/accuracy"]
    )


def test_a_model_of_a_graph_in_memory_asks_for_the_graph(tmp_path: Path) -> None:
    predictor = train_nodes(ring_graph(), tmp_path, config=config_of(), device="cpu")
    again = load(tmp_path, device="cpu")
    with pytest.raises(UserError, match="trained on data in memory: pass the graph again"):
        again.predict()
    given = again.predict(ring_graph())
    assert torch.equal(given.probabilities, predictor.predict().probabilities)


def test_an_unknown_training_option_is_a_mistake_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown option 'resum'; did you mean 'resume'"):
        train_nodes(ring_graph(), tmp_path / "m", resum=True)  # type: ignore[call-arg]
    assert not (tmp_path / "m").exists()


def test_a_config_of_ones_own_is_the_only_one_that_is_tried(tmp_path: Path) -> None:
    predictor = train_nodes(
        ring_graph(), tmp_path, config=config_of(**{"model.name": "gcn"}), device="cpu"
    )
    assert predictor.config.model.name == "gcn"
    assert len(read_records(tmp_path / "records.jsonl")) == 1


def test_a_model_without_features_answers_for_its_own_graph_only(tmp_path: Path) -> None:
    own = write_graph(tmp_path / "pets", {"label": labels()})
    out = tmp_path / "model"
    train_in_folder(NODE, [config_of(**{"data.path": str(own)})], out)
    known = load(out, device="cpu").predict()
    assert torch.equal(load(out, device="cpu").predict(own).probabilities, known.probabilities)
    other = write_graph(tmp_path / "other", {"label": labels()}, edges=[("ann-0", "bob-0")])
    with pytest.raises(
        UserError, match=r"trained without features.* only predict its training graph"
    ):
        load(out, device="cpu").predict(other)


def test_a_bundle_for_another_task_is_a_mistake(tmp_path: Path) -> None:
    save_bundle(tmp_path, Bundle({"task": "sound"}, {"w": torch.zeros(1)}))
    with pytest.raises(UserError, match="for the task 'sound', which this version cannot predict"):
        load(tmp_path)


def test_a_device_that_does_not_exist_is_a_mistake(bundle: Path) -> None:
    with pytest.raises(UserError, match="unknown device 'gpu'; choose auto, cpu, cuda"):
        load(bundle, device="gpu")


def test_labels_and_masks_of_a_new_graph_need_not_fit(bundle: Path) -> None:
    predictor = load(bundle, device="cpu")
    graph = {
        "x": torch.randn(4, len(COLUMNS)),
        "feature_names": list(COLUMNS),
        "edge_index": torch.tensor([[0, 1], [1, 0]]),
    }
    wanted = predictor.predict(Data(**graph)).probabilities
    for more in ({"y": torch.rand(4)}, {"train_mask": torch.ones(4, dtype=torch.bool)}):
        assert torch.equal(predictor.predict(Data(**graph, **more)).probabilities, wanted)


def test_features_without_names_must_be_as_many_as_in_training(tmp_path: Path) -> None:
    def graph(width: int) -> Data:
        edges = torch.stack((torch.arange(20), torch.arange(20).roll(1)))
        return Data(x=torch.randn(20, width), y=torch.arange(20) % 2, edge_index=edges)

    predictor = train_nodes(graph(3), tmp_path / "m", config=config_of(), device="cpu")
    assert len(predictor.predict(graph(3)).ids) == 20
    with pytest.raises(UserError, match="the graph has 4 features; give it the 3 that"):
        predictor.predict(graph(4))
