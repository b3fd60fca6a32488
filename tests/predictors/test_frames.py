"""Frames of pandas and polars, and networkx graphs, train like the files that hold the same."""

from pathlib import Path
from typing import Any

import cities
import pytest
import reviews
import rings

from quatgraph.errors import UserError
from quatgraph.estimators import TripleCompleter
from quatgraph.predictors import load, train_graphs, train_texts, train_triples


def triple_rows() -> list[tuple[str, str, str]]:
    return [(f"p{k}", "knows", f"p{(k + step) % 12}") for k in range(12) for step in (1, 2, 3)]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_triples_are_trained_from_a_frame_with_columns_of_any_name(
    library: str, tmp_path: Path
) -> None:
    module: Any = pytest.importorskip(library)
    columns = dict(zip(("who", "how", "whom"), zip(*triple_rows(), strict=True), strict=True))
    names = {"data.head": "who", "data.relation": "how", "data.tail": "whom", "data.path": ""}
    config = cities.config_of(**names, **{"data.split_seed": 3})
    model = train_triples(module.DataFrame(columns), tmp_path / "m", config=config, device="cpu")
    (tmp_path / "facts.csv").write_text("\n".join(map(",".join, [tuple(columns), *triple_rows()])))
    same = train_triples(tmp_path / "facts.csv", tmp_path / "n", config=config, device="cpu")
    assert model.triples.digest == same.triples.digest
    assert model.evaluate() == pytest.approx(same.evaluate())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_features_of_entities_are_trained_from_a_frame(library: str, tmp_path: Path) -> None:
    module: Any = pytest.importorskip(library)
    columns = {"entity": [f"p{k}" for k in range(12)], "age": range(12), "kind": ["a", "b"] * 6}
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "who.csv").write_text("\n".join(["entity,age,kind", *lines]))
    facts = tmp_path / "facts.tsv"
    facts.write_text("\n".join(map("\t".join, triple_rows())))
    config = cities.config_of(**{"data.path": "", "data.entity": "entity"})
    frame = module.DataFrame(columns)
    models = [
        train_triples(triples, tmp_path / name, entities=entities, config=config, device="cpu")
        for name, triples, entities in (
            ("frame", triple_rows(), frame),
            ("table", triple_rows(), tmp_path / "who.csv"),
            ("frame-path", facts, frame),
            ("table-path", str(facts), str(tmp_path / "who.csv")),
        )
    ]
    assert models[0].triples.feature_names == ["age", "kind=a", "kind=b"]
    for one in models[1:]:
        assert one.triples.digest == models[0].triples.digest
        assert one.evaluate() == pytest.approx(models[0].evaluate())
    estimator = TripleCompleter(model="simqgnn", dim_quats=2, epochs=2, device="cpu")
    assert estimator.fit(triple_rows(), frame).predictor_.triples.feature_names
    with pytest.raises(UserError, match="the frame of entities must be a pandas or Polars frame"):
        train_triples(triple_rows(), tmp_path / "o", entities=[1, 2], device="cpu")


def test_the_index_of_a_pandas_frame_may_hold_the_names_of_entities(tmp_path: Path) -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": range(12)}, index=[f"p{k}" for k in range(12)])
    config = cities.config_of(**{"data.path": ""})
    model = train_triples(triple_rows(), tmp_path / "m", entities=frame, config=config)
    assert model.triples.feature_names == ["age"]
    assert "its unnamed index holds the names of entities" in " ".join(model.notes)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_texts_are_trained_and_predicted_from_a_frame(library: str, tmp_path: Path) -> None:
    module: Any = pytest.importorskip(library)
    frame = module.DataFrame({"body": reviews.TEXTS, "topic": reviews.LABELS})
    config = reviews.config_of(**{"data.text": "body", "data.label": "topic"})
    model = train_texts(frame, None, tmp_path / "m", config=config, device="cpu")
    listed = train_texts(
        *(reviews.TEXTS, reviews.LABELS, tmp_path / "n"), config=reviews.config_of(), device="cpu"
    )
    assert model.card["metrics"] == pytest.approx(listed.card["metrics"])
    assert load(tmp_path / "m").predict(frame).labels == model.predict(reviews.TEXTS).labels
    with pytest.raises(UserError, match="a path, a frame or documents have their own"):
        train_texts(frame, reviews.LABELS, tmp_path / "o")


def test_networkx_graphs_are_trained_and_predicted(tmp_path: Path) -> None:
    networkx: Any = pytest.importorskip("networkx")
    graphs, labels = [], []
    for line in rings.lines():
        graph = networkx.Graph(line["edges"])
        networkx.set_node_attributes(graph, dict(enumerate(line["node_labels"])), "label")
        graph.graph["id"] = line["id"]
        graphs.append(graph)
        labels.append(line["label"])
    config = rings.config_of()
    model = train_graphs(graphs, tmp_path / "m", labels=labels, config=config, device="cpu")
    path = rings.written(tmp_path / "rings.jsonl", rings.lines())
    same = train_graphs(path, tmp_path / "n", config=config, device="cpu")
    assert model.card["metrics"] == pytest.approx(same.card["metrics"], nan_ok=True)
    assert model.predict(graphs).labels == same.predict().labels
    with pytest.raises(UserError, match="a list of labels is for networkx graphs"):
        train_graphs(path, tmp_path / "o", labels=labels)
