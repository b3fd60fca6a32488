"""Inputs and models that overflow: refused by name, never answered with a class."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import cities
import karate
import pytest
import reviews
import rings
import torch
from commands import assert_user_error, call, change_card
from torch_geometric.data import Data

from quatgraph.data.text import load_vectors
from quatgraph.errors import UserError
from quatgraph.predictors import (
    Predictions,
    load,
    train_graphs,
    train_nodes,
    train_texts,
    train_triples,
)
from quatgraph.predictors.members import TrainedMember, combine_logits
from quatgraph.predictors.predictions import Links, TextPredictions
from quatgraph.training.bundle import Bundle, load_bundle, save_bundle

NODES = 12


def graph(**changes: torch.Tensor) -> Data:
    """A ring of two classes, with weights of edges."""
    place = torch.arange(NODES)
    ring = torch.stack((place, (place + 2) % NODES))
    made = Data(
        x=torch.stack((place % 2 + 0.1, place / 3.0), dim=1),
        y=place % 2,
        edge_index=torch.cat((ring, ring.flip(0)), dim=1),
        edge_weight=torch.ones(2 * NODES),
    )
    for key, value in changes.items():
        made[key] = value
    return made


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of every task."""
    place = tmp_path_factory.mktemp("models")
    node = karate.config_of(**{"data.name": ""})
    train_nodes(graph(), place / "node", config=node, device="cpu")
    graphs = rings.collection(place, rings.with_features(rings.lines()))
    train_graphs(graphs, place / "graph", config=rings.config_of(), device="cpu")
    given = {"data.vectors": str(reviews.vector_file(place / "vectors.txt"))}
    train_texts(
        reviews.TEXTS,
        reviews.LABELS,
        place / "text",
        config=reviews.config_of(**given),
        device="cpu",
    )
    train_triples(cities.cities(), place / "link", config=cities.config_of(), device="cpu")
    return place


@pytest.mark.parametrize("value", [3e38, -3e38])
def test_a_feature_that_overflows_is_named_by_node_and_column(models: Path, value: float) -> None:
    x = graph().x
    x[3, 1] = value
    with pytest.raises(UserError, match=r"^node '3' has -?3e\+38 in the feature 'x1', too large"):
        load(models / "node", device="cpu").predict(graph(x=x), nodes=["0"])


@pytest.mark.parametrize("scaling", ["row", "none"])
def test_a_feature_that_overflows_is_refused_in_training(tmp_path: Path, scaling: str) -> None:
    x = graph().x
    x[3] = 3e38  # the sum of the row is infinite
    config = karate.config_of(**{"data.name": "", "data.scaling": scaling})
    with pytest.raises(UserError, match=r"node '3' has 3e\+38 in the feature 'x0'"):
        train_nodes(graph(x=x), tmp_path / "m", config=config, device="cpu")
    assert not (tmp_path / "m").exists()


def test_edge_weights_that_sum_to_infinity_are_named_by_node(models: Path) -> None:
    weight = torch.ones(2 * NODES)
    weight[[2, NODES]] = 3e38  # from 2 to 4, and from 2 to 0
    weight[[0, NODES + 2]] = 3e38
    with pytest.raises(UserError, match="the edge weights of node '2' sum to infinity in float32"):
        load(models / "node", device="cpu").predict(graph(edge_weight=weight))


def overflowing(models: Path, tmp_path: Path, task: str, suffix: str, factor: float = 1e30) -> Path:
    """The model with huge, finite weights."""
    bundle = load_bundle(models / task)
    tensors = {
        name: value * factor if name.endswith(suffix) and value.is_floating_point() else value
        for name, value in bundle.tensors.items()
    }
    assert any(not torch.equal(tensors[name], value) for name, value in bundle.tensors.items())
    save_bundle(tmp_path / task, Bundle(bundle.card, tensors))
    return tmp_path / task


def test_a_node_is_not_answered_for_by_a_model_that_overflows(models: Path, tmp_path: Path) -> None:
    model = load(overflowing(models, tmp_path, "node", "weight", 1e38), device="cpu")
    for ask in (lambda: model.predict(graph()), lambda: model.evaluate(graph())):
        with pytest.raises(
            UserError, match=r"prediction for '\d+' is not a finite number: the model"
        ):
            ask()


def test_the_largest_input_is_named_where_it_overflows_in_the_network(
    models: Path, tmp_path: Path
) -> None:
    model = load(overflowing(models, tmp_path, "node", "weight"), device="cpu")
    x = graph().x
    x[3, 1] = 1e15
    with pytest.raises(
        UserError, match=r"for '1' is not a finite number: node '3' has 1e\+15 in the feature 'x1'"
    ):
        model.predict(graph(x=x), nodes=["1"])


