"""Options: their bounds, and how they reach the constructor of a model."""

import inspect
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import pytest

from quatgraph.models.common import Count, Model, Options, Rate
from quatgraph.models.graph import MODELS as GRAPH_MODELS
from quatgraph.models.link import MODELS as LINK_MODELS
from quatgraph.models.link.base import TableOptions
from quatgraph.models.node import MODELS as NODE_MODELS
from quatgraph.models.text import MODELS as TEXT_MODELS

OF_THE_TASK = {
    *("name", "normalization", "learned_vectors", "rounds", "conv_weight_decay"),
    *("pmi_window", "counts", "edge_data"),
}
"""Options that prepare the data or wrap the model."""
WIDTHS = {"hidden_quats", "dim_quats"}
"""Options that a real-valued model reads as ``hidden`` or ``width``."""
MODELS = {
    f"{task}/{name}": model
    for task, models in {
        "node": NODE_MODELS,
        "graph": GRAPH_MODELS,
        "link": LINK_MODELS,
        "text": TEXT_MODELS,
    }.items()
    for name, model in models.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MineOptions(Options):
    name: Literal["mine"] = "mine"
    steps: Count = 1
    dropout: Rate = 0.5
    buckets: Annotated[int, "not_negative"] = 0
    scale: float = 1.0

    @property
    def width(self) -> int:
        return 8


class Mine(Model):
    def __init__(self, size: int, *, steps: int, hidden: int, inverse: bool) -> None:
        super().__init__()
        self.read = size, steps, hidden, inverse


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "model.steps must be at least 1, got 0"),
        ({"dropout": 1.0}, r"model.dropout must be in \[0, 1\), got 1.0"),
        ({"buckets": -1}, "model.buckets must not be negative, got -1"),
    ],
)
def test_an_option_out_of_bounds_is_an_error(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MineOptions(**values)
    assert MineOptions(scale=-2.0).scale == -2.0


def test_a_constructor_reads_the_options_that_it_names() -> None:
    assert Mine.from_options(MineOptions(steps=3), 5, inverse=True).read == (5, 3, 8, True)


@pytest.mark.parametrize("name", MODELS)
def test_every_option_of_a_model_is_read(name: str) -> None:
    known = set(inspect.signature(MODELS[name]).parameters)
    options = {field.name for field in fields(MODELS[name].Options)}
    unread = options - known - OF_THE_TASK
    if "tables" in known:
        unread -= {field.name for field in fields(TableOptions)}
    if name == "text/tfidf":
        unread.remove("bigrams")  # its vocabulary is fitted to documents
    assert not unread or (unread <= WIDTHS and known & {"hidden", "width"})
