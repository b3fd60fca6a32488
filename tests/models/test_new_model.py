"""A model that this file defines trains, is searched, bundled, loaded and queried: nothing in the
package knows its name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import reviews
import rings
import torch
from commands import call
from torch import Tensor, nn

import quatgraph
from quatgraph import models, presets
from quatgraph.layers.decoder import DECODERS
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.layers.real import LinearOfSums
from quatgraph.models.graph import MODELS as GRAPH_MODELS
from quatgraph.models.graph import GraphModel, LayeredOptions
from quatgraph.models.link import MODELS as LINK_MODELS
from quatgraph.models.link import DecoderOptions, LinkModel
from quatgraph.models.link.graphs import Graph
from quatgraph.models.node import MODELS as NODE_MODELS
from quatgraph.models.node import HiddenOptions, NodeModel
from quatgraph.models.text import MODELS as TEXT_MODELS
from quatgraph.models.text import TextModel
from quatgraph.models.text.base import VectorOptions
from quatgraph.training.record import read_records

pytestmark = pytest.mark.usefixtures("_elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMineOptions(HiddenOptions):
    name: Literal["mine"] = "mine"
    slope: float = 0.1
    """Of the activation below zero."""


class NodeMine(NodeModel):
    Options = NodeMineOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int,
        num_layers: int,
        dropout: float,
        slope: float,
    ) -> None:
        super().__init__()
        self.first = RealLinear(in_channels, hidden)
        self.last = RealLinear(hidden, num_classes)
        self.activation = nn.LeakyReLU(slope)

    def forward(self, x: Features, adjacency: Matrix) -> Tensor:
        return self.last(self.activation(adjacency @ self.first(x)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphMineOptions(LayeredOptions):
    name: Literal["mine"] = "mine"


class GraphMine(GraphModel):
    Options = GraphMineOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int,
        num_layers: int,
        pooled_dropout: float,
    ) -> None:
        super().__init__()
        self.first = RealLinear(in_channels, hidden)
        self.pooled = LinearOfSums(hidden, num_classes)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.pooled(torch.relu(adjacency @ self.first(x)), pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMineOptions(DecoderOptions):
    name: Literal["mine"] = "mine"


class LinkMine(LinkModel):
    Options = LinkMineOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        reciprocal: bool,
        decoder: Any,
        dim_quats: int,
        dropout: float,
        norm: bool,
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.randn(num_entities, 4 * dim_quats))
        self.decoder = DECODERS[decoder](num_relations, 4 * dim_quats, reciprocal=reciprocal)

    def encode(self, graph: Graph) -> Tensor:
        return self.entities.tanh()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMineOptions(VectorOptions):
    name: Literal["mine"] = "mine"


class TextMine(TextModel):
    Options = TextMineOptions

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.prediction = RealLinear(in_channels, num_classes)

    def forward(self, x: Tensor, adjacency: Matrix | None, pool: Matrix) -> Tensor:
        return self.prediction(pool @ x)


def graph_of_nodes(folder: Path) -> Path:
    folder.mkdir()
    rows = [f"n{k},{'ab'[k % 2]},{k % 2},{k}" for k in range(40)]
    (folder / "nodes.csv").write_text("\n".join(["id,label,x,y", *rows]))
    edges = [f"n{k},n{(k + 2) % 40}" for k in range(40)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]))
    return folder


def triples(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "facts.tsv"
    rows = [f"p{k}\tlives in\tc{k % 5}\np{k}\tworks in\tc{k % 5}\n" for k in range(40)]
    path.write_text("".join(rows))
    return path


Case = tuple[dict[str, Any], type[nn.Module], Callable[[Path], Path], dict[str, Any]]
CASES: dict[str, Case] = {
    "node": (NODE_MODELS, NodeMine, graph_of_nodes, {"nodes": ["n3", "n4"]}),
    "graph": (
        GRAPH_MODELS,
        GraphMine,
        lambda folder: rings.written(folder.with_suffix(".jsonl"), rings.lines()),
        {"ids": [rings.lines()[0]["id"]]},
    ),
    "link": (LINK_MODELS, LinkMine, triples, {"head": "p3", "relation": "lives in", "top": 3}),
    "text": (
        TEXT_MODELS,
        TextMine,
        lambda folder: reviews.written(folder.with_suffix(".csv")),
        {"texts": "a lovely story"},
    ),
}
SAMPLES = {"node": "karate", "graph": "cycles", "link": "countries", "text": "snippets"}


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("task", CASES)
def test_a_new_model_trains_and_answers(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, model, write, query = CASES[task]
    monkeypatch.setitem(registry, "mine", model)
    words = ["train", task, "--data", str(write(tmp_path / "data")), "--out", "model"]
    settings = ["--set", "model.name=mine", "--set", "train.epochs=3", "--device", "cpu"]
    result = call(*words, *settings)
    assert result.exit_code == 0, result.stderr
    predictor = quatgraph.load("model", device="cpu")
    assert predictor.config.model.name == "mine"
    assert list(predictor.predict(**query).rows())
    again, recorded = predictor.evaluate(), predictor.card["metrics"]
    assert again.keys() <= recorded.keys()
    assert all(again[name] == pytest.approx(recorded[name], abs=1e-4) for name in again)


@pytest.mark.parametrize("task", CASES)
def test_a_new_model_is_searched(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, model, *_ = CASES[task]
    monkeypatch.setitem(registry, "mine", model)
    folder = tmp_path / "presets"
    (folder / task).mkdir(parents=True)
    rules = (Path(presets.__file__).parent / "protocols.toml").read_text()
    (folder / "protocols.toml").write_text(rules)
    sample = SAMPLES[task]
    sections = [f'[data]\nname = "{sample}"', '[model]\nname = "mine"', "[train]\nepochs = 1"]
    if task == "graph":
        sections[0] += "\nnum_folds = 2\nvalidation = 0"
        sections[2] += '\nselect = "last"'
    (folder / task / f"{sample}-mine.toml").write_text("\n".join(sections))
    monkeypatch.setattr(presets, "_FOLDER", folder)
    axis = "model.dim_quats" if task == "link" else "model.hidden_quats"
    fixed = [
        word
        for key, tried in configured(task).items()
        for word in ("--set", f"{key}={tried}")
        if key != axis
    ]
    result = call("search", f"{task}/{sample}-mine", *fixed, "--set", f"{axis}=[1, 2]")
    assert result.exit_code == 0, result.stderr
    found = read_records(tmp_path / "results" / "records")
    assert {record.method for record in found} == {"mine"}
    assert len({record.config_digest for record in found if record.protocol != "paper"} or {1}) <= 2
    assert len({record.config["model"][axis.removeprefix("model.")] for record in found}) == 2


def configured(task: str) -> dict[str, Any]:
    """One value of each list that the task searches."""
    grid = presets.protocols(task)["grid"]
    found: dict[str, Any] = {}
    for axis, values in grid.items():
        keys = axis.split()
        first = values[0] if len(keys) > 1 else [values[0]]
        found |= dict(zip(keys, first, strict=True))
    known = {f"model.{name}" for name in CASES[task][1].Options.__dataclass_fields__}
    return {k: v for k, v in found.items() if not k.startswith("model.") or k in known}


def test_every_task_has_its_models_in_a_folder() -> None:
    folders = {path.name for path in Path(models.__file__).parent.iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(CASES)
