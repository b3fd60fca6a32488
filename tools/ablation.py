"""Ablations: how one changed setting affects a table, under the protocol ``paper``."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from quatgraph import config as configs
from quatgraph.metrics.classification import mean_std
from quatgraph.presets import preset
from quatgraph.reproduce.render import format_difference, markdown_table
from quatgraph.reproduce.table import Table, diff_settings, drop_duplicates, preset_settings
from quatgraph.tasks import TASKS
from quatgraph.training.record import RunRecord

Change = tuple[str, tuple[tuple[str, Any], ...]]
"""A model and its changed settings."""


def render_ablation(table: Table, records: Sequence[RunRecord]) -> str:
    """Every recorded change of a preset, with a column per dataset."""
    metrics = _metrics_by_change(table, records)
    changes = {change for change, _ in metrics}
    rows = []
    for change in sorted(changes, key=lambda change: (change[0], len(change[1]), change)):
        splits = [metrics.get((change, dataset), {}).values() for dataset in table.rows]
        cells = [_format_cell([v for seeds in one for v in seeds]) for one in splits]
        rows.append([_format_change(change), *cells])
    return markdown_table(["method (changes)", *table.rows], rows)


def render_pairs(table: Table, records: Sequence[RunRecord]) -> str:
    """The pairs of a table: mean difference over splits and its standard error."""
    metrics = _metrics_by_change(table, records)
    rows = []
    for pair in table.pairs:
        cells = []
        for dataset in table.rows:
            this, that = (_read_change(table, dataset, pair[side]) for side in ("this", "that"))
            ours, theirs = metrics[this, dataset], metrics[that, dataset]
            differences = [fmean(ours[split]) - fmean(theirs[split]) for split in ours]
            cells.append(format_difference(differences, table.metric))
        rows.append([f"{_format_change(this)} minus {_format_change(that)}", *cells])
    return markdown_table(["comparison", *table.rows], rows)


def _read_change(table: Table, dataset: str, side: Sequence[str]) -> Change:
    model, *assignments = side
    values = configs.override(preset(f"{table.task}/{dataset}-{model}"), assignments)
    config = configs.build(TASKS[table.task].config, values)
    return _find_change(table, dataset, config.identity())


def _metrics_by_change(
    table: Table, records: Sequence[RunRecord]
) -> dict[tuple[Change, str], dict[int, list[float]]]:
    """The metric of every run under ``paper``, by change and dataset, then by split."""
    metrics: dict[tuple[Change, str], dict[int, list[float]]] = {}
    changes: dict[str, Change] = {}
    for record in drop_duplicates(records):
        if record.task == table.task and record.protocol == "paper":
            digest = record.config_digest
            if digest not in changes:
                changes[digest] = _find_change(table, record.dataset, record.config)
            splits = metrics.setdefault((changes[digest], record.dataset), {})
            splits.setdefault(record.split, []).append(record.metrics[table.metric])
    return metrics


def _find_change(table: Table, dataset: str, config: dict[str, Any]) -> Change:
    """The model, and the settings in which a config differs from its preset."""
    model = config["model"]["name"]
    settings = preset_settings(table.task, f"{table.task}/{dataset}-{model}")
    return model, tuple(sorted(diff_settings(config, settings).items()))


def _format_change(change: Change) -> str:
    model, changes = change
    text = ", ".join(f"`{key} = {_format_value(value)}`" for key, value in changes)
    return f"{model.upper()} ({text or 'preset'})"


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_cell(values: list[float]) -> str:
    if not values:
        return ""
    mean, std = mean_std(values)
    return f"{100 * mean:.2f} ± {100 * std:.2f} ({len(values)})"
