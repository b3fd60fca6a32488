"""The product of chosen rows against dense matrices, on every way it can be called."""

import pytest
import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.ops import backend

F = 3
# Rows and columns of the whole matrix's blocks; one has no columns, one no rows.
HEIGHTS, WIDTHS = [2, 3, 1, 0, 4], [3, 2, 0, 2, 5]
ROWS = [sum(HEIGHTS[:i]) for i in range(len(HEIGHTS))]
COLUMNS = [sum(WIDTHS[:i]) for i in range(len(WIDTHS))]
CHOICES = {
    "all": [0, 1, 2, 3, 4],
    "none": [],
    "in another order": [4, 1, 0],
    "the same one twice": [4, 4],
    "without entries": [2, 3],
}


def random_whole() -> tuple[Adjacency, Tensor]:
    """A matrix of blocks, with repeated entries and empty rows, and the same dense."""
    row, col = [], []
    for i, (height, width) in enumerate(zip(HEIGHTS, WIDTHS, strict=True)):
        count = 2 * height * width // 3
        row.append(ROWS[i] + torch.randint(max(1, height), (count,)))
        col.append(COLUMNS[i] + torch.randint(max(1, width), (count,)))
    weight = torch.randn(sum(map(len, row)), dtype=torch.float64)
    shape = sum(HEIGHTS), sum(WIDTHS)
    whole = Adjacency.from_entries(torch.cat(row), torch.cat(col), weight, shape)
    return whole, whole.to_dense()


def chosen(whole: Adjacency, blocks: list[int], padding: int = 0) -> Blocks:
    """Some blocks, with rows and columns of padding after each."""
    row, shift, t_row, t_shift = [], [], [], []
    for b in blocks:
        move, t_move = len(t_row) - COLUMNS[b], len(row) - ROWS[b]
        row += [*range(ROWS[b], ROWS[b] + HEIGHTS[b])] + [-1] * padding
        shift += [move] * (HEIGHTS[b] + padding)
        t_row += [*range(COLUMNS[b], COLUMNS[b] + WIDTHS[b])] + [-1] * padding
        t_shift += [t_move] * (WIDTHS[b] + padding)
    lists = row, shift, t_row, t_shift
    return Blocks(whole, *(torch.tensor(values, dtype=torch.int32) for values in lists))


def dense(whole: Tensor, blocks: list[int], padding: int = 0) -> Tensor:
    parts = []
    for b in blocks:
        part = whole[ROWS[b] : ROWS[b] + HEIGHTS[b], COLUMNS[b] : COLUMNS[b] + WIDTHS[b]]
        parts.append(torch.nn.functional.pad(part, (0, padding, 0, padding)))
    return torch.block_diag(*parts) if parts else whole.new_zeros(0, 0)


