"""One step of a gated graph network against its formula, written with torch's operations."""

import pytest
import torch
from torch import Tensor
from torch.func import hessian

from quatgraph.errors import UserError
from quatgraph.ops import backend, gated_step
from quatgraph.ops.activation import ACTIVATION_GRADS, ACTIVATIONS

activations = pytest.mark.parametrize("activation", list(ACTIVATIONS))
N, WIDTH = 7, 6


def inputs(*lead: int, width: int = WIDTH, rows: int = N, **options: object) -> list[Tensor]:
    """Vectors, sums, the three matrices and the bias."""
    shapes = (rows, width), (rows, width), (3 * width, width), (2 * width, width), (width, width)
    made = [torch.randn(*lead, *shape, **options) for shape in shapes]
    made[2:] = [matrix / width**0.5 for matrix in made[2:]]
    return [*made, torch.randn(*lead, 3 * width, **options)]


def by_formula(
    h: Tensor, sums: Tensor, of_sum: Tensor, of_own: Tensor, of_reset: Tensor, bias: Tensor | None,
    activation: str,
) -> Tensor:  # fmt: skip
    added = [0, 0, 0] if bias is None else bias.unsqueeze(-2).chunk(3, dim=-1)
    w, u = of_sum.chunk(3, dim=-2), of_own.chunk(2, dim=-2)
    z = torch.sigmoid(sums @ w[0].mT + h @ u[0].mT + added[0])
    r = torch.sigmoid(sums @ w[1].mT + h @ u[1].mT + added[1])
    c = ACTIVATIONS[activation](sums @ w[2].mT + (r * h) @ of_reset.mT + added[2])
    return (1 - z) * h + z * c


def with_gradients(step, values: list[Tensor | None], activation: str) -> list[Tensor]:
    leaves = [v if v is None else v.clone().requires_grad_() for v in values]
    out = step(*leaves, activation)
    along = torch.linspace(-1, 2, out.numel(), dtype=out.dtype, device=out.device).view_as(out)
    return [out, *torch.autograd.grad(out, [v for v in leaves if v is not None], along)]


@activations
@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("biased", [False, True])
def test_is_the_formula_in_values_and_gradients(activation, lead, biased):
    values = inputs(*lead, dtype=torch.float64)
    if not biased:
        values[-1] = None
    expected = with_gradients(by_formula, values, activation)
    for ours, theirs in zip(with_gradients(gated_step, values, activation), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@activations
def test_derivatives_are_those_of_the_activations(activation):
    x = torch.randn(50, dtype=torch.float64, requires_grad=True)
    y = ACTIVATIONS[activation](x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(ACTIVATION_GRADS[activation](y.detach()), slope)


def test_takes_vectors_that_lie_anyhow():
    values = inputs(dtype=torch.float64)
    apart = [v.mT.contiguous().mT if v.dim() == 2 else v for v in values]
    for ours, theirs in zip(
        with_gradients(gated_step, apart, "tanh"),
        with_gradients(by_formula, values, "tanh"),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_leaves_what_it_is_given_as_it_is():
    values = inputs(2)
    before = [value.clone() for value in values]
    with_gradients(gated_step, values, "relu")
    assert all(map(torch.equal, values, before))


@pytest.mark.parametrize("dims", [(0, 0, 0, 0, 0, 0), (1, None, None, None, 0, None)])
def test_vmap_is_a_loop(dims):
    values = [
        v if dim is None else torch.stack([v, 2 * v, -v], dim=dim)
        for v, dim in zip(inputs(dtype=torch.float64), dims, strict=True)
    ]
    batched = torch.vmap(lambda *v: gated_step(*v, "elu"), in_dims=dims)(*values)
    for m in range(3):
        own = [v if d is None else v.select(d, m) for v, d in zip(values, dims, strict=True)]
        torch.testing.assert_close(batched[m], gated_step(*own, "elu"))


def test_vectors_may_have_more_dimensions_than_the_weights():
    values = inputs(dtype=torch.float64)
    h, sums = (torch.stack([v, 2 * v]).unsqueeze(0) for v in values[:2])
    batched = with_gradients(gated_step, [h, sums, *values[2:]], "tanh")
    flat = with_gradients(gated_step, [h.flatten(0, -2), sums.flatten(0, -2), *values[2:]], "tanh")
    assert batched[0].shape == h.shape
    for ours, theirs in zip(batched, flat, strict=True):
        torch.testing.assert_close(ours.view_as(theirs), theirs)


def test_nested_vmap_and_double_backward_are_refused():
    values = inputs(2, dtype=torch.float64)
    with pytest.raises(NotImplementedError, match="nested vmap"):
        gated_step(*(value[None] for value in values))
    with pytest.raises(NotImplementedError, match="nested vmap"):
        torch.vmap(lambda *v: gated_step(*v))(*(value[None] for value in values))
    h = values[0].requires_grad_()
    with pytest.raises(UserError, match="double backward is not supported"):
        torch.autograd.grad(gated_step(h, *values[1:]).sum(), h, create_graph=True)


def test_torch_func_takes_the_first_derivative_only():
    h, *others = inputs(dtype=torch.float64)

    def energy(h: torch.Tensor) -> torch.Tensor:
        return gated_step(h, *others).square().sum()

    known = h.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(energy(known), known)
    torch.testing.assert_close(torch.func.grad(energy)(h), wanted)
    back = torch.func.vjp(energy, h)[1]
    with torch.no_grad():
        torch.testing.assert_close(back(torch.ones(()).double())[0], wanted)
    for second in (torch.func.grad(lambda h: torch.func.grad(energy)(h).sum()), hessian(energy)):
        with pytest.raises((UserError, NotImplementedError), match=r"double backward|jvp"):
            second(h)


def test_autocast_leaves_the_type_of_the_weights():
    values = inputs()
    expected = gated_step(*values)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = values[0].bfloat16(), values[1].bfloat16()
        renewed = gated_step(*half, *values[2:])
    assert renewed.dtype == torch.float32
    torch.testing.assert_close(renewed, expected, atol=0.05, rtol=0.05)


def test_no_rows():
    out, *gradients = with_gradients(gated_step, inputs(2, rows=0), "relu")
    assert out.shape == (2, 0, WIDTH)
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.gpu
@activations
@pytest.mark.parametrize(("members", "rows", "width"), [(1, 1, 1), (3, 70, 33), (2, 1000, 384)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_equal_torch(activation, members, rows, width, dtype):
    values = inputs(members, rows=rows, width=width, dtype=dtype, device="cuda")
    values[1] = values[1] * torch.logspace(-8, 0, rows, dtype=dtype, device="cuda")[:, None]
    ours = with_gradients(gated_step, values, activation)
    with backend("torch"):
        expected = with_gradients(gated_step, values, activation)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one, other, **close)


@pytest.mark.gpu
def test_kernels_repeat_bit_for_bit_and_keep_nan():
    values = inputs(2, rows=300, width=64, device="cuda")
    first, second = (with_gradients(gated_step, values, "relu") for _ in range(2))
    assert all(map(torch.equal, first, second))
    values[0][0, 3, 5] = torch.nan
    renewed = gated_step(*values, "relu")
    assert renewed[0, 3].isnan().all()
    assert not renewed[0, 4].isnan().any()
