"""What a machine reaches, and the share of it that a time is."""

import pytest
import torch

from benchmarks import limits

CPU = torch.device("cpu")


def test_a_share_is_the_least_time_that_the_slower_limit_allows() -> None:
    found = limits.Limits(copy=2.0, products={"float32": 10.0, "tf32": 100.0}, rows=[])
    timed = {"ms": 4.0}
    assert found.against(timed, gb=4.0) == {"ms": 4.0, "gb": 4.0, "share": 0.5, "limit": "copy"}
    both = found.against(timed, gb=4.0, gflop=30.0)
    assert (both["share"], both["limit"], both["gflop"]) == (0.75, "product", 30.0)
    quicker = found.against(timed, gb=4.0, gflop=30.0, to="tf32")
    assert (quicker["share"], quicker["limit"]) == (0.5, "copy")


def test_limits_are_a_copy_and_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COPIED", {"cpu": 1 << 20})
    monkeypatch.setattr(limits, "SQUARE", {"cpu": 64})
    found = limits.reached(CPU, limits.PRECISIONS["cpu"])
    copied, multiplied = found.rows
    assert (copied["work"], copied["gb"]) == ("copy", 2 * 2**20 / 1e9)
    assert (multiplied["variant"], multiplied["gflop"]) == ("float32", 2 * 64**3 / 1e9)
    assert found.copy == copied["gb"] / copied["ms"]
    assert found.products == {"float32": multiplied["gflop"] / multiplied["ms"]}
    assert {row["case"] for row in found.rows} == {limits.REACHED}


def test_a_cpu_never_multiplies_bfloat16() -> None:
    assert limits.PRECISIONS["cpu"] == ("float32",)
