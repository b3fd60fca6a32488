"""Shared by the models of all tasks."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import lift
from quatgraph.codes import Codes
from quatgraph.errors import Mistake
from quatgraph.layers import QuaternionDropout

X = TypeVar("X", bound=Tensor | Adjacency | Codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The hyperparameters of a model, ``[model]`` in a preset; each model has its own subclass."""

    name: str
    of_reals: ClassVar[bool] = False
    """Whether the constructor takes its width in reals, as ``hidden``."""

    @property
    def width(self) -> int:
        """Real width of a hidden vector."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the model's constructor; the harness normalizes the adjacency."""
        arguments = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for key in ("name", "normalization"):
            arguments.pop(key, None)
        if self.of_reals:
            del arguments["hidden_quats"]
            arguments["hidden"] = self.width
        return arguments


def four_copies(x: X) -> X:
    """Features as four equal components, so that dropout masks each of them separately.

    The released code trains on them (``masks="real"``). Without dropout, or with one mask for all
    four, the features themselves give the same product at a quarter of the cost.
    """
    return cast(X, lift(x, "tile") if isinstance(x, Tensor) else x.tiled())


def apply_layers(
    convs: nn.ModuleList,
    skips: nn.ModuleList,
    dropout: QuaternionDropout,
    activation: Callable[[Tensor], Tensor],
    x: Tensor | Adjacency,
    adjacency: Adjacency,
) -> Tensor:
    """Applies layers with dropout before and activations between them; ``skips`` may be empty."""
    for layer, conv in enumerate(convs):
        x = dropout(x)
        y = conv(x, adjacency)
        if len(skips):
            y = y + skips[layer](x)
        x = activation(y)
    return y


def check_layers(num_layers: int) -> None:
    """Checks that a model has layers."""
    if num_layers < 1:
        raise Mistake(f"a model needs at least one layer, got num_layers={num_layers}")
