"""One-hot features as integers, compared with one-hot matrices."""

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.layers import QuaternionDropout, QuaternionLinear
from quatgraph.training.ensemble import Ensemble

N, T, OUT = 7, 4, 8


def random_codes(*lead: int) -> Codes:
    """Some rows have no known code."""
    known = (torch.rand(*lead, N) < 0.7).double()
    return Codes(torch.randint(T, (*lead, N), dtype=torch.int32), known, T)


def dense(x: Codes) -> Tensor:
    one_hot = F.one_hot(x.code.long(), T).double()
    if x.weight.dim() == x.code.dim():
        return one_hot * x.weight[..., None]
    return (x.weight[..., None] * one_hot[..., None, :]).flatten(-2)


def assert_same(ours: Tensor, wanted: Tensor, inputs: list[Tensor]) -> None:
    """Equal values and gradients."""
    torch.testing.assert_close(ours, wanted)
    probe = torch.randn_like(ours)
    mine = torch.autograd.grad(ours, inputs, probe)
    for a, b in zip(mine, torch.autograd.grad(wanted, inputs, probe), strict=True):
        torch.testing.assert_close(a, b)


def test_multiply_a_table_as_the_matrix_does():
    x = random_codes()
    x = x.with_weight((x.weight * torch.randn(N, dtype=torch.float64)).requires_grad_())
    table = torch.randn(T, OUT, dtype=torch.float64, requires_grad=True)
    assert_same(x @ table, dense(x) @ table, [table, x.weight])


def test_have_the_shape_of_the_matrix():
    assert random_codes().shape == (N, T)
    assert random_codes().tiled().shape == dense(random_codes().tiled()).shape == (N, 4 * T)
    assert random_codes(3).shape == (N, T)  # of each member


def test_move_to_a_device_whole():
    moved = random_codes().to("meta")
    assert moved.code.is_meta
    assert moved.weight.is_meta


def masked() -> Codes:
    """Four copies, each row of each masked by itself."""
    return QuaternionDropout(0.5).double()(random_codes().tiled())


def test_four_copies_with_masks_of_their_own_equal_the_dense_product():
    layer, x = QuaternionLinear(T, OUT, bias=True, tiled=True).double(), masked()
    torch.nn.init.normal_(layer.bias)
    assert x.weight.shape == (N, 4)
    assert not torch.equal(x.weight, x.weight[:, :1].expand(N, 4))
    assert_same(layer(x), layer(dense(x)), [layer.weight, layer.bias])


def test_one_copy_stands_for_four_equal_ones():
    layer, x = QuaternionLinear(T, OUT, tiled=True).double(), random_codes()
    assert_same(layer(x), layer(x.tiled()), [layer.weight])
    assert_same(layer(x), layer(dense(x)), [layer.weight])


def test_four_copies_in_an_ensemble_equal_each_member_alone():
    def build() -> QuaternionLinear:
        return QuaternionLinear(T, OUT, tiled=True)

    ensemble, x = Ensemble([build] * 3, [0, 1, 2]).double(), random_codes(3).tiled()
    x = x.with_weight(x.weight * torch.randn(3, N, 4, dtype=torch.float64))
    y = ensemble(x, in_dims=(0,))
    for m in range(3):
        layer = build().double()
        layer.load_state_dict(ensemble.member(m))
        one = Codes(x.code[m], x.weight[m], T)
        torch.testing.assert_close(y[m], layer(dense(one)))


def test_a_layer_of_quaternion_vectors_takes_no_codes():
    with pytest.raises(UserError, match="only a tiled layer takes codes"):
        QuaternionLinear(4 * T, OUT)(random_codes().tiled())


def test_dropout_masks_each_stored_number_by_itself():
    x = Codes(torch.zeros(10_000, dtype=torch.int32), torch.ones(10_000), T)
    layer = QuaternionDropout(0.3)
    y = layer(x)
    assert y.code is x.code
    assert (y.weight == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
    torch.testing.assert_close(y.weight.max().item(), 1 / 0.7)
    assert layer(x.tiled()).weight.shape == (10_000, 4)
    assert layer.eval()(x) is x


def test_are_a_pytree_of_two_tensors():
    x = random_codes()
    leaves, spec = pytree.tree_flatten(x)
    assert [leaf.shape for leaf in leaves] == [(N,), (N,)]
    again = pytree.tree_unflatten(leaves, spec)
    assert again.num_codes == T
    assert again.code is x.code
