"""Vectors of entities and relations, multiplied as hypercomplex numbers."""

from dataclasses import dataclass
from typing import Literal

from quatgraph.layers.phm import Rules
from quatgraph.layers.phm_decoder import PHMDecoder
from quatgraph.layers.tables import DEFAULT_TABLES, Tables
from quatgraph.models.common import Count, check_components
from quatgraph.models.link.base import LinkOptions, TableModel, TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PHMOptions(TableOptions, LinkOptions):
    name: Literal["phm"] = "phm"
    n: Count = 4
    """Components of a hypercomplex number, a divisor of four times dim_quats."""
    rules: Rules = "fixed"
    """Whether the rules of multiplication are learned, or those of the real and complex numbers,
    quaternions and octonions (n = 1, 2, 4, 8)."""

    def __post_init__(self) -> None:
        LinkOptions.__post_init__(self)
        check_components(self.n, self.width, self.rules)

    @property
    def components(self) -> int:
        return self.n

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        products = 2 * self.n * self.width * queries
        return LinkOptions.num_activations(self, entities, queries) + products


class PHM(TableModel):
    """A learned vector per entity and relation, whose numbers have n components.

    Args:
        num_entities: Number of entities E.
        others: As in :class:`quatgraph.layers.phm_decoder.PHMDecoder`.

    Shape:
        - graph: ignored
        - head, relation, output: as in the decoder
    """

    Options = PHMOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        width: int = 128,
        n: int = 4,
        rules: Rules = "fixed",
        reciprocal: bool = True,
        dropout: float = 0.0,
        norm: bool = False,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        super().__init__()
        self.entities = tables.build_entities(num_entities, width)
        self.decoder = PHMDecoder(
            num_relations,
            width,
            n=n,
            rules=rules,
            reciprocal=reciprocal,
            dropout=dropout,
            norm=norm,
            tables=tables,
        )
