"""Nodes to classify: the karate club and a made-up graph, with small settings."""

from typing import Any

import pytest
import settings
import torch
from on_cpu import run
from torch_geometric.data import Data

from quatgraph.data.node import from_data
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.runs import Outcome
from quatgraph.tasks.task import Member

CPU = torch.device("cpu")
SMALL = {"data.name": "karate", "train.epochs": 12, "train.lr": 0.05, "model.hidden_quats": 2}
SMALL |= {"model.num_layers": 1, "model.skip": False}
N = 24


def config_of(**values: Any) -> NodeConfig:
    return settings.built(NodeConfig, values, SMALL)


@pytest.fixture(scope="module")
def karate() -> Data:
    return NODE.load(NodeConfig(data=DataConfig(name="karate")))


@pytest.fixture(scope="module")
def graph() -> Data:
    """Two classes that both features and edges tell apart; three splits."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(N) % 2
    x = torch.rand(N, 4, generator=draw)
    x[:, 0] += 2.0 * y
    ring = torch.stack((torch.arange(N), (torch.arange(N) + 2) % N))
    part = torch.stack([(torch.arange(N) // 2 + shift) % 4 for shift in range(3)], dim=1)
    return from_data(
        Data(
            x=x,
            y=y,
            edge_index=torch.cat((ring, ring.flip(0)), dim=1),
            train_mask=part < 2,
            val_mask=part == 2,
            test_mask=part == 3,
            name="rings",
        )
    )


def outcome_of(members: list[Member], data: Data, **others: Any) -> Outcome:
    (outcome,) = run(NODE, members, data, **others)
    return outcome
