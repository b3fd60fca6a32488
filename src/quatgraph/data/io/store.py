"""Dataset files: found in a folder or downloaded to the cache, and always verified.

Files are searched in ``QUATGRAPH_DATA``, then in the cache (``QUATGRAPH_CACHE`` or the user's
cache folder), and downloaded to the cache if in neither. ``NAME.xz`` may replace ``NAME``. Every
file that is read must have the digest in ``catalog.toml``.
"""

import hashlib
import http.client
import lzma
import os
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any, Literal

from quatgraph.errors import UserError, did_you_mean
from quatgraph.files import ensure_folder, replacing, write_all

Status = Literal["ok", "missing", "wrong digest", "unreadable"]

MAX_BYTES = 512 * 1024**2
"""Maximum size of a downloaded or unpacked file, against wrong addresses and archive bombs."""
TIMEOUT_SECONDS = 30.0
SAMPLES = Path(__file__).parents[1] / "samples"
"""The files of the built-in datasets."""
_CATALOG = SAMPLES.with_name("catalog.toml")
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class File:
    """One file of a dataset: its path in the dataset's folder, its URL, its digest.

    A file without a URL is optional, such as labels.
    """

    path: str
    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The catalog's entry of one dataset."""

    name: str
    task: str
    title: str
    licence: str
    citation: str
    source: str
    folder: str
    builtin: bool
    statistics: Mapping[str, int]
    files: tuple[File, ...]

    def compare(self, found: Mapping[str, int]) -> None:
        """Refuses data whose statistics are not those of the catalog."""
        for key, expected in self.statistics.items():
            if found[key] != expected:
                raise UserError(
                    f"{self.name} has {found[key]} {key} where the catalog expects {expected}; "
                    f"run 'quatgraph data check {self.name}'"
                )


@cache
def catalog() -> dict[str, Entry]:
    """Every dataset by name."""
    text = _CATALOG.read_text(encoding="utf-8")
    return {name: _entry(name, values) for name, values in tomllib.loads(text).items()}


def entry(name: str, task: str | None = None) -> Entry:
    """The catalog's entry for ``name``; rejects an unknown name and another task."""
    known = catalog()
    if name not in known:
        hint = did_you_mean(name, known) or f"; known are {', '.join(sorted(known))}"
        raise UserError(f"there is no dataset {name!r}{hint}")
    if task is not None and known[name].task != task:
        raise UserError(f"{name!r} is a dataset of the task {known[name].task!r}, not of {task!r}")
    return known[name]


def find_dataset(data: Path | str, task: str) -> Entry | None:
    """The dataset of a name that is no path; None for a path, also for one that readers reject.
    Refuses a misspelt name and another task."""
    path, name = Path(data), str(data)
    if path.exists():
        return None
    if name in catalog():
        return entry(name, task)
    own = [known.name for known in catalog().values() if known.task == task]
    if hint := did_you_mean(name, own):
        raise UserError(f"there is no file, folder or dataset {name!r}{hint}")
    return None


def data_root() -> Path | None:
    """The folder that ``QUATGRAPH_DATA`` names, or ``None`` when it is not set."""
    value = os.environ.get("QUATGRAPH_DATA")
    if not value:
        return None
    root = _expand_home(value)
    if root is None or not root.is_dir():
        raise UserError(
            f"QUATGRAPH_DATA names {value!r}, which is not a folder; correct or unset it"
        )
    return root


def cache_root() -> Path | None:
    """The folder for downloads, which may not exist yet; ``None`` without a setting and a home
    folder."""
    own = os.environ.get("QUATGRAPH_CACHE")
    if own:
        return _expand_home(own)
    shared = _expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return shared and shared / "quatgraph"


