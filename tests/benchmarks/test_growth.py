"""Series of sizes, and the exponent of their growth."""

import pytest
import torch

from benchmarks import growth

CPU = torch.device("cpu")


def series(times: dict[int, float], floor: float = 0.1) -> list[dict[str, float]]:
    return [{"size": size, "ms": ms, "floor_ms": floor} for size, ms in times.items()]


def test_the_exponent_is_that_of_a_power() -> None:
    times = {size: 3.0 * size**1.25 for size in (1, 10, 100, 1000)}
    assert growth.exponent(series(times)) == pytest.approx(1.25)


def test_times_near_the_floor_do_not_count() -> None:
    times = {1: 0.9, 10: 0.95, 100: 1.0, 1000: 10.0, 10_000: 100.0}
    assert growth.exponent(series(times)) == pytest.approx(1.0)
    assert growth.exponent(series(times, floor=0.2)) is None


def test_growth_gives_a_series_for_each_thing_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, sizes in {
        "EDGES": (10, 4, (20, 40)),
        "NODES": (4, (10, 20)),
        "WIDTHS": (10, 20, (4, 8)),
        "ENTITIES": (4, 4, (64, 128)),
        "MEMBERS": ((70, 90, 14), 2, (1, 2)),
    }.items():
        monkeypatch.setattr(growth, name, {"cpu": sizes})
    rows = list(growth.rows(CPU))
    assert [(row["grows"], row["size"]) for row in rows] == [
        *[("edges", 40), ("edges", 20), ("nodes", 20), ("nodes", 10), ("width", 8), ("width", 4)],
        *[("entities", 128), ("entities", 64), ("members", 2), ("members", 1)],
    ]
    assert all(row["ms"] > 0 and row["floor_ms"] > 0 for row in rows)
    assert len({(row["series"], row["grows"]) for row in rows}) == 5
    assert len({(row["case"], row["work"]) for row in rows}) == len(rows)
