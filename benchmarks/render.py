"""Benchmark records as Markdown tables, with the newest row of each variant."""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from benchmarks.growth import exponent
from benchmarks.limits import REACHED
from benchmarks.own_data import table
from quatgraph.reproduce.render import markdown_table
from quatgraph.training.runtime import machine

MEASURES = {
    "ms": ("time", "ms"),
    "seconds": ("training", "s"),
    "valid_accuracy": ("validation accuracy", ""),
}


def read_rows(folder: Path, bench: str) -> list[dict[str, Any]]:
    """The newest row of each case, work, variant and device, grouped by device."""
    newest: dict[tuple[str, ...], dict[str, Any]] = {}
    path = folder / f"{bench}.jsonl"
    for line in path.read_text().splitlines() if path.is_file() else ():
        row = json.loads(line)
        newest[row["case"], row["work"], row["variant"], machine_of(row)] = row
    found = list(newest.values())
    machines = list(dict.fromkeys(map(machine_of, found)))
    return sorted(found, key=lambda row: machines.index(machine_of(row)))


def render_bench(folder: Path, bench: str, *, with_start: bool = False) -> str:
    """A Markdown table of one benchmark.

    Args:
        with_start: Whether to add the time including everything before the first step.
    """
    found = read_rows(folder, bench)
    rows = [row for row in found if row["case"] != REACHED]
    if not rows:
        return _missing(bench)
    measure = next(key for key in MEASURES if key in rows[0])
    title, unit = MEASURES[measure]
    memory, share, ratio = (
        any(key in row for row in rows) for key in ("peak_mib", "share", "ratio")
    )
    head = ["device", "case", "work", "variant", title]
    head += ["with start"] * with_start + ["peak memory"] * memory
    head += ["share of limit"] * share + ["relative time"] * ratio
    lines = []
    for row in rows:
        shown = [machine_of(row), row["case"], row["work"], row["variant"]]
        shown.append(with_unit(row[measure], unit))
        if with_start:
            shown.append(f"{row['seconds_with_start']:.4g} s")
        if memory:
            shown.append(f"{row['peak_mib']:,.0f} MiB" if "peak_mib" in row else "")
        if share:
            shown.append(_percent(row) if "share" in row else "")
        if ratio:
            shown.append(f"{row['ratio']:.3g}")
        lines.append(shown)
    return _render_limits(found) + markdown_table(head, lines)


def render_beside(folder: Path, bench: str) -> str:
    """A Markdown table with a column per variant: time, share of the limit, and memory beyond the
    gradients."""
    found = read_rows(folder, bench)
    rows = [row for row in found if row["case"] != REACHED]
    if not rows:
        return _missing(bench)
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        parts = [with_unit(row["ms"], "ms"), _percent(row)]
        parts += [f"{row['beyond_mib']:,.0f} MiB"] if "beyond_mib" in row else []
        line = cells.setdefault((machine_of(row), row["case"], row["work"]), {})
        line[row["variant"]] = ", ".join(parts)
    lines = [[*key, *(line.get(name, "") for name in variants)] for key, line in cells.items()]
    return _render_limits(found) + markdown_table(["device", "case", "work", *variants], lines)


def render_growth(folder: Path) -> str:
    """A Markdown table of the scaling of each series."""
    rows = read_rows(folder, "growth")
    if not rows:
        return _missing("growth")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = machine_of(row), row["series"], row["work"], row["grows"]
        groups.setdefault(key, []).append(row)
    lines = []
    for group in groups.values():
        series = sorted(group, key=lambda row: row["size"])
        first, last = series[0], series[-1]
        slope = exponent(series)
        times = (with_unit(row["ms"], "ms") for row in (first, last))
        lines.append(
            [
                *(machine_of(first), first["work"], first["grows"]),
                f"{first['size']:,} to {last['size']:,}",
                " to ".join(times),
                "too short" if slope is None else f"n^{slope:.2f}",
            ]
        )
    return markdown_table(["device", "work", "n counts", "n", "time", "scaling"], lines)


