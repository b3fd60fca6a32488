"""Fast primitives; each file holds the formula, a plain torch form and the dispatch."""

from quatgraph.ops.aggregate import aggregate
from quatgraph.ops.aggregate_blocks import aggregate_blocks
from quatgraph.ops.attention_pool import attention_pool
from quatgraph.ops.backend import backend
from quatgraph.ops.filtered_rank import Ranks, filtered_rank
from quatgraph.ops.gated_step import gated_step
from quatgraph.ops.grouped_product import grouped_product
from quatgraph.ops.hamilton import hamilton_linear, hamilton_matrix
from quatgraph.ops.lookup import lookup, table_and_rows
from quatgraph.ops.one_vs_all import (
    Positives,
    k_vs_all_cross_entropy,
    one_vs_all_bce,
    one_vs_all_cross_entropy,
)
from quatgraph.ops.shards import Shards

__all__ = [
    "Positives",
    "Ranks",
    "Shards",
    "aggregate",
    "aggregate_blocks",
    "attention_pool",
    "backend",
    "filtered_rank",
    "gated_step",
    "grouped_product",
    "hamilton_linear",
    "hamilton_matrix",
    "k_vs_all_cross_entropy",
    "lookup",
    "one_vs_all_bce",
    "one_vs_all_cross_entropy",
    "table_and_rows",
]
