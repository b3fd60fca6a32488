"""Presets: the settings of each table cell as TOML files, with the origin of every value."""

from pathlib import Path
from typing import Any, Literal

from quatgraph.config import read_toml
from quatgraph.errors import check_known

Protocol = Literal["paper", "honest"]
_FOLDER = Path(__file__).parent


def names(task: str | None = None) -> list[str]:
    """The names of all presets, ``task/dataset-method``."""
    found = sorted(_FOLDER.glob(f"{task or '*'}/*.toml"))
    return [f"{path.parent.name}/{path.stem}" for path in found]


def preset(name: str, protocol: Protocol = "paper") -> dict[str, Any]:
    """The values of a preset under a protocol.

    The file of a preset holds the protocol ``paper``. ``protocols.toml`` holds the changes of
    ``honest``, which are the same for all presets of a task.
    """
    remedy = "; `quatgraph list presets` lists them"
    check_known(name, names(), f"there is no preset {name!r}", remedy)
    values = read_toml(_FOLDER / f"{name}.toml") | {"protocol": protocol}
    if protocol == "honest":
        rules = protocols(name.split("/")[0])
        of_model = rules.get("honest-models", {}).get(values["model"]["name"], {})
        for section, changes in (rules["honest"] | {"model": of_model}).items():
            values[section] = values.get(section, {}) | changes
    return values


def parts(name: str) -> tuple[str, str, str]:
    """Task, dataset and method of a preset. Datasets and methods may contain dashes.

    Example:
        >>> parts("node/cora-gcn-matched")
        ('node', 'cora', 'gcn-matched')
    """
    dataset = preset(name)["data"]["name"]
    task, _, cell = name.partition("/")
    return task, dataset, cell.removeprefix(f"{dataset}-")


def protocols(task: str) -> dict[str, Any]:
    """The changes of ``honest`` for a task, its search grid, and the searched protocols."""
    return read_toml(_FOLDER / "protocols.toml")[task]
