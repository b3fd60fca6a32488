"""Normalised rows against torch's batch norm and activation on the rows that are no padding."""

from functools import partial

import pytest
import torch
from torch import Tensor

from quatgraph.layers import BatchNorm
from quatgraph.ops import backend
from quatgraph.ops.activation import ACTIVATIONS
from quatgraph.ops.masked_norm import masked_norm
from quatgraph.training.ensemble import Ensemble

EPS, MOMENTUM = 1e-5, 0.3
Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def inputs(
    rows: int, width: int, *lead: int, dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> Inputs:
    """Rows far from zero, about a third of them padding, weight, bias, running statistics."""
    x, present = 3 * torch.randn(*lead, rows, width) + 5, torch.rand(*lead, rows) < 0.7
    vectors = torch.randn(4, *lead, width)
    vectors[3] = vectors[3].abs()
    return tuple(value.to(device, dtype) for value in (x, present, *vectors))


def without_padding(given: Inputs) -> tuple[Tensor | None, ...]:
    return given[0], None, *given[2:]


ours = partial(masked_norm, eps=EPS, momentum=MOMENTUM)


def results(call, *given: Tensor | None, whole: bool = False) -> list[Tensor]:
    """Rows, running statistics, and the gradients of x, weight and bias; the rows of padding are
    left out unless the whole is wanted."""
    x, present, weight, bias, *running = given
    wanted = [value.detach().requires_grad_() for value in (x, weight, bias)]
    running = [value.clone() for value in running]
    y = call(wanted[0], present, *wanted[1:], *running)
    real = torch.ones_like(y) if present is None or whole else present[..., None].to(y.dtype)
    y = y * real
    probe = ((torch.arange(y.numel(), device=y.device) % 7 - 3) / 4).view(y.shape).to(y)
    return [y.detach(), *running, *torch.autograd.grad(y, wanted, probe)]


def torchs(
    x: Tensor, present: Tensor | None, weight: Tensor, bias: Tensor, *running: Tensor, activation
) -> Tensor:
    real = torch.ones(len(x), dtype=torch.bool) if present is None else present.bool()
    rows = torch.nn.functional.batch_norm(
        x[real], *running, weight, bias, True, momentum=MOMENTUM, eps=EPS
    )
    y = torch.zeros_like(x)
    y[real] = ACTIVATIONS[activation](rows)
    return y


def assert_same(mine: list[Tensor], wanted: list[Tensor], **tolerance) -> None:
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(9, 1), (17, 5), (300, 33)])
def test_is_torchs_batch_norm_of_the_rows_that_are_no_padding(rows, width, padded, activation):
    given = inputs(rows, width)
    given = given if padded else without_padding(given)
    mine, theirs = partial(ours, activation=activation), partial(torchs, activation=activation)
    assert_same(results(mine, *given), results(theirs, *given), atol=1e-12, rtol=1e-12)


def test_gradients_are_the_numerical_ones():
    x, present, weight, bias, *running = inputs(9, 3)

    def rows(*wanted: Tensor) -> Tensor:
        y = ours(wanted[0], present, *wanted[1:], *running, activation="tanh")
        return y * present[:, None]

    wanted = tuple(value.requires_grad_() for value in (x, weight, bias))
    assert torch.autograd.gradcheck(rows, wanted)


def test_the_variance_of_rows_far_from_zero_is_that_of_their_differences():
    far = (torch.randn(64, 3, dtype=torch.float64) + 2**12).float()
    one, mean, var = torch.ones(3), torch.zeros(3), torch.ones(3)
    masked_norm(far, None, one, one, mean, var, eps=EPS, momentum=1)
    torch.testing.assert_close(var, far.double().var(dim=0).float())


def looped(*given: Tensor) -> Tensor:
    return torch.stack([ours(*parts) for parts in zip(*given, strict=True)])


def test_members_equal_a_loop():
    given = inputs(9, 5, 3)
    assert_same(results(torch.vmap(ours), *given), results(looped, *given))


def assert_without_variance(found: list[Tensor], given: Inputs, count: int) -> None:
    assert all(value.isfinite().all() for value in found)
    assert torch.equal(found[1], given[4])
    assert torch.equal(found[2], given[5])
    if count:
        torch.testing.assert_close(found[0][0], given[3].tanh())


@pytest.mark.parametrize("count", [0, 1])
def test_a_batch_without_variance_gives_finite_numbers(count):
    x, _, *vectors = inputs(6, 3)
    given = x, (torch.arange(6) < count).double(), *vectors
    assert_without_variance(results(partial(ours, activation="tanh"), *given), given, count)


