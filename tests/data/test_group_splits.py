"""Splits that keep groups whole."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedGroupKFold

from quatgraph.data.group_splits import (
    encode_groups,
    group_folds,
    group_validation,
    split_groups,
)
from quatgraph.errors import UserError


def sample(seed: int, count: int, num_groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    y, groups = random.integers(0, 3, count), random.integers(0, num_groups, count)
    return torch.from_numpy(y), torch.from_numpy(groups)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("num_folds", [2, 5])
def test_folds_are_those_of_scikit_learn(seed, num_folds):
    y, groups = sample(seed, 90 + 20 * seed, 25)
    judge = StratifiedGroupKFold(num_folds, shuffle=True, random_state=seed)
    expected = judge.split(np.zeros(len(y)), y.numpy(), groups.numpy())
    for (train, test), (own_train, own_test) in zip(
        expected, group_folds(y, groups, num_folds, seed), strict=True
    ):
        assert own_train.tolist() == train.tolist()
        assert own_test.tolist() == test.tolist()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 50), st.integers(3, 40))
def test_every_group_is_in_one_part_and_no_part_is_empty(seed, num_groups):
    y, groups = sample(seed, 120, num_groups)
    y[::7] = -1
    parts = split_groups(y, groups, (0.7, 0.1, 0.2), seed)
    assert bool(((parts >= 0) == (y >= 0)).all())
    assert set(parts[parts >= 0].tolist()) == {0, 1, 2}
    for group in groups[y >= 0].unique():
        assert len(parts[(groups == group) & (y >= 0)].unique()) == 1


def test_parts_have_their_share_of_every_class():
    y, groups = sample(0, 2000, 300)
    parts = split_groups(y, groups, (0.7, 0.1, 0.2), seed=0)
    for label in range(3):
        shares = [float((parts[y == label] == part).float().mean()) for part in range(3)]
        assert shares == pytest.approx([0.7, 0.1, 0.2], abs=0.03)


def test_validation_takes_whole_groups_of_the_training_items():
    y, groups = sample(1, 300, 40)
    items = torch.arange(0, 300, 2)
    train, valid = group_validation(y, groups, items, seed=3, fraction=0.2)
    assert sorted([*train.tolist(), *valid.tolist()]) == items.tolist()
    assert not set(groups[train].tolist()) & set(groups[valid].tolist())
    assert len(valid) == pytest.approx(30, abs=6)


def test_an_item_without_a_group_is_one_of_its_own():
    assert encode_groups(["a", "", "b", "a", ""]).tolist() == [0, 1, 2, 0, 3]


def test_too_few_groups_are_refused():
    with pytest.raises(UserError, match="2 groups of labelled items are too few for 3 parts"):
        split_groups(torch.zeros(9, dtype=torch.long), torch.arange(9) % 2, (0.7, 0.1, 0.2), 0)
