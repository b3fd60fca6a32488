"""The command demo: trains on a small knowledge graph, evaluates, and answers queries by name."""

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import which
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

import typer

from quatgraph.cli.common import Device, app, command, training_context
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from quatgraph.data.link import Triples
    from quatgraph.tasks.job import Job

FOLDER = Path("quatgraph-runs") / "countries-demo"
QUERIES = {
    "Which seas does Turkey lie on?": ("Turkey", "located on", "?"),
    "Where is Malay an official language?": ("?", "official language", "Malay"),
    "Which languages are official in Luxembourg?": ("Luxembourg", "official language", "?"),
    "Where does one pay with the South African rand?": ("?", "currency", "South African rand"),
    "In which country is Nukus?": ("Nukus", "large city in", "?"),
}
MARKS = {"train": "", "valid": " (held out)", "test": " (held out)", "": " (new)"}
"""The mark of a predicted entity, by the split that contains the triple."""


@command(app)
def demo(device: Device = "cpu") -> None:
    """Train SimQGNN on facts about countries and query it.

    quatgraph demo
    """
    from quatgraph.data.link import load as load_triples
    from quatgraph.predictors import load
    from quatgraph.training.runtime import resolve_device

    resolve_device(device)  # rejects an unknown device before anything is printed
    triples = load_triples("countries")
    held_out = len(triples.valid) + len(triples.test)
    typer.echo(
        f"Countries of the world: {len(triples.train):,} training triples, {held_out} held out."
    )
    job, loaded = _train_or_load(triples, device)
    how = "loaded from" if loaded else f"trained in {job.records[0].seconds:.0f} s, saved in"
    typer.echo(f"SimQGNN: {how} {FOLDER}.\n")
    model = load(FOLDER, device=device)
    _print_metrics(model)
    for question, query in QUERIES.items():
        rows = model.predict([query], top=4).rows()
        answers = ", ".join(f"{row[row['predicted']]}{MARKS[row['known']]}" for row in rows)
        typer.echo(f"\n{question}\n{indent(fill(answers, 78), '  ')}")
    typer.echo(
        "\n(held out) is true but was not trained on; (new) is a guess. Try your own query,\n"
        "or train on your own triples, with a head, a relation and a tail per line:\n"
        f"  {_program_name()} predict {FOLDER} --head Peru --relation borders\n"
        f"  {_program_name()} train link --data triples.tsv\n\n"
        "Ask on a page in your browser (pip install 'quatgraph[serve]'):\n"
        f"  {_program_name()} serve {FOLDER}"
    )


def _program_name() -> str:
    """``quatgraph`` if it is on the path, else the path of the running script."""
    script = Path(sys.argv[0])
    on_path = which("quatgraph") or script.stem != "quatgraph"
    return "quatgraph" if on_path else os.path.relpath(script)


def _train_or_load(triples: "Triples", device: str) -> tuple["Job", bool]:
    """The demo's training, and whether it was already there."""
    from quatgraph import config as configs
    from quatgraph.presets import preset
    from quatgraph.tasks.job import train_in_folder
    from quatgraph.tasks.link import LINK
    from quatgraph.tasks.stored import RECORDS
    from quatgraph.training.record import read_records

    config = configs.build(LINK.config, preset("link/countries-simqgnn", "honest"))
    with training_context(device) as context:
        train = partial(train_in_folder, LINK, [config], FOLDER, data=triples)
        try:
            loaded = (FOLDER / RECORDS).exists() and bool(read_records(FOLDER / RECORDS))
            return train(replace(context, resume=True)), loaded
        except UserError:
            if not FOLDER.is_dir():
                raise
            # It is damaged, or from another version or device.
            return train(replace(context, overwrite=True)), False


def _print_metrics(model: Any) -> None:
    """Prints the test metrics next to those of a popularity baseline."""
    from quatgraph.reproduce.render import format_metric
    from quatgraph.tasks.link import LINK
    from quatgraph.tasks.link.evaluation import rank_by_popularity, summarize_ranks

    problem = LINK.prepare(model.triples, model.config, model.device)
    baseline = summarize_ranks(rank_by_popularity(problem, "test"), "test")
    typer.echo(f"{'Test triples':34}{'MRR':>6}{'Hits@10':>10}")
    for name, metrics in (("SimQGNN", model.card["metrics"]), ("most frequent answers", baseline)):
        mrr, hits = (format_metric(metrics[m], m) for m in ("test/mrr", "test/hits@10"))
        typer.echo(f"  {name:32}{mrr:>6}{hits + ' %':>10}")
