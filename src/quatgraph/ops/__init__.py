"""The fast primitives; each file gives the formula, the plain torch form and the dispatch."""

from quatgraph.ops.aggregate import aggregate
from quatgraph.ops.aggregate_blocks import aggregate_blocks
from quatgraph.ops.backend import backend
from quatgraph.ops.hamilton_linear import hamilton_linear
from quatgraph.ops.hamilton_matrix import hamilton_matrix
from quatgraph.ops.lookup import lookup

__all__ = [
    "aggregate",
    "aggregate_blocks",
    "backend",
    "hamilton_linear",
    "hamilton_matrix",
    "lookup",
]
