"""Combinations of node classifiers, smoothed over the graph where validation data likes it."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from on_cpu import CPU, train_in_folder
from torch_geometric.data import Data

from quatgraph import config as configs
from quatgraph.data.node import from_data
from quatgraph.predictors import NodePredictor
from quatgraph.tasks.combination import TrainedRun
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.smoothing import Smoothing, correct_and_smooth, smoothing_matrix
from quatgraph.training.bundle import load_bundle

N = 80


def graph(*, homophilous: bool) -> Data:
    """Two classes whose features say little; neighbours share the class, or have the other."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(N) % 2
    x = torch.randn(N, 3, generator=draw)
    x[:, 0] += 0.8 * y
    pairs = torch.randint(N, (2, 6 * N), generator=draw)
    same = y[pairs[0]] == y[pairs[1]]
    edges = pairs[:, same if homophilous else ~same]
    return from_data(Data(x=x, y=y, edge_index=torch.cat((edges, edges.flip(0)), dim=1)))


def run_of(data: Data, seed: int) -> TrainedRun:
    logits = torch.randn(N, 2, generator=torch.Generator().manual_seed(seed)) + data.x[:, :1]
    outputs: dict[str, Any] = {"all/logits": logits}
    for part, mask in (("valid", data.val_mask), ("test", data.test_mask)):
        outputs |= {f"{part}/logits": logits[mask[:, 0]], f"{part}/labels": data.y[mask[:, 0]]}
    return TrainedRun(NodeConfig(), {}, outputs)


def test_smoothed_predictions_are_those_of_correct_and_smooth() -> None:
    data = graph(homophilous=True)
    pool = NODE.pool([run_of(data, 0), run_of(data, 1)], data, CPU)
    plain = pool.predict((1, 1), 2.0, "test")
    pool.smoothing = Smoothing()
    each = [run_of(data, seed).outputs["all/logits"].double().softmax(dim=1) for seed in (0, 1)]
    mixed = ((each[0] + each[1]) / 2).log().div(2.0).softmax(dim=1)
    places = data.test_mask[:, 0]
    torch.testing.assert_close(plain.exp(), mixed[places])
    matrix = smoothing_matrix(data)
    expected = correct_and_smooth(
        mixed, data.y, data.train_mask[:, 0], matrix, settings=Smoothing()
    )
    torch.testing.assert_close(pool.predict((1, 1), 2.0, "test").exp(), expected[places])


@pytest.mark.parametrize("homophilous", [True, False])
def test_smoothing_is_kept_where_it_is_better_on_validation_data(homophilous: bool) -> None:
    data = graph(homophilous=homophilous)
    pool = NODE.pool([run_of(data, 0)], data, CPU)
    before = pool.refined_score((1,), 1.0)
    refined = NODE.refine([pool], (1,), 1.0)
    assert (refined == {"smoothing": dataclasses.asdict(Smoothing())}) == homophilous
    assert (pool.smoothing is not None) == homophilous
    assert (pool.refined_score((1,), 1.0) > before) == homophilous


def test_a_bundle_is_evaluated_with_its_smoothing(tmp_path: Path) -> None:
    data = graph(homophilous=True)
    few = {"model": {"name": "linear"}, "train": {"epochs": 5, "lr": 0.1}}
    job = train_in_folder(
        NODE, [configs.build(NodeConfig, few)], tmp_path / "m", data=data, combine=True
    )
    bundle = load_bundle(job.folder)
    assert bundle.card["smoothing"] is not None
    assert "smoothed over the graph" in " ".join(job.summary)
    measured = NodePredictor(bundle, CPU, data).evaluate()
    assert measured.keys() == job.metrics.keys()
    for name, value in measured.items():
        assert value == pytest.approx(job.metrics[name], abs=1e-5), name
