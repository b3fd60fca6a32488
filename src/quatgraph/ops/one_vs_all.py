r"""Losses of queries that are scored against every candidate, :math:`s_{be} = \mathbf{q}_b \cdot
\mathbf{x}_e`, without ever holding the B x E scores or labels.

Binary cross-entropy with the targets :math:`t_{be} = (1 - \alpha) y_{be} + \varphi`, where
:math:`y_{be}` is 1 for a positive, else 0, and softmax cross-entropy, over all positives:

.. math::
    L = \frac{1}{BE} \sum_{be} \big(\log(1 + e^{s_{be}}) - t_{be} s_{be}\big), \qquad
    L = \frac{1}{\sum_{be} y_{be}} \sum_{be} y_{be} (\ell_b - s_{be}), \quad
    \ell_b = \log \sum_e e^{s_{be}}

Each is a scale times a sum whose slope by a score is

.. math::
    g_{be} = \sigma(s_{be}) - \varphi - (1 - \alpha) y_{be}, \qquad
    g_{be} = n_b e^{s_{be} - \ell_b} - y_{be}, \quad n_b = \sum_e y_{be}

and the gradients are :math:`\mathbf{g} \mathbf{x}` and :math:`\mathbf{g}^\top \mathbf{q}`. Scores
and slopes exist for one tile of candidates at a time; the gradients grow in the same loop, so that
the backward pass only scales them. The softmax goes over the tiles twice, first for :math:`\ell`.

A positive is one number of a tile: the slopes are corrected where they stand, before the products
take them, so that the positives cost no products of their own, and a slope near 0 is rounded as
such where the products take bfloat16.

On a GPU one kernel makes a tile's slopes: nothing waits for the device, each number is written by
one program in one order, and a step can be captured and repeats bit for bit.

Shapes: B queries, E candidates, D numbers each; the members of an ensemble ``(M, B, D)`` and
``(M, E, D)``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.csr import wide
from quatgraph.ops.positives import Positives
from quatgraph.ops.rounded_linear import by_columns, product, rounded_product
from quatgraph.ops.transforms import once_differentiable

_TILE_NUMBERS = {"cpu": 1 << 19, "cuda": 1 << 26}
"""Scores of a tile: what suits a CPU's cache, what fills a GPU."""
_LARGE = 1 << 28
"""Numbers of a gradient that should not be there twice: 1 GiB."""
_TILE_STEP = 64
"""Tiles are multiples of it, where they can be: products of such sizes are the fastest."""


def one_vs_all_bce(
    query: Tensor,
    candidates: Tensor,
    positives: Positives,
    *,
    smoothing: float = 0.0,
    floor: float = 0.0,
    product_dtype: torch.dtype | None = None,
    tile: int | None = None,
) -> Tensor:
    """The mean binary cross-entropy of all pairs of a query and a candidate.

    Differentiable once. The gradients are computed along with the value, whether wanted or not.

    Args:
        positives: The pairs that are right.
        smoothing: What the target of a positive is short of 1.
        floor: What is added to all targets.
        product_dtype: bfloat16 for products of numbers rounded to it, summed in float32; scores
            are rounded to it too.
        tile: Candidates to take at a time; :func:`tile_size` unless given.

    Shape:
        - query: ``(B, D)``, or of several members ``(M, B, D)``
        - candidates: ``(E, D)``, or ``(M, E, D)``
        - output: ``()``, or ``(M,)``, in float32 (float64 for float64)
    """
    loss = _Loss(positives, False, 1 - smoothing, floor, product_dtype, tile)
    return _mean_loss(query, candidates, loss)


def one_vs_all_cross_entropy(
    query: Tensor,
    candidates: Tensor,
    positives: Positives,
    *,
    product_dtype: torch.dtype | None = None,
    tile: int | None = None,
) -> Tensor:
    """The mean over all positives of the softmax cross-entropy of all candidates.

    A query counts once for each of its positives. Arguments and shapes are those of
    :func:`one_vs_all_bce`.
    """
    loss = _Loss(positives, True, 1.0, 0.0, product_dtype, tile)
    return _mean_loss(query, candidates, loss)


