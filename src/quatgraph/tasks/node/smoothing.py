r"""Correct and smooth: spreads the errors on training nodes, then the labels, over the graph.

`Combining Label Propagation and Simple Models Out-performs Graph Neural Networks
<https://arxiv.org/abs/2010.13993>`_. Both steps repeat, with the matrix :math:`\mathbf{S}`,

.. math:: \mathbf{X} \leftarrow \alpha \mathbf{S} \mathbf{X} + (1 - \alpha) \mathbf{X}_0
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency

if TYPE_CHECKING:
    from torch_geometric.data import Data

LARGEST_SCALE = 1000.0
"""A node whose error needs a larger factor has next to no error: its factor is 1."""
SMALLEST = 1e-12
"""Below every probability, so that logarithms stay finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing:
    """The settings of :func:`correct_and_smooth`; a step with 0 repetitions is left out."""

    correct_alpha: float = 0.8
    """How far errors spread: 0 not at all, towards 1 over the whole graph."""
    correct_steps: int = 50
    """Repetitions of the correction."""
    smooth_alpha: float = 0.8
    """How far labels spread."""
    smooth_steps: int = 50
    """Repetitions of the smoothing."""
    scale: float | None = None
    """Factor of the spread errors; None scales those of each node to the mean training error."""

    def __post_init__(self) -> None:
        configs.check(
            self,
            "smoothing",
            rates=("correct_alpha", "smooth_alpha"),
            not_negative=("correct_steps", "smooth_steps", "scale"),
        )


def smoothing_matrix(data: "Data") -> Adjacency:
    """The matrix of a graph for :func:`correct_and_smooth`. Self-loops let a node without
    neighbours keep its prediction."""
    return Adjacency.from_edge_index(
        data.edge_index,
        int(data.num_nodes),
        data.get("edge_weight"),
        self_loops=True,
        normalization="symmetric",
    )


def correct_and_smooth(
    probabilities: Tensor,
    labels: Tensor,
    train: Tensor,
    adjacency: Adjacency,
    *,
    settings: Smoothing,
) -> Tensor:
    """Corrects and smooths the predictions of a graph with the labels of its training nodes.

    Args:
        train: The nodes whose labels are used; other labels are not read.
        adjacency: Symmetrically normalised.
        settings: How far errors and labels spread.

    Shape:
        - probabilities: ``(N, C)``
        - labels: ``(N,)``
        - train: bool ``(N,)``
        - output: probabilities, positive, ``(N, C)``
    """
    found = probabilities.to(adjacency.weight.dtype)
    known = torch.nn.functional.one_hot(torch.where(train, labels, 0), found.size(1)).to(found)
    is_known = train[:, None]
    if settings.correct_steps:
        found = found + _spread_errors(found, known, is_known, adjacency, settings)
    if settings.smooth_steps:
        start = torch.where(is_known, known, found)
        alpha, steps = settings.smooth_alpha, settings.smooth_steps
        found = _propagate(start, adjacency, alpha, steps, lambda x: x.clamp(0, 1))
    found = found.clamp(min=SMALLEST).to(probabilities.dtype)
    return found / found.sum(dim=1, keepdim=True)


def _spread_errors(
    found: Tensor, known: Tensor, is_known: Tensor, adjacency: Adjacency, settings: Smoothing
) -> Tensor:
    error = torch.where(is_known, known - found, 0)
    alpha, steps = settings.correct_alpha, settings.correct_steps
    if settings.scale is not None:  # training nodes keep their errors
        spread = _propagate(
            error, adjacency, alpha, steps, lambda x: torch.where(is_known, error, x)
        )
        return settings.scale * spread
    spread = _propagate(error, adjacency, alpha, steps, lambda x: x.clamp(-1, 1))
    mean = error.abs().sum() / is_known.sum().clamp(min=1)
    factor = mean / spread.abs().sum(dim=1, keepdim=True)
    return torch.where(factor <= LARGEST_SCALE, factor, 1) * spread  # not for NaN or infinity


def _propagate(
    start: Tensor,
    adjacency: Adjacency,
    alpha: float,
    steps: int,
    constrain: Callable[[Tensor], Tensor],
) -> Tensor:
    x = start
    for _ in range(steps):
        x = constrain(alpha * (adjacency @ x) + (1 - alpha) * start)
    return x
