"""What is at work around an operation, of ``torch.func`` above all; gradients without their own."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import TransformType, get_interpreter_stack, is_legacy_batchedtensor
from torch.autograd import Function, forward_ad

from quatgraph.errors import Mistake

_PLAIN = Tensor, nn.Parameter
_RECORDING = torch._C._TorchDispatchModeKey.__members__.values()  # of torch's own modes


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
    return not torch.compiler.is_compiling() and bool(is_legacy_batchedtensor(value))


def recorded(*tensors: Tensor) -> bool:
    """Whether torch does more with an operation than to do it, and so has to know it by name: it
    compiles, exports or traces, or the tensors are of another kind, as fake ones are."""
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    return any(type(tensor) not in _PLAIN for tensor in tensors) or (
        torch._C._len_torch_dispatch_stack() > 0
        and any(torch._C._get_dispatch_mode(mode) is not None for mode in _RECORDING)
    )


def differentiated(*tensors: Tensor) -> bool:
    """Whether a derivative of what is made of these may be asked for, or a transform is at work; if
    not, autograd need not be told of it."""
    backward = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return backward or forward_ad._current_level >= 0 or bool(transforms())


def eager_form(function: type[Function]) -> type[Function]:
    """The same function in the form that ``torch.func`` does not take. Of one that has a
    ``setup_context`` torch looks up the signature at every call, which takes longer than many a
    small sum."""

    class Eager(function):  # type: ignore[misc, valid-type]
        setup_context = Function.setup_context

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            output = function.forward(*inputs)
            function.setup_context(ctx, inputs, output)
            return output

    return Eager


# torch.compile takes them as they are where it traces, which is within the same transforms.
for _count in (derivatives, forward_derivatives):
    _count._dynamo_marked_constant = True  # type: ignore[attr-defined]


def eager_on_cpu(value: Tensor) -> bool:
    """Whether its numbers are at hand, and the same will not be done with others later."""
    return value.device.type == "cpu" and not recorded(value) and not transforms()


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
