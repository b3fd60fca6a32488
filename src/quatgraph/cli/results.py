"""Prints the results of a training."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from quatgraph.cli.common import echo, emit

if TYPE_CHECKING:
    from quatgraph.config import Values
    from quatgraph.tasks.job import Job
    from quatgraph.tasks.task import AnyTask, Card


def print_results(task: "AnyTask", job: "Job", json_: bool) -> None:
    """Prints the test metrics, how the members were selected, and what was saved."""
    results = job.results
    combined = [each["combination"] for each in results]
    single = [each["single"] for each in results]
    reported = task.metrics_to_report(job.chosen.config)
    found = _summarize(reported, combined)
    if json_:
        mean, std = found[reported[0]]
        by_kind = {"test": found}
        if job.selection:
            by_kind["single"] = _summarize(reported, single)
        emit(
            {
                "bundle": str(job.folder),
                "metrics": job.metrics,
                "mean": mean,
                "std": std,
                **{
                    kind: {name: {"mean": m, "std": s} for name, (m, s) in values.items()}
                    for kind, values in by_kind.items()
                },
                "runs": len(combined),
                "configs": job.num_configs,
                "shares": job.shares,
                "seconds": sum({r.ensemble: r.seconds for r in job.records}.values()),
                "config": job.chosen.config,
            }
        )
        return
    typer.echo(_describe_test(job, found))
    if len({r.method for r in job.records}) > 1:
        typer.echo(f"\n{_format_models(task, job)}")
        if job.num_bundled > 1 and _defined(found):
            alone = _format_metrics(_shorten(_defined(_summarize(reported, single)), len(single)))
            typer.echo(f"the best single model alone: test {alone}")
    elif job.chosen_settings:
        names = (key.rpartition(".")[2].replace("_", " ") for key in job.chosen_settings)
        values = ", ".join(map("{} {}".format, names, job.chosen_settings.values()))
        of = f"{job.num_configs} configurations of {job.chosen.method} on validation data: {values}"
        echo(f"the best of {of}" if job.selects_several else f"selected from {of}")
    for sentence in job.summary:
        echo(sentence)
    typer.echo(f"saved {_describe_bundle(task, job)}")
    example = _example_query(task, job)
    echo(f"predict with: quatgraph predict {shlex.quote(str(job.folder))}{example}")


def _summarize(
    metrics: Sequence[str], results: Sequence[Mapping[str, float]]
) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of the reported test metrics; NaN without test data."""
    from quatgraph.metrics.classification import mean_std

    return {
        name: mean_std([each.get(f"test/{name}", math.nan) for each in results]) for name in metrics
    }


