"""The kernels of the sparse product against its torch form, on a GPU."""

from functools import partial

import pytest
import torch
from matrices import (
    ROUNDED,
    C,
    F,
    R,
    Structure,
    either_product,
    random_structure,
    values_and_gradients,
)
from torch import Tensor

from benchmarks.measure import captured
from quatgraph.ops import backend

pytestmark = pytest.mark.gpu


def awkward_structure() -> Structure:
    """Empty rows and columns, rows of up to 17,000 entries, many repeated."""
    rows, cols = 50, 50
    long = {7: 17000, 43: 300, 45: 700}
    entries = [(r, int(c)) for r, n in long.items() for c in torch.randint(cols, (n,))]
    spread = torch.randint(1, 20, (100, 2)) * 2
    return Structure.of(entries + [(int(r), int(c)) for r, c in spread], rows, cols)


def traced_times(g: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """The product by the operation that torch.compile traces."""
    matrix = g.rowptr, g.col, None, weight, x, g.t_rowptr, g.t_col, g.t_perm
    return torch.ops.quatgraph.aggregate(*matrix, None, weight.dtype)


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("width", [1, 3, 16, 33, 256, 300])
def test_the_kernels_equal_the_torch_form_in_values_and_gradients(width, dtype, lead):
    graph = awkward_structure()
    weight = torch.randn(*lead, graph.col.numel()).to(dtype)
    x = torch.randn(*lead, 50, width).to(dtype)

    def on(device: str, kind: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        g = graph.to(device)
        return values_and_gradients(
            partial(traced_times, g),
            weight.to(device, kind),
            x.to(device, kind),
        )

    with backend("triton"):
        y, weight_grad, x_grad = on("cuda", dtype)
    exact = on("cpu", torch.float64)
    # The row of 17,000 rounds 17,000 times in the sum's type; bfloat16 rounds once more.
    rtol = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2**-8}[dtype]
    atol = 1e-10 if dtype == torch.float64 else 2e-3
    for mine, wanted in zip((y, weight_grad, x_grad), exact, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.cpu().double(), wanted, rtol=rtol, atol=atol)


P = 128  # entries of a piece


LENGTHS = {
    "as long as a piece": [P],
    "a little longer": [P + 1],
    "two cuts begin in it": [5, 2 * P, 9],
    "from cut to cut": [2 * P, 3 * P, 1],
    "from cut to beyond the next": [P, P + 1, 0, 2 * P],
    "both sides of a cut": [5, P - 6, P + 1, P + 2, P - 3],
    "the last entry before a cut": [P - 1, 3 * P, 2],
    "empty rows around": [0, 0, 3 * P + 5, 0, 0, P + 1, 7, 0, 4 * P, 0],
    "after many rows": [0, 1] * 600 + [9 * P + 1] + [2] * 40,
}


@pytest.mark.parametrize(("width", "lead"), [(33, (3,)), (300, ())])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("doubled", [0, 1, 2])
def test_long_rows_and_columns_may_be_cut_anywhere(
    doubled, lengths, swapped, width, lead, monkeypatch
):
    from quatgraph.ops.kernels import aggregate as kernels

    assert kernels._PIECE == P
    monkeypatch.setattr(kernels, "_MANY_ENTRIES", 1)
    monkeypatch.setattr(kernels, "_piece_size", lambda entries, rows, times: P << doubled)
    rows, cols = len(LENGTHS[lengths]), 11
    entries = [(r, (r + 5 * e) % cols) for r, n in enumerate(LENGTHS[lengths]) for e in range(n)]
    if swapped:
        rows, cols, entries = cols, rows, [(c, r) for r, c in entries]
    graph = Structure.of(entries, rows, cols)
    moved = graph.to("cuda")
    weight = torch.randn(*lead, len(entries), dtype=torch.float64)
    x = torch.randn(*lead, cols, width, dtype=torch.float64)

    with backend("triton"):
        ours = values_and_gradients(partial(traced_times, moved), weight.cuda(), x.cuda())
    forms = values_and_gradients(partial(traced_times, graph), weight, x)
    for mine, wanted in zip(ours, forms, strict=True):
        torch.testing.assert_close(mine.cpu(), wanted, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 33, 128, 300])
def test_the_kernels_sum_rounded_numbers_as_the_torch_form_does(width, dtype):
    graph = awkward_structure()
    weight, x = torch.randn(graph.col.numel()), torch.randn(3, 50, width)
    grad = torch.randn(3, 50, width)

    def on(device: str, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        times = partial(graph.to(device).times, product_dtype=ROUNDED)
        at = x.to(device, kind).requires_grad_()
        y = torch.vmap(times, in_dims=(None, 0))(weight.to(device, kind), at)
        return y.detach(), *torch.autograd.grad(y, at, grad.to(y))

    with backend("triton"):
        ours = on("cuda", dtype)
    tolerance = (
        {"rtol": 1e-12, "atol": 1e-10} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 2e-3}
    )
    for mine, wanted in zip(ours, on("cpu", torch.float64), strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.cpu().double(), wanted, **tolerance)


def test_the_kernels_sum_bfloat16_in_float32():
    graph = Structure.of([(0, c) for c in range(4096)], 1, 4096).to("cuda")
    ones = torch.ones(4096, 1, device="cuda", dtype=torch.bfloat16)
    with backend("triton"):
        assert graph.times(ones[:, 0], ones).item() == 4096


def test_a_graph_without_entries_runs_on_the_gpu():
    graph = Structure.of([], R, C).to("cuda")
    weight, x = torch.randn(0, device="cuda"), torch.randn(C, F, device="cuda")
    y, weight_grad, x_grad = values_and_gradients(graph.times, weight, x)
    assert weight_grad.shape == (0,)
    assert not y.any()
    assert not x_grad.any()


def on_the_gpu(product_dtype):
    graph = awkward_structure().to("cuda")
    times = partial(graph.times, product_dtype=product_dtype)
    weight = torch.randn(graph.col.numel(), device="cuda")
    return times, weight, torch.randn(50, 64, device="cuda")


@either_product
def test_the_kernels_repeat_bit_for_bit(product_dtype):
    times, weight, x = on_the_gpu(product_dtype)
    first = values_and_gradients(times, weight, x)
    for _ in range(100):
        for mine, wanted in zip(values_and_gradients(times, weight, x), first, strict=True):
            assert torch.equal(mine, wanted)


@either_product
def test_the_kernels_can_be_captured_as_a_cuda_graph(product_dtype):
    times, weight, x = on_the_gpu(product_dtype)
    found = []  # at last what a replay writes
    replay = captured(lambda: found.append(values_and_gradients(times, weight, x)))
    x.copy_(torch.randn(50, 64, device="cuda"))
    replay()
    for mine, wanted in zip(found[-1], values_and_gradients(times, weight, x), strict=True):
        assert torch.equal(mine, wanted)


def test_the_torch_form_runs_on_the_gpu_in_both_directions_when_asked(monkeypatch):
    from quatgraph.ops.kernels import aggregate as kernels

    def refuse(*_: object) -> Tensor:
        raise AssertionError("a kernel ran")

    monkeypatch.setattr(kernels, "sum_rows", refuse)
    monkeypatch.setattr(kernels, "entry_products", refuse)
    graph, weight, x = random_structure(), torch.randn(12), torch.randn(C, F)
    wanted = values_and_gradients(graph.times, weight, x)
    with backend("torch"):
        ours = values_and_gradients(graph.to("cuda").times, weight.cuda(), x.cuda())
    for mine, expected in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine.cpu(), expected)
