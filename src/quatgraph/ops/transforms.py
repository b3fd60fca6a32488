"""What of ``torch.func`` is at work around an operation; gradients that have none themselves."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack

from quatgraph.errors import Mistake


def transforms() -> list[TransformType]:
    """The transforms that an operation is called within, the outermost first."""
    return [level.key() for level in get_interpreter_stack() or []]


def derivatives() -> int:
    """How many of them ask for a derivative, forward or backward."""
    return sum(kind != TransformType.Vmap for kind in transforms())


def forward_derivatives() -> int:
    """How many of them ask for what goes forward along a direction."""
    return transforms().count(TransformType.Jvp)


def only_derivative(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a gradient that has none itself: whoever asks for one gets a mistake. (Torch's own
    ``once_differentiable`` leaves it out silently where ``torch.autograd.grad`` names inputs.)"""

    @wraps(backward)
    def only(ctx: Any, *grads: Tensor | None) -> Any:
        with torch.no_grad():
            found = backward(ctx, *grads)
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return found
        came_from = [
            value for value in (*ctx.saved_tensors, *grads)
            if value is not None and value.is_floating_point()
        ]  # fmt: skip
        return tuple(value if value is None else _Last.apply(value, *came_from) for value in found)

    return only


class _Last(torch.autograd.Function):
    """A number that is not to be differentiated by those it came from."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, *came_from: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise Mistake(
            "gradients of gradients are not had here; layers such as QGNNConv and QuaternionLinear "
            "have them"
        )
