"""A graph and its splits as the models take them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.data.scaling import Scaling
from quatgraph.errors import UserError
from quatgraph.hops import Chunks
from quatgraph.tasks.overflow import SUSPICIOUS, find_beyond

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, slots=True)
class Problem:
    """A graph as the models take it, on a device."""

    features: Tensor | Adjacency
    adjacency: Adjacency
    labels: Tensor
    """Class of each node, -1 where unknown, ``(N,)``."""
    masks: dict[str, Tensor]
    """Which nodes are in ``train``, ``valid`` and ``test`` of each split, each ``(S, N)``."""
    label_names: list[str]
    """Name of each class."""
    scaling: Scaling | None
    """None for a graph without features, whose nodes get one-hot features."""
    is_propagated: bool = False
    """Whether the features are propagated already, as often as the model's options say."""
    chunks: Chunks | None = None
    """The graph in chunks, for a model that predicts layer by layer."""

    @property
    def inputs(self) -> tuple[Tensor | Adjacency, Adjacency | Chunks | None]:
        """What a model takes: the features, and the graph if it is still needed."""
        return self.features, None if self.is_propagated else self.chunks or self.adjacency

    @property
    def num_classes(self) -> int:
        return len(self.label_names)

    @property
    def device(self) -> torch.device:
        return self.labels.device


def refuse_infinite_sums(data: "Data", adjacency: Adjacency) -> None:
    """Checks the sums that normalise edge weights: an infinite one would make a node's row zero."""
    sums = (adjacency @ adjacency.weight.new_ones(adjacency.shape[1], 1)).flatten()
    if bool((infinite := ~sums.isfinite()).any()):
        node = data.node_ids[int(infinite.nonzero()[0])]
        raise UserError(
            f"the edge weights of node {node!r} sum to infinity in float32: divide all weights of "
            "the graph by the same large number"
        )


def find_entry_beyond(matrix: Adjacency) -> tuple[int, int, float] | None:
    """Row, column and value of the largest entry, if it is suspicious."""
    if not (place := find_beyond(matrix.weight, SUSPICIOUS)):
        return None
    (entry,) = place
    return int(matrix.receiver[entry]), int(matrix.col[entry]), float(matrix.weight[entry])


def describe_feature(data: "Data", row: int, column: int) -> str:
    value, name = float(data.x[row, column]), data.feature_names[column]
    return f"node {data.node_ids[row]!r} has {value:g} in the feature {name!r}"
