"""Each row times the matrix of its group, against one product per row."""

import pytest
import torch
from torch import Tensor

from quatgraph.ops import grouped_product
from quatgraph.ops.grouped_product import _cut

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def one_by_one(x: Tensor, matrices: Tensor, group: Tensor) -> Tensor:
    return (x.unsqueeze(-2) @ matrices[group]).squeeze(-2)


def inputs(rows: int, groups: int, device: str, *lead: int) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(*lead, rows, 5, dtype=torch.float64, device=device, requires_grad=True)
    matrices = torch.randn(*lead, groups, 5, 3, dtype=torch.float64, device=device)
    # Groups of very different sizes, some empty.
    group = (torch.rand(*lead, rows, device=device) ** 3 * groups).long()
    return x, matrices.requires_grad_(), group


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (7, 3), (40, 100), (300, 4), (1000, 30)])
def test_products_and_gradients_are_those_of_each_row(rows, groups, device):
    x, matrices, group = inputs(rows, groups, device)
    found, wanted = (by(x, matrices, group) for by in (grouped_product, one_by_one))
    torch.testing.assert_close(found, wanted)
    slope = torch.randn_like(wanted)
    mine, theirs = (torch.autograd.grad(y, (x, matrices), slope) for y in (found, wanted))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", ["stacked", "vmap"])
def test_members_have_rows_and_matrices_of_their_own(way, device):
    x, matrices, group = inputs(50, 6, device, 4)
    by = grouped_product if way == "stacked" else torch.vmap(grouped_product)
    found = by(x, matrices, group)
    wanted = torch.stack([one_by_one(*one) for one in zip(x, matrices, group, strict=True)])
    torch.testing.assert_close(found, wanted)
    slope = torch.randn_like(wanted)
    mine, theirs = (torch.autograd.grad(y, (x, matrices), slope) for y in (found, wanted))
    torch.testing.assert_close(mine, theirs)


def test_gradients_are_the_numerical_ones():
    x, matrices, group = inputs(9, 3, "cpu")
    assert torch.autograd.gradcheck(lambda *two: grouped_product(*two, group), (x, matrices))


def test_members_may_share_rows_or_matrices():
    x, matrices, group = inputs(12, 3, "cpu")
    groups = torch.stack((group, group.flip(0)))
    found = torch.vmap(grouped_product, in_dims=(None, None, 0))(x, matrices, groups)
    for one, own in zip(found, groups, strict=True):
        torch.testing.assert_close(one, one_by_one(x, matrices, own))


def test_no_rows_have_no_products():
    x, matrices, group = inputs(0, 3, "cpu")
    found = grouped_product(x, matrices, group)
    assert found.shape == (0, 3)
    (grad,) = torch.autograd.grad(found.sum(), matrices)
    assert not grad.any()


@pytest.mark.parametrize("group", [[2] * 64, [0, 1, 2, 3] * 16, [0] + [3] * 63, list(range(64))])
def test_the_number_of_tiles_does_not_depend_on_the_groups(group):
    tiles = _cut(torch.tensor([group]), 64)
    assert tiles.row.shape == (
        1,
        64,
        8,
    )  # 64 rows of up to 64 groups may all be in tiles of their own
    few = _cut(torch.tensor([group]) % 4, 4)
    assert few.row.shape == (1, 7, 16)
    assert sorted(few.row[few.known].tolist()) == list(range(64))


@pytest.mark.gpu
def test_a_gpu_repeats_bit_for_bit():
    x, matrices, group = (value.detach() for value in inputs(1000, 30, "cuda", 3))
    given = x.float().requires_grad_(), matrices.float().requires_grad_()
    first, again = (
        (y := grouped_product(*given, group), *torch.autograd.grad(y.square().sum(), given))
        for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
