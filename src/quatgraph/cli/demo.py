"""The command demo: a knowledge graph is learned, tested, and asked by name."""

import os
import sys
from functools import partial
from pathlib import Path
from shutil import which
from textwrap import fill, indent
from typing import TYPE_CHECKING

import typer

from quatgraph.cli.shell import Device, app, command, progress
from quatgraph.errors import Mistake

if TYPE_CHECKING:
    import torch

    from quatgraph.data.link import Triples
    from quatgraph.predictors import LinkPredictor
    from quatgraph.tasks.job import Job

FOLDER = Path("quatgraph-runs") / "countries-demo"
QUESTIONS = {
    "Which seas does Turkey lie on?": ("Turkey", "located on", "?"),
    "Where is Malay an official language?": ("?", "official language", "Malay"),
    "Which languages are official in Luxembourg?": ("Luxembourg", "official language", "?"),
    "Where does one pay with the South African rand?": ("?", "currency", "South African rand"),
    "In which country is Nukus?": ("Nukus", "large city in", "?"),
}
MARKS = {"train": "", "valid": " (held back)", "test": " (held back)", "": " (new)"}
"""How an answer is marked, by the part that has it."""


@command(app)
def demo(device: Device = "cpu") -> None:
    """Train SimQGNN on the countries of the world, and ask it what it was not told.

    quatgraph demo
    """
    from quatgraph.data.link import load
    from quatgraph.predictors import LinkPredictor
    from quatgraph.training.bundle import load_bundle
    from quatgraph.training.runtime import resolve_device

    where = resolve_device(device)
    triples = load("countries")
    learned, others = len(triples.train), len(triples.valid) + len(triples.test)
    typer.echo(f"The countries of the world: {learned:,} triples to learn, {others} held back.")
    job, there = _trained(triples, where)
    seconds = job.records[0].seconds
    when = "had learned them before" if there else f"learned them in {seconds:.0f} s"
    typer.echo(f"SimQGNN {when}; it is kept in {FOLDER}.\n")
    model = LinkPredictor(load_bundle(FOLDER), where)
    _show_worth(model)
    for question, asked in QUESTIONS.items():
        rows = model.predict([asked], top=4).rows()
        answers = ", ".join(f"{row[row['predicted']]}{MARKS[row['known']]}" for row in rows)
        typer.echo(f"\n{question}\n{indent(fill(answers, 78), '  ')}")
    typer.echo(
        "\n(held back) is true but was not shown, (new) is a guess. Ask it more, or train\n"
        "on triples of your own, a line each of head, relation and tail:\n"
        f"  {_called()} predict {FOLDER} --head Peru --relation borders\n"
        f"  {_called()} train link --data triples.tsv"
    )


def _called() -> str:
    """The command as a person can repeat it: by its name where that is found, else by its place."""
    own = Path(sys.argv[0])
    return "quatgraph" if which("quatgraph") or own.stem != "quatgraph" else os.path.relpath(own)


def _trained(triples: "Triples", device: "torch.device") -> tuple["Job", bool]:
    """The demo's training, and whether it was there before; what is of no use is done anew."""
    from quatgraph import config as configs
    from quatgraph.presets import preset
    from quatgraph.tasks.job import RECORDS, train_in_folder
    from quatgraph.tasks.link import LINK
    from quatgraph.training.record import read_records

    config = configs.build(LINK.config, preset("link/countries-simqgnn", "honest"))
    with progress() as show:
        train = partial(
            train_in_folder, LINK, [config], FOLDER, device=device, data=triples, progress=show
        )

        try:
            done = read_records(FOLDER / RECORDS) if (FOLDER / RECORDS).exists() else []
            return train(resume=True), bool(done)
        except Mistake:
            if not FOLDER.is_dir():
                raise
            # Of another version, of another device, or damaged.
            return train(overwrite=True), False


def _show_worth(model: "LinkPredictor") -> None:
    """How the test triples are found, beside guessing."""
    from quatgraph.reproduce.render import printed
    from quatgraph.tasks.link.evaluation import told
    from quatgraph.tasks.link.popularity import ranks_by_popularity
    from quatgraph.tasks.link.problem import prepare

    problem = prepare(model.triples, model.config, model.device)
    guessed = told(ranks_by_popularity(problem, "test"), "test")
    typer.echo(f"{'How it finds what was held back':34}{'MRR':>6}{'Hits@10':>10}")
    for name, metrics in (
        ("SimQGNN", model.card["metrics"]),
        ("the most common answers", guessed),
    ):
        mrr, hits = (printed(metrics[m], m) for m in ("test/mrr", "test/hits@10"))
        typer.echo(f"  {name:32}{mrr:>6}{hits + ' %':>10}")
