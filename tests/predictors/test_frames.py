"""Frames of pandas and polars, and networkx graphs, train like the files that hold the same."""

from pathlib import Path
from typing import Any

import cities
import pytest
import reviews
import rings

from quatgraph.errors import UserError
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
