"""Shared by the models of all tasks."""

import inspect
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Self, TypeVar, cast, get_type_hints

from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.algebra import lift
from quatgraph.errors import UserError
from quatgraph.layers.linear import Features
from quatgraph.layers.phm import Rules

X = TypeVar("X", bound=Features)
Count = Annotated[int, "counts"]
"""An option that must be at least 1."""
Rate = Annotated[float, "rates"]
"""An option that must be in [0, 1)."""
Positive = Annotated[float, "positive"]
"""An option that must be greater than 0."""
LOGITS = 16
"""The width of a linear model, whose only vectors are logits: a guess, for estimates of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The hyperparameters of a model, ``[model]`` in a preset; each model has its own subclass.

    A field may be annotated with a bound of :func:`quatgraph.config.check`, as :data:`Count` is.
    """

    name: str
    """The model."""

    def __post_init__(self) -> None:
        for field, hint in get_type_hints(type(self), include_extras=True).items():
            for bound in getattr(hint, "__metadata__", ()):
                configs.check(self, "model", **{bound: (field,)})

    @property
    def width(self) -> int:
        """The real width of a hidden vector."""
        raise NotImplementedError

    @property
    def hidden(self) -> int:
        """The width of a real-valued model, as its constructor takes it."""
        return self.width

    @property
    def trains_on_four_copies(self) -> bool:
        """Whether to train the model on :func:`four_copies` of the features."""
        return False

    @property
    def weight_decays(self) -> dict[str, float]:
        """The weight decay of parameters by the beginning of their names, where it is not
        ``train.weight_decay``."""
        return {}


class Model(nn.Module):
    """A model that can be built from its options."""

    @classmethod
    def from_options(cls, options: Options, *sizes: int, **others: Any) -> Self:
        """Builds a model for data of the given sizes. Each keyword argument of the constructor is
        the option of the same name, unless ``others`` has it."""
        parameters = inspect.signature(cls).parameters.values()
        names = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        read = {name: getattr(options, name) for name in names if name not in others}
        return cls(*sizes, **read, **others)


def four_copies(x: X) -> X:
    """Features as four equal components, so that dropout masks each of them separately.

    The released code trains on them (``masks="real"``). Without dropout, or with one mask for all
    four, the features themselves give the same product at a quarter of the cost.
    """
    return cast(X, lift(x, "tile") if isinstance(x, Tensor) else x.tiled())


def layer_sizes(
    in_channels: int, hidden: int, num_layers: int, *last: int
) -> list[tuple[int, int]]:
    """The input and output width of each layer: ``num_layers`` hidden ones, then ``last``."""
    if num_layers < 1:
        raise UserError(f"a model needs at least one layer, got num_layers={num_layers}")
    return list(pairwise([in_channels, *[hidden] * num_layers, *last]))


def check_components(n: int, width: int, rules: Rules) -> None:
    """Checks the options of hypercomplex numbers with n components."""
    if width % n:
        raise UserError(
            f"model.n must divide the width, which is {width} reals, four per quaternion; got {n}"
        )
    if rules == "fixed" and n not in (1, 2, 4, 8):
        raise UserError(f"model.rules=fixed needs model.n = 1, 2, 4 or 8, got {n}")
