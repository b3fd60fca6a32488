"""What a change of one setting does to a table's numbers, under the protocol ``paper``."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from quatgraph import config as configs
from quatgraph.presets import preset
from quatgraph.reproduce.render import with_error
from quatgraph.reproduce.table import Table, changes_of, distinct, published_settings
from quatgraph.tasks import TASKS
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord

Change = tuple[str, tuple[tuple[str, Any], ...]]


def render_ablation(table: Table, records: Sequence[RunRecord]) -> str:
    """Every change of a preset on record, one line each, with a column per dataset."""
    found = _gathered(table, records)
    lines = [
        f"| method and what is changed | {' | '.join(table.rows)} |",
        f"|---|{'---|' * len(table.rows)}",
    ]
    changes = {change for change, _ in found}
    for change in sorted(changes, key=lambda change: (change[0], len(change[1]), change)):
        runs = [found.get((change, dataset), {}) for dataset in table.rows]
        values = [_cell([v for seeds in splits.values() for v in seeds]) for splits in runs]
        lines.append(f"| {_said(change)} | {' | '.join(values)} |")
    return "\n".join(lines)


def render_pairs(table: Table, records: Sequence[RunRecord]) -> str:
    """The table's pairs: the mean difference over the splits and its standard error."""
    found = _gathered(table, records)
    lines = [f"| this, less that | {' | '.join(table.rows)} |", f"|---|{'---|' * len(table.rows)}"]
    for pair in table.pairs:
        values = []
        for dataset in table.rows:
            this, that = (_wanted(table, dataset, pair[side]) for side in ("this", "that"))
            ours, theirs = (found[one, dataset] for one in (this, that))
            apart = [fmean(ours[split]) - fmean(theirs[split]) for split in ours]
            values.append(with_error(apart, table.metric))
        lines.append(f"| {_said(this)}; less {_said(that)} | {' | '.join(values)} |")
    return "\n".join(lines)


def _wanted(table: Table, dataset: str, side: Sequence[str]) -> Change:
    model, *assignments = side
    values = configs.override(preset(f"{table.task}/{dataset}-{model}"), assignments)
    config = configs.build(TASKS[table.task].config, values)
    return _difference(table, dataset, config.identity())


def _gathered(
    table: Table, records: Sequence[RunRecord]
) -> dict[tuple[Change, str], dict[int, list[float]]]:
    """The metric of every run under ``paper``: by change and dataset, then by split."""
    found: dict[tuple[Change, str], dict[int, list[float]]] = {}
    changes: dict[str, Change] = {}
    for record in distinct(records):
        if record.task == table.task and record.protocol == "paper":
            digest = record.config_digest
            if digest not in changes:
                changes[digest] = _difference(table, record.dataset, record.config)
            splits = found.setdefault((changes[digest], record.dataset), {})
            splits.setdefault(record.split, []).append(record.metrics[table.metric])
    return found


def _said(change: Change) -> str:
    model, changes = change
    said = ", ".join(f"`{key} = {_shown(value)}`" for key, value in changes)
    return f"{model.upper()}: {said or 'the preset'}"


def _difference(table: Table, dataset: str, config: dict[str, Any]) -> Change:
    """The model, and the settings in which a config differs from its preset."""
    model = config["model"]["name"]
    published = published_settings(table.task, f"{table.task}/{dataset}-{model}")
    return model, tuple(sorted(changes_of(config, published).items()))


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    mean, std = mean_std(values)
    return f"{100 * mean:.2f} ± {100 * std:.2f} ({len(values)})"
