"""The Poincaré ball: formulas in float64, the laws of the functions, and geoopt if installed."""

import math

import pytest
import torch
from torch import Tensor

from quatgraph.poincare import clip_tangent, exp0, log0, margin, mobius_add, norm, project

CURVATURES = [0.01, 1.0, 7.5]
TYPES = [torch.float32, torch.float64]
SIZES = [0.0, 1e-30, 1e-15, 1e-7, 0.1, 1.0, 3.0, 8.0, 1e3, 1e15]
"""From nothing to far beyond what tanh can tell apart."""
every_curvature = pytest.mark.parametrize("curvature", CURVATURES)
every_type = pytest.mark.parametrize("dtype", TYPES)


def rows(dtype: torch.dtype, sizes: list[float] = SIZES) -> Tensor:
    """Vectors of these lengths, each in a direction of its own."""
    draw = torch.Generator().manual_seed(3)
    direction = torch.randn(len(sizes), 5, generator=draw, dtype=torch.float64)
    direction /= direction.norm(dim=1, keepdim=True)
    return (direction * torch.tensor(sizes, dtype=torch.float64)[:, None]).to(dtype)


def points(dtype: torch.dtype, curvature: float) -> Tensor:
    """Points from the origin to close to the boundary."""
    sizes = [size / math.sqrt(curvature) for size in (0.0, 1e-15, 1e-3, 0.5, 0.9, 0.99)]
    return rows(dtype, sizes)


def of(curvature: float, dtype: torch.dtype) -> Tensor:
    return torch.tensor(curvature, dtype=dtype)


def exp0_by_numbers(u: list[float], c: float) -> list[float]:
    size = math.sqrt(c * sum(a * a for a in u))
    return [a * math.tanh(size) / size for a in u] if size else u


def log0_by_numbers(x: list[float], c: float) -> list[float]:
    size = math.sqrt(c * sum(a * a for a in x))
    return [a * math.atanh(size) / size for a in x] if size else x


def mobius_add_by_numbers(x: list[float], y: list[float], c: float) -> list[float]:
    inner = sum(a * b for a, b in zip(x, y, strict=True))
    xx, yy = sum(a * a for a in x), sum(b * b for b in y)
    below = 1 + 2 * c * inner + c * c * xx * yy
    return [
        ((1 + 2 * c * inner + c * yy) * a + (1 - c * xx) * b) / below
        for a, b in zip(x, y, strict=True)
    ]


@every_curvature
@every_type
def test_the_functions_are_their_formulas(curvature, dtype):
    c, x = of(curvature, dtype), points(dtype, curvature)
    u, y = rows(dtype, [0.0, 1e-9, 0.01, 0.4, 1.0, 2.0]), x.flip(0) / 2
    close = {"rtol": 3e-5, "atol": 1e-7} if dtype == torch.float32 else {}
    for ours, formula, inputs in (
        (exp0, exp0_by_numbers, (u,)),
        (log0, log0_by_numbers, (x,)),
        (mobius_add, mobius_add_by_numbers, (x, y)),
    ):
        each = zip(*(value.double().tolist() for value in inputs), strict=True)
        wanted = torch.tensor([formula(*one, curvature) for one in each], dtype=dtype)
        torch.testing.assert_close(ours(*inputs, c), wanted, **close)


@every_curvature
@every_type
def test_the_logarithm_undoes_the_exponential_and_back(curvature, dtype):
    c = of(curvature, dtype)
    u = rows(dtype, [size / math.sqrt(curvature) for size in (0.0, 1e-15, 1e-3, 1.0, 2.9)])
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == torch.float32 else {}
    torch.testing.assert_close(log0(exp0(u, c), c), u, **close)
    x = project(points(dtype, curvature), c)
    torch.testing.assert_close(exp0(log0(x, c), c), x, **close)


@every_curvature
@every_type
def test_clipping_a_tangent_vector_is_the_way_through_the_ball(curvature, dtype):
    c, u = of(curvature, dtype), rows(dtype)
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == torch.float32 else {}
    through = log0(project(exp0(u, c), c), c)
    torch.testing.assert_close(clip_tangent(u, c), through, **close)
    longest = math.atanh(1 - margin(dtype)) / math.sqrt(curvature)
    assert bool((norm(clip_tangent(u, c)) <= longest * (1 + 1e-6)).all())


