"""A decoder of triples that multiplies hypercomplex numbers."""

from typing import Any

import torch
from torch import Tensor, nn

from quatgraph.errors import UserError
from quatgraph.layers.decoder import RowDecoder
from quatgraph.layers.phm import Rules, add_rules, draw_rules


class PHMDecoder(RowDecoder):
    r"""Multiplies head and relation as numbers with n components:
    :math:`\langle \mathbf{e}_h \mathbf{v}_r, \mathbf{e}_t \rangle`.

    With fixed rules of multiplication, this is :class:`DistMult` for n = 1, :class:`ComplEx` for
    n = 2, :class:`Hamilton` for n = 4, and a product of octonions for n = 8. The number of weights
    is the same for every n, except that learned rules add n³.

    Args:
        num_relations: Number of relations R, not counting inverse ones.
        width: Real width of a vector, a multiple of n.
        n, rules: As in :class:`PHMLinear`.
        others: As in :class:`DistMult`; learned rules need ``reciprocal``.

    Shape:
        - as :class:`DistMult`
    """

    rules: Tensor

    def __init__(
        self, num_relations: int, width: int, *, n: int, rules: Rules = "fixed", **others: Any
    ) -> None:
        self.components = n  # before the width is checked
        super().__init__(num_relations, width, **others)
        add_rules(self, n, rules)
        if isinstance(self.rules, nn.Parameter):
            if not self.reciprocal:
                raise UserError("learned rules of multiplication need data.reciprocal=true")
            draw_rules(self.rules)

    def combine(self, head: Tensor, relation: Tensor) -> Tensor:
        return self._multiply("...kp,...kcb,...bp->...cp", head, relation)

    def as_relation_query(
        self, head: Tensor, tail: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self._multiply("...kp,...kcb,...cp->...bp", head, tail), relations

    def inverse(self, relations: Tensor) -> Tensor:
        first, *others = relations.chunk(self.components, dim=-1)
        return torch.cat((first, *(-one for one in others)), dim=-1)

    def _multiply(self, equation: str, x: Tensor, y: Tensor) -> Tensor:
        """Sums products of components; the last dimension holds the first component of all numbers,
        then the second, and so on."""
        x, y = (one.unflatten(-1, (self.components, -1)) for one in (x, y))
        rules = self.rules.unsqueeze(-4)  # the same for all rows
        return torch.einsum(equation, x, rules, y).flatten(-2)
