"""Learning rates of members against torch's scheduler, one member at a time."""

import math

import pytest
import torch
from torch import nn

from quatgraph.training.schedule import Plateau, PlateauSchedule

SCRIPT = torch.tensor(
    [
        # The first member stays, rises by less and by more than the threshold, falls, is undefined.
        [0.5, -1.0, 0.1],
        [0.5, -1.1, 0.2],
        [0.50004, -0.99995, 0.3],
        [0.50006, -0.5, 0.3],
        [0.4, -0.5, 0.3],
        [math.nan, -0.6, 0.3],
        [0.4, -0.7, 0.3],
        [0.6, -0.4, 0.0],
        [0.6, 0.0, 0.0],
        [0.6, 0.0, 0.0],
        [0.6, 1e-9, 0.0],
        [0.6, 0.0, 9.0],
    ]
    * 4,
    dtype=torch.float64,
)


@pytest.mark.parametrize("patience", [0, 1, 3])
@pytest.mark.parametrize("factor", [0.95, 0.1])
def test_each_rate_is_that_of_torchs_scheduler_at_every_step(factor, patience):
    rates = [0.2557, 3.386e-4, 1e-6]  # the last soon changes by less than torch applies
    lr = torch.tensor(rates, dtype=torch.float64)
    ours = PlateauSchedule(Plateau(factor, patience), lr)
    theirs = [torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=rate) for rate in rates]
    schedulers = [
        torch.optim.lr_scheduler.ReduceLROnPlateau(one, "max", factor=factor, patience=patience)
        for one in theirs
    ]
    for values in SCRIPT:
        ours.step(values)
        for scheduler, value in zip(schedulers, values.tolist(), strict=True):
            scheduler.step(value)
        assert lr.tolist() == [one.param_groups[0]["lr"] for one in theirs]
        assert ours.num_bad.tolist() == [one.num_bad_epochs for one in schedulers]
    assert all(now < before for now, before in zip(lr.tolist(), rates, strict=True))


def test_a_schedule_goes_on_from_its_state():
    plateau = Plateau(0.5, 1)
    rates = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    whole, first = (PlateauSchedule(plateau, rates.clone()) for _ in range(2))
    for values in SCRIPT:
        whole.step(values)
    for values in SCRIPT[:5]:
        first.step(values)
    second = PlateauSchedule(plateau, first.lr.clone())
    for name, value in second.tensors().items():
        value.copy_(first.tensors()[name])
    for values in SCRIPT[5:]:
        second.step(values)
    assert torch.equal(second.lr, whole.lr)
