"""Products of rounded numbers, against float64 products of the same numbers."""

import pytest
import torch
from torch import Tensor

from quatgraph.ops.rounded_linear import product, rounded_linear, rounded_product

ROUNDED = torch.bfloat16
N, F, G = 37, 12, 20
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
on_each_device = pytest.mark.parametrize("device", DEVICES)


def drawn(*shape: int, device: str = "cpu") -> Tensor:
    return torch.randn(*shape).to(device)


def exact(value: Tensor) -> Tensor:
    return value.to(ROUNDED).double()


@on_each_device
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS, but there was no current CUDA")
def test_factors_are_rounded_and_sums_are_not(device):
    x, weight = drawn(N, F, device=device), drawn(G, F, device=device)
    x, weight = x.requires_grad_(), weight.requires_grad_()
    y = rounded_linear(x, weight, ROUNDED)
    assert y.dtype == ROUNDED
    torch.testing.assert_close(y.double(), exact(x) @ exact(weight).mT, rtol=2**-7, atol=1e-6)
    probe = drawn(N, G, device=device).to(ROUNDED)
    by_x, by_weight = torch.autograd.grad(y, (x, weight), probe)
    assert by_x.dtype == by_weight.dtype == torch.float32
    torch.testing.assert_close(by_x.double(), probe.double() @ exact(weight), rtol=1e-5, atol=1e-5)
    wanted = probe.double().mT @ exact(x)
    torch.testing.assert_close(by_weight.double(), wanted, rtol=1e-5, atol=1e-5)


@on_each_device
@pytest.mark.parametrize("shared", [False, True])
def test_members_equal_a_loop(device, shared):
    x = drawn(*() if shared else (3,), N, F, device=device).requires_grad_()
    weight = drawn(3, G, F, device=device).requires_grad_()
    probe = drawn(3, N, G, device=device).to(ROUNDED)

    def each(own: Tensor, other: Tensor) -> Tensor:
        return rounded_linear(own, other, ROUNDED)

    batched = torch.vmap(each, in_dims=(None if shared else 0, 0))(x, weight)
    alone = torch.stack([each(x if shared else x[m], weight[m]) for m in range(3)])
    assert torch.equal(batched, alone) or device == "cuda"
    torch.testing.assert_close(batched, alone)
    for mine, wanted in zip(
        torch.autograd.grad(batched, (x, weight), probe),
        torch.autograd.grad(alone, (x, weight), probe),
        strict=True,
    ):
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-4)


def test_nested_vmap_is_refused():
    nested = torch.vmap(torch.vmap(lambda x, w: rounded_linear(x, w, ROUNDED)))
    with pytest.raises(NotImplementedError, match="nested vmap"):
        nested(drawn(2, 3, N, F), drawn(2, 3, G, F))


@on_each_device
@pytest.mark.parametrize("kind", [ROUNDED, torch.float32])
def test_products_go_into_given_places_or_on_top(device, kind):
    left, right = drawn(2, N, F, device=device).to(kind), drawn(2, F, G, device=device).to(kind)
    wanted = left.double() @ right.double()
    found = product(left, right)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    place = torch.zeros(2, N + 3, G, device=device)
    product(left, right, out=place[:, 2:-1])
    assert torch.equal(place[:, 2:-1], found)
    torch.testing.assert_close(product(left, right, plus=found.clone()), 2 * found)
    own = rounded_product(left, right)
    assert own.dtype == kind
    torch.testing.assert_close(own, found.to(kind))
