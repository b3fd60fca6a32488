"""Weights of classes: how they are written, what balanced means, and the loss they give."""

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from quatgraph.errors import UserError
from quatgraph.tasks.class_weights import class_weights, parse_class_weights, weighted_mean
from quatgraph.tasks.node.config import TrainConfig


@pytest.mark.parametrize(
    ("setting", "weights"),
    [
        ("none", {}),
        ("balanced", {}),
        ("spam:3,ham:1", {"spam": 3, "ham": 1}),
        (" spam : 3 , ham:.5", {"spam": 3, "ham": 0.5}),
        ("sun, moon:2,a:b:3", {"sun, moon": 2, "a:b": 3}),
        ("0:2,1:1e-3", {"0": 2, "1": 1e-3}),
        ("none:2", {"none": 2}),
    ],
)
def test_weights_are_written_by_class_name(setting: str, weights: dict[str, float]) -> None:
    assert parse_class_weights(setting) == weights
    assert TrainConfig(class_weights=setting).class_weights == setting


@pytest.mark.parametrize("setting", ["", "spam", "spam:", ":3", "spam:-1", "a:0", "a:nan", "a:inf"])
def test_what_is_no_weight_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match="must be none, balanced, or a positive number for each"):
        TrainConfig(class_weights=setting)


def test_a_class_is_named_once() -> None:
    with pytest.raises(ValueError, match="names the class 'a' twice"):
        parse_class_weights("a:1,b:2,a:3")


def test_balanced_weights_are_those_of_scikit_learn_for_each_member() -> None:
    random = torch.Generator().manual_seed(0)
    parts = [torch.randint(4, (size,), generator=random) ** 2 % 4 for size in (30, 50)]
    parts.append(torch.tensor([0, 0, 3]))  # two classes are absent
    found = class_weights("balanced", list("abcd"), parts)
    assert found is not None
    for part, weights in zip(parts, found, strict=True):
        present = part.unique()
        expected = compute_class_weight("balanced", classes=present.numpy(), y=part.numpy())
        np.testing.assert_allclose(weights[present], expected, rtol=1e-6)
        assert weights.sum() == pytest.approx(float(expected.sum()))


def test_classes_that_are_not_named_weigh_1_and_all_do_by_default() -> None:
    parts = [torch.tensor([0, 1, 2])] * 2
    found = class_weights("c:3", ["a", "b", "c"], parts)
    assert found is not None
    assert found.tolist() == [[1, 1, 3]] * 2
    assert class_weights("none", ["a", "b", "c"], parts) is None


def test_a_class_that_does_not_exist_is_a_mistake_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"names 'spam', which is not a class; did you mean 'Spam'"):
        class_weights("spam:3", ["ham", "Spam"], [torch.tensor([0])])
    with pytest.raises(UserError, match="is not a class; choose from ham, eggs"):
        class_weights("zzz:3", ["ham", "eggs"], [torch.tensor([0])])


def test_the_weighted_mean_is_torchs() -> None:
    random = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(2, 9, 3, generator=random), torch.arange(18).view(2, 9) % 3
    weights = torch.tensor([[1.0, 2.0, 5.0], [3.0, 0.1, 1.0]])
    losses = torch.stack([_cross_entropy(*pair) for pair in zip(logits, labels, strict=True)])
    found = weighted_mean(losses, weights.gather(1, labels))
    for member in range(2):
        expected = torch.nn.functional.cross_entropy(
            logits[member], labels[member], weight=weights[member]
        )
        torch.testing.assert_close(found[member], expected)


def _cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")
