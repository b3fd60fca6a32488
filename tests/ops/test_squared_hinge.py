"""The squared hinge loss against its formula as loops."""

import pytest
import torch

from quatgraph.ops.squared_hinge import UNIT, squared_hinge


@pytest.mark.parametrize("shape", [(1, 2), (3, 4, 5), (2, 3, 1), (2, 0, 3)])
def test_equals_the_sum_over_one_classifier_per_class(shape):
    logits = 3 * UNIT * torch.randn(shape, dtype=torch.float64)
    labels = torch.randint(shape[-1], shape[:-1])
    found = squared_hinge(logits, labels)
    assert found.shape == labels.shape
    rows = zip(logits.reshape(-1, shape[-1]).tolist(), labels.flatten().tolist(), strict=True)
    wanted = [
        sum(max(0, 1 - (1 if c == label else -1) * z / UNIT) ** 2 for c, z in enumerate(row))
        for row, label in rows
    ]
    torch.testing.assert_close(found.flatten(), torch.tensor(wanted, dtype=torch.float64))


def test_costs_nothing_beyond_the_margin_and_has_no_gradient_there():
    logits = torch.tensor([[UNIT, -UNIT, -2 * UNIT]], requires_grad=True)
    loss = squared_hinge(logits, torch.tensor([0]))
    assert loss.item() == 0
    assert torch.equal(*torch.autograd.grad(loss.sum(), logits), torch.zeros(1, 3))


def test_its_gradient_is_that_of_finite_differences():
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: squared_hinge(z, torch.tensor([0, 1, 2, 2])), logits)
