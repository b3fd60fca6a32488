"""What a change of one setting does to a table's numbers, under the protocol ``paper``."""

from collections import defaultdict
from collections.abc import Sequence
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
    for method, changes in sorted(found, key=lambda change: (change[0], len(change[1]), change)):
        by_dataset = found[method, changes]
        said = ", ".join(f"`{key} = {_shown(value)}`" for key, value in changes)
        values = [_cell(by_dataset.get(dataset, [])) for dataset in table.rows]
        lines.append(f"| {method.upper()}: {said or 'as published'} | {' | '.join(values)} |")
    return "\n".join(lines)


def _change(table: Table, record: RunRecord) -> Change:
    """The model, and the settings in which a run differs from its published preset."""
    model = record.config["model"]["name"]
    base = TASKS[table.task].build(preset(f"{table.task}/{record.dataset}-{model}")).identity()
    published, ran = configs.flatten(base), configs.flatten(record.config)
    return model, tuple((key, ran[key]) for key in ran if ran[key] != published.get(key))


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    mean, std = mean_std(values)
    return f"{100 * mean:.2f} ± {100 * std:.2f} ({len(values)})"
