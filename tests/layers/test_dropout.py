"""Dropout of real numbers, of whole quaternions, and of sparse features."""

import pytest
import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import components
from quatgraph.errors import UserError
from quatgraph.layers import QuaternionDropout
from quatgraph.training.ensemble import Ensemble


def dropped_share(y: Tensor) -> float:
    return (y == 0).float().mean().item()


@pytest.mark.parametrize("masks", ["real", "quaternion"])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9])
def test_drops_its_share_and_scales_the_rest_so_that_the_mean_stays(rate, masks):
    x = torch.randn(200, 200)
    y = QuaternionDropout(rate, masks=masks)(x)
    assert dropped_share(y) == pytest.approx(rate, abs=0.02)
    torch.testing.assert_close(y[y != 0], x[y != 0] / (1 - rate))


def test_a_quaternions_components_live_or_die_together_only_when_asked():
    x = torch.ones(100, 40)
    whole = torch.stack(components(QuaternionDropout(0.5, masks="quaternion")(x)))
    assert (whole == whole[0]).all()
    single = torch.stack(components(QuaternionDropout(0.5)(x)))
    # Four fair coins agree one time in eight.
    agree = (single == single[0]).all(dim=0).float().mean().item()
    assert agree == pytest.approx(1 / 8, abs=0.03)


def test_masks_are_new_every_time_and_the_gradient_has_the_same_one():
    layer, x = QuaternionDropout(0.5), torch.ones(10, 10, requires_grad=True)
    y, z = layer(x), layer(x)
    assert not torch.equal(y, z)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad, y)


@pytest.mark.parametrize("masks", ["real", "quaternion"])
def test_evaluation_is_the_identity(masks):
    layer, x = QuaternionDropout(0.5, masks=masks).eval(), torch.randn(3, 8)
    assert layer(x) is x
    sparse = Adjacency.from_dense(x)
    assert layer(sparse) is sparse


def test_stored_values_of_sparse_features_are_dropped_one_by_one():
    x = Adjacency.from_dense(torch.rand(100, 100) + 1)
    y = QuaternionDropout(0.3)(x)
    assert torch.equal(y.col, x.col)
    assert dropped_share(y.weight) == pytest.approx(0.3, abs=0.02)
    alive = y.weight != 0
    torch.testing.assert_close(y.weight[alive], x.weight[alive] / 0.7)


def test_the_type_is_kept():
    assert QuaternionDropout(0.5)(torch.ones(2, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16
    y = QuaternionDropout(0.3).double()(torch.ones(8, 8, dtype=torch.float64))
    torch.testing.assert_close(y.max().item(), 1 / 0.7, rtol=1e-6, atol=0)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_a_rate_out_of_range_is_a_mistake(rate):
    with pytest.raises(UserError, match="at least 0 and less than 1"):
        QuaternionDropout(rate)


def test_whole_quaternions_need_a_quaternion_width():
    with pytest.raises(UserError, match="use 8"):
        QuaternionDropout(0.5, masks="quaternion")(torch.ones(2, 6))


@pytest.mark.parametrize("masks", ["real", "quaternion"])
def test_members_of_an_ensemble_have_rates_of_their_own(masks):
    rates = [0.0, 0.2, 0.7]
    builds = [lambda rate=rate: QuaternionDropout(rate, masks=masks) for rate in rates]
    for y, rate in zip(Ensemble(builds, [0, 1, 2])(torch.ones(200, 200)), rates, strict=True):
        assert dropped_share(y) == pytest.approx(rate, abs=0.02)
        torch.testing.assert_close(y.max().item(), 1 / (1 - rate))


def test_the_rate_is_no_part_of_a_models_saved_state():
    assert not QuaternionDropout(0.5).state_dict()


class _Twice(nn.Module):
    """Two dropouts, one of them used twice."""

    def __init__(self, rate: float = 0.5) -> None:
        super().__init__()
        self.first, self.second = QuaternionDropout(rate), QuaternionDropout(rate)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack((self.first(x), self.second(x), self.second(x)))


def test_masks_within_an_ensemble_depend_on_seed_step_and_call_alone():
    x, seeds = torch.ones(20, 8), [3, 1, 4]
    batched, alone = Ensemble([_Twice] * 3, seeds), Ensemble([_Twice], [1])
    seen = []
    for _ in range(3):
        y = batched(x)
        assert torch.equal(y[1:2], alone(x))
        seen += [*y[0], *y[1], *y[2]]
    for place, mask in enumerate(seen):  # three members, steps and calls: all differ
        assert not any(torch.equal(mask, other) for other in seen[:place])


def test_a_step_of_several_calls_has_one_set_of_masks():
    ensemble, x = Ensemble([QuaternionDropout] * 2, [0, 1]), torch.ones(20, 8)
    first = ensemble(x, last=False)
    assert torch.equal(ensemble(x), first)
    assert not torch.equal(ensemble(x), first)


def test_rows_are_known_by_what_they_are():
    class Rows(nn.Module):
        supports_members = True

        def __init__(self) -> None:
            super().__init__()
            self.dropout = QuaternionDropout(0.5)

        def forward(self, x: Tensor, rows: Tensor) -> Tensor:
            return self.dropout(x, rows)

    rows = torch.tensor([[2, 0, 5], [5, 1, 1]])
    y = Ensemble([Rows] * 2, [0, 1])(torch.ones(2, 3, 40), rows)
    places = torch.arange(6).expand(2, 6)
    whole = Ensemble([Rows] * 2, [0, 1])(torch.ones(2, 6, 40), places)
    assert torch.equal(y, whole.gather(1, rows[:, :, None].expand(2, 3, 40)))
