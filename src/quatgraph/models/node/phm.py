"""GCN with hypercomplex maps between its hidden layers."""

from dataclasses import dataclass
from typing import Literal

from quatgraph.layers import PHMLinear
from quatgraph.layers.phm import Rules
from quatgraph.models.common import Count, check_components
from quatgraph.models.node.base import ConvOptions
from quatgraph.models.node.gcn import GCN


@dataclass(frozen=True, slots=True, kw_only=True)
class PHMOptions(ConvOptions):
    name: Literal["phm"] = "phm"
    n: Count = 4
    """Components of a hypercomplex number, a divisor of four times hidden_quats."""
    rules: Rules = "learned"
    """Whether the rules of multiplication are learned, or those of the real and complex numbers,
    quaternions and octonions (n = 1, 2, 4, 8)."""

    def __post_init__(self) -> None:
        ConvOptions.__post_init__(self)
        check_components(self.n, self.width, self.rules)


class PHM(GCN):
    """A GCN whose maps between hidden layers are :class:`PHMLinear`: QGNN's for n = 4 and fixed
    rules, GCN's for n = 1.

    The first layer is real. With tiled features, QGNN's represents the same functions with as many
    weights.

    Args:
        n, rules: As in :class:`PHMLinear`.
        in_channels, num_classes, hidden, num_layers, dropout, input_dropout, skip, bias: As in
            :class:`GCN`.

    Shape:
        - as :class:`GCN`
    """

    Options = PHMOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 64,
        num_layers: int = 2,
        n: int = 4,
        rules: Rules = "learned",
        dropout: float = 0.5,
        input_dropout: float | None = None,
        skip: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            num_classes,
            hidden=hidden,
            num_layers=num_layers,
            dropout=dropout,
            input_dropout=input_dropout,
            skip=skip,
            bias=bias,
        )
        for layer in range(1, num_layers):
            self.convs[layer].linear = PHMLinear(hidden, hidden, n, rules=rules)
            if skip:
                self.owns[layer] = PHMLinear(hidden, hidden, n, rules=rules)
