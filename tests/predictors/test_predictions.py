"""Predictions as tables, and their short representations."""

import sys
from pathlib import Path

import portfolios
import pytest
import torch

from quatgraph.errors import UserError
from quatgraph.predictors import load
from quatgraph.predictors.predictions import Predictions, TextPredictions

FEW = Predictions(["a", "b", "c"], ["x", "y"], torch.tensor([[0.75, 0.25], [1, 0], [0.25, 0.75]]))


def test_a_table_has_the_rows_in_its_lines() -> None:
    table = FEW.to_pandas()
    assert list(table.columns) == ["id", "prediction", "probability", "p(x)", "p(y)"]
    assert table.to_dict("records") == list(FEW.rows())


def test_texts_and_links_are_tables_too(tmp_path: Path) -> None:
    texts = TextPredictions(["a"], [0, 1], torch.tensor([[0.5, 0.5]]), id_name="text")
    assert next(iter(texts.to_pandas().columns)) == "text"
    model = load(portfolios.link(tmp_path / "data")[0][0], device="cpu")
    links = model.predict(head="person 1", relation="knows", top=3)
    assert links.to_pandas().to_dict("records") == list(links.rows())


def test_a_table_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"pip install 'quatgraph\[tables\]'"):
        FEW.to_pandas()


def test_labels_have_the_type_of_the_classes() -> None:
    assert FEW.labels == ["x", "x", "y"]
    assert Predictions(["a"], [3, 7], torch.tensor([[0.1, 0.9]])).labels == [7]


def test_representations_are_short(tmp_path: Path) -> None:
    assert repr(FEW) == "Predictions(3 items: 'x' 2, 'y' 1)"
    assert repr(Predictions([], ["x"], torch.empty(0, 1))) == "Predictions(0 items)"
    many = Predictions(list("abcde"), [1, 2, 3, 4, 5], torch.eye(5))
    assert repr(many) == "Predictions(5 items: 1 1, 2 1, 3 1, 2 more classes)"
    model = load(portfolios.link(tmp_path / "data")[0][0], device="cpu")
    assert repr(model).startswith("LinkPredictor('cities', simqgnn, embeddings, test/mrr 0.")
    links = model.predict(head="person 1", relation="knows", top=3)
    assert repr(links).startswith("Links(3 triples, the first ('person 1', 'knows', '")
    assert repr(model.predict([("person 1", "knows", "person 2")])).startswith("Links(1 ")
    assert len(repr(links)) < 120
