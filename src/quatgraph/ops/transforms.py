"""What surrounds an operation: ``torch.func`` transforms, tracing, batched gradients."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import TransformType, get_interpreter_stack, is_legacy_batchedtensor
from torch.autograd import Function, forward_ad

from quatgraph.errors import UserError

_PLAIN = Tensor, nn.Parameter
_TRACING_MODES = torch._C._TorchDispatchModeKey.__members__.values()


def active_transforms() -> list[TransformType]:
    """The ``torch.func`` transforms around the call, the outermost first."""
    return [level.key() for level in get_interpreter_stack() or []]


def grad_depth() -> int:
    """How many of the active transforms differentiate, forward or backward."""
    return sum(kind != TransformType.Vmap for kind in active_transforms())


def jvp_depth() -> int:
    """How many of the active transforms are forward-mode."""
    return active_transforms().count(TransformType.Jvp)


# torch.compile evaluates both while it traces, which happens within the same transforms.
for _depth in (grad_depth, jvp_depth):
    _depth._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_batched(value: Tensor) -> bool:
    """Whether a gradient is a batch of gradients, as with ``is_grads_batched``."""
    return not torch.compiler.is_compiling() and bool(is_legacy_batchedtensor(value))


def is_tracing(*tensors: Tensor) -> bool:
    """Whether torch compiles, exports or traces, or a tensor is a subclass such as a fake tensor:
    then operations have to be in torch's library."""
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    return any(type(tensor) not in _PLAIN for tensor in tensors) or (
        torch._C._len_torch_dispatch_stack() > 0
        and any(torch._C._get_dispatch_mode(mode) is not None for mode in _TRACING_MODES)
    )


def is_eager_on_cpu(value: Tensor) -> bool:
    """Whether the values can be read now, and the result is not traced."""
    return value.device.type == "cpu" and not is_tracing(value) and not active_transforms()


def needs_autograd(*tensors: Tensor) -> bool:
    """Whether a derivative may be taken or a transform is active; otherwise an operation can skip
    autograd."""
    backward = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return backward or forward_ad._current_level >= 0 or bool(active_transforms())


def operation(function: type[Function], *differentiable: int) -> Callable[..., Any]:
    """Calls a function in the cheapest way: without autograd where no derivative may be taken, and
    without ``setup_context`` outside ``torch.func``.

    With ``setup_context`` torch inspects the signature at every call, which takes longer than a
    small sum.

    Args:
        differentiable: Positions of the inputs that may have a derivative.
    """

    class Eager(function):  # type: ignore[misc, valid-type]
        setup_context = Function.setup_context

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            output = function.forward(*inputs)
            function.setup_context(ctx, inputs, output)
            return output

    def call(*inputs: Any) -> Any:
        if not needs_autograd(*(inputs[position] for position in differentiable)):
            return function.forward(*inputs)
        return (function if active_transforms() else Eager).apply(*inputs)

    return call


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backward without a derivative, and raises where a double backward may follow.

    Torch's decorator of this name silently drops the second gradient when ``torch.autograd.grad``
    names its inputs.
    """

    @wraps(backward)
    def wrapper(ctx: Any, *grads: Tensor | None) -> Any:
        if not torch.compiler.is_compiling():
            depth = grad_depth()
            if depth > 1 or (depth == 0 and torch.is_grad_enabled()):
                raise UserError(
                    "double backward is not supported here: leave out create_graph=True, or take "
                    "the gradient within torch.no_grad()"
                )
        with torch.no_grad():
            return backward(ctx, *grads)

    return wrapper
