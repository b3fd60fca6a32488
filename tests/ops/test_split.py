"""Parts of a matrix against torch's own split, in values, memory and gradients."""

import pytest
import torch
from torch import Tensor

from quatgraph.ops.split import _Split, split_columns

SIZES = [5, 1, 0, 12]
# What a GPU does forwards runs anywhere.
both_forms = pytest.mark.parametrize(
    "form", [split_columns, lambda flat, sizes: _Split.apply(flat, tuple(sizes))]
)


@both_forms
def test_parts_are_views_of_the_columns(form):
    flat = torch.randn(3, sum(SIZES), requires_grad=True)
    for part, wanted in zip(form(flat, SIZES), flat.split(SIZES, dim=1), strict=True):
        assert torch.equal(part, wanted)
        assert part.data_ptr() == wanted.data_ptr()
        assert part.requires_grad


@both_forms
def test_parts_go_through_vmap(form):
    flat = torch.randn(3, sum(SIZES), requires_grad=True)
    first, *_, last = form(flat, SIZES)
    y = torch.vmap(lambda a, b: a.sum() * b)(first, last)
    assert y.requires_grad
    torch.testing.assert_close(y, first.sum(dim=1, keepdim=True) * last)


def test_the_gradient_is_that_of_torchs_split():
    flat = torch.randn(3, sum(SIZES), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda flat: split_columns(flat, SIZES), (flat,))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(
    "sizes", [[1], [70_000, 16, 1, 7], [3, 0, 2100, 5] * 9, [0, 4], [64] * 33, [0] * 20 + [3]]
)
def test_the_gpu_joins_the_gradients_of_parts_some_of_which_have_none(sizes, members, dtype):
    flat = torch.randn(members, sum(sizes), dtype=dtype, device="cuda", requires_grad=True)

    def gradient(parts: tuple[Tensor, ...], unused: set[int]) -> Tensor:
        # The gradient of what is turned does not lie as the part does.
        used = [part.sin().mT for i, part in enumerate(parts) if i not in unused]
        loss = sum(((i + 2) * part.square()).sum() for i, part in enumerate(used))
        return torch.autograd.grad(loss, flat)[0]

    for unused in (set(), set(range(len(sizes) - 1)), set(range(1, len(sizes), 2))):
        ours = gradient(split_columns(flat, sizes), unused)
        assert torch.equal(ours, gradient(flat.split(sizes, dim=1), unused))


@pytest.mark.gpu
def test_the_gradients_of_two_splits_add_up():
    flat = torch.randn(2, 40, device="cuda", requires_grad=True)
    loss = split_columns(flat, [30, 10])[0].square().sum() + split_columns(flat, [4, 36])[1].sum()
    loss.backward()
    wanted = torch.cat((2 * flat[:, :30], torch.zeros(2, 10, device="cuda")), dim=1).detach()
    wanted[:, 4:] += 1
    assert torch.equal(flat.grad, wanted)