def test_features_of_graphs_are_named_by_graph_node_and_column(
    models: Path, tmp_path: Path
) -> None:
    lines = rings.with_features(rings.lines(4))
    lines[1]["node_features"][2][1] = 3e38
    new = rings.written(tmp_path / "new.jsonl", lines)
    result = call("predict", str(models / "graph"), str(new))
    assert_user_error(
        result, "graph 'chain-1' has 3e+38 in column 2 of the features of its node 2, too large for"
    )
    lines[1]["node_features"][2][1] = 1e15
    rings.written(new, lines)
    model = load(overflowing(models, tmp_path, "graph", "weight"), device="cpu")
    with pytest.raises(UserError, match=r"for 'chain-1' is not .*: graph 'chain-1' has 1e\+15 in"):
        model.predict(str(new), ids=["chain-1"])


def test_vectors_of_words_are_named_by_word_and_column(models: Path, tmp_path: Path) -> None:
    model = load(models / "text", device="cpu")
    vectors = load_vectors(models / "vectors.txt", ["splendid"])
    vectors.matrix[0, 1] = 3e38
    with pytest.raises(UserError, match=r"word 'splendid' has 3e\+38 in column 2, too large"):
        model.predict("a splendid film", vectors=vectors)
    huge = load(overflowing(models, tmp_path, "text", "vectors", 1e15), device="cpu")
    model = huge.members[0].model
    model.load_state_dict({k: v * 1e30 for k, v in model.state_dict().items()})
    with pytest.raises(
        UserError, match=r"'a lovely film' is not a .*: the vector of the word '\w+'"
    ):
        huge.predict("a lovely film")


def test_scores_and_ranks_of_a_model_that_overflows_are_refused(
    models: Path, tmp_path: Path
) -> None:
    folder = overflowing(models, tmp_path, "link", "")
    model = load(folder, device="cpu")
    asks: list[Callable[[], object]] = [
        lambda: model.predict(head="person 1", relation="knows"),
        lambda: model.predict([("person 1", "knows", "person 2")]),
        lambda: model.evaluate(),
        lambda: model.by_relation(),
    ]
    for ask in asks:
        with pytest.raises(UserError, match="is not a finite number: the model overflows"):
            ask()
    assert_user_error(
        call("plot", "ranks", str(folder), "--out", f"{tmp_path}/r.png"), "is not a finite"
    )


def test_a_bundle_whose_weights_are_not_finite_is_refused(models: Path, tmp_path: Path) -> None:
    for task in ("node", "graph", "text", "link"):
        bundle = load_bundle(models / task)
        name, value = next((n, v) for n, v in bundle.tensors.items() if v.is_floating_point())
        broken = value.clone()
        broken.view(-1)[0] = math.nan
        save_bundle(tmp_path / task, Bundle(bundle.card, bundle.tensors | {name: broken}))
        for command in ("predict", "evaluate"):
            result = call(command, str(tmp_path / task))
            assert_user_error(
                result, f"the weights {name} in ", "its training diverged: train again"
            )


def test_answers_cannot_be_made_of_numbers_that_are_not_finite(models: Path) -> None:
    bad = torch.tensor([[0.5, 0.5], [math.nan, 1.0]])
    with pytest.raises(UserError, match="the prediction for 'b' is not a finite number"):
        Predictions(["a", "b"], ["x", "y"], bad)
    good = torch.tensor([[0.5, 0.5]])
    with pytest.raises(UserError, match="the prediction for 'a' is not a finite number"):
        TextPredictions(["a"], ["x", "y"], good, support=[{"film": math.inf}])
    triples = cities.cities()
    links = (torch.zeros(1).long(), triples.test[:1], torch.tensor([math.nan]))
    with pytest.raises(UserError, match=r"the prediction for \('person 1', 'works in', 'city 1'\)"):
        Links(triples, *links, torch.tensor([[1.0, math.nan]]), [""])


def test_an_infinite_logit_is_no_probability() -> None:
    logits = torch.tensor([[1.0, 2.0], [-math.inf, 2.0]])
    member = TrainedMember(None, 0, 0, 1.0, None, None)
    found = combine_logits(logits[None], [member]).exp().float()
    torch.testing.assert_close(found[0], logits[0].softmax(dim=0))
    assert bool(found[1].isnan().all())


def test_a_part_without_data_is_left_out_of_an_evaluation(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "graph", tmp_path / "graph")
    card = json.loads((tmp_path / "graph" / "card.json").read_text())
    for member in card["members"]:
        member["config"]["data"] |= {"validation": 0.0, "path": str(models / "rings.jsonl")}
        member["config"]["train"]["select"] = "last"
    metrics = card["metrics"] | {"valid/accuracy": None, "valid/loss": None}
    change_card(tmp_path / "graph", members=card["members"], metrics=metrics)
    result = call("evaluate", str(tmp_path / "graph"), "--device", "cpu")
    assert "nan" not in result.stdout
    assert "valid" not in result.stdout
    assert "test/accuracy" in result.stdout


def test_a_metric_that_was_recorded_as_null_is_not_compared(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "link", tmp_path / "link")
    card = json.loads((tmp_path / "link" / "card.json").read_text())
    change_card(tmp_path / "link", metrics=card["metrics"] | {"test/mrr": None})
    result = call("evaluate", str(tmp_path / "link"), "--device", "cpu")
    assert result.exit_code == 0
    assert "test/mrr           recorded nothing" in result.stdout