def _expand_home(path: str) -> Path | None:
    """The path with ``~`` expanded; None without a home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return None


def fetch(name: str) -> dict[str, Path]:
    """Finds or downloads all files of a dataset and verifies them.

    Returns:
        The file for each of the catalog's paths, possibly its ``.xz``.
    """
    dataset = entry(name)
    files = [file for file in dataset.files if file.url or _find(dataset, file)]
    return {file.path: _read(dataset, file)[0] for file in files}


def check(name: str) -> list[tuple[str, Status]]:
    """The state of each file of a dataset, without downloading any."""
    dataset = entry(name)
    states = [(file, _status(dataset, file)) for file in dataset.files]
    return [(file.path, state) for file, state in states if file.url or state != "missing"]


def is_present(name: str, path: str) -> bool:
    """Whether a file of a dataset is present."""
    dataset = entry(name)
    return _find(dataset, _file(dataset, path)) is not None


def read_bytes(name: str, path: str) -> bytes:
    """The verified, unpacked bytes of one file of a dataset, by its path in the catalog."""
    dataset = entry(name)
    return _read(dataset, _file(dataset, path))[1]


def _entry(name: str, values: dict[str, Any]) -> Entry:
    files = tuple(
        File(
            path=f"{group['into']}/{stem}".lstrip("/"),
            url=group["url_base"] + stem if "url_base" in group else group.get("url", ""),
            sha256=digest,
        )
        for group in values.pop("download", [])
        for stem, digest in group["sha256"].items()
    )
    return Entry(name=name, files=files, **{"folder": "", "builtin": False, **values})


def _file(dataset: Entry, path: str) -> File:
    for file in dataset.files:
        if file.path == path:
            return file
    hint = did_you_mean(path, (file.path for file in dataset.files))
    raise UserError(f"dataset {dataset.name!r} has no file {path!r}{hint}")


def _read(dataset: Entry, file: File) -> tuple[Path, bytes]:
    """Where a file is, after a download if need be, and its verified bytes."""
    place = _find(dataset, file) or _download(dataset, file)
    content = _unpack(place)
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise UserError(
            f"{place} is not the published file (its sha256 is {digest[:12]}..., not "
            f"{file.sha256[:12]}...); delete or replace it, then run "
            f"'quatgraph data fetch {dataset.name}'"
        )
    return place, content


def _find(dataset: Entry, file: File) -> Path | None:
    for root in filter(None, (data_root(), cache_root())):
        for suffix in ("", ".xz"):
            place = root / dataset.folder / f"{file.path}{suffix}"
            if place.is_file():
                return place
    return None


def _status(dataset: Entry, file: File) -> Status:
    place = _find(dataset, file)
    if place is None:
        return "missing"
    try:
        digest = hashlib.sha256(_unpack(place)).hexdigest()
    except UserError:
        return "unreadable"
    return "ok" if digest == file.sha256 else "wrong digest"


def _unpack(place: Path) -> bytes:
    try:
        if place.suffix != ".xz":
            return place.read_bytes()
        with lzma.open(place) as packed:
            content = packed.read(MAX_BYTES + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise UserError(
            f"{place} is damaged and cannot be unpacked; delete or replace it"
        ) from error
    except OSError as error:
        raise UserError(f"{place} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise UserError(f"{place} unpacks to more than {MAX_BYTES:,} bytes; delete or replace it")
    return content


def _download(dataset: Entry, file: File) -> Path:
    """Downloads a file to the cache; it appears there only when complete and verified."""
    root = cache_root()
    instead = f"put the file at {dataset.folder}/{file.path} in a folder that QUATGRAPH_DATA names"
    if not file.sha256:
        raise UserError(f"{file.path} has no known digest and is not downloaded; {instead}")
    if not file.url.startswith(("https://", "http://")):
        raise UserError(f"{file.url} is not an http address and is not downloaded; {instead}")
    if root is None:
        raise UserError("there is no home folder for downloads; set QUATGRAPH_CACHE to a folder")
    place = root / dataset.folder / file.path
    try:
        ensure_folder(place.parent)
    except UserError as error:
        raise UserError(f"{error}, by QUATGRAPH_CACHE") from error
    try:
        with replacing(place) as target:
            digest = _receive(file, target)
            if digest != file.sha256:
                raise UserError(
                    f"{file.url} gave another file than the published one (sha256 "
                    f"{digest[:12]}..., not {file.sha256[:12]}...) and was discarded; {instead}"
                )
    except UserError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise UserError(f"cannot download {file.url} ({_reason(error)}); {instead}") from error
    return place


def _receive(file: File, target: FileIO) -> str:
    """Downloads a file into ``target`` and returns its digest; a terminal shows a progress bar."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    digest, size, hidden = hashlib.sha256(), 0, not sys.stderr.isatty()
    console = Console(stderr=True, quiet=hidden)  # rich 13 ends a disabled bar with a blank line
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bar = Progress(*columns, TransferSpeedColumn(), console=console, transient=True, disable=hidden)
    with _opener().open(file.url, timeout=TIMEOUT_SECONDS) as response, bar:
        promised = int(response.headers.get("Content-Length") or 0)
        row = bar.add_task(file.path, total=promised or None)
        while chunk := response.read(_CHUNK):
            size += len(chunk)
            if size > MAX_BYTES:
                raise OSError(f"it is larger than {MAX_BYTES:,} bytes")
            digest.update(chunk)
            write_all(target, chunk)
            bar.advance(row, len(chunk))
    if size < promised:
        raise OSError(f"it ended after {size:,} of {promised:,} bytes")
    return digest.hexdigest()


def _opener() -> urllib.request.OpenerDirector:
    # urllib's default opener also opens ftp:, file: and data:, even on a redirect.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS:g} seconds"
    if isinstance(error, urllib.error.URLError):
        return f"no connection: {error.reason}"
    return str(error) or type(error).__name__
