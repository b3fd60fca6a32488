"""Quaternion layers beside PyG's: a graph, and how to compare values and gradients."""

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks

N, IN, OUT = 6, 3, 2  # nodes and quaternions
# Directed, with a loop at node 1; node 5 is alone.
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
SENDERS: list[list[int]] = [
    [u for u, w in EDGES.T.tolist() if w == v] for v in range(N)
]  # of each node


def features(width: int = 4 * IN, rows: int = N) -> Tensor:
    return torch.randn(rows, width, dtype=torch.float64, requires_grad=True)


def assert_same(ours: Tensor, theirs: Tensor, *inputs: Tensor) -> None:
    """Equal values, and equal gradients for inputs."""
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn_like(ours)
    mine = torch.autograd.grad(ours, inputs, probe)
    wanted = torch.autograd.grad(theirs, inputs, probe)
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a, b)


def all_nodes(adjacency: Adjacency) -> Blocks:
    """The whole graph as a single block."""
    row, shift = torch.arange(N, dtype=torch.int32), torch.zeros(N, dtype=torch.int32)
    return Blocks(adjacency, row, shift, row, shift)
