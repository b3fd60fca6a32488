"""Normalised rows against torch's batch norm on the rows that are no padding."""

import pytest
import torch
from torch import Tensor

from quatgraph.layers import BatchNorm
from quatgraph.ops import backend
from quatgraph.ops.masked_norm import masked_norm
from quatgraph.training.ensemble import Ensemble

EPS = 1e-5
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def inputs(
    rows: int, width: int, *lead: int, dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> Inputs:
    """Rows far from zero, about a third of them padding, weight and bias."""
    x, present = 3 * torch.randn(*lead, rows, width) + 5, torch.rand(*lead, rows) < 0.7
    values = x, present, torch.randn(*lead, width), torch.randn(*lead, width)
    return tuple(value.to(device, dtype) for value in values)


def ours(x: Tensor, present: Tensor | None, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    return masked_norm(x, present, weight, bias, EPS)


def results(call, *given: Tensor | None, whole: bool = False) -> list[Tensor]:
    """Rows, mean, variance, and the gradients of x, weight and bias; the rows of padding are left
    out unless the whole is wanted."""
    x, present, weight, bias = given
    wanted = [value.detach().requires_grad_() for value in (x, weight, bias)]
    y, mean, var = call(wanted[0], present, *wanted[1:])
    real = torch.ones_like(y) if present is None or whole else present[..., None].to(y.dtype)
    y = y * real
    assert not mean.requires_grad
    assert not var.requires_grad
    probe = ((torch.arange(y.numel(), device=y.device) % 7 - 3) / 4).view(y.shape).to(y)
    return [y.detach(), mean, var, *torch.autograd.grad(y, wanted, probe)]


def torchs(x: Tensor, present: Tensor | None, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    real = torch.ones(len(x), dtype=torch.bool) if present is None else present.bool()
    rows = x[real]
    y = torch.zeros_like(x)
    y[real] = torch.nn.functional.batch_norm(rows, None, None, weight, bias, True, eps=EPS)
    return y, rows.mean(dim=0).detach(), rows.var(dim=0, correction=0).detach()


def assert_same(mine: list[Tensor], wanted: list[Tensor], **tolerance) -> None:
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(9, 1), (17, 5), (300, 33)])
def test_is_torchs_batch_norm_of_the_rows_that_are_no_padding(rows, width, padded):
    x, present, *vectors = inputs(rows, width)
    given = x, present if padded else None, *vectors
    assert_same(results(ours, *given), results(torchs, *given), atol=1e-12, rtol=1e-12)


def test_gradients_are_the_numerical_ones():
    x, present, weight, bias = inputs(9, 3)

    def rows(*wanted: Tensor) -> Tensor:
        return ours(wanted[0], present, *wanted[1:])[0] * present[:, None]

    wanted = tuple(value.requires_grad_() for value in (x, weight, bias))
    assert torch.autograd.gradcheck(rows, wanted)


def test_the_variance_of_rows_far_from_zero_is_that_of_their_differences():
    x = torch.randn(64, 3, dtype=torch.float64)
    far = (x + 2**12).float()
    _, _, var = ours(far, None, torch.ones(3), torch.zeros(3))
    torch.testing.assert_close(var, far.double().var(dim=0, correction=0).float())


def looped(*given: Tensor | None) -> tuple[Tensor, ...]:
    members = [ours(*parts) for parts in zip(*given, strict=True)]
    return tuple(torch.stack(parts) for parts in zip(*members, strict=True))


def test_members_equal_a_loop():
    given = inputs(9, 5, 3)
    assert_same(results(torch.vmap(ours), *given), results(looped, *given))


@pytest.mark.parametrize("count", [0, 1])
def test_a_batch_without_variance_gives_finite_numbers(count):
    x, _, weight, bias = inputs(6, 3)
    present = (torch.arange(6) < count).double()
    found = results(ours, x, present, weight, bias)
    assert all(value.isfinite().all() for value in found)
    if count:
        torch.testing.assert_close(found[0][0], bias)


# One tile and many, with a rest and without; more than one block of features.
SIZES = [(1, 1), (9, 5), (256, 32), (257, 33), (1500, 128)]


@pytest.mark.gpu
@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("rows", "width"), [*SIZES, (2049, 33), (20_001, 5)])
def test_the_kernel_equals_the_torch_form(rows, width, padded, lead):
    x, present, *vectors = inputs(rows, width, *lead, device="cuda")
    given = x, present if padded else None, *vectors

    def call(*given: Tensor | None) -> tuple[Tensor, ...]:
        dims = (0, 0 if padded else None, 0, 0)
        return torch.vmap(ours, dims)(*given) if lead else ours(*given)

    with backend("triton"):
        mine = results(call, *given, whole=True)
    with backend("torch"):
        wanted = results(call, *given, whole=True)
    assert_same(mine, wanted, atol=1e-10, rtol=1e-10)
    single = [None if value is None else value.float() for value in given]
    with backend("triton"):
        mine = results(call, *single, whole=True)
    # Rows on their own have a variance of 0, and gradients that are hundreds of times as large.
    assert_same([value.double() for value in mine], wanted, atol=2e-3, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [0, 1])
