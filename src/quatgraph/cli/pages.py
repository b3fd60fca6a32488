"""The pages that show numbers: README and ``docs``, written from records."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quatgraph.training.record import RunRecord


def pages(root: Path, records: "list[RunRecord]") -> dict[tuple[str, str], Callable[[], str]]:
    """What stands between two markers of a page, by page and marker."""
    from quatgraph.bench.render import render_bench
    from quatgraph.reproduce.ablation import render_ablation, render_pairs
    from quatgraph.reproduce.render import render
    from quatgraph.reproduce.selection import render_nested, render_paired, render_worth
    from quatgraph.reproduce.table import load_table

    node, graph, link, text = (load_table(name) for name in ("node", "graph", "link", "text"))
    bench = root / "benchmarks" / "records"
    return {
        ("README.md", "table node"): lambda: render(node, records),
        ("README.md", "table graph"): lambda: render(graph, records, ran=True),
        ("README.md", "table link"): lambda: render(link, records, ran=True),
        ("README.md", "table text"): lambda: render(text, records, ran=True),
        ("README.md", "bench conv"): lambda: render_bench(bench, "conv"),
        ("README.md", "bench node"): lambda: render_bench(bench, "node"),
        ("README.md", "bench graph"): lambda: render_bench(bench, "graph", with_start=True),
        ("README.md", "bench link"): lambda: render_bench(bench, "link"),
        ("docs/fidelity.md", "ablation node"): lambda: render_ablation(node, records),
        ("docs/fidelity.md", "pairs node"): lambda: render_pairs(node, records),
        ("docs/fidelity.md", "whole table graph"): lambda: render(graph, records),
        ("docs/fidelity.md", "worth graph"): lambda: render_worth(graph, records),
        ("docs/fidelity.md", "pairs graph"): lambda: render_paired(graph, records),
        ("docs/fidelity.md", "nested graph"): lambda: render_nested(graph, records),
        ("docs/fidelity.md", "whole table link"): lambda: render(link, records),
        ("docs/fidelity.md", "whole table text"): lambda: render(text, records),
        ("docs/speed.md", "bench aggregate"): lambda: render_bench(bench, "aggregate"),
        ("docs/speed.md", "bench kernels"): lambda: render_bench(bench, "kernels"),
        ("docs/speed.md", "bench text"): lambda: render_bench(bench, "text"),
        ("docs/speed.md", "bench defaults"): lambda: render_bench(bench, "defaults"),
    }


def write_pages(root: Path, records: "list[RunRecord]", needed: str) -> None:
    """Writes what has a place: the marker ``needed`` must have one, the others may."""
    from quatgraph.reproduce.render import write_between

    for (page, marker), content in pages(root, records).items():
        path = root / page
        if marker == needed or (path.is_file() and f"<!-- {marker} -->" in path.read_text()):
            write_between(path, marker, content())