def tile_size(rows: int, candidates: int, device: torch.device) -> int:
    """How many candidates to take at a time, so that the tiles are about equally large.

    Args:
        rows: Queries of all members together.
    """
    steps = max(1, -(-candidates // _TILE_STEP))
    most = max(1, _TILE_NUMBERS[device.type] // max(1, rows * _TILE_STEP))
    tiles = -(-steps // most)
    return _TILE_STEP * -(-steps // tiles)


@dataclass(frozen=True, eq=False)
class _Loss:
    """What there is to a loss beside the scores."""

    positives: Positives
    softmax: bool
    keep: float  # what a positive adds to its target
    floor: float
    product_dtype: torch.dtype | None
    tile: int | None

    def batch(self, query: Tensor) -> Positives:
        """The positives with a row for each query of each member, ``(M, B)``."""
        row = self.positives.row.expand(query.shape[:2]).contiguous()
        return replace(self.positives, row=row)

    def tiles(self, query: Tensor, candidates: Tensor) -> Iterator[slice]:
        rows, width = query.size(0) * query.size(1), candidates.size(1)
        step = self.tile or tile_size(rows, width, query.device)
        return (slice(first, min(first + step, width)) for first in range(0, width, step))


def _mean_loss(query: Tensor, candidates: Tensor, loss: _Loss) -> Tensor:
    query, candidates = wide(query), wide(candidates)
    if query.dim() == 3:
        return _Mean.apply(query, candidates, loss)
    return _Mean.apply(query[None], candidates[None], loss).squeeze(0)


class _Mean(torch.autograd.Function):
    """The loss of each member, with whose value its gradients are found, but for a scale."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, candidates: Tensor, loss: _Loss) -> Tensor:
        value, *gradients = _with_gradients(query, candidates, loss)
        ctx.save_for_backward(*gradients)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        by_query, by_candidates, scale = ctx.saved_tensors
        # A second gradient of millions of candidates may not fit into memory; in place it can be
        # asked for only once, which torch checks.
        large = by_candidates.numel() > _LARGE
        by_candidates = _scaled(by_candidates, grad, scale, in_place=large)
        return _scaled(by_query, grad, scale), by_candidates, None


def _scaled(value: Tensor, factor: Tensor, scale: Tensor, *, in_place: bool = False) -> Tensor:
    """The matrix of each member times two numbers."""
    if in_place or not use_triton(value):
        each = (factor * scale)[..., None, None]
        return value.mul_(each) if in_place else value * each
    from quatgraph.ops.kernels.one_vs_all import scaled

    return scaled(value, factor, scale)


def _with_gradients(
    query: Tensor, candidates: Tensor, loss: _Loss
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss of each member ``(M,)``; its gradients by query and candidates, but for the scale,
    and that scale ``(M,)``."""
    batch = loss.batch(query)
    kind = loss.product_dtype or query.dtype
    rounded = query.to(kind)
    factor = rounded if kind == torch.bfloat16 else by_columns(rounded)
    total, level, scale = _beside_scores(rounded, candidates, batch, loss)

    sums = torch.float32 if kind == torch.bfloat16 else kind
    members, width, numbers = candidates.shape
    room = _TILE_STEP if use_triton(candidates) else 0  # for what the last tile is padded by
    by_candidates = candidates.new_empty(members, width + room, numbers, dtype=sums)
    by_query: Tensor | None = None
    slopes_of = _Slopes.of(batch, level, loss)
    for part in loss.tiles(query, candidates):
        some = _aligned(candidates[:, part], kind)
        values, slopes = slopes_of(rounded_product(rounded, some.mT), part)
        values = values.flatten(1).sum(dim=1)
        total = values if total is None else total + values
        by_query = product(slopes, some, plus=by_query)
        product(slopes.mT, factor, out=by_candidates[:, part.start :][:, : slopes.size(2)])
        del slopes  # or they would still be there when the next tile's are made
    if total is None or by_query is None:  # no candidates
        total, by_query = query.new_zeros(query.shape[:1]), torch.zeros_like(query)
    return total * scale, by_query, by_candidates[:, :width], scale


def _beside_scores(
    query: Tensor, candidates: Tensor, batch: Positives, loss: _Loss
) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """What the loss has beside sums over scores, if anything ``(M,)``; the softmax's level
    ``(M, B)``; and what all is scaled by at last ``(M,)``."""
    if not loss.softmax:
        pairs = max(1, query.size(1) * candidates.size(1))
        return None, None, candidates.new_full(query.shape[:1], 1 / pairs)
    counts = batch.counts().to(candidates.dtype)
    sums = _log_sum_exp(query, candidates, loss)
    scale = counts.sum(dim=-1).clamp(min=1).reciprocal()
    # What is to be taken off a score, so that its exponential is its slope: of a row without
    # positives infinity, so that its slopes are 0.
    return (counts * sums).sum(dim=-1), sums - counts.log(), scale


def _aligned(some: Tensor, kind: torch.dtype) -> Tensor:
    """Candidates in the products' type, for the kernels with some of nothing but zeros, so that
    they are a multiple of ``_TILE_STEP``: a GPU's products of other sizes take twice the time."""
    count = some.size(1)
    lacking = -count % _TILE_STEP
    if not lacking or not use_triton(some):
        return some.to(kind)
    from quatgraph.ops.kernels.one_vs_all import padded

    return padded(some, count + lacking, kind)


def _log_sum_exp(query: Tensor, candidates: Tensor, loss: _Loss) -> Tensor:
    """Of all scores of each row, ``(M, B)``."""
    sums = torch.full(query.shape[:2], -torch.inf, dtype=candidates.dtype, device=query.device)
    for part in loss.tiles(query, candidates):
        some, count = _aligned(candidates[:, part], query.dtype), part.stop - part.start
        scores = rounded_product(query, some.mT)
        sums = torch.logaddexp(sums, _row_log_sum_exp(scores, count))
        del scores
    return sums


def _row_log_sum_exp(scores: Tensor, count: int) -> Tensor:
    """Of the first so many scores of each row."""
    if use_triton(scores):
        from quatgraph.ops.kernels.one_vs_all import log_sum_exp

        return log_sum_exp(scores, count)
    return wide(scores).logsumexp(dim=-1)


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Makes the slopes of scores; with the kernels unless the positives are listed."""

    batch: Positives
    level: Tensor | None
    loss: _Loss
    listed: tuple[Tensor, Tensor] | None

    @classmethod
    def of(cls, batch: Positives, level: Tensor | None, loss: _Loss) -> "_Slopes":
        return cls(batch, level, loss, None if use_triton(batch.row) else batch.listed())

    def __call__(self, scores: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        """What scores ``(M, B, T)``, which may be overwritten, add to the loss, but for the sum of
        the softmax: some numbers for each row ``(M, B, ...)``. And their slopes ``(M, B, T)`` in
        their type, 0 beyond the candidates of ``part``."""
        if self.listed is not None:
            return self._by_torch(scores, part.start)
        from quatgraph.ops.kernels.one_vs_all import slopes

        loss, count = self.loss, part.stop - part.start
        return slopes(scores, self.batch, self.level, part.start, count, loss.keep, loss.floor)

    def _by_torch(self, scores: Tensor, begin: int) -> tuple[Tensor, Tensor]:
        assert self.listed is not None
        loss, kind, scores = self.loss, scores.dtype, wide(scores)
        row, at = _in_tile(*self.listed, begin, scores.size(-1))
        hits = scores.view(-1).index_select(0, at)
        if self.level is None:
            # Softplus is taken for linear beyond its threshold, here where float64 cannot tell.
            values = F.softplus(scores, threshold=40).sum(dim=-1)
            values -= loss.floor * scores.sum(dim=-1)
            found = scores.sigmoid_().sub_(loss.floor)
        else:
            values = torch.zeros_like(scores[..., 0])
            found = scores.sub_(self.level[..., None]).exp_()
        values.view(-1).index_add_(0, row, hits, alpha=-loss.keep)
        found.view(-1).index_add_(0, at, hits.new_full((), -loss.keep).expand_as(hits))
        return values, found.to(kind)


def _in_tile(owner: Tensor, tail: Tensor, begin: int, width: int) -> tuple[Tensor, Tensor]:
    """The positives among some candidates: their rows, and their places in the tile."""
    here = (tail >= begin) & (tail < begin + width)
    row = owner[here]
    return row, row * width + tail[here] - begin
