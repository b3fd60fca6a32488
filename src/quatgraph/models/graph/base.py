"""The interface of graph classifiers."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.adjacency import Normalization
from quatgraph.errors import UserError
from quatgraph.layers.jumping import Jump
from quatgraph.layers.linear import Features, Matrix
from quatgraph.layers.pooling import Pooling
from quatgraph.models.common import Count, Model, Options, Rate

GraphNormalization = Normalization | Literal["neighbours", "adjacency"]
"""A + I, plain or normalized, the mean over neighbours, or A alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions(Options):
    """The hyperparameters of every graph classifier."""

    @property
    def matrix(self) -> GraphNormalization:
        """The matrix that the model multiplies by."""
        return getattr(self, "normalization", "none")

    @property
    def colour_rounds(self) -> int | None:
        """The rounds of refinement of a model that takes histograms of Weisfeiler-Lehman colours
        in the place of graphs; None for all others."""
        return None

    @property
    def field_shape(self) -> tuple[int, int] | None:
        """The fields of a graph and the nodes of a field, for a model that takes receptive fields
        in the place of graphs; None for all others."""
        return None

    @property
    def uses_edges(self) -> bool:
        """Whether the model uses labels and features of edges, if there are some."""
        return getattr(self, "edge_data", False)

    @property
    def edge_dim(self) -> int:
        """The features of an edge; those of the data are given when a model is built for them."""
        return 0

    def num_activations(self, nodes: int, entries: int) -> int:
        """An upper estimate of the numbers that a training step stores per member.

        Args:
            nodes: Nodes of a batch, with padding.
            entries: Entries of its matrix for a model that ``needs_entries``, pairs of nodes of one
                graph for one that ``needs_max_row``, else 0.
        """
        raise NotImplementedError

    def num_held(self, nodes: int) -> int:
        """About the numbers that a prediction for a graph holds at once."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredOptions(GraphOptions):
    """The hyperparameters of graph classifiers with hidden layers."""

    hidden_quats: Count = 16
    """Quaternions per layer; real models have four times as many reals, the same width."""
    num_layers: Count = 3
    """Number of layers."""
    pooled_dropout: Rate = 0.0
    """Dropout rate on the pooled vectors of a graph."""

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats

    def num_activations(self, nodes: int, entries: int) -> int:
        return 12 * nodes * self.width * self.num_layers

    def num_held(self, nodes: int) -> int:
        return nodes * self.width * (self.num_layers + 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingOptions(LayeredOptions):
    """The hyperparameters of graph classifiers whose pooling can be chosen."""

    pooling: Pooling = configs.added("sum")
    """How the vectors of nodes become one of their graph: by their sum, mean or maximum, or
    ``set`` for Set2Set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionOptions(PoolingOptions):
    """The hyperparameters of graph classifiers that pool the vectors of all layers."""

    jump: Jump = configs.added("concat")
    """Whether the last linear map takes all layers side by side, or each node's mean over the
    layers, weighted by attention."""
    virtual_node: bool = configs.added(False)
    """Whether a node that all nodes of a graph are connected with takes part between layers."""

    def __post_init__(self) -> None:
        PoolingOptions.__post_init__(self)
        if self.virtual_node and self.num_layers < 2:
            raise UserError("model.virtual_node stands between layers: use model.num_layers=2")

    def num_activations(self, nodes: int, entries: int) -> int:
        numbers = PoolingOptions.num_activations(self, nodes, entries)
        if self.jump == "attention":  # two LSTMs with a state of half the layers' width each
            numbers += 16 * nodes * self.width * self.num_layers**2
        return numbers


class GraphModel(Model):
    """A graph classifier: ``forward(x, adjacency, pool)`` returns logits ``(G, C)``."""

    Options: ClassVar[type[GraphOptions]]
    supports_members: ClassVar[bool] = False
    """Whether parameters and inputs may have a leading member dimension."""
    needs_entries: ClassVar[bool] = False
    """Whether the model has values of its own for entries of the adjacency matrix, which needs a
    bound on those of a batch: it takes :attr:`Blocks.joined`."""
    needs_max_row: ClassVar[bool] = False
    """Whether the pooling matrix of a batch needs a bound on the nodes of a graph: for models with
    dense batches, each graph of which takes the space of the largest."""
    has_pairs: ClassVar[bool] = False
    """Whether such a dense batch has a vector per pair of nodes, not per node."""
    has_penalty: ClassVar[bool] = False
    """Whether in training mode ``forward`` returns logits and a penalty, which is added to the
    loss of the batch."""
    returns_losses: ClassVar[bool] = False
    """Whether in training mode ``forward`` returns losses ``(G, C)`` in the place of logits: what
    the loss of a graph is if a class is its label."""
    propagations: ClassVar[int] = 0
    """How many times propagated features are appended to the input, along with the degree."""

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        """The vectors of graphs before the prediction layer, ``(G, D)``; the logits of a model
        without such vectors."""
        return self(x, adjacency, pool)


def to_dense_features(x: Features, weight: Tensor) -> Tensor:
    """Features as a dense matrix ``(N, F)``, in the type of a weight ``(..., F)`` and for each
    member that it has."""
    if isinstance(x, Tensor):
        return x
    eye = torch.eye(x.shape[-1], dtype=weight.dtype, device=weight.device)
    return x @ eye.expand(*weight.shape[:-2], -1, -1)