def _defined(found: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The metrics that the test data defines; none without test data."""
    return {name: both for name, both in found.items() if not math.isnan(both[0])}


def _shorten(found: Mapping[str, tuple[float, float]], count: int) -> dict[str, tuple[float, ...]]:
    """The deviations are left out for a single result."""
    return {name: (mean, std) if count > 1 else (mean,) for name, (mean, std) in found.items()}


def _describe_test(job: "Job", found: Mapping[str, tuple[float, float]]) -> str:
    """The test metrics, and over what they are averaged."""
    results, defined = job.results, _defined(found)
    if not defined:
        return "no test data, so there are no test metrics"
    text = f"test {_format_metrics(_shorten(defined, len(results)))}"
    if undefined := [name for name in found if name not in defined]:
        text += f" ({' and '.join(undefined)} undefined: some class has no test item)"
    if len(results) == 1:
        return text
    splits, seeds = ({each[key] for each in results} for key in ("split", "seed"))
    counts = {_split_word(job): len(splits), "seed": len(seeds)}
    over = " and ".join(f"{count} {word}s" for word, count in counts.items() if count > 1)
    how = f", each {_split_word(job)} with what is best on its validation data"
    return f"{text} over {over}{how if job.num_configs > 1 and len(splits) > 1 else ''}"


def _format_models(task: "AnyTask", job: "Job") -> str:
    """A table of the models: configurations tried, the best on validation data (before smoothing),
    and the share of each in the bundle."""
    from quatgraph.cli.tables import align
    from quatgraph.reproduce.table import METRIC_FORMATS
    from quatgraph.tasks.selection import select_group

    metric = task.metrics_to_report(job.chosen.config)[0]
    name = METRIC_FORMATS[f"test/{metric}"][0]
    rows = []
    for model in dict.fromkeys(record.method for record in job.records):
        runs = [record for record in job.healthy if record.method == model]
        shown = "diverged"
        if runs:
            best = [run.metrics[f"valid/{metric}"] for run in select_group(runs).runs]
            shown = _format_values(metric, sum(best) / len(best))
        rows.append(
            {
                "model": model,
                "configurations": len({r.config_digest for r in job.records if r.method == model}),
                f"valid {name}": shown,
                "share": f"{100 * job.shares.get(model, 0.0):.0f} %",
            }
        )
    combined = _format_values(metric, job.metrics[f"valid/{metric}"])
    label = "combined, smoothed" if job.smoothed else "combined"
    rows.append({"model": label, "configurations": "", f"valid {name}": combined, "share": ""})
    return align(rows)


def _format_metrics(metrics: Mapping[str, Sequence[float]]) -> str:
    """Metrics with a value each, or with mean and deviation: ``MRR .478, Hits@10 76.9 %``."""
    from quatgraph.reproduce.table import METRIC_FORMATS

    return ", ".join(
        f"{METRIC_FORMATS[f'test/{metric}'][0]} {_format_values(metric, *numbers)}"
        for metric, numbers in metrics.items()
    )


def _format_values(metric: str, *numbers: float) -> str:
    """A value, perhaps with its deviation: ``76.9 ± 0.2 %``."""
    from quatgraph.reproduce.render import format_metric
    from quatgraph.reproduce.table import METRIC_FORMATS

    _, scale, _ = METRIC_FORMATS[f"test/{metric}"]
    values = " ± ".join(format_metric(number, f"test/{metric}") for number in numbers)
    return f"{values}{' %' if scale == 100 else ''}"


def _example_query(task: "AnyTask", job: "Job") -> str:
    """Example arguments of ``predict``, for tasks that need a query."""
    if task.name == "text":
        return ' "a text of your own"'
    if task.name != "link":
        return ""
    from quatgraph.predictors.link_combination import read_bundled_triples
    from quatgraph.predictors.queries import example_query
    from quatgraph.training.bundle import load_bundle

    return f" {example_query(read_bundled_triples(load_bundle(job.folder)))}"


def _split_word(job: "Job") -> str:
    """A split of graphs is a fold, unless the data has its own."""
    several = len({record.split for record in job.records}) > 1
    return "fold" if job.chosen.task == "graph" and several else "split"


def describe_shares(tried: Sequence["Values"], members: Sequence["Card"]) -> str:
    """The configurations in a bundle with their shares in its predictions, largest first, told
    apart by the settings in which those tried of the same model differ: ``75 % qgnn (lr 0.01), 25 %
    gcn``."""
    from quatgraph import config as configs

    models: dict[str, list[dict[str, Any]]] = {}
    for config in tried:
        flat = configs.flatten(config)
        models.setdefault(flat["model.name"], []).append(flat)
    shares: dict[str, float] = {}
    total = sum(member["weight"] for member in members)
    for member in members:
        flat = configs.flatten(member["config"])
        others = models[flat["model.name"]]
        varied = [
            f"{key.rpartition('.')[2].replace('_', ' ')} {flat[key]}"
            for key in dict.fromkeys(key for other in others for key in other)
            if any(other.get(key) != others[0].get(key) for other in others)
        ]
        name = flat["model.name"] + (f" ({', '.join(varied)})" if varied else "")
        shares[name] = shares.get(name, 0.0) + member["weight"] / total
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{100 * share:.0f} % {name}" for name, share in ranked)


def describe_paused(folder: Path) -> str:
    """What the bundle of a paused training holds; empty if there is none yet."""
    from quatgraph.tasks.job import has_bundle
    from quatgraph.training.bundle import load_bundle

    if not has_bundle(folder):
        return ""
    card = load_bundle(folder).card
    shares = describe_shares([member["config"] for member in card["members"]], card["members"])
    found = card.get("unfinished")  # a refit that is paused is of a finished training
    count = f", from {found['configurations']} of {found['of']} configurations" if found else ""
    return f"the best model so far is in {folder}{count}: {shares}"


def _describe_bundle(task: "AnyTask", job: "Job") -> str:
    """Which runs the bundle holds, and the metrics of a single one."""
    if job.num_bundled > 1:
        shares = describe_shares([member["config"] for member in job.members], job.members)
        weighted = f": {shares}" if job.selects_several else ""
        return f"{job.num_bundled} models; their predictions are combined{weighted}"
    (member,) = job.members
    reported = task.metrics_to_report(job.chosen.config)
    metrics = job.metrics
    details = [f"{_split_word(job)} {member['split']}, seed {member['seed']}"]
    if len({record.method for record in job.records}) > 1:
        named = describe_shares([record.config for record in job.records], job.members)
        details.insert(0, named.removeprefix("100 % "))
    for part in ("valid", "test"):
        found = {metric: [metrics.get(f"{part}/{metric}", math.nan)] for metric in reported}
        if not any(math.isnan(value) for (value,) in found.values()):
            details.append(f"{part} {_format_metrics(found)}")
    validated = not math.isnan(metrics.get(f"valid/{reported[0]}", math.nan))
    reason = "the best run on" if validated else "the first run, without"
    return f"{reason} validation data: {', '.join(details)}"
