"""The tables of the paper, filled from run records."""

from pathlib import Path
from typing import Any

from quatgraph.config import read_toml
from quatgraph.errors import check_known

_FOLDER = Path(__file__).parent / "tables"


def table_names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def table_values(name: str) -> dict[str, Any]:
    """The raw TOML of a table; see :func:`quatgraph.reproduce.table.load_table`."""
    check_known(name, table_names(), f"there is no table {name!r}")
    return read_toml(_FOLDER / f"{name}.toml")
