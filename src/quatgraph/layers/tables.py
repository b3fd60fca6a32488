"""Tables of vectors, one row per entity or relation."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from quatgraph.layers.dropout import QuaternionDropout

Init = Literal["xavier_normal", "xavier_uniform", "normal", "uniform"]
INITS: dict[Init, Callable[[Tensor, float], Tensor]] = {
    "xavier_normal": nn.init.xavier_normal_,
    "xavier_uniform": nn.init.xavier_uniform_,
    "normal": lambda table, scale: nn.init.normal_(table, std=scale),
    "uniform": lambda table, scale: nn.init.uniform_(table, -scale, scale),
}


class Tables(NamedTuple):
    """How the vectors of entities and relations are initialized, and which numbers training drops.

    Heads, candidates and relations have dropout masks of their own, as in LibKGE.
    """

    init: Init = "xavier_normal"
    init_scale: float = 1.0
    """The gain of ``xavier_*``, the standard deviation of ``normal``, the bound of ``uniform``."""
    entity_dropout: float = 0.0
    relation_dropout: float = 0.0

    def build(self, rows: int, width: int) -> nn.Parameter:
        """Builds an initialized table."""
        table = nn.Parameter(torch.empty(rows, width))
        INITS[self.init](table, self.init_scale)
        return table


DEFAULT_TABLES = Tables()


def build_dropout(rate: float) -> nn.Module:
    """Dropout with a rate that all members of an ensemble share: at 0 it costs nothing."""
    return QuaternionDropout(rate) if rate else nn.Identity()
