r"""Quaternion algebra on plain tensors.

A vector of :math:`n` quaternions is a real tensor whose last dimension has size ``4 * n``:
the real parts, then the i, j and k parts, ``[r | i | j | k]``. This is the paper's
:math:`\mathrm{Vec}`, so flattening a quaternion vector is free, addition and multiplication by a
real number are torch's own ``+`` and ``*``, and every function here takes any leading dimensions.
"""

from typing import Literal

import torch
from torch import Tensor

from quatgraph.errors import UserError

Lift = Literal["tile", "split", "real"]


def quats(width: int) -> int:
    """The number of quaternions in ``width`` real numbers.

    Example:
        >>> quats(64)
        16
    """
    if width <= 0 or width % 4:
        raise UserError(
            f"a quaternion width must be a positive multiple of four, got {width}: "
            f"use {max(4, -(-width // 4) * 4)}"
        )
    return width // 4


def components(q: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The r, i, j and k parts of ``q`` ``(..., 4n)``, each a view ``(..., n)``."""
    quats(q.size(-1))
    r, i, j, k = q.chunk(4, dim=-1)
    return r, i, j, k


def hamilton_product(q: Tensor, p: Tensor) -> Tensor:
    r"""Element-wise Hamilton product :math:`q \otimes p` (Eq. 1). Associative, not commutative.

    Shape:
        - q, p: ``(..., 4n)``, broadcast against each other
        - output: ``(..., 4n)``

    Example:
        >>> i, j = torch.tensor([0., 1, 0, 0]), torch.tensor([0., 0, 1, 0])
        >>> hamilton_product(i, j)  # k
        tensor([0., 0., 0., 1.])
    """
    qr, qi, qj, qk = components(q)
    pr, pi, pj, pk = components(p)
    return torch.cat(
        (
            qr * pr - qi * pi - qj * pj - qk * pk,
            qi * pr + qr * pi - qk * pj + qj * pk,
            qj * pr + qk * pi + qr * pj - qi * pk,
            qk * pr - qj * pi + qi * pj + qr * pk,
        ),
        dim=-1,
    )


def conjugate(q: Tensor) -> Tensor:
    r""":math:`\bar q = q_r - q_i\mathbf{i} - q_j\mathbf{j} - q_k\mathbf{k}`; reverses products."""
    r, i, j, k = components(q)
    return torch.cat((r, -i, -j, -k), dim=-1)


def norm(q: Tensor) -> Tensor:
    r""":math:`\|q\| = \sqrt{q_r^2 + q_i^2 + q_j^2 + q_k^2}` of each quaternion; multiplicative.

    Shape:
        - q: ``(..., 4n)``
        - output: ``(..., n)``
    """
    return torch.linalg.vector_norm(q.unflatten(-1, (4, quats(q.size(-1)))), dim=-2)


def unit(q: Tensor) -> Tensor:
    r"""The normalised quaternions :math:`q^\triangleleft = q / \|q\|`; zero has none (NaN)."""
    return q / norm(q).tile(4)


def inverse(q: Tensor) -> Tensor:
    r""":math:`q^{-1} = \bar q / \|q\|^2`, so that :math:`q \otimes q^{-1} = 1`; zero has none."""
    size = norm(q).tile(4)
    return conjugate(q / size) / size  # divided twice: the square would leave the range sooner


def inner_product(q: Tensor, p: Tensor) -> Tensor:
    r"""The quaternion-inner product :math:`\mathbf{q} \bullet \mathbf{p}` (Eq. 3), a real number.

    Shape:
        - q, p: ``(..., 4n)``, broadcast against each other
        - output: ``(...)``
    """
    return (q * p).sum(dim=-1)


def concatenate(*vectors: Tensor) -> Tensor:
    r""":math:`[\mathbf{q} \parallel \mathbf{p}]` (Eq. 4): by components, not plain ``cat``.

    Shape:
        - vectors: ``(..., 4n)``, ``(..., 4m)``, ...
        - output: ``(..., 4(n + m + ...))``

    Example:
        >>> concatenate(torch.arange(4), torch.arange(10, 14))
        tensor([ 0, 10,  1, 11,  2, 12,  3, 13])
    """
    parts = [q.unflatten(-1, (4, quats(q.size(-1)))) for q in vectors]
    return torch.cat(parts, dim=-1).flatten(-2)


def vec(q: Tensor) -> Tensor:
    r""":math:`\mathrm{Vec}(\mathbf{q})` (Eq. 12): the identity, since the layout is already Vec."""
    quats(q.size(-1))
    return q


def hamilton_matrix(weight: Tensor) -> Tensor:
    r"""The real matrix that acts on ``[r | i | j | k]`` as :math:`\mathbf{W} \otimes` does (Eq. 9).

    Shape:
        - weight: ``(..., 4, m, n)``, the four components of a quaternion matrix
        - output: ``(..., 4m, 4n)``
    """
    r, i, j, k = weight.unbind(dim=-3)
    rows = ((r, -i, -j, -k), (i, r, -k, j), (j, k, r, -i), (k, -j, i, r))
    return torch.cat([torch.cat(row, dim=-1) for row in rows], dim=-2)


def hamilton_matrix_tiled(weight: Tensor) -> Tensor:
    r"""The sum of the four column blocks of :func:`hamilton_matrix`.

    It acts on one real vector :math:`\mathbf{h}` as :math:`\mathbf{W} \otimes` acts on the
    quaternion vector whose four components all equal :math:`\mathbf{h}`.

    Shape:
        - weight: ``(..., 4, m, n)``
        - output: ``(..., 4m, n)``
    """
    r, i, j, k = weight.unbind(dim=-3)
    return torch.cat((r - i - j - k, i + r - k + j, j + k + r - i, k - j + i + r), dim=-2)


def right_matrix(p: Tensor) -> Tensor:
    r"""The real 4 x 4 matrix that acts on the components of ``q`` as :math:`q \otimes p` does.

    Shape:
        - p: ``(..., 4)``, single quaternions
        - output: ``(..., 4, 4)``

    Example:
        >>> right_matrix(torch.tensor([0., 0, 1, 0])) @ torch.tensor([0., 1, 0, 0])  # ij = k
        tensor([0., 0., 0., 1.])
    """
    r, i, j, k = components(p)
    _, ni, nj, nk = components(-p)
    rows = (r, ni, nj, nk, i, r, k, nj, j, nk, r, i, k, j, ni, r)
    return torch.cat(rows, dim=-1).unflatten(-1, (4, 4))


def lift(x: Tensor, how: Lift) -> Tensor:
    """Real features as quaternion vectors.

    Args:
        x: ``(..., F)``.
        how: ``"tile"`` copies x into the four components (the paper, Section 5.1), giving
            ``(..., 4F)``; ``"split"`` takes its four quarters as the components (the paper's text
            model), giving x itself; ``"real"`` leaves the imaginary parts zero, ``(..., 4F)``.

    Example:
        >>> lift(torch.tensor([1., 2.]), "tile")
        tensor([1., 2., 1., 2., 1., 2., 1., 2.])
        >>> lift(torch.tensor([1., 2.]), "real")
        tensor([1., 2., 0., 0., 0., 0., 0., 0.])
    """
    if how == "tile":
        return x.tile(4)
    if how == "real":
        return torch.nn.functional.pad(x, (0, 3 * x.size(-1)))
    if how != "split":
        raise UserError(f"there is no lift {how!r}; choose tile, split or real")
    quats(x.size(-1))
    return x