@every_curvature
@every_type
def test_projected_points_are_inside_and_stay(curvature, dtype):
    c, x = of(curvature, dtype), rows(dtype)
    once = project(x, c)
    assert bool((c * once.square().sum(dim=1) < 1).all())
    torch.testing.assert_close(project(once, c), once)
    well_inside = points(dtype, curvature)
    assert torch.equal(project(well_inside, c), well_inside)


@every_curvature
@every_type
def test_laws_of_the_mobius_sum(curvature, dtype):
    c, x = of(curvature, dtype), points(dtype, curvature)[:-1]
    y, zero = x.roll(1, 0) / 3, torch.zeros_like(x)
    close = {"rtol": 1e-4, "atol": 2e-5 / math.sqrt(curvature)} if dtype == torch.float32 else {}
    torch.testing.assert_close(mobius_add(x, zero, c), x)
    torch.testing.assert_close(mobius_add(zero, x, c), x)
    torch.testing.assert_close(mobius_add(-x, mobius_add(x, y, c), c), y, **close)
    assert not torch.allclose(mobius_add(x, y, c), mobius_add(y, x, c))


def test_without_curvature_the_ball_is_flat():
    c, x = torch.tensor(1e-12, dtype=torch.float64), rows(torch.float64, [0.1, 0.5, 2.0])
    for same in (exp0(x, c), log0(x, c), project(x, c), clip_tangent(x, c)):
        torch.testing.assert_close(same, x)
    torch.testing.assert_close(mobius_add(x, x.flip(0), c), x + x.flip(0))


@every_curvature
@every_type
def test_values_and_gradients_are_finite_from_the_origin_to_beyond_the_boundary(curvature, dtype):
    c = of(curvature, dtype).requires_grad_()
    for function in (exp0, log0, project, clip_tangent):
        x = rows(dtype).requires_grad_()
        y = function(x, c)
        assert bool(y.isfinite().all())
        for grad in torch.autograd.grad(y.sum(), (x, c)):
            assert bool(grad.isfinite().all()), function.__name__
    x = project(rows(dtype), c).detach().requires_grad_()
    shift = project(rows(dtype).flip(0), c).detach().requires_grad_()
    y = mobius_add(x, shift, c)
    for value in (y, *torch.autograd.grad(y.sum(), (x, shift, c))):
        assert bool(value.isfinite().all())


@every_curvature
def test_gradients_are_those_of_finite_differences(curvature):
    c = of(curvature, torch.float64).requires_grad_()
    x = (points(torch.float64, curvature)[2:-1] * 0.8).requires_grad_()
    y = (x.detach().flip(0) / 2).requires_grad_()
    for function in (exp0, log0, project, clip_tangent):
        assert torch.autograd.gradcheck(function, (x, c))
    assert torch.autograd.gradcheck(mobius_add, (x, y, c))


@every_curvature
@every_type
def test_geoopt_computes_the_same(curvature, dtype):
    geoopt = pytest.importorskip("geoopt")
    theirs = geoopt.manifolds.stereographic.math
    c, x, u = of(curvature, dtype), points(dtype, curvature)[1:], rows(dtype)[3:-1]
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == torch.float32 else {}
    torch.testing.assert_close(
        project(exp0(u, c), c), theirs.project(theirs.expmap0(u, k=-c), k=-c), **close
    )
    torch.testing.assert_close(log0(x, c), theirs.logmap0(x, k=-c), **close)
    torch.testing.assert_close(project(u, c), theirs.project(u, k=-c), **close)
    y = x.flip(0) / 2
    torch.testing.assert_close(mobius_add(x, y, c), theirs.mobius_add(x, y, k=-c), **close)
    matrix = torch.randn(4, 5, dtype=dtype)
    ours = exp0(log0(x, c) @ matrix.mT, c)
    torch.testing.assert_close(
        project(ours, c), theirs.project(theirs.mobius_matvec(matrix, x, k=-c), k=-c), **close
    )