def values_and_gradient(call, x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    y = call(x)
    probe = (torch.arange(y.numel(), device=y.device) % 7 - 3).view(y.shape)  # exact in any type
    return y.detach(), *torch.autograd.grad(y, x, probe.to(y))


def assert_same(ours: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    for mine, expected in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("choice", CHOICES)
def test_equals_the_dense_product_and_its_gradient(choice, padding):
    whole, matrix = random_whole()
    blocks = chosen(whole, CHOICES[choice], padding)
    wanted = dense(matrix, CHOICES[choice], padding)
    assert blocks.shape == tuple(wanted.shape) or not CHOICES[choice]
    x = torch.randn(blocks.shape[1], F, dtype=torch.float64)
    assert_same(
        values_and_gradient(lambda x: blocks @ x, x), values_and_gradient(lambda x: wanted @ x, x)
    )


@pytest.mark.parametrize("width", [1, 300])
def test_any_width_is_taken(width):
    whole, matrix = random_whole()
    x = torch.randn(sum(WIDTHS), width, dtype=torch.float64)
    torch.testing.assert_close(chosen(whole, CHOICES["all"]) @ x, matrix @ x)


def test_gradients_are_the_numerical_ones_also_the_second():
    blocks = chosen(random_whole()[0], [4, 0], padding=1)
    x = torch.randn(blocks.shape[1], F, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: blocks @ x, (x,))
    assert torch.autograd.gradgradcheck(lambda x: (blocks @ x).square(), (x,))


def test_input_and_gradient_need_not_be_contiguous():
    whole, matrix = random_whole()
    blocks, x = chosen(whole, CHOICES["all"]), torch.randn(F, sum(WIDTHS), dtype=torch.float64).mT
    assert_same(
        values_and_gradient(lambda x: (blocks @ x).mT, x),
        values_and_gradient(lambda x: (matrix @ x).mT, x),
    )


def stacked(members: list[Blocks]) -> Blocks:
    names = "row", "shift", "t_row", "t_shift"
    parts = (torch.stack([getattr(one, name) for one in members]) for name in names)
    return Blocks(members[0].whole, *parts)


@pytest.mark.parametrize("form", ["within vmap", "stacked", "in another dimension"])
def test_members_equal_a_loop_in_values_and_gradients(form):
    whole, _ = random_whole()
    members = [chosen(whole, choice, padding=1) for choice in ([0, 1], [1, 0], [1, 0])]
    batched = stacked(members)
    calls = {
        "within vmap": torch.vmap(lambda x: batched @ x),
        "stacked": lambda x: batched @ x,
        "in another dimension": lambda x: torch.vmap(lambda x: batched @ x, 2, 1)(
            x.movedim(0, 2)
        ).movedim(1, 0),
    }
    x = torch.randn(3, batched.shape[1], F, dtype=torch.float64)

    def looped(x: Tensor) -> Tensor:
        return torch.stack([one @ part for one, part in zip(members, x, strict=True)])

    assert_same(values_and_gradient(calls[form], x), values_and_gradient(looped, x))


def test_bfloat16_sums_are_taken_in_float32():
    row = Adjacency.from_dense(torch.ones(1, 4096))
    numbers = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    t_numbers = torch.arange(4096, dtype=torch.int32), torch.zeros(4096, dtype=torch.int32)
    y = Blocks(row, *numbers, *t_numbers) @ torch.ones(4096, 1, dtype=torch.bfloat16)
    assert y.dtype == torch.bfloat16
    assert y.item() == 4096  # a bfloat16 sum stops growing at 256


def on_gpu(blocks: Blocks) -> Blocks:
    numbers = blocks.row, blocks.shift, blocks.t_row, blocks.t_shift
    return Blocks(blocks.whole.to("cuda"), *(value.cuda() for value in numbers))


@pytest.mark.gpu
@pytest.mark.parametrize("width", [1, 3, 33, 300])
@pytest.mark.parametrize("choice", CHOICES)
def test_the_kernel_equals_the_torch_form_in_values_and_gradients(choice, width):
    blocks = chosen(random_whole()[0], CHOICES[choice], padding=2)
    x = torch.randn(blocks.shape[1], width, dtype=torch.float64)
    moved = on_gpu(blocks)
    with backend("triton"):
        ours = values_and_gradient(lambda x: moved @ x, x.cuda())
    with backend("torch"):
        forms = values_and_gradient(lambda x: moved @ x, x.cuda())
    assert_same(ours, forms)
    wanted = values_and_gradient(lambda x: blocks @ x, x)
    assert_same(tuple(part.cpu() for part in ours), wanted)


@pytest.mark.gpu
def test_the_kernel_takes_members_and_repeats_bit_for_bit():
    members = [chosen(random_whole()[0], [4, 1], padding=1)] * 3
    batched, x = on_gpu(stacked(members)), torch.randn(3, members[0].shape[1], 64)
    first = values_and_gradient(torch.vmap(lambda x: batched @ x), x.cuda())
    for m in range(3):
        torch.testing.assert_close(first[0][m].cpu(), members[m] @ x[m])
    for _ in range(20):
        again = values_and_gradient(torch.vmap(lambda x: batched @ x), x.cuda())
        assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("width", [1, 33, 128])
def test_the_kernel_takes_rows_and_gradients_that_lie_apart_in_memory(width):
    members = [chosen(random_whole()[0], [4, 1], padding=1)] * 3
    batched = on_gpu(stacked(members))
    x = torch.randn(3, members[0].shape[1], 3 * width, dtype=torch.float64, device="cuda")

    def call(x: Tensor) -> Tensor:
        return torch.cat([batched @ part for part in x.split(width, dim=2)], dim=2)

    with backend("torch"):
        wanted = values_and_gradient(call, x)
    assert_same(values_and_gradient(call, x), wanted)


@pytest.mark.gpu
def test_the_product_can_be_captured_as_a_cuda_graph():
    blocks = on_gpu(chosen(random_whole()[0], [4, 1], padding=1))
    x = torch.randn(blocks.shape[1], F, device="cuda")
    values_and_gradient(lambda x: blocks @ x, x)  # compiles the kernel
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        results = values_and_gradient(lambda x: blocks @ x, x)
    x.copy_(torch.randn_like(x))
    captured.replay()
    assert_same(results, values_and_gradient(lambda x: blocks @ x, x))
