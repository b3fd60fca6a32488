"""Features of entities, dense and sparse."""

from dataclasses import replace

import pytest
import torch
from cities import cities, with_features

from quatgraph.adjacency import Adjacency
from quatgraph.data.link.features import (
    compress,
    find_featured,
    pack_features,
    unpack_features,
)


def dense_of(features: torch.Tensor | Adjacency) -> torch.Tensor:
    return features if isinstance(features, torch.Tensor) else features.to_dense()


def test_features_are_sparse_where_fewer_than_a_fifth_are_not_zero():
    x = torch.zeros(10, 10)
    x[:2, :9] = 1
    assert isinstance(compress(x), Adjacency)
    x[3, :2] = 1
    assert isinstance(compress(x), torch.Tensor)


@pytest.mark.parametrize("width", [1, 40])
def test_packed_features_come_back_and_say_who_has_any(width):
    x = torch.zeros(6, width)
    x[1, 0], x[4, -1] = 0.5, -2
    features = compress(x)
    again = unpack_features(pack_features(features), width)
    assert isinstance(again, type(features))
    assert torch.equal(dense_of(again), x)
    assert find_featured(again).tolist() == [False, True, False, False, True, False]


def test_no_features_pack_into_nothing():
    assert pack_features(None) == {}
    assert unpack_features({}, 0) is None


@pytest.mark.parametrize("sparse", [True, False])
def test_features_change_the_digest_of_triples(sparse):
    plain, featured = cities(), with_features(cities(), sparse=sparse)
    other = with_features(cities(), sparse=sparse, scale=2.0)
    assert len({plain.digest, featured.digest, other.digest}) == 3
    assert replace(featured, features=None).digest == plain.digest
