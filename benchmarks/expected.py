"""Memory and time of large sharded graphs, predicted from measured constants."""

from pathlib import Path

from benchmarks.render import read_rows
from quatgraph.reproduce.render import markdown_table

WIDTH, BATCH = 512, 1_024
ENTITIES = {"Wikidata5M": 4_594_485, "Freebase86M": 86_000_000}
NODES, FEATURES = 111_000_000, 128
"""Of ogbn-papers100M."""
DEVICES = 1, 2, 4, 8, 16, 32, 64
AT_REST = 4 * 4
"""Bytes per number of an entity between steps: its weight, the best one, two moments of Adam."""
MEASURED = "two processes, one thread each"
SCORED = "1,024 queries, 78,000 entities, 512 wide"
SCORED_ENTITIES = 78_000


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


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _time(ms: float) -> str:
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms"
