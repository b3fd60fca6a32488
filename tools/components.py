"""The node model ``phm`` by number of components, at about equal weights."""

from collections import defaultdict
from collections.abc import Sequence

from quatgraph.metrics.classification import mean_std
from quatgraph.reproduce.render import format_difference, format_metric, markdown_table
from quatgraph.training.record import RunRecord

METRIC = "test/accuracy"
HEADER = ("n", "width", "rules", "weights", "validation", "test", "difference to n = 1 ± s.e.")


def render_components(records: Sequence[RunRecord], dataset: str) -> str:
    """A row per n and kind of rules; differences to the real model are paired by split."""
    groups: dict[tuple[int, str], dict[int, RunRecord]] = defaultdict(dict)
    for record in records:
        if record.task == "node" and record.dataset == dataset and record.method == "phm":
            options = record.config["model"]
            groups[options["n"], options["rules"]][record.split] = record
    rows = []
    for (n, rules), runs in sorted(groups.items()):
        options = runs[0].config["model"]
        real = groups.get((1, "fixed"), {})
        ours = {split: run.metrics[METRIC] for split, run in runs.items()}
        paired = [ours[split] - real[split].metrics[METRIC] for split in ours if split in real]
        rows.append(
            [
                str(n),
                str(4 * options["hidden_quats"]),
                rules,
                f"{runs[0].parameters:,}",
                _format_accuracy([run.metrics["valid/accuracy"] for run in runs.values()]),
                _format_accuracy(list(ours.values())),
                "" if (n, rules) == (1, "fixed") else format_difference(paired, METRIC),
            ]
        )
    return markdown_table(HEADER, rows)


def _format_accuracy(values: Sequence[float]) -> str:
    mean, std = mean_std(values)
    return f"{format_metric(mean, METRIC)} ± {format_metric(std, METRIC)} ({len(values)})"
