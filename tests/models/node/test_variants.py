"""QGNN and GCN with and without bias and skip connections, shallow and deep."""

import pytest
import torch
from karate import config_of, outcome_of
from torch_geometric.data import Data

from quatgraph.data.node import from_data
from quatgraph.tasks.node import NODE
from quatgraph.tasks.task import Member

N = 60
VARIANTS = [(bias, skip) for bias in (False, True) for skip in (False, True)]


@pytest.fixture(scope="module")
def heterophilous() -> Data:
    """Neighbours are always of the other class; the features of both classes say little."""
    draw = torch.Generator().manual_seed(1)
    y = torch.arange(N) % 2
    x = torch.randn(N, 6, generator=draw)
    x[:, 0] += 0.8 * y
    step = torch.tensor([1, 3, 7])[:, None]
    ends = torch.stack((torch.arange(N).repeat(3, 1), (torch.arange(N) + step) % N)).flatten(1)
    part = torch.rand(N, generator=draw)
    return from_data(
        Data(
            x=x,
            y=y,
            edge_index=torch.cat((ends, ends.flip(0)), dim=1),
            train_mask=part < 0.5,
            val_mask=(part >= 0.5) & (part < 0.7),
            test_mask=part >= 0.7,
            name="opposites",
        )
    )


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize(("bias", "skip"), VARIANTS)
@pytest.mark.parametrize("name", ["qgnn", "gcn"])
def test_every_variant_learns_in_an_ensemble(
    heterophilous: Data, name: str, bias: bool, skip: bool, layers: int
) -> None:
    variant = {"model.name": name, "model.bias": bias, "model.skip": skip}
    variant |= {"model.num_layers": layers, "model.hidden_quats": 4, "model.dropout": 0.0}
    training = {"train.epochs": 40, "train.lr": 0.05, "train.select": "last"}
    config = config_of(**variant, **training, **{"data.name": "", "data.path": "here"})
    members = [Member(config, 0, seed) for seed in range(2)]
    outcome = outcome_of(members, heterophilous)
    assert outcome.divergence == ["", ""]
    for record in outcome.records:
        assert record.metrics["train/accuracy"] > 0.9
    biases = [key for key in outcome.fit.weights if key.endswith("bias")]
    assert bool(biases) == bias
    assert all(bool(outcome.fit.weights[key].any()) for key in biases)
    # A member has the weights that it would have alone.
    alone = NODE.train(members[1:], outcome.problem, NODE.plan(members[1:]))
    for key, weight in alone.weights.items():
        torch.testing.assert_close(outcome.fit.weights[key][1], weight[0], rtol=1e-2, atol=1e-3)
