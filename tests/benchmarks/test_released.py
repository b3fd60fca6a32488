"""Trainings in the manner of the released code: our models, and they learn."""

from itertools import pairwise
from typing import Any

import pytest
import torch

from benchmarks import released
from quatgraph import config as configs
from quatgraph.presets import parts, preset
from quatgraph.tasks import TASKS

CPU = torch.device("cpu")
NAMES = [
    pytest.param("node/cora-qgnn", marks=pytest.mark.realdata),
    pytest.param("graph/mutag-qgnn", marks=pytest.mark.realdata),
    "link/countries-simqgnn",
    "text/snippets-textqgnn",
]
SMALL = {
    "node": [],
    "graph": ["model.hidden_quats=2", "model.dropout=0", "model.pooled_dropout=0"],
    "link": ["model.dim_quats=2"],
    "text": ["model.hidden_quats=2", "model.learned_vectors=false", "train.batch_size=64"],
}


def problem_of(name: str) -> tuple[Any, Any, Any]:
    task = TASKS[parts(name)[0]]
    config = configs.build(task.config, configs.override(preset(name), SMALL[task.name]))
    return task, config, task.prepare(task.load(config), config, CPU)


@pytest.mark.parametrize("name", NAMES)
def test_the_model_has_the_weights_of_ours_and_learns(name):
    torch.manual_seed(0)
    task, config, problem = problem_of(name)
    model, epoch = released.PORTS[task.name](config, problem, CPU)
    assert sum(p.numel() for p in model.parameters()) == task.num_parameters(config, problem)
    losses = [epoch() for _ in range(4)]
    assert min(losses[1:]) < losses[0]


@pytest.mark.realdata
def test_a_batch_is_what_ours_is():
    _, _, problem = problem_of("graph/mutag-qgnn")
    collection, chosen = problem.collection, torch.tensor([7, 2, 100]).numpy()
    entries = released._places(collection.adjacency)
    x, adjacency, pool = released._batch(collection, entries, chosen)
    dense = collection.adjacency.to_dense()
    starts = collection.node_start.tolist()
    blocks = [dense[a:b, a:b] for a, b in (starts[g : g + 2] for g in chosen)]
    assert torch.equal(adjacency.to_dense(), torch.block_diag(*blocks).double())
    sizes = [len(block) for block in blocks]
    assert torch.equal(pool.to_dense().sum(dim=1), torch.tensor(sizes).double())
    ends = torch.tensor([0, *sizes]).cumsum(dim=0).tolist()
    for slot, (first, last) in enumerate(pairwise(ends)):
        assert pool.to_dense()[slot, first:last].all()
    nodes = torch.cat([torch.arange(*starts[g : g + 2]) for g in chosen])
    codes = collection.features.code[nodes].long()
    assert torch.equal(x, torch.eye(collection.features.num_codes)[codes].tile(4).double())


def test_runs_as_one_and_one_alone_stand_beside_it(monkeypatch):
    small = ("text/snippets-textqgnn", 2, 2, 1, ["model.hidden_quats=2"])
    monkeypatch.setattr(released, "CASES", {"cpu": [small]})
    rows = list(released.rows(CPU))
    assert [row["variant"] for row in rows] == [
        "quatgraph, ensemble of 2",
        "quatgraph, single run",
        "port of the released code",
    ]
    assert rows[0]["ratio"] == 1
    for row in rows:
        assert row["case"] == "snippets, textqgnn, model.hidden_quats=2"
        assert row["ratio"] == pytest.approx(row["ms"] / rows[0]["ms"], rel=0.02, abs=0.01)
