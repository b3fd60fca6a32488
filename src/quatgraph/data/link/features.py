"""Features of entities as models take them: dense, or sparse where most are zeros."""

from collections.abc import Mapping

import torch
from torch import Tensor

from quatgraph.adjacency import SPARSE_BELOW, Adjacency

Features = Tensor | Adjacency
"""Features of entities ``(E, F)``, dense or sparse."""


def compress(features: Tensor) -> Features:
    """Features ``(E, F)`` as a sparse matrix if most are zeros."""
    few = int(features.count_nonzero()) < SPARSE_BELOW * features.numel()
    return Adjacency.from_dense(features) if few else features


def find_featured(features: Features) -> Tensor:
    """Which entities have features other than zeros, ``(E,)``."""
    if isinstance(features, Tensor):
        return (features != 0).any(dim=1)
    return features.rowptr.diff() > 0


def pack_features(features: Features | None) -> dict[str, Tensor]:
    """Features as plain tensors, for digests and bundles; none if there are no features."""
    if features is None:
        return {}
    if isinstance(features, Tensor):
        return {"features": features}
    return {
        "feature_ptr": features.rowptr,
        "feature_index": features.col,
        "feature_values": features.weight,
    }


def unpack_features(tensors: Mapping[str, Tensor], width: int) -> Features | None:
    """The features that :func:`pack_features` packed; None if there are none."""
    if "feature_ptr" not in tensors:
        return tensors.get("features")
    ptr = tensors["feature_ptr"]
    row = torch.arange(len(ptr) - 1).repeat_interleave(ptr.diff())
    entries = row, tensors["feature_index"], tensors["feature_values"]
    return Adjacency.from_entries(*entries, (len(ptr) - 1, width))
