"""``python -m benchmarks [NAME]``: times operations and trainings on this machine."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import BENCHES, rows
from quatgraph.cli.common import Device, Json, command, emit, retain_freed_memory
from quatgraph.errors import UserError, did_you_mean

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
BY_DATASET = ("explain", "missing")
UNITS = {"ms": "ms", "seconds": "s", "peak_mib": "MiB", "gb": "GB", "gflop": "GFLOP"}


@command(app)
def bench(
    name: Annotated[
        str | None, typer.Argument(help=f"{', '.join(BENCHES)}; kernels needs a GPU.")
    ] = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder to append records to.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="own_data, explain, missing: only this dataset (own_data: or task). Repeatable."
        ),
    ] = None,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="own_data: the hidden half of the datasets.")
    ] = False,
    folder: Annotated[
        list[Path] | None, typer.Option(help="own_data: your data, TASK/NAME. Repeatable.")
    ] = None,
    archives: Annotated[
        Path | None,
        typer.Option(
            help="own_data: datasets of other packages, from the archives in this folder."
        ),
    ] = None,
    splits: Annotated[
        int | None, typer.Option(min=2, help="own_data: splits of each dataset; 3 or 5 by default.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="own_data: worker processes, of one CPU thread each.")
    ] = 1,
    max_minutes: Annotated[
        float | None, typer.Option(help="own_data: when to stop; repeat the command to go on.")
    ] = None,
    json_: Json = False,
) -> None:
    """Time operations and trainings; runs all benchmarks by default.

    python -m benchmarks conv --out benchmarks/records

    python -m benchmarks own_data --only node --jobs 8 --max-minutes 9 --out my-records
    """
    options: dict[str, Any] = {"only": only, "hidden": hidden, "folders": folder}
    options |= {
        "archives": archives,
        "splits": splits,
        "jobs": jobs if jobs > 1 else None,
        "max_minutes": max_minutes,
    }
    options = {key: value for key, value in options.items() if value}
    if options and name != "own_data" and not (name in BY_DATASET and options.keys() == {"only"}):
        raise UserError(
            "--only, --hidden, --folder, --archives, --splits, --jobs and --max-minutes are "
            f"options of the benchmark own_data; --only also of {' and '.join(BY_DATASET)}"
        )
    if len(options.keys() & {"hidden", "folders", "archives"}) > 1:
        raise UserError("--hidden, --folder and --archives are different datasets: use one of them")
    if jobs > 1 and device not in ("auto", "cpu"):
        raise UserError(f"--jobs trains on the CPU: leave it out, or --device {device}")
    if name is not None and name not in BENCHES:
        hint = did_you_mean(name, BENCHES) or f"; choose from {', '.join(BENCHES)}"
        raise UserError(f"there is no benchmark {name!r}{hint}")
    from quatgraph.files import ensure_folder
    from quatgraph.training.record import append_lines
    from quatgraph.training.runtime import environment, resolve_device

    retain_freed_memory()
    resolved = resolve_device("cpu" if jobs > 1 else device)
    machine = environment(resolved)
    if out is not None:
        ensure_folder(out)
        if name == "own_data":
            options["parts"] = out / "own_data_parts.jsonl"
    for one in BENCHES if name is None else (name,):
        found = []
        for row in rows(one, resolved, **options):
            found.append(row)
            if json_:
                emit({"bench": one, **row})
            else:
                typer.echo("  ".join((one, *_format_row(row))))
            if out is not None and not _is_recorded(out / f"{one}.jsonl", {"bench": one, **row}):
                append_lines(out / f"{one}.jsonl", [{"bench": one, **row, "environment": machine}])
        if one == "own_data" and not json_:
            from benchmarks.own_data import table

            typer.echo(f"\n{table(found)}" if found else "no dataset is finished yet")


def _is_recorded(path: Path, row: dict[str, Any]) -> bool:
    """Whether the same row is on record: of a dataset that was finished by an earlier command."""
    lines = path.read_text().splitlines() if path.exists() else []
    return any(row.items() <= json.loads(line).items() for line in lines)


def _format_row(row: dict[str, Any]) -> list[str]:
    """The fields of a row as text."""
    parts = []
    for key, value in row.items():
        if key == "ms_20":
            parts.append(f"({value:.4g} to {row['ms_80']:.4g})")
        elif isinstance(value, str):
            parts.append(value)
        elif isinstance(value, list):
            parts.append(" ".join((key, *(f"{one:.4g}" for one in value))))
        elif isinstance(value, dict):  # times by kind of operation
            parts += [f"{kind} {ms:.4g} ms" for kind, (ms, _) in value.items()]
        elif key != "ms_80":
            number = f"{value:.4g}"
            parts.append(f"{number} {UNITS[key]}" if key in UNITS else f"{key} {number}")
    return parts


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
