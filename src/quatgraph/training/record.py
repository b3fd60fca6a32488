"""Records of finished runs: the source of every reported number.

On disk the runs of one ensemble share a line of JSON, with common values written once.
"""

import dataclasses
import fcntl
import hashlib
import json
import lzma
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from itertools import product
from pathlib import Path
from typing import Any

from quatgraph.errors import UserError
from quatgraph.files import ensure_folder, unwritable, write_all
from quatgraph.presets import Protocol
from quatgraph.training.runtime import json_text, map_leaves

SCHEMA = 1
_DIGEST = "sha256"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run and its results.

    A record is complete: its config and members suffice to repeat it, its environment explains its
    speed. A number that is NaN or infinite is stored as ``null`` and read back as NaN.
    """

    task: str
    dataset: str
    method: str
    protocol: Protocol
    split: int
    seed: int
    config: dict[str, Any]
    config_digest: str
    data_digest: str
    members: dict[str, dict[str, list[Any]]]
    """The members of the ensemble, in order; see :func:`compact_members`."""
    metrics: dict[str, float]
    """Named ``part/metric``, as in ``test/accuracy``, always as fractions; six digits."""
    best_epoch: int
    epochs_run: int
    parameters: int
    """Number of parameters of one member."""
    seconds: float
    """Wall time of the whole ensemble's training, without evaluation."""
    ensemble: str
    """Shared by the records of one ensemble, whose ``seconds`` count once."""
    curves: dict[str, list[float]]
    """Values by evaluation, to four significant digits; may be empty."""
    curve_epochs: list[int] = field(default_factory=list)
    """The epochs of these evaluations; every epoch if empty."""
    environment: dict[str, str]
    finished: str
    """UTC, ISO 8601."""
    schema: int = SCHEMA

    @property
    def share(self) -> float:
        """The share of one run in the ensemble's ``seconds``."""
        lists = self.members.get("product", {}).values()
        columns = self.members.get("columns", {}).values()
        return self.seconds / (max(map(len, columns)) if columns else math.prod(map(len, lists)))

    def __post_init__(self) -> None:
        # Rounded here, so that a record equals its copy on disk.
        short = {name: [float(f"{v:.4g}") for v in curve] for name, curve in self.curves.items()}
        object.__setattr__(self, "curves", short)
        exact = {name: float(f"{value:.6g}") for name, value in self.metrics.items()}
        object.__setattr__(self, "metrics", exact)


