r"""The Hamilton product of a quaternion matrix and many quaternion vectors.

.. math:: \mathbf{y} = \mathbf{W} \otimes \mathbf{x} + \mathbf{b}

One real product with the matrix form of :math:`\mathbf{W}` (Eq. 9), which is small beside ``x``.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.algebra import hamilton_matrix_tiled
from quatgraph.errors import Mistake
from quatgraph.ops.hamilton_matrix import hamilton_matrix
from quatgraph.ops.members import add_bias
from quatgraph.ops.rounded_linear import rounded_linear


def hamilton_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    tiled: bool = False,
    product_dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Multiplies every vector of ``x`` by a quaternion matrix.

    Args:
        x: ``(..., 4n)``; with ``tiled`` ``(..., n)``, one real vector that represents the
            quaternion vector whose four components all equal it. The four column blocks of the
            matrix are then summed first: a quarter of the product, no tiled copy in memory.
        weight: ``(4, m, n)``, the components of :math:`\mathbf{W}`; of several members
            ``(M, 4, m, n)``, with x ``(M, N, 4n)``.
        bias: ``(4m,)``, of several members ``(M, 4m)``.
        product_dtype: bfloat16 for a product of numbers rounded to it, which is rounded too; for
            two-dimensional x of each member, and without a bias.

    Shape:
        - output: ``(..., 4m)``
    """
    matrix = hamilton_matrix_tiled(weight) if tiled else hamilton_matrix(weight)
    if product_dtype is not None:
        if bias is not None or x.dim() != weight.dim() - 1:
            raise Mistake("a product of rounded numbers takes a matrix of vectors, and no bias")
        return rounded_linear(x, matrix, product_dtype)
    if weight.dim() == 3:
        return F.linear(x, matrix, bias)
    return add_bias(x @ matrix.mT, bias)
