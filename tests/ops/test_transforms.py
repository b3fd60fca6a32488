"""Which transforms of torch.func are active."""

import pytest
import torch
from torch import Tensor, func
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from quatgraph.errors import UserError
from quatgraph.ops.transforms import (
    active_transforms,
    grad_depth,
    is_batched,
    is_tracing,
    jvp_depth,
    needs_autograd,
    once_differentiable,
)

X = torch.ones(3)


def seen(transform) -> tuple[int, int, int]:
    """What a function sees that is called within a transform."""
    found = []

    def look(x: Tensor) -> Tensor:
        found.append((len(active_transforms()), grad_depth(), jvp_depth()))
        return x.sum()

    transform(look)(X)
    return found[0]


@pytest.mark.parametrize(
    ("transform", "counts"),
    [
        (lambda f: f, (0, 0, 0)),
        (torch.vmap, (1, 0, 0)),
        (func.grad, (1, 1, 0)),
        (lambda f: lambda x: func.jvp(f, (x,), (x,)), (1, 1, 1)),
        (lambda f: torch.vmap(func.grad(lambda x: f(x))), (2, 1, 0)),
        (func.hessian, (3, 2, 1)),
    ],
)
def test_counts_what_is_at_work(transform, counts):
    assert seen(transform) == counts


def test_compiles_whole():
    def doubled_if_plain(x: Tensor) -> Tensor:
        plain = not (grad_depth() or jvp_depth() or is_batched(x))
        return 2 * x if plain and is_tracing(x) else x

    compiled = torch.compile(doubled_if_plain, fullgraph=True, backend="eager")
    assert torch.equal(compiled(X), 2 * X)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return 3 * grad * ctx.saved_tensors[0] ** 2


def cubes(x: Tensor) -> Tensor:
    return Cube.apply(x).sum()


def test_an_only_derivative_is_had_and_refuses_its_own():
    x = X.clone().requires_grad_()
    assert torch.equal(torch.autograd.grad(cubes(x), x)[0], 3 * X)
    assert torch.equal(func.grad(cubes)(X), 3 * X)
    with pytest.raises(UserError, match="double backward is not supported"):
        torch.autograd.grad(cubes(x), x, create_graph=True)
    with pytest.raises(UserError, match="double backward is not supported"):
        func.grad(lambda x: func.grad(cubes)(x).sum())(X)


def test_autograd_is_told_only_of_what_it_may_be_asked_for():
    learned = X.clone().requires_grad_()
    assert not needs_autograd(X, X)
    assert needs_autograd(X, learned)
    with torch.no_grad():
        assert not needs_autograd(X, learned)
        with forward_ad.dual_level():
            assert needs_autograd(X)
    found = []
    torch.vmap(lambda x: found.append(needs_autograd(x)) or x)(X)
    assert found == [True]


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return operation(*args, **(kwargs or {}))


def test_what_torch_records_is_told():
    assert not is_tracing(X, torch.nn.Parameter(X))
    with Watching():
        assert not is_tracing(X)
    with FakeTensorMode() as fake:
        inside = fake.from_tensor(X)
        assert is_tracing(X)
    assert is_tracing(X, inside)
    found = []
    make_fx(lambda x: found.append(is_tracing(x)) or 2 * x)(X)
    assert found == [True]


def test_gradients_that_are_many_at_once_are_told():
    found = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            found.append(is_batched(grad))
            return 2 * grad

    x = X.clone().requires_grad_()
    y = Watched.apply(x)
    torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, retain_graph=True)
    torch.autograd.grad(y, x, X)
    assert found == [True, False]
