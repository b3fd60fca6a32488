"""Pooling with weights against loops over graphs: ties, empty graphs, padding, members."""

import pytest
import torch
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.ops import attention_pool, backend
from quatgraph.ops.activation import ACTIVATIONS
from quatgraph.ops.segments import segment_ids

activations = pytest.mark.parametrize("activation", list(ACTIVATIONS))
SIZES, WIDTH = [2, 0, 3, 1], 5
PTR = torch.tensor([0, 2, 2, 5, 6])
MEAN = "mean-plus-max"


def inputs(*lead: int, sizes: list[int] = SIZES, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    options = {"dtype": torch.float64}
    return torch.randn(*lead, sum(sizes), width, **options), torch.rand(
        *lead, sum(sizes), **options
    )


def by_loops(
    x: Tensor, weight: Tensor, sizes: list[int], activation: str, pooling: str = "sum-times-max"
) -> Tensor:
    pooled = []
    for part in (weight[:, None] * ACTIVATIONS[activation](x))[: sum(sizes)].split(sizes):
        if not len(part):
            pooled.append(x.new_zeros(x.size(-1)))
        elif pooling == "sum-times-max":
            pooled.append(part.sum(dim=0) * part.amax(dim=0))
        else:
            pooled.append(part.mean(dim=0) + part.amax(dim=0))
    return torch.stack(pooled)


def with_gradients(pool, x: Tensor, weight: Tensor) -> list[Tensor]:
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = pool(x, weight)
    along = torch.linspace(-1, 2, y.numel(), dtype=y.dtype, device=y.device).view_as(y)
    return [y.detach(), *torch.autograd.grad(y, (x, weight), along)]


def assert_alike(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@activations
@pytest.mark.parametrize("shift", [0, -5])
def test_is_the_sum_times_the_maximum_whatever_its_sign(activation, shift):
    x, weight = inputs()
    assert_alike(
        with_gradients(lambda x, w: attention_pool(x, w, PTR, activation), x + shift, weight),
        with_gradients(lambda x, w: by_loops(x, w, SIZES, activation), x + shift, weight),
    )


@activations
def test_is_the_mean_plus_the_maximum_if_asked(activation):
    x, weight = inputs()
    assert_alike(
        with_gradients(lambda x, w: attention_pool(x, w, PTR, activation, MEAN), x, weight),
        with_gradients(lambda x, w: by_loops(x, w, SIZES, activation, MEAN), x, weight),
    )


def test_members_have_means_of_their_own_graphs():
    sizes, ptr = [[2, 3], [1, 0]], torch.tensor([[0, 2, 5], [0, 1, 1]])
    x, weight = inputs(2, sizes=[7])
    y = attention_pool(x, weight, ptr, "tanh", MEAN)
    for m, own in enumerate(sizes):
        torch.testing.assert_close(y[m], by_loops(x[m], weight[m], own, "tanh", MEAN))


def test_equal_nodes_share_the_gradient_as_in_amax():
    x = torch.tensor([[1.0, 0], [1, 0], [3, -1], [2, -1], [3, -1], [0, 0]]).double()
    weight = torch.ones(6).double()
    assert_alike(
        with_gradients(lambda x, w: attention_pool(x, w, PTR, "none"), x, weight),
        with_gradients(lambda x, w: by_loops(x, w, SIZES, "none"), x, weight),
    )


def test_members_have_graphs_of_their_own_and_padding_has_no_say():
    sizes = [[2, 3], [1, 0], [4, 2]]
    ptr = torch.tensor([[0, 2, 5], [0, 1, 1], [0, 4, 6]])
    x, weight = inputs(3, sizes=[7])
    for m, own in enumerate(sizes):
        x[m, sum(own) :] = 1e6
    ours = with_gradients(lambda x, w: attention_pool(x, w, ptr, "tanh"), x, weight)
    for m, own in enumerate(sizes):
        nodes = sum(own)
        y = by_loops(x[m], weight[m], own, "tanh")
        torch.testing.assert_close(ours[0][m], y)
        assert not ours[1][m, nodes:].any()
        assert not ours[2][m, nodes:].any()
    assert segment_ids(ptr, 7).tolist() == [
        [0, 0, 1, 1, 1, 2, 2], [0, 2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 1, 1, 2]
    ]  # fmt: skip


def test_gradients():
    x, weight = (value.requires_grad_() for value in inputs(2))
    assert torch.autograd.gradcheck(lambda x, w: attention_pool(x, w, PTR, "elu"), (x, weight))


def test_vmap_is_a_loop():
    x, weight = inputs(3)
    batched = torch.vmap(lambda x, w: attention_pool(x, w, PTR), in_dims=(1, 0))(
        x.movedim(0, 1), weight
    )
    for m in range(3):
        torch.testing.assert_close(batched[m], attention_pool(x[m], weight[m], PTR))


def test_nested_vmap_and_double_backward_are_refused():
    x, weight = inputs(2)
    with pytest.raises(NotImplementedError, match="nested vmap"):
        attention_pool(x[None], weight[None], PTR)
    with pytest.raises(NotImplementedError, match="nested vmap"):
        torch.vmap(lambda x, w: attention_pool(x, w, PTR))(x[None], weight[None])
    x.requires_grad_()
    with pytest.raises(UserError, match="double backward is not supported"):
        torch.autograd.grad(attention_pool(x, weight, PTR).sum(), x, create_graph=True)


@pytest.mark.parametrize("graphs", [0, 2])
def test_nothing_to_pool(graphs):
    x, weight = inputs(sizes=[0])
    y = attention_pool(x, weight, torch.zeros(graphs + 1, dtype=torch.long))
    assert y.shape == (graphs, WIDTH)
    assert not y.any()


@pytest.mark.gpu
@activations
def test_a_gpu_tells_small_numbers_apart_in_float32(activation):
    x = torch.tensor([[-0.09, 0.9e-7, 1e-3], [-0.11, 1.0e-7, 2e-3], [-1e-6, 1.1e-7, -1e-3]]).cuda()
    weight, ptr = torch.ones(3).cuda(), torch.tensor([0, 3]).cuda()
    ours = with_gradients(lambda x, w: attention_pool(x, w, ptr, activation), x, weight)
    with backend("torch"):
        theirs = with_gradients(lambda x, w: attention_pool(x, w, ptr, activation), x, weight)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-6, atol=0)


@pytest.mark.gpu
@activations
@pytest.mark.parametrize("width", [1, 96, 384])
def test_kernels_equal_torch_and_repeat_bit_for_bit(activation, width):
    sizes = torch.randint(40, (4, 300))
    ptr = torch.nn.functional.pad(sizes.cumsum(1), (1, 0)).int().cuda()
    x, weight = (
        value.cuda() for value in inputs(4, sizes=[int(sizes.sum(1).max()) + 9], width=width)
    )
    x[:, ::3] = x[:, 1:2]  # ties

    def pooled() -> list[Tensor]:
        return with_gradients(lambda x, w: attention_pool(x, w, ptr, activation), x, weight)

    first = pooled()
    with backend("torch"):
        assert_alike(first, pooled())
    for _ in range(5):
        assert all(map(torch.equal, pooled(), first))
