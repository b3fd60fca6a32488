"""Devices, timing, versions; values as JSON and safetensors."""

import json
import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

import quatgraph
from quatgraph.errors import UserError


def resolve_device(device: str | torch.device) -> torch.device:
    """The device of a name: ``auto`` (CUDA if available), ``cpu``, ``cuda`` or ``cuda:N``."""
    name = str(device)
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if name != "auto" and not re.fullmatch(r"cuda(:\d+)?", name):
        raise UserError(f"unknown device {name!r}; choose auto, cpu, cuda or cuda:N")
    if not torch.cuda.is_available():
        raise UserError(f"device {name!r} needs CUDA, which is not available here; use cpu or auto")
    if ":" not in name:
        # With its index, so that it equals the device of its tensors.
        return torch.device("cuda", torch.cuda.current_device())
    index, count = int(name.partition(":")[2]), torch.cuda.device_count()
    if index >= count:
        raise UserError(f"device {name!r} does not exist; the last one here is 'cuda:{count - 1}'")
    return torch.device("cuda", index)


def total_memory(device: torch.device) -> int:
    """The memory of the device in bytes, used or free."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def available_memory(device: torch.device) -> int:
    """As :func:`total_memory`, but on a CPU at most what the control group may use, as in a
    container."""
    total = total_memory(device)
    if device.type == "cpu":
        with suppress(OSError, ValueError):  # no limit, or no control groups
            return min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


def environment(device: torch.device | None = None) -> dict[str, str]:
    """The environment that a record holds; ``device`` is the CPU by default."""
    on_cuda = device is not None and device.type == "cuda"
    return {
        "quatgraph": quatgraph.__version__,
        "commit": os.environ.get("QUATGRAPH_COMMIT") or _commit(Path(quatgraph.__file__).parent),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_geometric": _package_version("torch_geometric"),
        "cuda": torch.version.cuda or "none",
        "device": torch.cuda.get_device_name(device) if on_cuda else "cpu",
        "cpu": _cpu_name(),
        "cpus": str(os.cpu_count() or "unknown"),
        "platform": platform.platform(),
    }


def machine(environment: Mapping[str, str]) -> str:
    """The machine of an :func:`environment`: the GPU, or the CPU with its cores."""
    if environment["device"] != "cpu":
        return environment["device"]
    return f"{environment['cpu']}, {environment['cpus']} cores"


@contextmanager
def limit_threads(count: int) -> Iterator[None]:
    """Limits torch's CPU threads within a block: on little work more threads mostly wait for each
    other."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, min(count, before)))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Sets the precision of a GPU's float32 matrix products within a block: full for ``float32``,
    TF32 for anything else."""
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "ieee" if precision == "float32" else "tf32"
    try:
        yield
    finally:
        settings.fp32_precision = before


class Stopwatch:
    """Adds up the time of the blocks it wraps; on a GPU by events, without synchronising."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.total = 0.0
        self.pending: list[tuple[Any, Any]] = []
        self.began: Any = None

    def __enter__(self) -> None:
        if self.cuda:
            self.began = torch.cuda.Event(enable_timing=True)
            self.began.record()
        else:
            self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if self.cuda:
            ended = torch.cuda.Event(enable_timing=True)
            ended.record()
            self.pending.append((self.began, ended))
        else:
            self.total += time.perf_counter() - self.began

    def read(self) -> float:
        """The seconds so far; waits for the device."""
        if self.pending:
            torch.cuda.synchronize()
            self.total += sum(a.elapsed_time(b) for a, b in self.pending) / 1e3
            self.pending.clear()
        return self.total


class Deadline:
    """A limit on wall time, counted from its creation; ``None`` never passes."""

    def __init__(self, minutes: float | None) -> None:
        if minutes is not None and not minutes >= 0:
            raise UserError(f"the number of minutes must be zero or more, got {minutes}")
        self._end = math.inf if minutes is None else time.monotonic() + 60 * minutes

    def passed(self) -> bool:
        return time.monotonic() >= self._end

    def seconds_left(self) -> float:
        """The time until it passes; infinite if it never does."""
        return self._end - time.monotonic()


NO_DEADLINE = Deadline(None)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON with sorted keys; NaN and infinities, which JSON lacks, become ``null``."""
    separators = (",", ":") if indent is None else None
    value = map_leaves(value, _replace_nan)
    return json.dumps(value, sort_keys=True, indent=indent, separators=separators, allow_nan=False)


def safetensors_bytes(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """The content of a safetensors file, from tensors on any device, including views."""
    # Copies, because safetensors refuses tensors that share memory.
    copies = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
    return safetensors.torch.save(copies, metadata)


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Changes every value within nested dictionaries and lists."""
    if isinstance(value, dict):
        return {key: map_leaves(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [map_leaves(inner, change) for inner in value]
    return change(value)


def _replace_nan(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cpu_name() -> str:
    """The processor's model if the system reports it, else its architecture."""
    with suppress(OSError):
        if found := re.search(r"^model name.*?:(.*)", Path("/proc/cpuinfo").read_text(), re.M):
            return found[1].strip()
    return platform.machine()


def _package_version(package: str) -> str:
    # From the metadata: importing PyG takes seconds.
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


@cache
def _commit(folder: Path) -> str:
    """The commit of the package's code, at the first call."""
    # Tracked files only: a package installed below another checkout is not part of it.
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return "unknown"
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    # Of the code only: records that a run appends do not change the program.
    changes = _git(folder, "status", "--porcelain", "--", ".")
    return f"{commit}+dirty" if commit and changes else commit or "unknown"


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git, or None if it fails or is missing."""
    try:
        done = subprocess.run(
            ("git", *arguments), cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
