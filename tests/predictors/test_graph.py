"""A trained model answers for its own graphs and for new ones, in the person's own words."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from on_cpu import train_in_folder
from rings import collection, config_of, lines, with_features, without, written
from torch_geometric.data import Data

import quatgraph
from quatgraph import predictors
from quatgraph.adjacency import Adjacency
from quatgraph.data.graph import Graphs, from_list, read
from quatgraph.errors import UserError
from quatgraph.models.graph import MODELS, GraphQGNN
from quatgraph.predictors import GraphPredictor, load, train_graphs
from quatgraph.predictors import graph as predicting
from quatgraph.tasks import job
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.training.bundle import load_bundle
from quatgraph.training.record import read_records

CPU = torch.device("cpu")
IDS = [line["id"] for line in lines()]
LABELS = [line["label"] for line in lines()]


def trained(path: Path, out: Path, **values: Any) -> Path:
    config = config_of(**{"data.path": str(path)} | values)
    return train_in_folder(GRAPH, [config], out).folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("own") / "rings.jsonl", lines())


@pytest.fixture(scope="module")
def bundle(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of tags, long enough trained to be sure."""
    settings = {"train.epochs": 40, "train.select": "last"}
    return trained(place, tmp_path_factory.mktemp("model"), **settings)


@pytest.fixture
def predictor(bundle: Path) -> GraphPredictor:
    return load(bundle, device="cpu")


