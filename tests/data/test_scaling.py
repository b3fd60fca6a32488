"""Scaling of features."""

import json

import pytest
import torch

from quatgraph.data import scaling as scalings
from quatgraph.data.scaling import Scaling
from quatgraph.errors import UserError


def test_rows_sum_to_one_and_zero_rows_stay_zero():
    x = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    scaling = Scaling.fit(x)
    assert scaling.kind == "row"
    assert scaling.apply(x).tolist() == [[0.25, 0.75], [0.0, 0.0]]


def test_blocks_of_rows_scale_as_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x = 100 * torch.randn(301, 5) + 1000
    x[:, 3] = 0.1
    whole = Scaling.fit(x, "standard")
    monkeypatch.setattr(scalings, "BLOCK", 40)
    blocks = Scaling.fit(x, "standard")
    assert blocks.std == pytest.approx(whole.std, rel=1e-12)
    assert blocks.mean == pytest.approx(whole.mean, rel=1e-12)
    found = whole.apply(x)
    monkeypatch.setattr(scalings, "BLOCK", 1 << 24)
    assert torch.equal(found, whole.apply(x))


def test_negative_features_are_standardised_and_constant_columns_become_zero():
    torch.manual_seed(0)
    x = torch.randn(50, 3) * 5 + 2
    x[:, 1] = 0.1
    scaling = Scaling.fit(x)
    assert scaling.kind == "standard"
    scaled = scaling.apply(x)
    torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(3), atol=1e-5, rtol=0)
    expected = torch.tensor([1.0, 0.0, 1.0])
    torch.testing.assert_close(scaled.std(dim=0, correction=0), expected)
    assert scaling.apply(x + 1)[:, 1].abs().max() == 0


def test_no_scaling_leaves_the_features():
    x = torch.tensor([[1.0, -3.0]])
    assert torch.equal(Scaling.fit(x, "none").apply(x), x)


@pytest.mark.parametrize("kind", ["none", "row", "standard"])
def test_a_scaling_survives_json(kind):
    x = torch.rand(7, 3)
    scaling = Scaling.fit(x, kind)
    again = Scaling.from_dict(json.loads(json.dumps(scaling.to_dict())))
    assert again == scaling
    assert torch.equal(again.apply(x), scaling.apply(x))


@pytest.mark.parametrize("kind", ["none", "row", "standard"])
def test_another_number_of_features_is_refused(kind):
    scaling = Scaling.fit(torch.rand(7, 3), kind)
    with pytest.raises(UserError, match="trained with 3 features"):
        scaling.apply(torch.rand(7, 4))


def test_rows_with_negative_values_and_unknown_kinds_are_refused():
    x = torch.tensor([[1.0, -1.0]])
    with pytest.raises(UserError, match="without negative values"):
        Scaling.fit(x, "row")
    with pytest.raises(UserError, match="without negative values"):
        Scaling.fit(x.abs(), "row").apply(x)
    with pytest.raises(UserError, match="no scaling 'max'"):
        Scaling.fit(x, "max")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"kind": "row", "width": "a", "mean": [], "std": []},
        {"kind": "max", "width": 1, "mean": [], "std": []},
        {"kind": "standard", "width": 2, "mean": [0], "std": [1]},
    ],
)
def test_a_damaged_record_of_a_scaling_is_refused(values):
    with pytest.raises(UserError, match="scaling is damaged"):
        Scaling.from_dict(values)
