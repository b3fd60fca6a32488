"""Benchmark records as tables: the newest row of each variant."""

import json
from pathlib import Path
from typing import Any

MEASURES = {
    "ms": ("time", "ms"),
    "seconds": ("training", "s"),
    "valid_accuracy": ("validation accuracy", ""),
}


def read_rows(folder: Path, bench: str) -> list[dict[str, Any]]:
    """The newest row of each case, work, variant and device; none without records."""
    newest: dict[tuple[str, ...], dict[str, Any]] = {}
    path = folder / f"{bench}.jsonl"
    for line in path.read_text().splitlines() if path.is_file() else ():
        row = json.loads(line)
        newest[row["case"], row["work"], row["variant"], _machine(row)] = row
    return list(newest.values())


def render_bench(folder: Path, bench: str, *, with_start: bool = False) -> str:
    """A Markdown table of one benchmark.

    Args:
        with_start: Whether trainings are shown also with what precedes their first step.
    """
    rows = read_rows(folder, bench)
    if not rows:
        return f"Not run yet: `quatgraph bench {bench} --out benchmarks/records`"
    measure = next(key for key in MEASURES if key in rows[0])
    title, unit = MEASURES[measure]
    memory = any("peak_mib" in row for row in rows)
    head = ["device", "case", "work", "variant", title]
    head += ["with start"] * with_start + ["peak memory"] * memory
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        shown = [
            _machine(row),
            row["case"],
            row["work"],
            row["variant"],
            _with_unit(row[measure], unit),
        ]
        if with_start:
            shown.append(f"{row['seconds_with_start']:.4g} s")
        if memory:
            shown.append(f"{row['peak_mib']:,.0f} MiB" if "peak_mib" in row else "")
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


def _with_unit(value: float, unit: str) -> str:
    """With four digits; long times in seconds."""
    if unit == "ms" and value >= 10_000:
        value, unit = value / 1000, "s"
    return f"{value:.4g} {unit}".strip()


def _machine(row: dict[str, Any]) -> str:
    """The GPU, or the CPU with its cores."""
    about = row["environment"]
    return about["device"] if about["device"] != "cpu" else f"{about['cpu']}, {about['cpus']} cores"
