"""The pages that show numbers, and their figures: README and ``docs``, written from records."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quatgraph.cli.shell import tell
from quatgraph.errors import Mistake

if TYPE_CHECKING:
    from quatgraph.plot.style import Drawing
    from quatgraph.training.record import RunRecord


def pages(root: Path, records: "list[RunRecord]") -> dict[tuple[str, str], Callable[[], str]]:
    """What stands between two markers of a page, by page and marker."""
    from quatgraph.bench.render import render_bench, render_beside, render_growth, render_steps
    from quatgraph.reproduce.ablation import render_ablation, render_pairs
    from quatgraph.reproduce.finalists import render_by_seed, render_finalists
    from quatgraph.reproduce.render import render
    from quatgraph.reproduce.selection import (
        render_nested,
        render_paired,
        render_search,
        render_worth,
    )
    from quatgraph.reproduce.table import load_table

    node, graph, link, text = (load_table(name) for name in ("node", "graph", "link", "text"))
    bench = root / "benchmarks" / "records"
    return {
        ("README.md", "table node"): lambda: render(node, records),
        ("README.md", "table graph"): lambda: render(graph, records, ran=True),
        ("README.md", "table link"): lambda: render(link, records, ran=True),
        ("README.md", "table text"): lambda: render(text, records, ran=True),
        ("README.md", "bench released"): lambda: render_bench(bench, "released"),
        ("README.md", "bench conv"): lambda: render_bench(bench, "conv"),
        ("README.md", "bench node"): lambda: render_bench(bench, "node"),
        ("README.md", "bench graph"): lambda: render_bench(bench, "graph", with_start=True),
        ("README.md", "bench link"): lambda: render_bench(bench, "link"),
        ("README.md", "bench peers"): lambda: render_bench(bench, "peers"),
        ("docs/fidelity.md", "ablation node"): lambda: render_ablation(node, records),
        ("docs/fidelity.md", "pairs node"): lambda: render_pairs(node, records),
        ("docs/fidelity.md", "whole table graph"): lambda: render(graph, records),
        ("docs/fidelity.md", "worth graph"): lambda: render_worth(graph, records),
        ("docs/fidelity.md", "pairs graph"): lambda: render_paired(graph, records),
        ("docs/fidelity.md", "presets graph"): lambda: render_paired(graph, records, alone=True),
        ("docs/fidelity.md", "search graph"): lambda: render_search(graph, records),
        ("docs/fidelity.md", "nested graph"): lambda: render_nested(graph, records),
        ("docs/fidelity.md", "whole table link"): lambda: render(link, records),
        ("docs/fidelity.md", "whole table text"): lambda: render(text, records),
        ("docs/fidelity.md", "pairs text"): lambda: render_by_seed(text, records),
        ("docs/fidelity.md", "finalists text"): lambda: render_finalists(text, records),
        ("docs/speed.md", "bench aggregate"): lambda: render_bench(bench, "aggregate"),
        ("docs/speed.md", "bench hamilton"): lambda: render_beside(bench, "hamilton"),
        ("docs/speed.md", "bench loss"): lambda: render_beside(bench, "loss"),
        ("docs/speed.md", "bench fused"): lambda: render_beside(bench, "fused"),
        ("docs/speed.md", "bench growth"): lambda: render_growth(bench),
        ("docs/speed.md", "bench peers"): lambda: render_bench(bench, "peers"),
        ("docs/speed.md", "bench kernels"): lambda: render_bench(bench, "kernels"),
        ("docs/speed.md", "bench text"): lambda: render_bench(bench, "text"),
        ("docs/speed.md", "bench steps"): lambda: render_steps(bench),
        ("docs/speed.md", "bench defaults"): lambda: render_bench(bench, "defaults"),
    }


def figures(root: Path, records: "list[RunRecord]") -> dict[str, Callable[[], "Drawing"]]:
    """What the pages may show, by file."""
    from quatgraph.plot.speed import growth, speed_bars
    from quatgraph.plot.tables import table_bars
    from quatgraph.reproduce import table_names
    from quatgraph.reproduce.table import load_table

    bench = root / "benchmarks" / "records"
    tables = {
        f"docs/figures/table-{name}.svg": partial(table_bars, load_table(name), records)
        for name in table_names()
    }
    speeds = {
        f"docs/figures/speed-{name}.svg": partial(speed_bars, bench, name)
        for name in ("aggregate", "conv", "kernels")
    }
    return {**tables, **speeds, "docs/figures/growth.svg": partial(growth, bench)}


def shown_figures(root: Path) -> set[str]:
    """The files of ``docs/figures`` that README or a page of ``docs`` shows."""
    found: set[str] = set()
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        if page.is_file():
            names = re.findall(r"!\[[^]]*\]\((?:docs/)?figures/([^)]+)\)", page.read_text())
            found |= {f"docs/figures/{name}" for name in names}
    return found


def write_pages(root: Path, records: "list[RunRecord]", needed: str) -> None:
    """Writes what has a place: the marker ``needed`` must have one, the others may. Figures that a
    page shows are drawn where matplotlib is installed."""
    from quatgraph.plot.style import installed, save
    from quatgraph.reproduce.render import write_between

    for (page, marker), content in pages(root, records).items():
        path = root / page
        if marker == needed or (path.is_file() and f"<!-- {marker} -->" in path.read_text()):
            write_between(path, marker, content())
    shown = shown_figures(root)
    if shown and not installed():
        tell("the figures in docs/figures stay as they were; pip install quatgraph[plot]")
        return
    for file, drawing in figures(root, records).items():
        if file in shown:
            try:
                drawn = drawing()
            except Mistake as lacking:  # nothing on record
                tell(f"{file} stays as it was: {lacking}")
            else:
                save(drawn, root / file)