@pytest.fixture(scope="module")
def of_degrees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of graphs without tags."""
    folder = tmp_path_factory.mktemp("degrees")
    path = written(folder / "rings.jsonl", without(lines(), "node_labels"))
    return trained(path, folder / "model")


def by_hand(bundle: Path, graph: dict[str, Any], codes: list[int | None]) -> torch.Tensor:
    """Probabilities of one graph by itself, the mean of the folds' models, from one-hot rows; None
    is a row of zeros."""
    opened = load_bundle(bundle)
    card = opened.card
    sizes = {"hidden_quats": 2, "num_layers": 2}
    model = GraphQGNN(card["num_features"], 2, **sizes, norm=True, per_layer=True)
    x = torch.zeros(len(codes), card["num_features"])
    for node, code in enumerate(codes):
        if code is not None:
            x[node, code] = 1
    ends = torch.tensor(graph["edges"]).T
    both = torch.cat((ends, ends.flip(0)), dim=1)
    adjacency = Adjacency.from_edge_index(both, len(codes), self_loops=True)
    zeros, nodes = torch.zeros(len(codes), dtype=torch.long), torch.arange(len(codes))
    pool = Adjacency.from_entries(zeros, nodes, None, (1, len(codes)))
    answers = []
    for member in range(len(card["members"])):
        model.load_state_dict(opened.select_tensors(f"members.{member}"))
        with torch.no_grad():
            answers.append(model.eval()(x, adjacency, pool)[0].softmax(dim=0))
    assert len(answers) > 1
    return torch.stack(answers).mean(dim=0)


def test_the_training_graphs_are_answered_for_in_the_persons_own_words(
    predictor: GraphPredictor,
) -> None:
    answer = predictor.predict()
    assert answer.ids == IDS
    assert answer.classes == ["chain", "ring"]
    assert sum(a == b for a, b in zip(answer.labels, LABELS, strict=True)) >= 27
    assert answer.notes == []
    torch.testing.assert_close(answer.probabilities.sum(dim=1), torch.ones(30))


def test_an_answer_is_that_of_the_model_for_the_graph_by_itself(
    predictor: GraphPredictor, bundle: Path
) -> None:
    answer = predictor.predict()
    for index in (0, 1, 7, 29):
        line = lines()[index]
        alone = by_hand(bundle, line, ["CNO".index(tag) for tag in line["node_labels"]])
        torch.testing.assert_close(answer.probabilities[index], alone)


def test_rows_hold_the_class_its_probability_and_all_others(predictor: GraphPredictor) -> None:
    answer = predictor.predict(ids=["ring-4"])
    (row,) = answer.rows()
    known = ["label", "split"]
    assert list(row) == ["id", "prediction", "probability", *known, "p(chain)", "p(ring)"]
    assert (row["id"], row["prediction"], row["label"]) == ("ring-4", "ring", "ring")
    assert row["split"] == "train"  # of all folds but one
    assert row["probability"] == row["p(ring)"] == round(float(answer.probabilities[0, 1]), 6)


def test_some_graphs_are_answered_for_in_the_order_they_were_asked(
    predictor: GraphPredictor,
) -> None:
    everything, some = predictor.predict(), predictor.predict(ids=["ring-8", "chain-1", "ring-8"])
    assert some.ids == ["ring-8", "chain-1", "ring-8"]
    torch.testing.assert_close(some.probabilities, everything.probabilities[[8, 1, 8]])


def test_an_unknown_graph_is_a_mistake_with_a_hint(predictor: GraphPredictor) -> None:
    with pytest.raises(UserError, match="there is no graph 'ring-88'; did you mean 'ring-8'"):
        predictor.predict(ids=["ring-0", "ring-88"])
    with pytest.raises(UserError, match="there is no graph 'caffeine'; the first is 'ring-0'"):
        predictor.predict(ids=["caffeine"])


@pytest.mark.parametrize("room", [1, 7, 20])
def test_answers_come_in_order_however_few_nodes_are_taken_at_once(
    room: int, predictor: GraphPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = predictor.predict()
    monkeypatch.setattr(predicting, "max_nodes_per_chunk", lambda *_: room)
    parts = predictor.predict()
    assert parts.ids == whole.ids
    torch.testing.assert_close(parts.probabilities, whole.probabilities)


@pytest.mark.parametrize("name", ["diffpool", "iegn"])
def test_a_model_with_dense_batches_answers_the_same_however_few_nodes_are_taken_at_once(
    name: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = load(trained(place, tmp_path, **{"model.name": name, "train.epochs": 1}))
    whole = predictor.predict()
    for room in (1, 20):
        monkeypatch.setattr(predicting, "max_nodes_per_chunk", lambda *_, room=room: room)
        parts = predictor.predict()
        assert parts.ids == whole.ids
        torch.testing.assert_close(parts.probabilities, whole.probabilities)


@pytest.mark.parametrize("name", MODELS)
def test_evaluating_again_gives_the_recorded_metrics(
    name: str, place: Path, tmp_path: Path
) -> None:
    predictor = load(trained(place, tmp_path, **{"model.name": name, "train.epochs": 2}))
    again = predictor.evaluate()
    recorded = predictor.card["metrics"]
    assert set(again) == {f"{p}/{m}" for p in ("valid", "test") for m in ("accuracy", "loss")}
    assert again == {metric: pytest.approx(recorded[metric], rel=1e-4) for metric in again}
    assert len(predictor.predict().labels) == 30


def test_a_model_without_validation_data_is_evaluated_on_its_test_graphs(
    place: Path, tmp_path: Path
) -> None:
    blind = {"protocol": "paper", "data.validation": 0.0, "train.select": "last"}
    predictor = load(trained(place, tmp_path, **blind))
    assert predictor.card["metrics"]["valid/accuracy"] is None
    again = predictor.evaluate()
    assert again.keys() == {"test/accuracy", "test/loss"}
    assert again["test/loss"] == pytest.approx(predictor.card["metrics"]["test/loss"], rel=1e-4)


def test_new_graphs_may_come_in_any_form(predictor: GraphPredictor, tmp_path: Path) -> None:
    new = without(lines()[4:9], "label", "id")
    path = written(tmp_path / "new.jsonl", new)
    expected = predictor.predict().probabilities[4:9]
    for form in (path, str(path), read(path, labels_needed=False)):
        answer = predictor.predict(form)
        assert answer.ids == ["0", "1", "2", "3", "4"]
        torch.testing.assert_close(answer.probabilities, expected)


def test_pyg_graphs_are_answered_for_by_their_own_numbers_of_tags(tmp_path: Path) -> None:
    def graph(line: dict[str, Any]) -> Data:
        tag = torch.tensor([10 * "CNO".index(tag) for tag in line["node_labels"]])
        y = ["chain", "ring"].index(line["label"])
        return Data(edge_index=torch.tensor(line["edges"]).T, tag=tag, y=y)

    graphs = [graph(line) for line in lines()]
    predictor = train_graphs(graphs, tmp_path, config=config_of(), device="cpu")
    known = predictor.predict()
    # The second has one tag only, whose number is not its place among the tags.
    lone = Data(edge_index=torch.tensor([[0], [1]]), tag=torch.tensor([20, 20]))
    answer = predictor.predict([graphs[3], lone])
    torch.testing.assert_close(answer.probabilities[0], known.probabilities[3])
    pair = {"edges": [[0, 1]]}
    torch.testing.assert_close(answer.probabilities[1], by_hand(tmp_path, pair, [2, 2]))
    assert predictor.predict(graphs[3]).labels == [known.labels[3]]


def test_a_tag_that_training_never_saw_counts_as_none_and_is_told_once(
    predictor: GraphPredictor, bundle: Path, tmp_path: Path
) -> None:
    strange = {"edges": [[0, 1], [1, 2]], "node_labels": ["Xe", "N", "C"]}
    path = written(tmp_path / "new.jsonl", [strange, strange, without(lines(), "label")[0]])
    answer = predictor.predict(path)
    assert answer.notes == [
        "training never saw the tag 'Xe': such a node counts as one without a tag"
    ]
    torch.testing.assert_close(answer.probabilities[1], by_hand(bundle, strange, [None, 1, 0]))
    # The graph without strange tags is answered for as ever, and alone without a word.
    torch.testing.assert_close(answer.probabilities[2], predictor.predict().probabilities[0])
    assert predictor.predict(path, ids=["ring-0"]).notes == []


@pytest.mark.parametrize("used", [True, False])
def test_an_unseen_label_of_an_edge_is_told_if_a_model_uses_labels(
    used: bool, tmp_path: Path
) -> None:
    labelled = [line | {"edge_labels": ["x"] * len(line["edges"])} for line in lines()]
    path = written(tmp_path / "labelled.jsonl", labelled)
    model = load(trained(path, tmp_path / "model", **{"model.edge_data": used}), device="cpu")
    strange = {"edges": [[0, 1]], "edge_labels": ["y"], "node_labels": ["N", "C"]}
    notes = model.predict(written(tmp_path / "new.jsonl", [strange])).notes
    assert any("edge label" in note for note in notes) == used


def test_many_unseen_tags_are_told_in_few_words(predictor: GraphPredictor, tmp_path: Path) -> None:
    strange = {"edges": [[0, 6]], "node_labels": list("tuvwxyz")}
    (note,) = predictor.predict(written(tmp_path / "new.jsonl", [strange])).notes
    assert "the tag 't', 'u', 'v', 'w', 'x' and 2 more:" in note


def test_a_degree_that_training_never_saw_counts_as_the_nearest(
    of_degrees: Path, tmp_path: Path
) -> None:
    star = {"edges": [[0, node] for node in range(1, 6)]}
    answer = load(of_degrees).predict(written(tmp_path / "star.jsonl", [star]))
    assert answer.notes == [
        "training never saw a node of degree 5: the nearest degree it saw is taken"
    ]
    # Training saw the degrees 1 and 2.
    expected = by_hand(of_degrees, star, [1, 0, 0, 0, 0, 0])
    torch.testing.assert_close(answer.probabilities[0], expected)


def test_graphs_without_tags_cannot_be_asked_of_a_model_of_tags(
    predictor: GraphPredictor, of_degrees: Path, tmp_path: Path
) -> None:
    path = written(tmp_path / "plain.jsonl", without(lines(), "node_labels"))
    with pytest.raises(UserError, match="no node tags, but the model was trained with 3;"):
        predictor.predict(path)
    # Tags that a model has no use for do no harm.
    written(tmp_path / "tagged.jsonl", lines())
    expected = load(of_degrees).predict(path).probabilities
    assert torch.equal(load(of_degrees).predict(tmp_path / "tagged.jsonl").probabilities, expected)


def test_attributes_must_be_those_of_training(tmp_path: Path) -> None:
    path = written(tmp_path / "rings.jsonl", with_features(lines()))
    predictor = load(trained(path, tmp_path / "model"))
    assert predictor.card["num_features"] == 5
    expected = predictor.predict().probabilities
    # Scaled as the training graphs were, not by themselves.
    few = predictor.predict(written(tmp_path / "few.jsonl", with_features(lines())[:3]))
    torch.testing.assert_close(few.probabilities, expected[:3])
    with pytest.raises(UserError, match="the graphs have no node attributes, but the model"):
        predictor.predict(written(tmp_path / "none.jsonl", lines()))
    with pytest.raises(UserError, match="trained with 2 features a node"):
        predictor.predict(written(tmp_path / "wide.jsonl", with_features(lines(), 3)))


def test_training_data_that_has_changed_is_a_mistake(tmp_path: Path) -> None:
    path = written(tmp_path / "rings.jsonl", lines())
    out = trained(path, tmp_path / "model")
    written(path, lines(29))
    for ask in (load(out).predict, load(out).evaluate):
        with pytest.raises(UserError, match="'rings' is no longer what the model was trained on"):
            ask()
    # As new graphs they are welcome.
    assert len(load(out).predict(path).ids) == 29


def test_data_that_was_moved_is_named_again(tmp_path: Path) -> None:
    path = written(tmp_path / "rings.jsonl", lines())
    out = trained(path, tmp_path / "model")
    moved = path.rename(tmp_path / "elsewhere.jsonl")
    with pytest.raises(UserError, match=r"no longer at .*rings\.jsonl: pass its new path"):
        load(out).evaluate()
    predictor = load(out)
    assert predictor.evaluate(moved)["test/accuracy"] == predictor.card["metrics"]["test/accuracy"]
    assert predictor.predict().ids == IDS


@pytest.fixture
def graphs(tmp_path: Path) -> Graphs:
    return collection(tmp_path)


def test_graphs_in_memory_are_learned_and_asked(graphs: Graphs, tmp_path: Path) -> None:
    predictor = quatgraph.train_graphs(graphs, tmp_path / "m", config=config_of(), device="cpu")
    assert predictor.predict().ids == IDS
    again = load(tmp_path / "m")
    with pytest.raises(UserError, match="trained on data in memory: pass the graphs again"):
        again.predict()
    assert torch.equal(again.predict(graphs).probabilities, predictor.predict().probabilities)
    assert again.evaluate(graphs) == predictor.evaluate()


def test_without_a_config_a_few_settings_are_tried(
    graphs: Graphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[GraphConfig] = []

    def shorter(task: Any, candidates: list[GraphConfig], *args: Any, **others: Any) -> Any:
        tried.extend(candidates)
        return job.train_in_folder(task, [config_of()], *args, **others)

    monkeypatch.setattr(predictors.training, "train_in_folder", shorter)
    train_graphs(graphs, tmp_path / "m", device="cpu")
    assert tried == default_candidates(GRAPH)
    assert len(tried) > 1


def test_a_training_is_not_overwritten_but_resumed(graphs: Graphs, tmp_path: Path) -> None:
    first = train_graphs(graphs, tmp_path / "m", config=config_of(), device="cpu")
    with pytest.raises(UserError, match="already holds records"):
        train_graphs(graphs, tmp_path / "m", config=config_of(), device="cpu")
    more = train_graphs(graphs, tmp_path / "m", config=config_of(seeds=2), resume=True)
    assert len(read_records(tmp_path / "m" / "records.jsonl")) == 6
    assert more.card["labels"] == first.card["labels"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([1], r"graphs\[0\] is a int; give a list of PyG's Data"),
        ([Data(num_nodes=1), torch.zeros(2, 1)], r"graphs\[1\] is a Tensor"),
        ([], "the list has no graphs"),
    ],
)
def test_what_is_no_list_of_graphs_is_a_mistake(
    wrong: list[Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        train_graphs(wrong, tmp_path / "m", device="cpu")
    assert not (tmp_path / "m").exists()


def test_a_collection_of_one_class_cannot_be_learned_from(tmp_path: Path) -> None:
    lone = Data(num_nodes=1, edge_index=torch.empty(2, 0).long(), y=0)
    alike = from_list([lone] * 9, labels_needed=False)
    with pytest.raises(UserError, match="all labelled graphs in data have the class '0'"):
        train_graphs(alike, tmp_path / "m", device="cpu")


def test_a_single_node_is_a_graph(predictor: GraphPredictor, tmp_path: Path) -> None:
    lone = {"edges": [], "node_labels": ["C"]}
    answer = predictor.predict(written(tmp_path / "lone.jsonl", [lone]))
    assert math.isclose(float(answer.probabilities.sum()), 1, rel_tol=1e-6)


def test_a_graph_far_larger_than_memory_is_refused(
    predictor: GraphPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicting, "total_memory", lambda device: 1000)
    with pytest.raises(UserError, match="graph 'ring-4' has 7 nodes, which do not fit into memory"):
        predictor.predict()


def test_the_single_graph_of_a_model_of_nodes_is_a_mistake(
    predictor: GraphPredictor, tmp_path: Path
) -> None:
    folder = tmp_path / "single"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,label\na,x\nb,y\n")
    with pytest.raises(UserError, match=r"is not graph data: .* it looks like node data"):
        predictor.predict(folder)


@pytest.mark.gpu
def test_a_gpu_answers_as_the_cpu(bundle: Path) -> None:
    there, here = load(bundle, device="cuda").predict(), load(bundle, device="cpu").predict()
    torch.testing.assert_close(there.probabilities, here.probabilities, rtol=1e-4, atol=1e-5)