def render_steps(folder: Path) -> str:
    """A Markdown table of where an epoch's time goes, one row per training."""
    rows = read_rows(folder, "steps")
    if not rows:
        return _missing("steps")
    lines = []
    for row in rows:
        parts = row["goes_to"]
        spent, operations = (sum(part[place] for part in parts.values()) for place in (0, 1))
        shown = [f"{kind} {100 * ms / spent:.0f} %" for kind, (ms, _) in parts.items()]
        shown = [part for part in shown if not part.endswith(" 0 %")]
        times = with_unit(row["ms"], "ms"), with_unit(spent, "ms"), f"{operations:,}"
        lines.append([machine_of(row), row["case"], *times, ", ".join(shown)])
    header = ["device", "training", "epoch", "device time", "operations", "share of device time"]
    return markdown_table(header, lines)


def render_sharded(folder: Path) -> str:
    """Markdown tables of a training whose entities ranks share out: its steps, then all-reduces."""
    rows = read_rows(folder, "sharded")
    if not rows:
        return _missing("sharded")
    steps, sums = [], []
    for row in rows:
        first = [machine_of(row), row["case"]]
        spread = f"{with_unit(row['ms'], 'ms')} ({row['ms_20']:.4g} to {row['ms_80']:.4g})"
        if "peak_mib" not in row:
            sums.append([*first, row["work"], spread])
            continue
        beyond = row["peak_mib"] - row["start_mib"]
        memory = f"{beyond:,.0f} MiB", f"{row['peak_mib']:,.0f} MiB"
        each = f"{row['bytes_per_entity']:,}"
        times = spread, f"{row['ratio']:.3g}", with_unit(row["cpu_ms"], "ms")
        steps.append([*first, row["variant"], *times, *memory, each])
    step_head = ["device", "case", "variant", "step (20 to 80 %)", "relative time"]
    step_head += ["on all cores", "memory per process", "with Python and torch"]
    step_head += ["bytes per entity"]
    tables = (step_head, steps), (["device", "case", "all-reduce of", "time (20 to 80 %)"], sums)
    return "\n\n".join(markdown_table(head, lines) for head, lines in tables if lines)


def render_graph_methods(folder: Path) -> str:
    """Markdown tables of the models of graphs: times of epochs, and then memory."""
    rows = read_rows(folder, "graph_methods")
    if not rows:
        return _missing("graph_methods")
    times, memory = [], []
    for row in rows:
        first = [machine_of(row), row["case"], row["variant"]]
        if "ms" in row:
            times.append([*first, with_unit(row["ms"], "ms"), f"{row['ratio']:.3g}"])
        else:
            used = f"{row['peak_mib']:,.0f} MiB" if "peak_mib" in row else row["outcome"]
            memory.append([*first, str(row.get("members", "")), used])
    head = ["device", "case", "method"]
    tables = (([*head, "epoch", "relative time"], times), ([*head, "members", "memory"], memory))
    return "\n\n".join(markdown_table(names, lines) for names, lines in tables if lines)


def render_serve(folder: Path) -> str:
    """Markdown tables of the service: its loads, and then times of starts and searches."""
    rows = read_rows(folder, "serve")
    if not rows:
        return _missing("serve")
    loads, times = [], []
    for row in rows:
        first = [machine_of(row), row["case"], row["work"]]
        if "per_second" in row:
            each = (f"{row[key]:.3g} ms" for key in ("p50", "p99", "worst"))
            numbers = f"{row['per_second']:,.0f}", *each, f"{row['errors']:.0f}"
            loads.append([*first, row["variant"], *numbers, f"{row['grown_mib']:.0f} MiB"])
        else:
            unit = "ms" if "ms" in row else "s"
            times.append([*first, with_unit(row["ms" if unit == "ms" else "seconds"], unit)])
    load_head = ["device", "model", "load", "variant", "answers/s", "median", "p99", "slowest"]
    load_head += ["errors", "memory growth"]
    time_head = ["device", "case", "work", "time"]
    tables = ((load_head, loads), (time_head, times))
    return "\n\n".join(markdown_table(head, lines) for head, lines in tables if lines)


