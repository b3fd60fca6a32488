r"""Losses of queries that are scored against every candidate, :math:`s_{be} = \mathbf{q}_b \cdot
\mathbf{x}_e`, without materialising the B x E scores or labels.

Binary cross-entropy with the targets :math:`t_{be} = (1 - \alpha) y_{be} + \varphi`, where
:math:`y_{be}` is 1 for a positive, else 0; softmax cross-entropy over all positives; and softmax
cross-entropy over all queries, with the targets of each divided by their sum :math:`z_b`:

.. math::
    L = \frac{1}{BE} \sum_{be} \big(\log(1 + e^{s_{be}}) - t_{be} s_{be}\big), \qquad
    L = \frac{1}{\sum_{be} y_{be}} \sum_{be} y_{be} (\ell_b - s_{be}), \qquad
    L = \frac{1}{B} \sum_b \Big(\ell_b - \sum_e \frac{t_{be}}{z_b} s_{be}\Big), \quad
    \ell_b = \log \sum_e e^{s_{be}}

Each is a scale times a sum whose gradient by a score is

.. math::
    g_{be} = \sigma(s_{be}) - t_{be}, \qquad
    g_{be} = n_b e^{s_{be} - \ell_b} - y_{be}, \qquad
    g_{be} = e^{s_{be} - \ell_b} - \frac{t_{be}}{z_b}, \quad n_b = \sum_e y_{be}

and the gradients are :math:`\mathbf{g} \mathbf{x}` and :math:`\mathbf{g}^\top \mathbf{q}`. Scores
and their gradients exist for one tile of candidates at a time; the input gradients accumulate in
the same loop, so that the backward pass only scales them. The softmax visits the tiles twice, first
for :math:`\ell`.

The score gradients of positives are corrected in place, before the products: positives need no
products of their own, and gradients near 0 keep their precision in bfloat16 products.

On a GPU one kernel computes a tile's score gradients: the host never waits, each number is written
by one program in one order, and a step can be captured and repeats bit for bit.

Where ranks share out the candidates, the queries are the same on every rank. Each visits the tiles
of its own candidates; :math:`\ell`, the loss and the queries' gradients are sums over ranks.

Shapes: B queries, E candidates, D features; the members of an ensemble ``(M, B, D)`` and
``(M, E, D)``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.csr import concat_rows, wide
from quatgraph.ops.members import flatten_members
from quatgraph.ops.rounded_linear import column_major, product, rounded_product
from quatgraph.ops.shards import Shards
from quatgraph.ops.transforms import once_differentiable

_TILE_NUMBERS = {"cpu": 1 << 19, "cuda": 1 << 26}
"""Scores of a tile: they fit into a CPU's cache, or fill a GPU."""
_LARGE_GRADIENT = 1 << 28
"""Elements (1 GiB) from which on a gradient is scaled in place, not copied."""
_TILE_STEP = 64
"""Tiles are multiples of it where possible: such products are the fastest."""


@dataclass(frozen=True, eq=False)
class Positives:
    """The positive candidates of each query of a batch, for one member or for several.

    The positives of all queries are concatenated, without duplicates; a batch is a query index per
    row. The batches of all members of an ensemble are one object.

    Attributes:
        ptr: The boundaries of the positives of the Q queries, int32 or int64 ``(Q + 1,)``.
        tails: The positives, indices of candidates, int32 or int64 ``(P,)``.
        row: The query of each row of the batch, ``(B,)``; ``(M, B)`` if the members have batches of
            their own.
    """

    ptr: Tensor
    tails: Tensor
    row: Tensor

    def counts(self) -> Tensor:
        """The number of positives of each row, shaped as ``row``."""
        return self.ptr[self.row + 1] - self.ptr[self.row]

    def to_coo(self) -> tuple[Tensor, Tensor]:
        """The row, counted over all members, and the candidate of each positive in the batch.

        On a GPU it synchronises with the host, as the output's size depends on the values.
        """
        row_ids, entry = concat_rows(self.ptr[self.row].flatten(), self.counts().flatten())
        return row_ids, self.tails.index_select(0, entry)


