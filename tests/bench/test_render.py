"""Benchmark records as tables."""

import json
from pathlib import Path
from typing import Any

from quatgraph.bench.render import render_bench


def row(variant: str, ms: float, device: str = "cpu", **more: Any) -> str:
    machine = {"device": device, "cpu": "chip", "cpus": "2"}
    about = {"environment": machine, "case": "c", "work": "w", "variant": variant}
    return json.dumps(about | {"ms": ms} | more) + "\n"


def test_the_newest_row_of_each_variant_and_device_is_shown(tmp_path: Path) -> None:
    rows = row("a", 1.0) + row("b", 3.0) + row("a", 2.0, "gpu", peak_mib=1024.4) + row("a", 1.5)
    (tmp_path / "conv.jsonl").write_text(rows)
    assert render_bench(tmp_path, "conv").splitlines()[2:] == [
        "| chip, 2 cores | c | w | a | 1.5 ms |  |",
        "| chip, 2 cores | c | w | b | 3 ms |  |",
        "| gpu | c | w | a | 2 ms | 1,024 MiB |",
    ]


def test_trainings_are_shown_with_their_start_where_asked(tmp_path: Path) -> None:
    made = row("a", 1.0, seconds=2.5, seconds_with_start=3.25).replace('"ms": 1.0, ', "")
    (tmp_path / "graph.jsonl").write_text(made)
    lines = render_bench(tmp_path, "graph", with_start=True).splitlines()
    assert lines[0].endswith("| variant | training | with start |")
    assert lines[2].endswith("| a | 2.5 s | 3.25 s |")
    assert render_bench(tmp_path, "graph").splitlines()[2].endswith("| a | 2.5 s |")


def test_missing_records_say_how_to_make_them(tmp_path: Path) -> None:
    assert "quatgraph bench conv --out" in render_bench(tmp_path, "conv")
