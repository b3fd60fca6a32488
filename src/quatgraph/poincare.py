r"""The Poincaré ball :math:`\{\mathbf{x} : c |\mathbf{x}|^2 < 1\}` of curvature :math:`-c < 0`.

Vectors are rows, ``(..., D)``. A curvature is a tensor that broadcasts against them, as ``()`` or
``(1, 1)``. Tangent vectors are those at the origin.

Near the boundary float32 cannot tell points apart, so :func:`project` keeps a distance from it, as
geoopt does. Norms are at least :data:`SMALLEST`, so gradients at the origin are finite.
"""

import math

import torch
from torch import Tensor

MARGINS = {torch.float64: 1e-5}
"""The distance of projected points from the boundary of the unit ball; in other types 4e-3."""
SMALLEST = 1e-15


def exp0(u: Tensor, c: Tensor) -> Tensor:
    r"""The point that a tangent vector leads to,
    :math:`\tanh(\sqrt{c} |\mathbf{u}|) \, \mathbf{u} / (\sqrt{c} |\mathbf{u}|)`.

    Laws: ``exp0(0) = 0``; ``log0(exp0(u)) = u`` within the margin; ``exp0(u) -> u`` as c goes to 0.
    """
    size = c.sqrt() * norm(u)
    return u * (size.tanh() / size)


def log0(x: Tensor, c: Tensor) -> Tensor:
    r"""The tangent vector that leads to a point,
    :math:`\mathrm{artanh}(\sqrt{c} |\mathbf{x}|) \, \mathbf{x} / (\sqrt{c} |\mathbf{x}|)`.

    Law: ``exp0(log0(x)) = x`` for projected points.
    """
    size = (c.sqrt() * norm(x)).clamp(max=1 - margin(x.dtype))
    return x * (size.atanh() / size)


def project(x: Tensor, c: Tensor) -> Tensor:
    """The point, moved along its ray into the ball if it is not well inside.

    Laws: ``project(project(x)) = project(x)``; points well inside stay as they are.
    """
    return x * _shrinkage(c.sqrt() * norm(x), 1 - margin(x.dtype))


def clip_tangent(u: Tensor, c: Tensor) -> Tensor:
    """The tangent vector, shortened if it leads out of the projected points.

    Law: ``clip_tangent(u) = log0(project(exp0(u)))``, without the way through the ball.
    """
    return u * clip_factor(norm(u), c)


def clip_factor(length: Tensor, c: Tensor) -> Tensor:
    """What :func:`clip_tangent` multiplies vectors of a length by, at most 1."""
    return _shrinkage(c.sqrt() * length, math.atanh(1 - margin(length.dtype)))


def mobius_add(x: Tensor, y: Tensor, c: Tensor) -> Tensor:
    r"""The Möbius sum

    .. math::
        \mathbf{x} \oplus \mathbf{y} = \frac{(1 + 2c \langle \mathbf{x}, \mathbf{y} \rangle
        + c |\mathbf{y}|^2) \mathbf{x} + (1 - c |\mathbf{x}|^2) \mathbf{y}}
        {1 + 2c \langle \mathbf{x}, \mathbf{y} \rangle + c^2 |\mathbf{x}|^2 |\mathbf{y}|^2}

    Laws: ``x + 0 = 0 + x = x``; ``(-x) + (x + y) = y``, but ``x + y`` and ``y + x`` differ;
    ``x + y`` goes to the plain sum with c to 0.
    """
    inner = 2 * c * (x * y).sum(dim=-1, keepdim=True)
    squared_x, squared_y = (c * v.square().sum(dim=-1, keepdim=True) for v in (x, y))
    total = (1 + inner + squared_y) * x + (1 - squared_x) * y
    return total / (1 + inner + squared_x * squared_y).clamp(min=SMALLEST)


def norm(x: Tensor) -> Tensor:
    """The length of each row, ``(..., 1)``, at least :data:`SMALLEST`."""
    return x.square().sum(dim=-1, keepdim=True).clamp(min=SMALLEST**2).sqrt()


def margin(dtype: torch.dtype) -> float:
    return MARGINS.get(dtype, 4e-3)


def _shrinkage(size: Tensor, largest: float) -> Tensor:
    """The factor that makes a size at most ``largest``."""
    return (largest / size).clamp(max=1)