def compact_members(members: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """Describes members, in order, as the ``product`` of lists, the last key running fastest, or
    else as ``columns`` of equal length.

    Example:
        >>> compact_members([{"lr": 0.1, "split": 0}, {"lr": 0.1, "split": 1}])
        {'product': {'lr': [0.1], 'split': [0, 1]}}
        >>> compact_members([{"lr": 0.1, "split": 0}, {"lr": 0.2, "split": 1}])
        {'columns': {'lr': [0.1, 0.2], 'split': [0, 1]}}
    """
    columns = {key: [member[key] for member in members] for key in members[0]}
    lists = {key: list(dict.fromkeys(column)) for key, column in columns.items()}
    if list(product(*lists.values())) == list(zip(*columns.values(), strict=True)):
        return {"product": lists}
    return {"columns": columns}


def append_records(path: Path, records: Iterable[RunRecord]) -> None:
    """Appends one line per ensemble; see :func:`append_lines`."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for record in records:
        key = record.ensemble, record.schema
        groups.setdefault(key, []).append(dataclasses.asdict(record))
    lines = (
        {"schema": schema, "count": len(runs), "runs": _factor(runs)}
        for (_, schema), runs in groups.items()
    )
    append_lines(path, (line | {_DIGEST: _digest(line)} for line in lines))


def append_lines(path: Path, values: Iterable[dict[str, Any]]) -> None:
    """Appends one JSON line per value; safe with other writers and if the process is killed.

    All lines are one write. If it fails, the file is truncated to what it was; a line that a killed
    writer left unfinished is dropped first.
    """
    lines = "".join(json_text(value) + "\n" for value in values)
    if not lines:
        return
    ensure_folder(path.parent)
    try:
        with path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released on closing
            _end_last_line(file)
            start = file.seek(0, os.SEEK_END)
            try:
                write_all(file, lines.encode())
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(start)
                raise
    except OSError as error:
        raise unwritable(path, error) from error


def read_records(path: Path) -> list[RunRecord]:
    """Reads the records of a file, or of every ``*.jsonl`` and ``*.jsonl.xz`` in a folder, by name.

    An unfinished last line is ignored; any other line that is damaged or not a record is refused.
    """
    if path.is_dir():
        files = sorted((*path.glob("*.jsonl"), *path.glob("*.jsonl.xz")))
        return [record for file in files for record in read_records(file)]
    try:
        content = path.read_bytes()
        lines = (lzma.decompress(content) if path.suffix == ".xz" else content).split(b"\n")
    except OSError as error:
        raise UserError(f"cannot read the records in {path}: {error.strerror}") from error
    except lzma.LZMAError as error:
        raise UserError(f"{path} is damaged ({error}); restore the file") from error
    if _is_torn(lines[-1]):
        lines.pop()
    return [
        record
        for number, line in enumerate(lines, 1)
        if line.strip()
        for record in _parse_line(line, path, number)
    ]


def _factor(values: list[Any]) -> dict[str, Any]:
    """Merges several values into a tree: the ``same`` for all, by ``keys``, or for ``each``."""
    first = values[0]
    if all(value == first for value in values):
        return {"same": first}
    if all(isinstance(value, dict) and value.keys() == first.keys() for value in values):
        return {"keys": {key: _factor([value[key] for value in values]) for key in first}}
    return {"each": values}


def _expand(tree: dict[str, Any], index: int) -> Any:
    """One of the values that :func:`_factor` merged."""
    if "keys" in tree:
        return {key: _expand(inner, index) for key, inner in tree["keys"].items()}
    return tree["same"] if "same" in tree else tree["each"][index]


def _parse_line(line: bytes, path: Path, number: int) -> list[RunRecord]:
    try:
        values = json.loads(line)
        schema = values["schema"]
        if schema == SCHEMA:
            found = values.pop(_DIGEST, None)  # which older records lack
            if values.keys() != {"schema", "count", "runs"} or found not in (None, _digest(values)):
                raise ValueError
            runs = [_expand(values["runs"], index) for index in range(values["count"])]
            for run in runs:
                run.pop("selected", None)  # which stored records hold, and nothing reads
                for key in ("metrics", "curves"):
                    run[key] = map_leaves(run[key], lambda v: math.nan if v is None else v)
            return [RunRecord(**run) for run in runs]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise UserError(
            f"line {number} of {path} is not a run record, or not as it was written: restore the "
            "file, or remove that line"
        ) from error
    raise UserError(
        f"line {number} of {path} has schema {schema}, but this version of quatgraph reads "
        f"schema {SCHEMA}; read it with the version that wrote it"
    )


def _digest(line: dict[str, Any]) -> str:
    return hashlib.sha256(json_text(line).encode()).hexdigest()


def _is_torn(line: bytes) -> bool:
    """Whether a line is unfinished: a prefix of a JSON object is never valid JSON."""
    if not line.startswith(b"{"):
        return not line
    try:
        json.JSONDecoder().raw_decode(line.decode(errors="replace"))
    except ValueError:
        return True
    return False


def _end_last_line(file: FileIO) -> None:
    """Makes the file end with a newline: drops an unfinished line, ends any other."""
    file.seek(0)
    content = file.readall()
    start = content.rfind(b"\n") + 1
    if start == len(content):
        return
    if _is_torn(content[start:]):
        file.truncate(start)
    else:
        write_all(file, b"\n")
