"""The models ``phm`` by number of components, at about equal weights."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from quatgraph.metrics.classification import mean_std
from quatgraph.reproduce.render import format_difference, format_metric, markdown_table
from quatgraph.training.record import RunRecord

REAL = (1, "fixed")
HEADER = ("n", "width", "rules", "weights", "validation", "test", "difference to n = 1 ± s.e.")

Runs = dict[tuple[int, int], RunRecord]
"""Runs of a configuration by split and seed."""


def render_components(records: Sequence[RunRecord], dataset: str, method: str, metric: str) -> str:
    """A row per n and kind of rules, with the configuration that is best on validation data;
    differences to the real model are paired by split and seed."""
    valid, test = f"valid/{metric}", f"test/{metric}"
    groups: dict[tuple[int, str], dict[str, Runs]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if (record.dataset, record.method) == (dataset, method):
            options = record.config["model"]
            tried = groups[options["n"], options["rules"]]
            tried[record.config_digest][record.split, record.seed] = record

    def best(tried: dict[str, Runs]) -> Runs:
        return max(tried.values(), key=lambda runs: fmean(_values(runs, valid)))

    chosen = {key: best(tried) for key, tried in sorted(groups.items())}
    rows = []
    for (n, rules), runs in chosen.items():
        real, first = chosen.get(REAL, {}), next(iter(runs.values()))
        pairs = [(run, real[key]) for key, run in runs.items() if key in real]
        differences = [run.metrics[test] - other.metrics[test] for run, other in pairs]
        options = first.config["model"]
        width = 4 * options["hidden_quats" if "hidden_quats" in options else "dim_quats"]
        rows.append(
            [
                str(n),
                f"{width:,}",
                rules,
                f"{first.parameters:,}",
                _format_values(_values(runs, valid), test),
                _format_values(_values(runs, test), test),
                "" if (n, rules) == REAL else format_difference(differences, test),
            ]
        )
    return markdown_table(HEADER, rows) if rows else "Not run yet."


def _values(runs: Runs, metric: str) -> list[float]:
    return [run.metrics[metric] for run in runs.values()]


def _format_values(values: Sequence[float], metric: str) -> str:
    mean, std = mean_std(values)
    return f"{format_metric(mean, metric)} ± {format_metric(std, metric)} ({len(values)})"
