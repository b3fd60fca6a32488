"""``python -m tools.pages``: renders the tables and figures of README and ``docs`` from records
and code."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.expected import render_checked, render_expected
from benchmarks.figures import growth, speed_bars
from benchmarks.render import (
    render_bench,
    render_beside,
    render_clean,
    render_explain,
    render_graph_methods,
    render_growth,
    render_missing,
    render_own_data,
    render_serve,
    render_sharded,
    render_steps,
)
from quatgraph.errors import UserError
from quatgraph.files import write_atomic
from quatgraph.plot.style import Drawing, save
from quatgraph.plot.tables import table_dots
from quatgraph.reproduce import table_names
from quatgraph.reproduce.render import render, render_combinations
from quatgraph.reproduce.run import read_results
from quatgraph.reproduce.table import load_table
from quatgraph.tasks import TASKS
from quatgraph.training.record import RunRecord
from tools.ablation import render_ablation, render_pairs
from tools.components import render_components
from tools.equal_weights import render_equal_search, render_equal_weights
from tools.finalists import render_by_seed, render_finalists
from tools.headline import render_headline
from tools.items import render_items
from tools.selection import (
    render_best,
    render_nested,
    render_paired,
    render_rule_effects,
    render_search,
)
from tools.settings import render_settings
from tools.text_search import render_effects, render_lift, render_selected

ROOT = Path(__file__).parents[1]


def pages(root: Path, records: Sequence[RunRecord]) -> dict[tuple[str, str], Callable[[], str]]:
    """Functions that render the text between two markers, by page and marker."""
    names = ("node", "graph", "link", "fb15k-237", "text")
    node, graph, link, freebase, text = (load_table(name) for name in names)
    bench = root / "benchmarks" / "records"
    return {
        ("README.md", "headline"): lambda: render_headline([node, graph, link, text], records),
        ("README.md", "example readme_model"): lambda: render_example(
            root / "examples" / "readme_model.py"
        ),
        ("docs/results.md", "table node"): lambda: render(node, records),
        ("docs/results.md", "components node"): lambda: render_components(
            records, "cora", "phm", "accuracy"
        ),
        ("docs/results.md", "components link"): lambda: render_components(
            records, "codex-s", "phm-n3", "mrr"
        ),
        ("docs/results.md", "table graph"): lambda: render(graph, records, skip_missing=True),
        ("docs/results.md", "table link"): lambda: render(link, records, skip_missing=True),
        ("docs/results.md", "combinations link"): lambda: (
            render_combinations(link, records) or "Not run yet."
        ),
        ("docs/results.md", "items link"): lambda: render_items(link, root / "results"),
        ("docs/results.md", "table fb15k-237"): lambda: render(freebase, records),
        ("docs/results.md", "table text"): lambda: render(text, records, skip_missing=True),
        ("docs/results.md", "search text"): lambda: render_selected(text, records),
        ("docs/results.md", "effects text"): lambda: render_effects(text, records),
        ("docs/results.md", "lift text"): lambda: render_lift(text, records),
        ("docs/fidelity.md", "ablation node"): lambda: render_ablation(node, records),
        ("docs/fidelity.md", "pairs node"): lambda: render_pairs(node, records),
        ("docs/fidelity.md", "whole table graph"): lambda: render(graph, records),
        ("docs/fidelity.md", "rule effects graph"): lambda: render_rule_effects(graph, records),
        ("docs/fidelity.md", "pairs graph"): lambda: render_paired(graph, records),
        ("docs/fidelity.md", "presets graph"): lambda: render_paired(
            graph, records, presets_only=True
        ),
        ("docs/fidelity.md", "search graph"): lambda: render_search(graph, records),
        ("docs/results.md", "equal weights graph"): lambda: render_equal_weights(graph, records),
        ("docs/results.md", "best graph"): lambda: render_best(
            graph, records, ["qgnn", "qgnn-symmetric", "qgnn-norm"], ["gcn", "structure-free"]
        ),
        ("docs/results.md", "equal search graph"): lambda: render_equal_search(graph, records),
        ("docs/fidelity.md", "nested graph"): lambda: render_nested(graph, records),
        ("docs/fidelity.md", "whole table link"): lambda: render(link, records),
        ("docs/fidelity.md", "whole table text"): lambda: render(text, records),
        ("docs/fidelity.md", "pairs text"): lambda: render_by_seed(text, records),
        ("docs/fidelity.md", "finalists text"): lambda: render_finalists(text, records),
        ("docs/speed.md", "bench released"): lambda: render_bench(bench, "released"),
        ("docs/speed.md", "bench conv"): lambda: render_bench(bench, "conv"),
        ("docs/speed.md", "bench sampling"): lambda: render_bench(bench, "sampling"),
        ("docs/speed.md", "bench large"): lambda: render_bench(bench, "large"),
        ("docs/speed.md", "bench node"): lambda: render_bench(bench, "node"),
        ("docs/speed.md", "bench graph"): lambda: render_bench(bench, "graph", with_start=True),
        ("docs/speed.md", "bench graph_methods"): lambda: render_graph_methods(bench),
        ("docs/speed.md", "bench link"): lambda: render_bench(bench, "link"),
        ("docs/speed.md", "bench aggregate"): lambda: render_bench(bench, "aggregate"),
        ("docs/speed.md", "bench hamilton"): lambda: render_beside(bench, "hamilton"),
        ("docs/speed.md", "bench loss"): lambda: render_beside(bench, "loss"),
        ("docs/speed.md", "bench fused"): lambda: render_beside(bench, "fused"),
        ("docs/speed.md", "bench growth"): lambda: render_growth(bench),
        ("docs/speed.md", "bench peers"): lambda: render_bench(bench, "peers"),
        ("docs/speed.md", "bench link_methods"): lambda: render_bench(bench, "link_methods"),
        ("docs/speed.md", "bench kernels"): lambda: render_bench(bench, "kernels"),
        ("docs/speed.md", "bench text"): lambda: render_bench(bench, "text"),
        ("docs/speed.md", "bench steps"): lambda: render_steps(bench),
        ("docs/speed.md", "bench sharded"): lambda: render_sharded(bench),
        ("docs/scale.md", "expected"): lambda: render_expected(bench),
        ("docs/scale.md", "checked"): lambda: render_checked(bench),
        ("docs/speed.md", "bench serve"): lambda: render_serve(bench),
        ("docs/speed.md", "bench defaults"): lambda: render_bench(bench, "defaults"),
        **{
            ("docs/settings.md", f"settings {name}"): partial(render_settings, task)
            for name, task in TASKS.items()
        },
        ("docs/usage.md", "bench explain"): lambda: render_explain(bench),
        ("docs/usage.md", "bench missing"): lambda: render_missing(bench),
        ("docs/usage.md", "bench missing clean"): lambda: render_clean(bench),
        ("docs/speed.md", "own data hidden"): lambda: render_own_data(bench, "hidden"),
        ("docs/speed.md", "own data packages"): lambda: render_own_data(bench, "packages"),
        ("docs/speed.md", "own data visible"): lambda: render_own_data(bench, "visible"),
    }


def render_example(path: Path) -> str:
    """The code of an example without its docstring, as a Markdown block."""
    _, _, code = path.read_text().split('"""', 2)
    return f"```python\n{code.strip()}\n```"


