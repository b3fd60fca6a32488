"""Estimators: what scikit-learn expects of them, and what they hold of a training."""

import gc
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import cities
import numpy as np
import pytest
import reviews
import rings
import torch
from sklearn.base import clone, is_classifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch_geometric.data import Data

import quatgraph
from quatgraph.errors import UserError
from quatgraph.estimators import (
    Estimator,
    GraphClassifier,
    NodeClassifier,
    TextClassifier,
    TripleCompleter,
)

SMALL: dict[str, Any] = {"device": "cpu", "epochs": 3, "lr": 0.03}
TEXT: dict[str, Any] = SMALL | {"model": "fasttext", "hidden_quats": 2}


def graph(nodes: int = 24) -> Data:
    y = torch.arange(nodes) % 2
    x = torch.rand(nodes, 3, generator=torch.Generator().manual_seed(0)) + y[:, None]
    ring = torch.stack((torch.arange(nodes), (torch.arange(nodes) + 2) % nodes))
    return Data(x=x, y=y, edge_index=torch.cat((ring, ring.flip(0)), dim=1))


def rows() -> list[tuple[str, str, str]]:
    graph = cities.cities()
    every = torch.cat((graph.train, graph.valid, graph.test)).tolist()
    return [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in every]


@pytest.fixture(scope="module")
def nodes() -> NodeClassifier:
    return NodeClassifier(model="qgnn", hidden_quats=2, **SMALL).fit(graph())


