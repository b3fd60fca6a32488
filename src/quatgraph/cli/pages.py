"""The pages that show numbers: README and ``docs``, written from records."""

from collections.abc import Callable
from pathlib import Path


def pages(root: Path, results: Path) -> dict[tuple[str, str], Callable[[], str]]:
    """What stands between two markers of a page, by page and marker."""
    from quatgraph.bench.render import render_bench
    from quatgraph.reproduce.ablation import render_ablation, render_pairs
    from quatgraph.reproduce.render import render
    from quatgraph.reproduce.run import read_results
    from quatgraph.reproduce.table import load_table

    table = load_table("node")
    records = read_results(results)
    bench = root / "benchmarks" / "records"
    return {
        ("README.md", "table node"): lambda: render(table, records),
        ("README.md", "bench conv"): lambda: render_bench(bench, "conv"),
        ("README.md", "bench node"): lambda: render_bench(bench, "node"),
        ("docs/fidelity.md", "ablation node"): lambda: render_ablation(table, records),
        ("docs/fidelity.md", "pairs node"): lambda: render_pairs(table, records),
        ("docs/speed.md", "bench aggregate"): lambda: render_bench(bench, "aggregate"),
        ("docs/speed.md", "bench defaults"): lambda: render_bench(bench, "defaults"),
    }


def write_pages(root: Path, results: Path, needed: str) -> None:
    """Writes what has a place: the marker ``needed`` must have one, the others may."""
    from quatgraph.reproduce.render import write_between

    for (page, marker), content in pages(root, results).items():
        path = root / page
        if marker == needed or (path.is_file() and f"<!-- {marker} -->" in path.read_text()):
            write_between(path, marker, content())
