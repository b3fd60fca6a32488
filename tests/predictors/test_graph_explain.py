"""What each node of a graph contributes to its prediction."""

from pathlib import Path

import pytest
from on_cpu import train_in_folder
from rings import config_of, lines, written

from quatgraph.data.graph import read
from quatgraph.predictors import GraphPredictor, load
from quatgraph.tasks.graph import GRAPH


@pytest.fixture
def predictor(tmp_path: Path) -> GraphPredictor:
    path = written(tmp_path / "rings.jsonl", lines())
    config = config_of(**{"data.path": str(path)})
    train_in_folder(GRAPH, [config], tmp_path / "model")
    return load(tmp_path / "model", device="cpu")


def test_an_explanation_orders_nodes_by_the_drop_without_them(
    predictor: GraphPredictor, tmp_path: Path
) -> None:
    graph = {"edges": [[0, 1], [1, 2]], "node_labels": ["C", "N", "C"]}
    rest = {"edges": [[0, 1]], "node_labels": ["N", "C"]}  # without its first node
    huge = {"edges": [[0, 1]], "node_labels": ["C"] * 101}
    graphs = read(written(tmp_path / "new.jsonl", [graph, rest, huge]), labels_needed=False)
    found = predictor.predict(graphs, explain=True)
    assert found.support is not None
    assert set(found.support[0]) == {"C:0", "N:1", "C:2"}
    assert list(found.support[0].values()) == sorted(found.support[0].values(), reverse=True)
    whole, without_first = found.probabilities[:2]
    chosen = int(whole.argmax())
    drop = float(whole[chosen] - without_first[chosen])
    assert found.support[0]["C:0"] == pytest.approx(drop, abs=1e-6)
    assert found.support[2] == {}
    assert [set(row["support"]) for row in found.rows()] == [set(own) for own in found.support]
    assert "support" not in next(predictor.predict(graphs).rows())
