r"""The squared hinge loss of one linear classifier per class, as in scikit-learn's ``LinearSVC``:

.. math::
    \ell = \sum_c \max(0, 1 - y_c z_c / s)^2, \qquad y_c = 1 \text{ for the label, otherwise } -1

The unit :math:`s` of the logits makes a softmax of them a fair probability.
"""

import torch
from torch import Tensor

UNIT = 4.0
"""The logit that costs nothing. With it, softmax is well calibrated on most texts of several
classes."""


def squared_hinge(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of each row.

    Shape:
        - logits: ``(..., C)``
        - labels: class indices, ``(...)``
        - output: ``(...)``
    """
    sign = torch.full_like(logits, -1 / UNIT).scatter(-1, labels.unsqueeze(-1), 1 / UNIT)
    return (1 - sign * logits).clamp(min=0).square().sum(dim=-1)
