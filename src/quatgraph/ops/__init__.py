"""The fast primitives; each file gives the formula, the plain torch form and the dispatch."""

from quatgraph.ops.aggregate import aggregate
from quatgraph.ops.backend import backend
from quatgraph.ops.hamilton_linear import hamilton_linear

__all__ = ["aggregate", "backend", "hamilton_linear"]