def render_own_data(folder: Path, kind: Literal["visible", "hidden", "packages"]) -> str:
    """A Markdown table of the visible or the hidden datasets of ``own_data``, or of those from
    packages: the newest row of each, from whatever machine."""
    path = folder / "own_data.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    newest = {row["case"]: row for row in map(json.loads, lines)}
    rows = [row for row in newest.values() if _kind_of(row) == kind]
    option = {"visible": "", "hidden": " --hidden", "packages": " --archives FOLDER"}[kind]
    return table(rows) if rows else _missing(f"own_data{option}")


def _kind_of(row: dict[str, Any]) -> str:
    kind, comma, _ = row["work"].partition(", ")
    return kind if comma else "visible"


def render_explain(folder: Path) -> str:
    """A Markdown table of what removing supporting triples does, beside other triples."""
    rows = read_rows(folder, "explain")
    if not rows:
        return _missing("explain")
    head = ["model", "predictions", "control", "drop", "of control", "difference (95 % CI)", "MRR"]
    head += ["difference in MRR (95 % CI)"]
    lines = []
    for row in rows:
        interval = f"{row['difference']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        ranks = f"{row['mrr']:.3f}, {row['mrr_removed']:.3f}, {row['mrr_control']:.3f}"
        drops = [f"{row[key]:.2f}" for key in ("drop", "drop_control")]
        apart = f"{row['mrr_control'] - row['mrr_removed']:.3f}"
        apart += f" ({row['mrr_low']:.3f} to {row['mrr_high']:.3f})"
        lines.append([row["case"], row["work"], row["variant"], *drops, interval, ranks, apart])
    return markdown_table(head, lines)


def render_missing(folder: Path) -> str:
    """A Markdown table of the probabilities of missing triples beside the share of test triples."""
    rows = read_rows(folder, "missing")
    if not rows:
        return _missing("missing")
    head = ["model", "calibration", "ranks 1-100", "1-1000", "at random", "ECE, top 1000"]
    lines = []
    for row in rows:
        pairs = [
            f"{row[f'stated_{top}']:.3f}, {row[f'precision_{top}']:.3f}" for top in (100, 1000)
        ]
        error = f"{row['error']:.3f} ({row['error_if_exact']:.3f})"
        lines.append([row["case"], row["variant"], *pairs, f"{row['random']:.2g}", error])
    return markdown_table(head, lines)


def render_clean(folder: Path) -> str:
    """A Markdown table of test triples beside plausible triples that are known to be false; all
    calibrations rank these alike."""
    rows = {row["case"]: row for row in read_rows(folder, "missing") if "auc" in row}
    if not rows:
        return _missing("missing")
    lines = []
    for case, row in rows.items():
        true, false = row["top_true"], row["top_false"]
        share = f"{100 * true / (true + false):.1f} %"
        lines.append([case, f"{row['auc']:.3f}", f"{true:.0f}", f"{false:.0f}", share])
    head = ["model", "ROC-AUC", "true in the top 1000", "false", "share of true"]
    return markdown_table(head, lines)


def _missing(bench: str) -> str:
    return f"Not run yet: `python -m benchmarks {bench} --out benchmarks/records`"


def _render_limits(rows: Sequence[dict[str, Any]]) -> str:
    """The measured limits of each machine, one line each."""
    limits = [row for row in rows if row["case"] == REACHED]
    lines = [
        f"- {name} reaches {', '.join(map(_rate, group))}"
        for name, group in groupby(limits, key=machine_of)
    ]
    return "\n".join((*lines, "", "")) if lines else ""


def _rate(row: dict[str, Any]) -> str:
    if "gb" in row:
        return f"{1e3 * row['gb'] / row['ms']:,.0f} GB/s in a {row['work']}"
    rate = row["gflop"] / row["ms"]
    shown = f"{rate:.3g} TFLOP/s" if rate >= 1 else f"{1e3 * rate:.3g} GFLOP/s"
    return f"{shown} in a {row['work']} of {row['variant']}"


def _percent(row: dict[str, Any]) -> str:
    return f"{100 * row['share']:.0f} % of {row['limit']}"


def with_unit(value: float, unit: str) -> str:
    """A value with four digits and its unit; long times in seconds."""
    if unit == "ms" and value >= 10_000:
        value, unit = value / 1000, "s"
    return f"{value:.4g} {unit}".strip()


def machine_of(row: dict[str, Any]) -> str:
    return machine(row["environment"])
