"""What the models of all tasks share."""

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
    """The settings that a model reads, ``[model]`` in a preset; each model has a class of its own.

    What training must know of a model follows from its options and from attributes of its class.
    """

    name: str
    of_reals: ClassVar[bool] = False
    """Whether the model's constructor counts its width in reals."""

    @property
    def width(self) -> int:
        """Real numbers of a hidden vector."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the model's constructor; the harness normalizes the adjacency."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for key in ("name", "normalization"):
            found.pop(key, None)
        if self.of_reals:
            del found["hidden_quats"]
            found["hidden"] = self.width
        return found


def four_copies(x: X) -> X:
    """Features as four equal components, so that dropout masks each of the four by itself.

    The released code trains so (``masks="real"``); without dropout, or with one mask for the four,
    the features themselves give the same product at a quarter of the cost.
    """
    return cast(X, lift(x, "tile") if isinstance(x, Tensor) else x.tiled())


def apply_layers(
    convs: nn.ModuleList,
    owns: nn.ModuleList,
    dropout: QuaternionDropout,
    activation: Callable[[Tensor], Tensor],
    x: Tensor | Adjacency,
    adjacency: Adjacency,
) -> Tensor:
    """Layer by layer, with dropout before and the activation between; ``owns`` may be empty."""
    for layer, conv in enumerate(convs):
        x = dropout(x)
        y = conv(x, adjacency)
        if len(owns):
            y = y + owns[layer](x)
        x = activation(y)
    return y


def check_layers(num_layers: int) -> None:
    """Refuses a model without layers."""
    if num_layers < 1:
        raise Mistake(f"the model needs at least one hidden layer, got num_layers={num_layers}")
