r"""Decoders with a convolution: the query vector is a small network of head and relation.

A convolution is a product of patches and filters, channels last. A convolution of torch would
differ from run to run on a GPU, and become a slow grouped one for the members of an ensemble.
Filters have no bias: batch normalization would subtract it.
"""

from itertools import count, islice
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from quatgraph.errors import UserError
from quatgraph.layers.decoder import RowDecoder, TripleDecoder
from quatgraph.layers.linear import RealLinear
from quatgraph.layers.norm import BatchNorm
from quatgraph.layers.tables import DEFAULT_TABLES, Tables, build_dropout

EVALUATED_NUMBERS = 1 << 25
"""Numbers of feature maps that an evaluation holds at once."""


class _ConvDecoder(RowDecoder):
    """Patches of head and relation, filters, a linear layer.

    Args:
        num_relations, width: As in :class:`quatgraph.layers.decoder.DistMult`.
        patch: Numbers of a patch.
        positions: Patches of a query.
        filters: Number of filters, which is that of feature maps.
        affine: Whether batch normalization has scale and shift.
        others: The rest as in the decoders below.
    """

    def __init__(
        self,
        num_relations: int,
        width: int,
        *,
        patch: int,
        positions: int,
        filters: int,
        affine: bool = True,
        reciprocal: bool = True,
        dropout: float = 0.0,
        map_dropout: float = 0.0,
        norm: bool = True,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        if not reciprocal:
            raise UserError(
                f"{type(self).__name__} needs vectors of its own for each inverse relation: "
                "set data.reciprocal=true"
            )
        super().__init__(num_relations, width, dropout=dropout, tables=tables)
        self.positions, self.filters = positions, filters
        self.conv = RealLinear(patch, filters, bias=not norm)
        self.linear = RealLinear(positions * filters, width)
        self.map_dropout = build_dropout(map_dropout)
        self.map_norm, self.query_norm = (
            BatchNorm(features, "relu", affine=affine) if norm else nn.ReLU()
            for features in (filters, width)
        )

    # A query is no linear function of the relation's vector.
    relation_query = TripleDecoder.relation_query

    def combine(self, head: Tensor, relation: Tensor) -> Tensor:
        if self.training:
            return self._convolve(head, relation)
        # Queries do not depend on each other here, and their feature maps are large.
        rows = max(1, EVALUATED_NUMBERS // (self.positions * self.filters))
        some = zip(head.split(rows, dim=-2), relation.split(rows, dim=-2), strict=True)
        return torch.cat([self._convolve(*pair) for pair in some], dim=-2)

    def finish(self, query: Tensor) -> Tensor:
        return self.query_norm(self.dropout(query))

    def _convolve(self, head: Tensor, relation: Tensor) -> Tensor:
        patches = self.patches(head, relation)
        maps = self.map_norm(self.conv(patches.flatten(-3, -2)))
        maps = self.drop_maps(maps.unflatten(-2, patches.shape[-3:-1]))
        return self.linear(maps.flatten(-2))

    def patches(self, head: Tensor, relation: Tensor) -> Tensor:
        """The patches of each query, ``(B, positions, patch)``."""
        raise NotImplementedError

    def drop_maps(self, maps: Tensor) -> Tensor:
        """Drops numbers of the feature maps ``(B, positions, filters)``."""
        return self.map_dropout(maps.flatten(-2)).view_as(maps)


class ConvE(_ConvDecoder):
    r"""`ConvE <https://arxiv.org/abs/1707.01476>`_: head and relation as an image of ``2 height``
    rows, filters without padding, and a linear layer,

    .. math:: \mathrm{ReLU}(\mathrm{vec}(\mathrm{ReLU}([\mathbf{e}_h; \mathbf{v}_r] * \omega))
        \mathbf{W} + \mathbf{b}) \cdot \mathbf{e}_t + b_t

    Args:
        num_relations, width: As in :class:`quatgraph.layers.decoder.DistMult`.
        num_entities: Number of entities, each of which has a bias; None for no biases.
        height: Rows of the image of one vector, a divisor of ``width``; by default those that make
            the image of both as square as possible.
        image: ``"stacked"``: the rows of the head above those of the relation. ``"interleaved"``:
            their numbers by turns, as in CompGCN.
        num_filters: Number of filters.
        kernel_size: Rows and columns of a filter.
        reciprocal: Must be true: a query is not symmetric in head and tail.
        input_dropout: Rate on the image.
        map_dropout: Rate on the feature maps.
        whole_maps: Whether to drop whole feature maps, or single numbers as in CompGCN.
        dropout: Rate on the output of the linear layer.
        norm: Whether to batch-normalize image, feature maps and query.
        input_norm: Whether to normalize the image.
        affine: Whether the normalization has scale and shift.
        tables: As in :class:`quatgraph.layers.decoder.DistMult`.

    Shape:
        - as in :class:`quatgraph.layers.decoder.DistMult`; ``D + 1`` columns with biases
    """

    def __init__(
        self,
        num_relations: int,
        width: int,
        *,
        num_entities: int | None = None,
        height: int | None = None,
        image: Literal["stacked", "interleaved"] = "stacked",
        num_filters: int = 32,
        kernel_size: int = 3,
        reciprocal: bool = True,
        input_dropout: float = 0.0,
        map_dropout: float = 0.0,
        whole_maps: bool = True,
        dropout: float = 0.0,
        norm: bool = True,
        input_norm: bool = True,
        affine: bool = True,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        rows, columns = image_size(width, height, kernel_size)
        super().__init__(
            num_relations,
            width,
            patch=kernel_size**2,
            positions=(rows - kernel_size + 1) * (columns - kernel_size + 1),
            filters=num_filters,
            affine=affine,
            reciprocal=reciprocal,
            dropout=dropout,
            map_dropout=map_dropout,
            norm=norm,
            tables=tables,
        )
        self.shape, self.kernel_size = (rows, columns), kernel_size
        self.interleaved, self.whole_maps = image == "interleaved", whole_maps and map_dropout > 0
        self.input_dropout = build_dropout(input_dropout)
        self.input_norm = BatchNorm(1, affine=affine) if norm and input_norm else None
        self.bias = None if num_entities is None else nn.Parameter(torch.zeros(num_entities))

    def patches(self, head: Tensor, relation: Tensor) -> Tensor:
        both = torch.stack((head, relation), dim=-1 if self.interleaved else -2).flatten(-2)
        if self.input_norm is not None:
            both = self.input_norm(both.flatten(-2)[..., None]).view_as(both)
        image = self.input_dropout(both).unflatten(-1, self.shape)
        windows = image.unfold(-2, self.kernel_size, 1).unfold(-2, self.kernel_size, 1)
        return windows.flatten(-2).flatten(-3, -2)

    def drop_maps(self, maps: Tensor) -> Tensor:
        if not (self.whole_maps and self.training):
            return super().drop_maps(maps)
        factor = self.map_dropout(torch.ones_like(maps[..., 0, :]))
        return maps * factor.unsqueeze(-2)

    def as_inner_product(self, query: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        if self.bias is None:
            return query, candidates
        one = torch.ones_like(query[..., :1])
        return (
            torch.cat((query, one), dim=-1),
            torch.cat((candidates, self.bias.unsqueeze(-1)), dim=-1),
        )


class ConvTransE(_ConvDecoder):
    r"""`Conv-TransE <https://arxiv.org/abs/1811.04441>`_, SACN's decoder: filters over the
    positions of head and relation, which are two channels; positions are kept.

    Args:
        num_relations, width: As in :class:`quatgraph.layers.decoder.DistMult`.
        num_filters: Number of filters.
        kernel_size: Positions that a filter spans, an odd number.
        reciprocal: Must be true: a query is not symmetric in head and tail.
        input_dropout: Rate on head and relation.
        map_dropout: Rate on the feature maps, number by number.
        dropout: Rate on the output of the linear layer.
        norm: Whether to batch-normalize the channels, the feature maps and the query.
        tables: As in :class:`quatgraph.layers.decoder.DistMult`.

    Shape:
        - as in :class:`quatgraph.layers.decoder.DistMult`
    """

    def __init__(
        self,
        num_relations: int,
        width: int,
        *,
        num_filters: int = 200,
        kernel_size: int = 5,
        reciprocal: bool = True,
        input_dropout: float = 0.0,
        map_dropout: float = 0.0,
        dropout: float = 0.0,
        norm: bool = True,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        if kernel_size % 2 == 0:
            raise UserError(f"ConvTransE needs an odd kernel_size, got {kernel_size}")
        super().__init__(
            num_relations,
            width,
            patch=2 * kernel_size,
            positions=width,
            filters=num_filters,
            reciprocal=reciprocal,
            dropout=dropout,
            map_dropout=map_dropout,
            norm=norm,
            tables=tables,
        )
        self.kernel_size = kernel_size
        self.input_dropout = build_dropout(input_dropout)
        self.input_norm = BatchNorm(2) if norm else None

    def patches(self, head: Tensor, relation: Tensor) -> Tensor:
        both = torch.stack((head, relation), dim=-1)
        if self.input_norm is not None:
            both = self.input_norm(both.flatten(-3, -2)).view_as(both)
        both = self.input_dropout(both.flatten(-2)).view_as(both)
        reach = self.kernel_size // 2
        return pad(both, (0, 0, reach, reach)).unfold(-2, self.kernel_size, 1).flatten(-2)


def image_size(width: int, height: int | None, kernel_size: int) -> tuple[int, int]:
    """Rows and columns of the image of two vectors, each of ``height`` rows."""
    fitting = _fitting_heights(width, kernel_size)
    if not fitting:
        least = max(width + 1, (kernel_size + 1) // 2 * kernel_size)
        larger = (w for w in count(least + -least % 4, 4) if _fitting_heights(w, kernel_size))
        widths = list(islice(larger, 3))
        raise UserError(
            f"ConvE needs an image of at least {kernel_size} x {kernel_size}, which vectors of "
            f"width {width} do not give; the next widths that do are {', '.join(map(str, widths))} "
            f"(model.dim_quats={widths[0] // 4})"
        )
    if height is None:
        height = min(fitting, key=lambda rows: abs(2 * rows - width // rows))
    if height not in fitting:
        raise UserError(
            f"ConvE cannot reshape vectors of width {width} into images of {height} rows for "
            f"filters of {kernel_size} x {kernel_size}: the height can be "
            f"{', '.join(map(str, fitting))}"
        )
    return 2 * height, width // height


def _fitting_heights(width: int, kernel_size: int) -> list[int]:
    """The rows of a vector's image that make that of two vectors no smaller than a filter."""
    divisors = [rows for rows in range(1, width + 1) if width % rows == 0]
    return [rows for rows in divisors if min(2 * rows, width // rows) >= kernel_size]
