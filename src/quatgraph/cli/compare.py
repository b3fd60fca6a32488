"""The command compare."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from quatgraph.cli.common import Device, Json, app, command, echo, emit, log
from quatgraph.errors import UserError


@command(app)
def compare(
    models: Annotated[
        list[Path],
        typer.Argument(help="Bundles, or files or folders of run records; at least two."),
    ],
    data: Annotated[
        Path | None, typer.Option(help="The training data, if it was moved; not for link.")
    ] = None,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Compare models, or sets of run records, by a paired test.

    Models are compared on the test items that both have, records by split and seed. Of three or
    more, all are compared with the one that is best on validation data.

    quatgraph compare model-a model-b

    quatgraph compare search-a/records.jsonl search-b/records.jsonl
    """
    if len(models) < 2:
        raise UserError(f"give at least two models or record files, got only {models[0]}")
    from quatgraph.comparison import compare as compare_models

    first, second, *others = models
    found = compare_models(first, second, *others, data=data, device=device)
    for note in found.notes:
        log(note)
    if json_:
        for pair in found.pairs:
            values = dataclasses.asdict(pair)
            result, _ = values.pop("result"), values.pop("runs")
            emit(values | result | {"holm": bool(found.reference), "words": str(pair)})
    else:
        for line in str(found).splitlines():
            echo(line)
