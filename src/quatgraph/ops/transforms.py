"""What is at work around an operation, of ``torch.func`` above all; gradients without their own."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack, is_legacy_batchedtensor
from torch.autograd import forward_ad

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


def many_at_once(value: Tensor) -> bool:
    """Whether it stands for many, as gradients do where ``is_grads_batched`` asks for them so."""
    return bool(is_legacy_batchedtensor(value))


def differentiated(*tensors: Tensor) -> bool:
    """Whether a derivative of what is made of these may be asked for, or it is traced for later; if
    not, autograd need not be told of it."""
    backward = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    forward = forward_ad._current_level >= 0
    return backward or forward or bool(transforms()) or torch._C._is_tracing()


# torch.compile takes them as they are where it traces, which is within the same transforms.
for _count in (derivatives, forward_derivatives):
    _count._dynamo_marked_constant = True  # type: ignore[attr-defined]


def eager_on_cpu(value: Tensor) -> bool:
    """Whether its numbers are at hand, and the same will not be done with others later."""
    later = torch.compiler.is_compiling() or torch._C._is_tracing()
    return value.device.type == "cpu" and not later


def only_derivative(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a gradient that has none itself, and refuses where one may be asked for. (Torch's own
    ``once_differentiable`` leaves it out silently where ``torch.autograd.grad`` names inputs.)"""

    @wraps(backward)
    def only(ctx: Any, *grads: Tensor | None) -> Any:
        if not torch.compiler.is_compiling():
            asked = derivatives()
            if asked > 1 or (asked == 0 and torch.is_grad_enabled()):
                raise Mistake(
                    "gradients of gradients are not had here: leave out create_graph, or take the "
                    "gradient within torch.no_grad()"
                )
        with torch.no_grad():
            return backward(ctx, *grads)

    return only
