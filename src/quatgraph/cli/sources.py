"""What ``train`` and ``search`` share: how presets, tasks and data are named."""

from pathlib import Path
from typing import Any

from quatgraph.cli.common import log
from quatgraph.errors import UserError, did_you_mean


def complete_preset(incomplete: str) -> list[str]:
    from quatgraph.presets import names

    return [name for name in names() if name.startswith(incomplete)]


def check_task(command: str, what: str, data: Path | None) -> Path:
    """The data for a task; rejects unknown tasks and missing data before torch is loaded."""
    from quatgraph.presets import names

    tasks = dict.fromkeys(name.partition("/")[0] for name in names())
    if what not in tasks:
        hint = did_you_mean(what, [*tasks, *names()])
        hint = hint or "; `quatgraph list presets` lists them"
        raise UserError(f"there is no task or preset {what!r}{hint}")
    if data is None:
        raise UserError(
            f"no data given; use `quatgraph {command} {what} --data PATH`, or a preset from "
            "`quatgraph list presets`"
        )
    return data


def data_source(task: str, data: Path, directed: bool = False) -> dict[str, Any]:
    """Your files or, where there is no such path, a dataset of that name."""
    from quatgraph.data.io import store

    entry = store.find_dataset(data, task)
    if entry is None:
        return {"path": str(data.resolve())}
    if directed:
        raise UserError(f"--directed is for your own files, not for the dataset {entry.name!r}")
    log(f"--data is the dataset {entry.name!r}: {entry.title}")
    return {"name": entry.name}


def dataset_name(data: Path) -> str:
    """The name of a folder of results: that of the data, without the ending of a file."""
    path = data.resolve()
    return path.stem if path.is_file() else path.name
