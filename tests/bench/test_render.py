"""Benchmark records as tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from quatgraph.bench.render import render_bench
from quatgraph.errors import Mistake


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


def test_missing_records_say_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="quatgraph bench conv --out"):
        render_bench(tmp_path, "conv")