# One tile and many, with a rest and without; more than one block of features; parts.
SIZES = [(1, 1), (9, 5), (257, 33), (1500, 128), (20_001, 5)]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("activation", "lead"), [*((name, (3,)) for name in ACTIVATIONS), ("tanh", ())]
)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_the_kernel_equals_the_torch_form(rows, width, padded, lead, activation):
    given = inputs(rows, width, *lead, device="cuda")
    given = given if padded else without_padding(given)
    call = partial(ours, activation=activation)
    if lead:
        call = torch.vmap(call, (0, 0 if padded else None, 0, 0, 0, 0))
    with backend("triton"):
        mine = results(call, *given, whole=True)
    with backend("torch"):
        wanted = results(call, *given, whole=True)
    assert_same(mine, wanted, atol=1e-10, rtol=1e-10)
    if activation == "relu":  # a row next to 0 may fall on its other side
        return
    single = [None if value is None else value.float() for value in given]
    with backend("triton"):
        mine = results(call, *single, whole=True)
    # Rows on their own have a variance of 0, and gradients that are hundreds of times as large.
    assert_same([value.double() for value in mine], wanted, atol=2e-3, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [6, 3000])
@pytest.mark.parametrize("count", [0, 1])
def test_the_kernel_gives_finite_numbers_of_a_batch_without_variance(count, rows):
    x, _, *vectors = inputs(rows, 3, device="cuda")
    given = x, (torch.arange(rows, device="cuda") < count).double(), *vectors
    call = partial(ours, activation="tanh")
    found = results(call, *given, whole=True)
    assert_without_variance(found, given, count)
    with backend("torch"):
        assert_same(found, results(call, *given, whole=True))


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["none", "tanh"])
@pytest.mark.parametrize("rows", [2, 3, 300, 3000])
def test_the_kernels_gradients_add_up_to_zero_though_the_mean_is_rounded(rows, activation):
    x, _, _, bias, *running = inputs(rows, 256, device="cuda")
    close = (x * 1e-2 + 1000).requires_grad_()
    y = ours(close, None, torch.ones_like(bias), bias, *running, activation=activation)
    (grad,) = torch.autograd.grad(y, close, (x - 5).roll(1, dims=1))
    assert grad.sum(dim=0).abs().max() < 3e-11
    assert grad.abs().max() > 1e-2


@pytest.mark.gpu
def test_the_kernel_takes_vectors_and_rows_that_lie_apart_in_memory():
    x, present, weight, bias, *running = inputs(40, 33, 3, device="cuda")
    apart = torch.cat((weight, bias, weight), dim=1)  # as an ensemble's parameters lie
    given = x.mT.contiguous().mT, present.mT.contiguous().mT, apart[:, :33], apart[:, 33:66]
    call = torch.vmap(partial(ours, activation="elu"))
    assert_same(results(call, *given, *running), results(call, x, present, weight, bias, *running))
    shared = torch.vmap(partial(ours, activation="elu"), (0, None, None, 0, 0, 0))
    alike = x, present[:1].expand(3, -1), weight[:1].expand(3, -1), bias, *running
    wanted = results(call, *alike, whole=True)
    y = shared(x, present[0], weight[0], bias, *running)
    assert_same([y, *running], wanted[:3])


@pytest.mark.gpu
def test_the_kernel_does_not_take_running_statistics_that_members_share():
    x, present, weight, bias, mean, var = inputs(40, 33, 3, device="cuda")
    call = torch.vmap(ours, (0, 0, 0, 0, None, None))
    with pytest.raises(NotImplementedError, match="contiguous running statistics"):
        call(x, present, weight, bias, mean[0], var[0])


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1500, 9000])
def test_the_kernels_numbers_repeat_bit_for_bit_in_any_ensemble(rows):
    given = inputs(rows, 100, 4, dtype=torch.float32, device="cuda")
    call = torch.vmap(partial(ours, activation="tanh"))
    first = results(call, *given)
    for _ in range(20):
        again = results(call, *given)
        assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))
    two = results(call, *(value[:2] for value in given))
    assert all(torch.equal(a, b[:2]) for a, b in zip(two, first, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [40, 3000])
def test_an_ensembles_batch_norm_can_be_captured_as_a_cuda_graph(rows):
    x, present, *_ = inputs(rows, 33, 3, dtype=torch.float32, device="cuda")
    norms = [Ensemble([lambda: BatchNorm(33, "tanh")] * 3, [0, 1, 2]).cuda() for _ in range(2)]

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
    assert_same(list(norms[0].raw_state().values()), list(norms[1].raw_state().values()))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_members_may_share_padding_weight_and_bias(device):
    x, _, _, _, *running = inputs(9, 5, 3, device=device)
    _, present, weight, bias, *_ = inputs(9, 5, device=device)
    shared = [value.expand(3, *value.shape) for value in (present, weight, bias)]
    mine = ours(x, present, weight, bias, *(value.clone() for value in running))
    wanted = ours(x, *shared, *(value.clone() for value in running))
    torch.testing.assert_close(mine, wanted)
