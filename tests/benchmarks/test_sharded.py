"""The benchmark of sharded entities, and what its records predict."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import sharded
from benchmarks.expected import MEASURED, SCORED, render_expected
from benchmarks.render import render_sharded
from quatgraph.models.link.graphs import NO_GRAPH
from quatgraph.tasks.link.problem import build_problem

CPU = torch.device("cpu")


def test_an_epoch_has_whole_batches_only() -> None:
    work = sharded.Work(300, 1, batch=64, quats=1)
    problem = build_problem(sharded.made_triples(work), NO_GRAPH, True, CPU)
    assert len(problem.training) == sharded.STEPS * 64
    assert sharded.config_of(work).model.width == 4


def test_there_is_nothing_to_run_on_a_gpu() -> None:
    assert list(sharded.rows(torch.device("meta"))) == []


@pytest.mark.slow
def test_both_variants_train_and_all_reduces_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {"ENTITIES": 400, "SMALLER": 300, "QUATS": 1, "BATCH": 64, "ROUNDS": 1}
    for name, size in tiny.items():
        monkeypatch.setattr(sharded, name, size)
    monkeypatch.setattr(sharded, "BYTES", [1 << 12, 1 << 20])
    one, half, two, *sums = sharded.rows(CPU)
    assert [found["variant"] for found in (one, half, two)] == [*sharded.VARIANTS]
    assert one["ratio"] == 1
    for found in (one, half, two):
        assert found["cpu_ms"] > 0
        assert found["ms_20"] <= found["ms"] <= found["ms_80"]
        assert found["start_mib"] <= found["peak_mib"]
    assert [each["work"] for each in sums] == ["4 KiB", "1 MiB"]


def row(variant: str, ms: float, **more: Any) -> str:
    machine = {"device": "cpu", "cpu": "chip", "cpus": "2"}
    about = {"environment": machine, "case": "c", "work": "w", "variant": variant}
    return json.dumps(about | {"ms": ms} | more) + "\n"


def written(folder: Path) -> Path:
    steps = {"ms_20": 90.0, "ms_80": 120.0, "cpu_ms": 180.0, "start_mib": 200.0}
    steps |= {"width": 256}
    one = row("one process, two threads", 100.0, ratio=1.0, peak_mib=700.0,
              bytes_per_entity=16_384, **steps)  # fmt: skip
    two = row(MEASURED, 110.0, ratio=1.1, peak_mib=450.0, bytes_per_entity=8_192, **steps)
    sums = row("all-reduce", 0.5, ms_20=0.25, ms_80=1.0).replace('"work": "w"', '"work": "1 MiB"')
    (folder / "sharded.jsonl").write_text(one + two + sums)
    scored = row("tiled", 78.0).replace('"w"', '"cross-entropy, float32"')
    (folder / "loss.jsonl").write_text(scored.replace('"c"', f'"{SCORED}"'))
    return folder


def test_memory_is_shown_beyond_what_a_process_starts_with(tmp_path: Path) -> None:
    steps, sums = render_sharded(written(tmp_path)).split("\n\n")
    first, second = steps.splitlines()[2:]
    assert first.endswith("| 100 ms (90 to 120) | 1 | 180 ms | 500 MiB | 700 MiB | 16,384 |")
    assert second.endswith("| 110 ms (90 to 120) | 1.1 | 180 ms | 250 MiB | 450 MiB | 8,192 |")
    assert sums.splitlines()[2].endswith("| 1 MiB | 0.5 ms (0.25 to 1) |")
    assert "Not run yet" in render_sharded(tmp_path / "none")


def test_what_is_expected_follows_from_the_records(tmp_path: Path) -> None:
    lines = [line.split(" | ") for line in render_expected(written(tmp_path)).splitlines()[2:]]
    # 16 bytes per number at rest; 2 x 8,192 / 256 at the peak; 1 ms per 1,000 entities.
    assert lines[0][1:5] == ["1", "4,594,485", "35.1 GiB", "140.2 GiB"]
    assert lines[0][5] == "4.59 s |"
    assert lines[6][1:5] == ["64", "71,789", "0.5 GiB", "2.2 GiB"]
    assert lines[6][5] == "71.8 ms |"
    assert lines[14][3] == "52.9 GiB"
    assert "Not run yet" in render_expected(tmp_path / "none")