def one_vs_all_bce(
    query: Tensor,
    candidates: Tensor,
    positives: Positives,
    *,
    smoothing: float = 0.0,
    floor: float = 0.0,
    product_dtype: torch.dtype | None = None,
    tile: int | None = None,
    shards: Shards | None = None,
) -> Tensor:
    """The mean binary cross-entropy of all pairs of a query and a candidate.

    Differentiable once. The gradients are always computed along with the value.

    Args:
        positives: The positive pairs.
        smoothing: Subtracted from the targets of positives.
        floor: Added to all targets.
        product_dtype: bfloat16 to round the factors of products, which accumulate in float32, and
            the scores.
        tile: Candidates per tile; :func:`tile_size` by default.
        shards: Which of all candidates these are, if ranks share them out; positives are indices
            of all.

    Shape:
        - query: ``(B, D)``, or of several members ``(M, B, D)``
        - candidates: ``(E, D)``, or ``(M, E, D)``
        - output: ``()``, or ``(M,)``, in float32 (float64 for float64)
    """
    loss = _Loss(positives, "sigmoid", 1 - smoothing, floor, product_dtype, tile, shards)
    return _mean_loss(query, candidates, loss)


def one_vs_all_cross_entropy(
    query: Tensor,
    candidates: Tensor,
    positives: Positives,
    *,
    product_dtype: torch.dtype | None = None,
    tile: int | None = None,
    shards: Shards | None = None,
) -> Tensor:
    """The mean over all positives of the softmax cross-entropy of all candidates.

    A query counts once for each of its positives. Arguments and shapes are those of
    :func:`one_vs_all_bce`.
    """
    loss = _Loss(positives, "positives", 1.0, 0.0, product_dtype, tile, shards)
    return _mean_loss(query, candidates, loss)


def k_vs_all_cross_entropy(
    query: Tensor,
    candidates: Tensor,
    positives: Positives,
    *,
    smoothing: float = 0.0,
    floor: float = 0.0,
    product_dtype: torch.dtype | None = None,
    tile: int | None = None,
    shards: Shards | None = None,
) -> Tensor:
    """The mean over all queries of the softmax cross-entropy of all candidates.

    A query counts once, however many positives it has: its targets are those of
    :func:`one_vs_all_bce`, divided by their sum. Queries whose targets are all 0 do not count.
    Arguments and shapes are those of :func:`one_vs_all_bce`.
    """
    loss = _Loss(positives, "queries", 1 - smoothing, floor, product_dtype, tile, shards)
    return _mean_loss(query, candidates, loss)


