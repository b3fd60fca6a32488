"""Models of triples as one: the weighted mean of their log-softmax scores is an inner product too,
of the weighted query vectors and the candidate vectors, each side by side, minus a constant of the
query."""

from collections.abc import Sequence

import torch
from torch import Tensor

SCORES_AT_ONCE = 1 << 24
Vectors = tuple[Tensor, Tensor]
"""Vectors of queries ``(Q, D)`` and of candidates ``(E, D)``, whose inner products are scores."""


def join_vectors(shares: Sequence[float], each: Sequence[Vectors]) -> Vectors:
    """The vectors of several models side by side. Their products lack the constants, which change
    no rank."""
    return join_queries(shares, each), join_candidates(each)


def join_queries(shares: Sequence[float], each: Sequence[Vectors]) -> Tensor:
    """The weighted vectors of queries side by side."""
    if len(each) == 1:
        return each[0][0]
    weighted = [share * query for share, (query, _) in zip(shares, each, strict=True)]
    return torch.cat(weighted, dim=1)


def join_candidates(each: Sequence[Vectors]) -> Tensor:
    """The vectors of candidates side by side."""
    return each[0][1] if len(each) == 1 else torch.cat([own for _, own in each], dim=1)


def compute_constants(shares: Sequence[float], each: Sequence[Vectors]) -> Tensor:
    """What the log-softmax of several models adds to the scores of a query, ``(Q,)``; nothing for a
    single one."""
    if len(each) == 1:
        return torch.zeros(len(each[0][0]), device=each[0][0].device)
    return -log_normalizers(shares, each)


def log_normalizers(shares: Sequence[float], each: Sequence[Vectors]) -> Tensor:
    """The products of joined vectors minus the weighted mean of log-softmax scores, ``(Q,)``."""
    pairs = zip(shares, each, strict=True)
    return torch.stack([share * _log_sums(*own) for share, own in pairs]).sum(dim=0)


def append_constants(vectors: Vectors, constants: Tensor) -> Vectors:
    """Vectors whose products have the constants."""
    query, candidates = vectors
    ones = candidates.new_ones(len(candidates), 1)
    return torch.cat((query, constants[:, None]), dim=1), torch.cat((candidates, ones), dim=1)


def _log_sums(query: Tensor, candidates: Tensor) -> Tensor:
    """The logarithm of the softmax's denominator for each query, ``(Q,)``."""
    rows = max(1, SCORES_AT_ONCE // len(candidates))
    pieces = [(some_rows @ candidates.mT).logsumexp(dim=1) for some_rows in query.split(rows)]
    return torch.cat(pieces)
