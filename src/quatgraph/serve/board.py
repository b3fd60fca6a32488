"""The results board: all recorded runs below a folder."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quatgraph.errors import UserError

if TYPE_CHECKING:
    from quatgraph.training.record import RunRecord


class Board:
    """Reads records while training runs write them; a file is read again only if it changed.

    Args:
        folder: The folder with the records, at any depth.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}; give one with run records below it")
        self.folder = folder
        self._files: dict[Path, tuple[tuple[int, int], list[RunRecord] | str]] = {}

    def list_runs(self) -> dict[str, Any]:
        """All runs, the last finished first, and notes on files that could not be read."""
        from quatgraph import config as configs

        found, notes = self._read()
        runs = [
            {
                "id": key,
                "group": _group(file, record),
                "file": file,
                "settings": configs.flatten(record.config),
            }
            | {name: getattr(record, name) for name in SHOWN}
            for key, (file, record) in found.items()
        ]
        runs.sort(key=lambda run: str(run["finished"]), reverse=True)
        return {"folder": self.folder.name, "runs": runs, "notes": notes}

    def version(self) -> str:
        """Changes whenever a record is written."""
        stamps = [(str(path), *_stamp(path)) for path in self._paths() if path.exists()]
        return hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]

    def curves(self, ids: list[str]) -> dict[str, Any]:
        """The learning curves of some runs."""
        from quatgraph.serve.cards import curve_of

        found, _ = self._read()
        for key in ids:
            if key not in found:
                raise UserError(f"there is no run {key!r}; /api/runs lists them")
        return {"curves": [curve_of(found[key][1]) | {"id": key} for key in ids]}

    def compare(self, first: str, second: str) -> dict[str, Any]:
        """Two groups of runs, compared as the command does."""
        import dataclasses

        from quatgraph.comparison import compare_records

        groups: dict[str, list[RunRecord]] = {}
        for file, record in self._read()[0].values():
            groups.setdefault(_group(file, record), []).append(record)
        for name in (first, second):
            if name not in groups:
                raise UserError(f"there is no group {name!r}; /api/runs lists them")
        if first == second:
            raise UserError("a group is compared with another one; choose two")
        found = compare_records({name: groups[name] for name in (first, second)})
        (pair,) = found.pairs
        values = dataclasses.asdict(pair)
        result, splits = values.pop("result"), values.pop("runs")
        return {
            "pair": values | result | {"words": str(pair)},
            "splits": splits,
            "notes": list(found.notes),
        }

    def _read(self) -> tuple[dict[str, tuple[str, "RunRecord"]], list[str]]:
        """The runs by id, each with its file, and notes."""
        notes, found, files = list[str](), {}, dict[Path, Any]()
        for path in self._paths():
            name = path.relative_to(self.folder).as_posix()
            try:
                stamp, known = _stamp(path), self._files.get(path)
                if known is None or known[0] != stamp:
                    known = stamp, _read_or_explain(path)
            except OSError as error:  # it has just been removed
                notes.append(f"{name}: {error.strerror}")
                continue
            files[path], records = known, known[1]
            if isinstance(records, str):
                notes.append(f"{name}: {records}")
                continue
            for place, record in enumerate(records):
                found[f"{name}:{place}"] = name, record
        self._files = files  # those that were removed are forgotten
        return found, notes

    def _paths(self) -> list[Path]:
        return sorted((*self.folder.rglob("*.jsonl"), *self.folder.rglob("*.jsonl.xz")))


SHOWN = (
    "task",
    "dataset",
    "method",
    "protocol",
    "split",
    "seed",
    "metrics",
    "best_epoch",
    "epochs_run",
    "parameters",
    "seconds",
    "finished",
)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _read_or_explain(path: Path) -> "list[RunRecord] | str":
    """The records of a file, or why it has none."""
    from quatgraph.training.record import read_records

    try:
        return read_records(path)
    except UserError as mistake:
        return str(mistake)


def _group(file: str, record: "RunRecord") -> str:
    """What runs have in common that are compared as one: their file, dataset and method."""
    return f"{file} {record.task} {record.dataset} {record.method}"