def test_nodes_are_fitted_predicted_and_scored(nodes: NodeClassifier) -> None:
    data = graph()
    labels, probabilities = nodes.predict(), nodes.predict_proba()
    assert labels.tolist() == nodes.predict(data).tolist()
    assert labels.dtype.kind == "i"
    assert nodes.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(nodes.classes_[probabilities.argmax(axis=1)], labels)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert nodes.score(data) == accuracy_score(data.y, labels)
    known = data.clone()
    known.y = torch.where(torch.arange(24) < 6, data.y, -1)
    assert nodes.score(known) == accuracy_score(data.y[:6], labels[:6])


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        (NodeClassifier, "karate", {"model": "linear"}),
        (GraphClassifier, "cycles", {"model": "gin", "epochs": 1}),
        (TextClassifier, "snippets", {"model": "fasttext", "epochs": 1, "hidden_quats": 1}),
        (TripleCompleter, "countries", {"model": "embeddings", "epochs": 1, "dim_quats": 1}),
    ],
)
def test_data_may_be_the_name_of_a_dataset(
    kind: type[Any], name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    more = {"device": torch.device("cpu"), "out": tmp_path / "m"}
    model = kind(**SMALL | options | more)
    assert 0 <= model.fit(name).score() <= 1
    assert model.predictor_.card["data"]["name"] == name
    with pytest.raises(UserError, match=f"{name[:-1]}'; did you mean '{name}'"):
        kind(**SMALL).fit(name[:-1])


def test_notes_on_the_data_are_kept_and_logged(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    caplog.set_level("INFO", "quatgraph")
    model = NodeClassifier(model="linear", out=tmp_path / "m", **SMALL).fit(graph())
    assert model.notes_ == [
        "the graph has no split: drawn with seed 0, 16 nodes for train, 4 for valid and 4 for test"
    ]
    assert caplog.messages == model.notes_ == model.predictor_.notes
    assert quatgraph.load(tmp_path / "m").notes == model.notes_
    assert capsys.readouterr().err == ""
    shown = NodeClassifier(model="linear", progress=True, **SMALL).fit(graph())
    assert capsys.readouterr().err == f"quatgraph: {shown.notes_[0]}\n"


def test_a_refit_learns_from_all_labels_and_keeps_the_score(tmp_path: Path) -> None:
    plain, refitted = (
        NodeClassifier(model="linear", out=tmp_path / str(refit), refit=refit, **SMALL).fit(graph())
        for refit in (False, True)
    )
    assert refitted.score() == plain.score()
    assert refitted.predictor_.card["refit"] is True
    assert "refit" not in plain.predictor_.card
    assert set(refitted.predictor_.predict().splits or ()) == {"train"}
    assert refitted.predict_proba().tolist() != plain.predict_proba().tolist()
    assert clone(refitted).get_params()["refit"] is True
    with pytest.raises(UserError, match="no test data is left"):
        refitted.predictor_.evaluate()


def test_classes_are_weighed_by_their_own_labels() -> None:
    few = {"model": "linear", **SMALL}
    given, spelt, plain = (
        NodeClassifier(**few, class_weights=weights).fit(graph()).predict_proba()
        for weights in ({0: 1, 1: np.float64(50)}, "1:50", None)
    )
    np.testing.assert_array_equal(given, spelt)
    assert given[:, 1].mean() > plain[:, 1].mean()
    model = NodeClassifier(**few, class_weights={7: 2})
    assert clone(model).get_params()["class_weights"] == {7: 2}
    with pytest.raises(UserError, match=r"train\.class_weights names '7', which is not a class"):
        model.fit(graph())


def test_the_score_is_the_mean_test_accuracy_over_splits(tmp_path: Path) -> None:
    data, part = graph(), torch.stack([(torch.arange(24) // 2 + k) % 4 for k in range(3)], dim=1)
    data.train_mask, data.val_mask, data.test_mask = part < 2, part == 2, part == 3
    model = NodeClassifier(model="gcn", hidden_quats=2, out=tmp_path / "m", **SMALL).fit(data)
    results = model.report_.results
    assert [each["split"] for each in results] == [0, 1, 2]
    tests = [each["combination"]["test/accuracy"] for each in results]
    assert model.score() == pytest.approx(np.mean(tests))
    assert model.report_.mean_std("accuracy")[1] == pytest.approx(np.std(tests, ddof=1))
    # Every split has what is best on its own validation data.
    for each in results:
        assert each["combination"]["valid/accuracy"] >= each["single"]["valid/accuracy"]
    table = model.report_.to_pandas()
    assert table["test/accuracy"].tolist() == tests
    assert "single-test/accuracy" in table.columns
    assert repr(model.report_).startswith("Report(test accuracy ")
    assert " over 3 splits and seeds" in repr(model.report_)


def test_graphs_are_fitted_predicted_and_scored(tmp_path: Path) -> None:
    graphs = rings.collection(tmp_path).to_data_list()
    small = {"num_folds": 3, "hidden_quats": 2, "num_layers": 2, "batch_size": 8, **SMALL}
    model = GraphClassifier(model="gin", **small).fit(graphs)
    labels = model.predict(graphs)
    true = [int(one.y) for one in graphs]
    assert model.score(graphs) == accuracy_score(true, labels)
    assert model.predict_proba(graphs[:4]).shape == (4, 2)
    assert model.score() == pytest.approx(model.report_.mean_std("accuracy")[0])
    assert len(model.report_.results) == 3
    unlabelled = [Data(edge_index=one.edge_index, tag=one.tag) for one in graphs]
    with pytest.raises(UserError, match="has no labels to compare with"):
        model.score(unlabelled)


@pytest.mark.parametrize("kind", ["networkx", "smiles"])
def test_graphs_are_scored_with_labels_as_they_are_fitted(kind: str) -> None:
    graphs: list[Any] = []
    if kind == "smiles":
        pytest.importorskip("rdkit")
        graphs += ["C" * (2 + n) if n % 2 else f"c1ccccc1{'C' * n}" for n in range(24)]
    else:
        networkx: Any = pytest.importorskip("networkx")
        kinds = networkx.cycle_graph, networkx.path_graph
        graphs += [kinds[n % 2](3 + n // 2) for n in range(24)]
    labels = [n % 2 == 0 for n in range(24)]
    small = {"num_folds": 3, "hidden_quats": 2, "num_layers": 2, "batch_size": 8, **SMALL}
    model = GraphClassifier(model="gin", **small).fit(graphs, labels)
    right = accuracy_score(labels, model.predict(graphs))
    assert model.score(graphs, labels) == model.score(graphs, np.array(labels)) == right
    predictor = model.predictor_
    assert predictor.report((graphs, labels)).to_dict() == predictor.report().to_dict()
    assert predictor.report((graphs[:7], labels[:7])).num_items == 7
    assert predictor.evaluate((graphs, labels)) == predictor.evaluate()
    assert predictor.predict((graphs, labels)).splits == predictor.predict().splits
    assert len(predictor.predict(tuple(graphs[:2])).ids) == 2  # no pair
    with pytest.raises(UserError, match=r"there are 24 graphs|SMILES but 2 labels; give one to ea"):
        model.score(graphs, labels[:2])
    with pytest.raises(UserError, match=r"labels must be a list, one for each .*, not int"):
        model.score(graphs, 5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="pass the data that they are of to score, too"):
        model.score(labels=labels)
    with pytest.raises(UserError, match=r"test, not list; give labels with their graphs, as a pa"):
        predictor.report(graphs, labels)  # type: ignore[arg-type]


def test_graphs_with_labels_of_their_own_take_no_list_of_labels(tmp_path: Path) -> None:
    collection = rings.collection(tmp_path)
    labels = ["ring"] * len(collection)
    small = {"num_folds": 3, "hidden_quats": 2, "num_layers": 2, "batch_size": 8, **SMALL}
    model = GraphClassifier(model="gin", **small)
    paths = rings.written(tmp_path / "r.jsonl", rings.lines())
    listed = collection.to_data_list()
    model.fit(collection)
    for graphs in (collection, paths, str(paths), listed):
        for use in (clone(model).fit, model.score):
            with pytest.raises(UserError, match="other graphs have their own"):
                use(graphs, labels)


@pytest.mark.parametrize("names", [(1, 0), (True, False), ("praise", "blame"), (1.0, 0.5)])
def test_texts_are_fitted_predicted_and_scored(names: tuple[Any, Any], tmp_path: Path) -> None:
    labels = [names[place % 2] for place in range(60)]
    model = TextClassifier(**TEXT).fit(reviews.TEXTS, labels)
    found = model.predict(reviews.TEXTS)
    assert model.score(reviews.TEXTS, labels) == np.mean(found == np.array(labels))
    assert set(model.classes_.tolist()) == set(names)
    assert model.predict(np.array(reviews.TEXTS)).tolist() == found.tolist()
    assert model.score(np.array(reviews.TEXTS), np.array(labels)) == np.mean(found == labels)
    with pytest.raises(UserError, match="there are 60 items but 2 labels"):
        model.score(reviews.TEXTS, labels[:2])
    assert model.score(iter(reviews.TEXTS), iter(labels)) == np.mean(found == np.array(labels))
    with pytest.raises(UserError, match="labels must be a list, one for each text, not int"):
        model.score(reviews.TEXTS, 5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"path or documents, not set$"):
        model.score(set(reviews.TEXTS), labels)  # type: ignore[arg-type]
    path = reviews.written(tmp_path / "r.csv", list(zip(reviews.TEXTS, labels, strict=True)))
    if isinstance(names[0], str | int) and not isinstance(names[0], bool):
        assert model.score(path) == np.mean(found == np.array(labels))


def test_a_table_of_texts_is_scored_by_the_columns_of_training(tmp_path: Path) -> None:
    path = reviews.written(tmp_path / "r.csv", columns=("text", "mood"))
    model = TextClassifier(**TEXT).fit(path)
    assert model.score(path) == model.score(reviews.TEXTS, reviews.LABELS)


def test_triples_are_scored_in_any_form_that_they_are_fitted_in(tmp_path: Path) -> None:
    triples = rows()
    model = TripleCompleter(dim_quats=2, batch_size=16, **SMALL).fit(triples)
    expected = model.score(triples)
    assert model.score(np.array(triples)) == expected
    assert model.score(iter(triples)) == expected
    assert model.score(model.predictor_.triples) == pytest.approx(expected)
    for library in ("pandas", "polars"):
        module: Any = pytest.importorskip(library)
        heads, relations, tails = map(list, zip(*triples, strict=True))
        frame = module.DataFrame({"relation": relations, "head": heads, "tail": tails})
        assert model.score(frame) == expected
        # Training data is recognised, and the report is on its test part.
        test = model.predictor_.triples.test
        assert model.predictor_.report(frame).num_triples == len(test) < len(set(triples))
    for wrong, words in [
        (5, "queries must be rows of head, relation and tail, a frame or a path, not int"),
        ([1, 2], "query 1: 1 is not a row of head, relation and tail"),
        ([range(99), 1], "query 1: range.0, 99. is not a row"),
        ([list(range(99))], r"^\[0, 1, .{1,60} \.\.\. is not a row of head, relation and tail"),
        (tmp_path, "is a folder; name a file of queries"),
    ]:
        with pytest.raises(UserError, match=words):
            model.score(wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^part must be valid or test, not list$"):
        model.predictor_.report(part=[1])  # type: ignore[arg-type]


def test_triples_are_fitted_completed_and_scored() -> None:
    triples = rows()
    model = TripleCompleter(dim_quats=2, batch_size=16, **SMALL).fit(triples)
    links = model.predict(head="person 1", relation="knows", top=3)
    assert len(list(links.rows())) == 3
    assert model.score() == pytest.approx(model.predictor_.evaluate()["test/mrr"], abs=1e-6)
    test = model.predictor_.triples.test
    graph = model.predictor_.triples
    named = [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in test]
    assert model.score(named) == pytest.approx(model.score(), abs=1e-6)
    with pytest.raises(UserError, match="score takes whole triples"):
        model.score([("person 1", "knows", "?")])


ESTIMATORS: list[Estimator[Any]] = [
    NodeClassifier(model="gat", heads=4, out="here"),
    GraphClassifier(num_folds=3, callback=print),
    TextClassifier(lr=0.5, dropout=0.25),
    TripleCompleter(model="embeddings", decoder="complex", progress=True),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_scikit_learn_clones_them(estimator: Estimator[Any]) -> None:
    again = clone(estimator)
    assert type(again) is type(estimator)
    assert again.get_params() == estimator.get_params()
    assert repr(again) == repr(estimator)
    assert eval(repr(again.set_params(callback=None))).get_params() == again.get_params()


def test_parameters_are_replaced_or_refused_as_a_whole() -> None:
    model = NodeClassifier(lr=0.5)
    assert model.set_params(lr=0.25, model="gat", heads=2) is model
    assert model.get_params()["heads"] == 2
    with pytest.raises(UserError, match="did you mean 'epochs'"):
        model.set_params(epoch=3, lr=0.125)
    assert model.get_params()["lr"] == 0.25
    with pytest.raises(UserError, match="did you mean 'hidden_quats'"):
        NodeClassifier(hiden_quats=3)
    with pytest.raises(UserError, match=r"train\.lr must be a number"):
        NodeClassifier(lr="fast")


def test_nothing_is_predicted_before_the_training() -> None:
    for model in (NodeClassifier(), TripleCompleter()):
        with pytest.raises(UserError, match=f"this {type(model).__name__} is not trained yet"):
            model.predict()
        with pytest.raises(UserError, match="call fit first"):
            model.score()


def test_a_temporary_folder_lives_as_long_as_the_estimator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = NodeClassifier(model="mlp", hidden_quats=2, **SMALL).fit(graph())
    (folder,) = tmp_path.iterdir()
    assert (folder / "card.json").exists()
    model.fit(graph())
    assert len(list(tmp_path.iterdir())) == 2
    del model
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_folder_of_its_own_is_a_bundle_that_is_not_replaced_silently(tmp_path: Path) -> None:
    model = NodeClassifier(model="mlp", hidden_quats=2, out=tmp_path / "m", **SMALL).fit(graph())
    loaded = quatgraph.load(tmp_path / "m", device="cpu")
    assert loaded.predict(graph()).labels == model.predict().tolist()
    with pytest.raises(UserError, match="overwrite=True"):
        model.fit(graph())
    model.set_params(overwrite=True).fit(graph())


def test_scikit_learn_validates_and_searches_texts() -> None:
    labels = [place % 2 for place in range(60)]
    assert is_classifier(TextClassifier())
    scores = cross_val_score(TextClassifier(**TEXT), reviews.TEXTS, labels, cv=2)
    assert scores.shape == (2,)
    search = GridSearchCV(TextClassifier(**TEXT), {"lr": np.array([0.001, 0.5])}, cv=2)
    search.fit(reviews.TEXTS, labels)
    assert search.best_params_["lr"] == 0.5


def test_data_without_a_test_part_has_no_score_of_its_own() -> None:
    triples = replace(cities.cities(), test=torch.empty(0, 3, dtype=torch.long))
    model = TripleCompleter(dim_quats=2, batch_size=16, **SMALL).fit(triples)
    with pytest.raises(UserError, match="no test part: pass labelled data to score"):
        model.score()