def tile_size(rows: int, candidates: int, device: torch.device) -> int:
    """The number of candidates per tile, so that tiles are about equally large.

    Args:
        rows: Number of queries of all members.
    """
    steps = max(1, -(-candidates // _TILE_STEP))
    most = max(1, _TILE_NUMBERS[device.type] // max(1, rows * _TILE_STEP))
    tiles = -(-steps // most)
    return _TILE_STEP * -(-steps // tiles)


@dataclass(frozen=True, eq=False)
class _Loss:
    """The definition of a loss."""

    positives: Positives
    mean: Literal["sigmoid", "positives", "queries"]  # of sigmoids, or what a softmax counts
    positive_weight: float  # added to the target of a positive
    floor: float
    product_dtype: torch.dtype | None
    tile: int | None
    shards: Shards | None

    @property
    def first(self) -> int:
        """The index of the first candidate."""
        return self.shards.first if self.shards else 0

    def num_candidates(self, candidates: Tensor) -> int:
        """The number of all candidates, also of other ranks."""
        return self.shards.num_rows if self.shards else candidates.size(1)

    def tiles(self, query: Tensor, candidates: Tensor) -> Iterator[slice]:
        rows, width = query.size(0) * query.size(1), candidates.size(1)
        step = self.tile or tile_size(rows, width, query.device)
        return (slice(first, min(first + step, width)) for first in range(0, width, step))


class _Constants(NamedTuple):
    """What a loss computes before the tiles."""

    total: Tensor | None
    """The part of the loss that does not depend on single scores, ``(M,)``."""
    scale: Tensor
    """The final scale, ``(M,)``."""
    shift: Tensor | None
    """Of a softmax, the shift of the scores whose exponentials are the gradients, ``(M, B)``."""
    share: Tensor | None
    """The factor of the targets of each row, ``(M, B)``."""


def _mean_loss(query: Tensor, candidates: Tensor, loss: _Loss) -> Tensor:
    factors = (flatten_members(wide(value), 2) for value in (query, candidates))
    return _Mean.apply(*factors, loss).view(query.shape[:-2])


class _Mean(torch.autograd.Function):
    """The loss of each member; its unscaled gradients are computed with it."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, candidates: Tensor, loss: _Loss) -> Tensor:
        value, *gradients = _with_gradients(query, candidates, loss)
        ctx.save_for_backward(*gradients)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        grad_query, grad_candidates, scale = ctx.saved_tensors
        # A second copy of a large gradient may not fit into memory. In place the backward pass can
        # run only once, which torch checks.
        large = grad_candidates.numel() > _LARGE_GRADIENT
        grad_candidates = _scaled(grad_candidates, grad, scale, in_place=large)
        return _scaled(grad_query, grad, scale), grad_candidates, None


def _scaled(value: Tensor, factor: Tensor, scale: Tensor, *, in_place: bool = False) -> Tensor:
    """The matrix of each member times two scalars."""
    if in_place or not use_triton(value):
        each = (factor * scale)[..., None, None]
        return value.mul_(each) if in_place else value * each
    from quatgraph.ops.kernels.one_vs_all import scaled

    return scaled(value, factor, scale)


def _with_gradients(
    query: Tensor, candidates: Tensor, loss: _Loss
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss of each member ``(M,)``, its unscaled gradients by query and candidates, and their
    scale ``(M,)``."""
    given, dtype = loss.positives, loss.product_dtype or query.dtype
    row = given.row.expand(query.shape[:2]).contiguous()  # of each member
    # The kernels read them as they lie in memory.
    batch = Positives(given.ptr.contiguous(), given.tails.contiguous(), row)
    rounded = query.to(dtype)
    factor = rounded if dtype == torch.bfloat16 else column_major(rounded)
    constants = _constants(rounded, candidates, batch, loss)
    scale, shards = constants.scale, loss.shards
    total = None if shards and shards.rank else constants.total  # one rank adds it

    sums = torch.float32 if dtype == torch.bfloat16 else dtype
    members, width, numbers = candidates.shape
    padding = _TILE_STEP if use_triton(candidates) else 0  # of the last tile
    grad_candidates = candidates.new_empty(members, width + padding, numbers, dtype=sums)
    grad_query: Tensor | None = None
    coo = None if use_triton(batch.row) else batch.to_coo()
    for part in loss.tiles(query, candidates):
        some = _pad_tile(candidates[:, part], dtype)
        values, score_grads = _score_grads(
            rounded_product(rounded, some.mT), part, batch, coo, constants, loss
        )
        values = values.flatten(1).sum(dim=1)
        total = values if total is None else total + values
        grad_query = product(score_grads, some, plus=grad_query)
        product(
            score_grads.mT, factor, out=grad_candidates[:, part.start :][:, : score_grads.size(2)]
        )
        del score_grads  # frees memory before the next tile
    if total is None or grad_query is None:  # there are no candidates
        total, grad_query = query.new_zeros(query.shape[:1]), torch.zeros_like(query)
    if shards:
        total, grad_query = shards.sum_(total), shards.sum_(grad_query)
    return total * scale, grad_query, grad_candidates[:, :width], scale


def _constants(query: Tensor, candidates: Tensor, batch: Positives, loss: _Loss) -> _Constants:
    if loss.mean == "sigmoid":
        pairs = max(1, query.size(1) * loss.num_candidates(candidates))
        return _Constants(None, candidates.new_full(query.shape[:1], 1 / pairs), None, None)
    weight, share = batch.counts().to(candidates.dtype), None
    if loss.mean == "queries":
        targets = loss.positive_weight * weight + loss.floor * loss.num_candidates(candidates)
        weight = (targets > 0).to(targets.dtype)
        share = torch.where(targets > 0, targets, torch.inf).reciprocal()
    sums = _log_sum_exp(query, candidates, loss)
    # The shift of a row without targets is infinite: its gradients are 0.
    scale = weight.sum(dim=-1).clamp(min=1).reciprocal()
    return _Constants((weight * sums).sum(dim=-1), scale, sums - weight.log(), share)


def _pad_tile(some: Tensor, dtype: torch.dtype) -> Tensor:
    """Candidates in the products' type, for the kernels padded with zeros to a multiple of
    ``_TILE_STEP``: a GPU's products of other sizes take twice the time."""
    count = some.size(1)
    lacking = -count % _TILE_STEP
    if not lacking or not use_triton(some):
        return some.to(dtype)
    from quatgraph.ops.kernels.one_vs_all import padded

    return padded(some, count + lacking, dtype)


def _log_sum_exp(query: Tensor, candidates: Tensor, loss: _Loss) -> Tensor:
    """The log-sum-exp of all scores of each row, ``(M, B)``."""
    sums = torch.full(query.shape[:2], -torch.inf, dtype=candidates.dtype, device=query.device)
    for part in loss.tiles(query, candidates):
        some = _pad_tile(candidates[:, part], query.dtype)
        scores = rounded_product(query, some.mT)
        if use_triton(scores):
            from quatgraph.ops.kernels.one_vs_all import log_sum_exp

            own = log_sum_exp(scores, part.stop - part.start)
        else:
            own = wide(scores).logsumexp(dim=-1)
        sums = torch.logaddexp(sums, own)
        del scores  # frees memory before the next tile
    return loss.shards.log_sum_exp(sums) if loss.shards else sums


def _score_grads(
    scores: Tensor,
    part: slice,
    batch: Positives,
    coo: tuple[Tensor, Tensor] | None,
    constants: _Constants,
    loss: _Loss,
) -> tuple[Tensor, Tensor]:
    """What scores ``(M, B, T)``, which may be overwritten, add to the loss, except for the log
    normalizer: terms of each row ``(M, B, ...)``. And their gradients ``(M, B, T)`` in their type,
    0 beyond the candidates of ``part``. By kernels unless the positives are given as COO."""
    first, width = loss.first + part.start, scores.size(-1)
    shift, share = constants.shift, constants.share
    if coo is None:
        from quatgraph.ops.kernels.one_vs_all import score_grads

        targets = loss.positive_weight, loss.floor
        count = part.stop - part.start
        return score_grads(scores, batch, shift, share, first, count, targets)
    dtype, scores = scores.dtype, wide(scores)
    row, tail = coo
    here = (tail >= first) & (tail < first + width)
    row = row[here]
    at = row * width + tail[here] - first
    hits = scores.view(-1).index_select(0, at)
    share = torch.ones_like(scores[..., 0]) if share is None else share
    weight = loss.positive_weight * share.view(-1).index_select(0, row)
    if shift is None:
        # Beyond 40 softplus is linear to within float64 precision.
        values = F.softplus(scores, threshold=40).sum(dim=-1)
    else:
        values = torch.zeros_like(share)
    floor = loss.floor * share
    if loss.floor:
        values -= floor * scores.sum(dim=-1)
    grads = scores.sigmoid_() if shift is None else scores.sub_(shift[..., None]).exp_()
    if loss.floor:
        grads.sub_(floor[..., None])
    values.view(-1).index_add_(0, row, weight * hits, alpha=-1)
    grads.view(-1).index_add_(0, at, weight, alpha=-1)
    return values, grads.to(dtype)
