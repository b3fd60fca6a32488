"""Methods compared test item by test item, with a bootstrap confidence interval."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from quatgraph.metrics.comparison import paired_bootstrap
from quatgraph.reproduce.combinations import read_items
from quatgraph.reproduce.render import format_metric, markdown_table
from quatgraph.reproduce.table import Table


def render_items(table: Table, results: Path) -> str:
    """The pairs of a table: the mean difference over test items of what each scores, averaged over
    seeds, and its 95 % confidence interval."""
    rows = []
    for dataset in table.rows:
        path = results / "items" / f"{table.task}-{dataset}.npz"
        items = read_items(path) if path.exists() else {}
        for this, that in table.item_pairs:
            ours, theirs = (_average_seeds(items, name) for name in (this, that))
            if ours is None or theirs is None:
                continue
            test = paired_bootstrap(torch.from_numpy(ours), torch.from_numpy(theirs))
            low, high = (format_metric(bound, table.metric, "+") for bound in (test.low, test.high))
            row = [dataset, f"{_title(table, this)} minus {_title(table, that)}"]
            row += [format_metric(value.mean(), table.metric) for value in (ours, theirs)]
            difference = format_metric(test.difference, table.metric, "+")
            rows.append([*row, f"{difference} ({low} to {high})", f"{test.pairs:,}"])
    header = ["dataset", "comparison", "first", "second", "difference (95 % interval)", "items"]
    return markdown_table(header, rows) if rows else "Not run yet."


def _average_seeds(items: dict[str, np.ndarray], method: str) -> np.ndarray | None:
    """The mean score of each item over the seeds of a method; the items of all splits."""
    seeds: dict[str, list[np.ndarray]] = defaultdict(list)
    for name, scores in items.items():
        own, split, _ = name.split("/")
        if own == method:
            seeds[split].append(scores)
    return np.concatenate([np.mean(runs, axis=0) for runs in seeds.values()]) if seeds else None


def _title(table: Table, name: str) -> str:
    found = table.combinations.get(name)
    return found.title if found else table.methods[name]