def figures(root: Path, records: Sequence[RunRecord]) -> dict[str, Callable[[], Drawing]]:
    """Functions that compute each figure, by file."""
    bench = root / "benchmarks" / "records"
    tables = {
        f"docs/figures/table-{name}.svg": partial(table_dots, load_table(name), records)
        for name in table_names()
    }
    speeds = {
        f"docs/figures/speed-{name}.svg": partial(speed_bars, bench, name)
        for name in ("aggregate", "conv", "kernels")
    }
    return {**tables, **speeds, "docs/figures/growth.svg": partial(growth, bench)}


def used_figures(root: Path) -> set[str]:
    """The figures that README or ``docs`` use; screenshots are not drawn from records."""
    found: set[str] = set()
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        names = re.findall(r"!\[[^]]*\]\((?:docs/)?figures/([^)]+\.svg)\)", page.read_text())
        found |= {f"docs/figures/{name}" for name in names}
    return found


def write_pages(root: Path) -> None:
    """Writes every page and every figure in use."""
    records = read_results(root / "results")
    for (page, marker), content in pages(root, records).items():
        path = root / page
        write_atomic(path, replace_between(path.read_text(), marker, content()))
    drawings = figures(root, records)
    for file in sorted(used_figures(root)):
        save(drawings[file](), root / file)


def replace_between(content: str, name: str, text: str) -> str:
    """Replaces the text between ``<!-- name -->`` and ``<!-- /name -->``."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, _, rest = content.partition(start)
    if content.count(start) != 1 or content.count(end) != 1 or end not in rest:
        raise UserError(f"the file needs exactly one {start} and one {end} after it")
    return f"{head}{start}\n{text}\n{end}{rest.partition(end)[2]}"


if __name__ == "__main__":
    write_pages(ROOT)
