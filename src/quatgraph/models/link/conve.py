"""ConvE: a convolution of head and relation."""

from dataclasses import dataclass
from typing import Annotated, Literal

from quatgraph.layers import conv_decoder
from quatgraph.layers.tables import DEFAULT_TABLES, Tables
from quatgraph.models.common import Count, Rate
from quatgraph.models.link.base import LinkOptions, TableModel, TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvEOptions(TableOptions, LinkOptions):
    name: Literal["conve"] = "conve"
    height: Annotated[int | None, "counts"] = None
    """Rows of the image of one vector, a divisor of its width; ``none`` makes the image of head and
    relation as square as possible."""
    num_filters: Count = 32
    """Number of filters."""
    kernel_size: Count = 3
    """Rows and columns of a filter."""
    input_dropout: Rate = 0.2
    """Dropout rate on the image."""
    map_dropout: Rate = 0.2
    """Dropout rate on whole feature maps."""
    dropout: Rate = 0.3
    """Dropout rate on the output of the linear layer."""
    norm: bool = True
    """Whether to batch-normalize image, feature maps and query."""
    input_norm: bool = True
    """Whether to batch-normalize the image too; not in LibKGE."""
    affine: bool = True
    """Whether batch normalization has scale and shift; not in LibKGE."""
    entity_bias: bool = True
    """Whether each entity has a bias."""

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        size = self.kernel_size
        rows, columns = conv_decoder.image_size(self.width, self.height, size)
        positions = (rows - size + 1) * (columns - size + 1)
        maps = positions * (size**2 + 4 * self.num_filters)
        return LinkOptions.num_activations(self, entities, queries) + maps * queries


class ConvE(TableModel):
    """`ConvE <https://arxiv.org/abs/1707.01476>`_: head and relation as an image, a convolution and
    a linear layer.

    Args:
        num_entities: Number of entities E.
        num_relations: Number of relations, not counting inverse ones.
        entity_bias: Whether each entity has a bias.
        others: As in :class:`quatgraph.layers.conv_decoder.ConvE`.

    Shape:
        - graph: ignored
        - head, relation, output: as in the decoder
    """

    Options = ConvEOptions
    shardable = False  # the biases of entities are the decoder's

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        width: int = 128,
        height: int | None = None,
        num_filters: int = 32,
        kernel_size: int = 3,
        reciprocal: bool = True,
        input_dropout: float = 0.0,
        map_dropout: float = 0.0,
        dropout: float = 0.0,
        norm: bool = True,
        input_norm: bool = True,
        affine: bool = True,
        entity_bias: bool = True,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        super().__init__()
        self.entities = tables.build(num_entities, width)
        self.decoder = conv_decoder.ConvE(
            num_relations,
            width,
            num_entities=num_entities if entity_bias else None,
            height=height,
            num_filters=num_filters,
            kernel_size=kernel_size,
            reciprocal=reciprocal,
            input_dropout=input_dropout,
            map_dropout=map_dropout,
            dropout=dropout,
            norm=norm,
            input_norm=input_norm,
            affine=affine,
            tables=tables,
        )
