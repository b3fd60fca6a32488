"""Memory and time of large graphs, predicted from measured constants; and how well such predictions
hold where both were measured."""

from pathlib import Path
from typing import Any

from benchmarks.render import read_rows
from quatgraph.reproduce.render import markdown_table

WIDTH, BATCH = 512, 1_024
ENTITIES = {"Wikidata5M": 4_594_485, "Freebase86M": 86_000_000}
NODES, EDGES, FEATURES = 111_000_000, 3_230_000_000, 128
"""Of ogbn-papers100M; edges in both directions."""
DEVICES = 1, 2, 4, 8, 16, 32, 64
AT_REST = 4 * 4
"""Bytes per number of an entity between steps: its weight, the best one, two moments of Adam."""
MEASURED = "two processes, one thread each"
SCORED = "1,024 queries, 78,000 entities, 512 wide"
SCORED_ENTITIES = 78_000
ALONE = "one process, one thread"
WHOLE, BASE_EDGES = "whole graph", 10_000_000
"""The graph whose epoch predicts those of other sizes."""


def render_expected(folder: Path) -> str:
    """A Markdown table of the memory of each device and of the time of scores, by devices."""
    peaks = {row["variant"]: row for row in read_rows(folder, "sharded")}
    scored = {
        (row["case"], row["work"]): row["ms"]
        for row in read_rows(folder, "loss")
        if row["variant"] == "tiled"
    }
    if MEASURED not in peaks:
        return "Not run yet: `python -m benchmarks sharded --out benchmarks/records`"
    row = peaks[MEASURED]
    # Two processes have half of the entities each.
    at_peak = 2 * row["bytes_per_entity"] / row["width"]
    ms = scored[SCORED, "cross-entropy, float32"] / SCORED_ENTITIES
    lines = []
    for name, count in ENTITIES.items():
        for devices in DEVICES:
            own = -(-count // devices)
            sizes = [_gib(own * WIDTH * each) for each in (AT_REST, at_peak)]
            lines.append([name, f"{devices}", f"{own:,}", *sizes, _time(ms * own)])
    for devices in DEVICES:
        own = -(-NODES // devices)
        memory = _gib(4 * own * FEATURES)
        lines.append(["ogbn-papers100M, features", f"{devices}", f"{own:,}", memory, "", ""])
    head = ["graph", "devices", "rows of each", "at rest", "at the peak", "scores of a batch"]
    return markdown_table(head, lines)


def render_checked(folder: Path) -> str:
    """A Markdown table of predictions beside measurements, and of one that does not fit."""
    lines = []
    shards = {row["variant"]: row for row in read_rows(folder, "sharded")}
    if ALONE in shards and MEASURED in shards:
        half = shards[ALONE]["bytes_per_entity"] / 2
        found = shards[MEASURED]["bytes_per_entity"]
        what = "bytes per entity, two processes", "half of one process"
        lines.append([*what, f"{half:,.0f}", f"{found:,.0f}", _apart(half, found)])
    epochs = {row["edges"]: row for row in read_rows(folder, "large") if row["variant"] == WHOLE}
    if base := epochs.pop(BASE_EDGES, None):
        source = f"{BASE_EDGES:,} edges"
        each_edge, each_node = base["ms"] / BASE_EDGES, base["peak_mib"] / _nodes_of(base)
        for edges, row in sorted(epochs.items()):
            ms, mib = each_edge * edges, each_node * _nodes_of(row)
            pairs = (ms, row["ms"]), (mib, row["peak_mib"])
            times, sizes = map(_time, pairs[0]), (_gib(one * 2**20) for one in pairs[1])
            lines.append([f"an epoch, {edges:,} edges", source, *times, _apart(*pairs[0])])
            lines.append(["its peak memory", source, *sizes, _apart(*pairs[1])])
        time, size = _time(each_edge * EDGES), _gib(each_node * NODES * 2**20)
        lines.append(["an epoch, ogbn-papers100M", source, time, "does not fit", ""])
        lines.append(["its peak memory", source, size, "", ""])
    head = ["what", "predicted from", "prediction", "measured", "difference"]
    return markdown_table(head, lines) if lines else "Not run yet: `python -m benchmarks large`"


def _nodes_of(row: dict[str, Any]) -> int:
    """The number of nodes that a case begins with."""
    return int(row["case"].split()[0].replace(",", ""))


def _apart(expected: float, found: float) -> str:
    return f"{100 * (found / expected - 1):+.0f} %"


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _time(ms: float) -> str:
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.3g} ms"
