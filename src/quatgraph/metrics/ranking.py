r"""Ranking metrics: MRR, mean rank and hits, for all members of an ensemble at once.

With :math:`g` candidates above the true one and :math:`n` level with it, each of the ranks
:math:`g + 1, \dots, g + n + 1` is equally likely. MRR and mean rank use the expected rank,
:math:`r = 1 + g + n / 2`; a hit counts with its probability:

.. math::
    \mathrm{MRR} = \overline{1 / r}, \qquad \mathrm{MR} = \overline{r}, \qquad
    \mathrm{Hits}@k = \overline{\min\Big(1, \max\Big(0, \frac{k - g}{n + 1}\Big)\Big)}

so a model that gives all entities the same score is no better than random.
"""

from torch import Tensor

from quatgraph.metrics.classification import masked_mean
from quatgraph.ops import Ranks

HITS = 1, 3, 10


def ranking_metrics(ranks: Ranks, mask: Tensor | None = None) -> dict[str, Tensor]:
    """The means over queries of 1/rank, of the rank, and of being among the first 1, 3 and 10.

    The mask multiplies instead of selecting, so that nothing waits for the device; an empty one
    gives NaN. A mask ``(R, N)`` gives one number for each of its rows.

    Shape:
        - ranks: ``(..., N)``
        - mask: ``(..., N)``, bool or 0 and 1, broadcast with the ranks
        - output: ``(...)`` each, float64

    Example:
        >>> import torch
        >>> ranks = Ranks(greater=torch.tensor([0, 2]), equal=torch.tensor([0, 1]))
        >>> {name: round(value.item(), 3) for name, value in ranking_metrics(ranks).items()}
        {'mrr': 0.643, 'mr': 2.25, 'hits@1': 0.5, 'hits@3': 0.75, 'hits@10': 1.0}
    """
    values = ranking_values(ranks)
    mask = values["mr"].new_ones(values["mr"].size(-1)) if mask is None else mask
    return {name: masked_mean(value, mask) for name, value in values.items()}


def ranking_values(ranks: Ranks) -> dict[str, Tensor]:
    """The values of each query whose means are :func:`ranking_metrics`, shaped as the ranks."""
    rank = ranks.realistic
    return {"mrr": 1 / rank, "mr": rank} | {f"hits@{k}": _hits(ranks, k) for k in HITS}


def _hits(ranks: Ranks, k: int) -> Tensor:
    """The probability that the true entity is in the top k, with ties in random order."""
    return ((k - ranks.greater).double() / (ranks.equal + 1)).clamp(0, 1)
