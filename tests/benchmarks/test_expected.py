"""Predictions beside what was measured, from made-up records."""

import json
from pathlib import Path
from typing import Any

from benchmarks.expected import ALONE, BASE_EDGES, MEASURED, WHOLE, render_checked


def write(folder: Path, bench: str, *rows: dict[str, Any]) -> None:
    shared = {"work": "", "environment": {"device": "cpu", "cpu": "made up", "cpus": "2"}}
    lines = (json.dumps(shared | row) + "\n" for row in rows)
    (folder / f"{bench}.jsonl").write_text("".join(lines))


def epoch(nodes: int, edges: int, ms: float, mib: float) -> dict[str, Any]:
    case = f"{nodes:,} nodes, {edges:,} edges"
    return {"case": case, "variant": WHOLE, "edges": edges, "ms": ms, "peak_mib": mib}


def test_nothing_is_checked_without_records(tmp_path: Path) -> None:
    assert render_checked(tmp_path).startswith("Not run yet")


def test_predictions_scale_with_edges_nodes_and_processes(tmp_path: Path) -> None:
    sizes = {ALONE: 16_000, MEASURED: 8_400}
    shards = [
        {"case": "", "variant": name, "bytes_per_entity": size} for name, size in sizes.items()
    ]
    write(tmp_path, "sharded", *shards, {"case": "", "variant": "all-reduce", "ms": 1.0})
    small = epoch(200_000, BASE_EDGES, 10.0, 1_024)
    write(tmp_path, "large", small, epoch(2_000_000, 10 * BASE_EDGES, 120.0, 9_216))
    lines = render_checked(tmp_path).splitlines()[2:]
    assert (
        lines[0]
        == "| bytes per entity, two processes | half of one process | 8,000 | 8,400 | +5 % |"
    )
    assert (
        lines[1] == "| an epoch, 100,000,000 edges | 10,000,000 edges | 100 ms | 120 ms | +20 % |"
    )
    assert lines[2] == "| its peak memory | 10,000,000 edges | 10.0 GiB | 9.0 GiB | -10 % |"
    assert lines[3] == "| an epoch, ogbn-papers100M | 10,000,000 edges | 3.23 s | does not fit |  |"
