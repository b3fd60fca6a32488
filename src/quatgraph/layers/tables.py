"""Tables of vectors, one row per entity or relation."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.ops.shards import Shards

Init = Literal["xavier_normal", "xavier_uniform", "normal", "uniform"]
INITS: dict[Init, Callable[[Tensor, float], Tensor]] = {
    "xavier_normal": nn.init.xavier_normal_,
    "xavier_uniform": nn.init.xavier_uniform_,
    "normal": lambda table, scale: nn.init.normal_(table, std=scale),
    "uniform": lambda table, scale: nn.init.uniform_(table, -scale, scale),
}
BLOCK_ROWS = 4096
"""Rows of the whole table that a rank draws at once, to keep its own of them."""


class Tables(NamedTuple):
    """How the vectors of entities and relations are initialized, and which numbers training drops.

    Heads, candidates and relations have dropout masks of their own, as in LibKGE.
    """

    init: Init = "xavier_normal"
    init_scale: float = 1.0
    """The gain of ``xavier_*``, the standard deviation of ``normal``, the bound of ``uniform``."""
    entity_dropout: float = 0.0
    relation_dropout: float = 0.0
    shards: Shards | None = None
    """Which entities this rank has, if ranks share them out."""

    def build(self, rows: int, width: int) -> nn.Parameter:
        """Builds an initialized table."""
        table = nn.Parameter(torch.empty(rows, width))
        INITS[self.init](table, self.init_scale)
        return table

    def build_entities(self, rows: int, width: int) -> nn.Parameter:
        """Builds the table of entities, or this rank's rows of it."""
        if self.shards is None:
            return self.build(rows, width)
        own = torch.empty(self.shards.size, width)
        init, scale = _by_block(self.init, self.init_scale, rows, width)
        # The last block is no small remainder, of which torch would draw in another way.
        starts = range(0, max(1, rows - BLOCK_ROWS + 1), BLOCK_ROWS)
        for start in starts:
            end = rows if start == starts[-1] else start + BLOCK_ROWS
            block = INITS[init](torch.empty(end - start, width), scale)
            first, last = max(start, self.shards.first), min(end, self.shards.last)
            if first < last:
                own[first - self.shards.first : last - self.shards.first] = block[
                    first - start : last - start
                ]
        return nn.Parameter(own)


def _by_block(init: Init, scale: float, rows: int, width: int) -> tuple[Init, float]:
    """An initialization of a whole table as one that does not depend on its number of rows."""
    deviation = scale * math.sqrt(2.0 / (rows + width))  # Xavier's
    if init == "xavier_normal":
        return "normal", deviation
    if init == "xavier_uniform":
        return "uniform", math.sqrt(3.0) * deviation
    return init, scale


DEFAULT_TABLES = Tables()


def build_dropout(rate: float) -> nn.Module:
    """Dropout with a rate that all members of an ensemble share: at 0 it costs nothing."""
    return QuaternionDropout(rate) if rate else nn.Identity()
