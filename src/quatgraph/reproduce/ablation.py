"""What a change of one setting does to a table's numbers, under the protocol ``paper``."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

from quatgraph import config as configs
from quatgraph.presets import preset
from quatgraph.reproduce.table import Table
from quatgraph.tasks import TASKS
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord

Change = tuple[str, tuple[tuple[str, Any], ...]]


def render_ablation(table: Table, records: Sequence[RunRecord]) -> str:
    """Every change of a preset on record, one line each, with a column per dataset."""
    found: dict[Change, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.task == table.task and record.protocol == "paper":
            change = _change(table, record)
            found[change][record.dataset].append(record.metrics[table.metric])
    lines = [
        f"| method and what is changed | {' | '.join(table.rows)} |",
        f"|---|{'---|' * len(table.rows)}",
    ]
    for change in sorted(found, key=lambda change: (change[0], len(change[1]), change)):
        values = [_cell(found[change].get(dataset, [])) for dataset in table.rows]
        lines.append(f"| {_said(change)} | {' | '.join(values)} |")
    return "\n".join(lines)


def render_pairs(table: Table, records: Sequence[RunRecord]) -> str:
    """The table's pairs: the mean difference over the splits and its standard error."""
    lines = [f"| this, less that | {' | '.join(table.rows)} |", f"|---|{'---|' * len(table.rows)}"]
    for pair in table.pairs:
        values = []
        for dataset in table.rows:
            this, that = (_wanted(table, dataset, pair[side]) for side in ("this", "that"))
            ours, theirs = (_by_split(table, records, dataset, one) for one in (this, that))
            mean, std = mean_std([ours[split] - theirs[split] for split in ours])
            values.append(f"{100 * mean:+.2f} ± {100 * std / len(ours) ** 0.5:.2f}")
        lines.append(f"| {_said(this)}; less {_said(that)} | {' | '.join(values)} |")
    return "\n".join(lines)


def _wanted(table: Table, dataset: str, side: Sequence[str]) -> Change:
    model, *assignments = side
    values = configs.override(preset(f"{table.task}/{dataset}-{model}"), assignments)
    return _difference(table, dataset, TASKS[table.task].build(values).identity())


def _by_split(
    table: Table, records: Sequence[RunRecord], dataset: str, change: Change
) -> dict[int, float]:
    """The mean over seeds in each split."""
    found: dict[int, list[float]] = defaultdict(list)
    for record in records:
        mine = record.task == table.task and record.protocol == "paper"
        if mine and record.dataset == dataset and _change(table, record) == change:
            found[record.split].append(record.metrics[table.metric])
    return {split: sum(values) / len(values) for split, values in sorted(found.items())}


def _said(change: Change) -> str:
    model, changes = change
    said = ", ".join(f"`{key} = {_shown(value)}`" for key, value in changes)
    return f"{model.upper()}: {said or 'as published'}"


def _change(table: Table, record: RunRecord) -> Change:
    return _difference(table, record.dataset, record.config)


def _difference(table: Table, dataset: str, config: dict[str, Any]) -> Change:
    """The model, and the settings in which a config differs from its published preset."""
    model = config["model"]["name"]
    published, ran = _published(table.task, dataset, model), configs.flatten(config)
    return model, tuple((key, ran[key]) for key in sorted(ran) if ran[key] != published.get(key))


@cache
def _published(task: str, dataset: str, model: str) -> dict[str, Any]:
    return configs.flatten(TASKS[task].build(preset(f"{task}/{dataset}-{model}")).identity())


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    mean, std = mean_std(values)
    return f"{100 * mean:.2f} ± {100 * std:.2f} ({len(values)})"