def test_the_kernel_gives_finite_numbers_of_a_batch_without_variance(count):
    x, _, weight, bias = inputs(6, 3, device="cuda")
    present = (torch.arange(6, device="cuda") < count).double()
    found = results(ours, x, present, weight, bias, whole=True)
    assert all(value.isfinite().all() for value in found)
    with backend("torch"):
        assert_same(found, results(ours, x, present, weight, bias, whole=True))


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [2, 3, 300, 3000])
def test_the_kernels_gradients_add_up_to_zero_though_the_mean_is_rounded(rows):
    x, _, _, bias = inputs(rows, 256, device="cuda")
    close = (x * 1e-2 + 1000).requires_grad_()
    y, _, _ = ours(close, None, torch.ones_like(bias), bias)
    (grad,) = torch.autograd.grad(y, close, (x - 5).roll(1, dims=1))
    assert grad.sum(dim=0).abs().max() < 1e-11
    assert grad.abs().max() > 1e-2


@pytest.mark.gpu
def test_the_kernel_takes_vectors_and_rows_that_lie_apart_in_memory():
    x, present, weight, bias = inputs(40, 33, 3, device="cuda")
    apart = torch.cat((weight, bias, weight), dim=1)  # as an ensemble's parameters lie
    given = x.mT.contiguous().mT, present.mT.contiguous().mT, apart[:, :33], apart[:, 33:66]
    call = torch.vmap(ours)
    assert_same(results(call, *given), results(call, x, present, weight, bias))
    shared = torch.vmap(ours, (0, None, None, 0))
    wanted = results(call, x, present[:1].expand(3, -1), weight[:1].expand(3, -1), bias)
    y, mean, var = shared(x, present[0], weight[0], bias)
    assert_same([y * present[0][:, None], mean, var], wanted[:3])


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1500, 9000])
def test_the_kernels_numbers_repeat_bit_for_bit_in_any_ensemble(rows):
    given = inputs(rows, 100, 4, dtype=torch.float32, device="cuda")
    first = results(torch.vmap(ours), *given)
    for _ in range(20):
        again = results(torch.vmap(ours), *given)
        assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))
    two = torch.vmap(ours)(*(value[:2] for value in given))
    assert torch.equal(two[0] * given[1][:2, :, None], first[0][:2])
    assert torch.equal(two[2], first[2][:2])


@pytest.mark.gpu
def test_an_ensembles_batch_norm_can_be_captured_as_a_cuda_graph():
    x, present, *_ = inputs(40, 33, 3, dtype=torch.float32, device="cuda")
    norms = [Ensemble([lambda: BatchNorm(33)] * 3, [0, 1, 2]).cuda() for _ in range(2)]

    def step(norm: Ensemble) -> tuple[Tensor, Tensor]:
        y = norm(x, present, in_dims=(0, 0)) * present[..., None]
        return y.detach(), *torch.autograd.grad(y.pow(3).sum(), norm.flat)

    step(norms[0])  # compiles the kernels
    step(norms[1])
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        found = step(norms[0])
    x.copy_(torch.randn_like(x))
    captured.replay()
    assert_same(list(found), list(step(norms[1])))
    assert_same(list(norms[0].held().values()), list(norms[1].held().values()))
