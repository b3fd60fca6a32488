"""Ranks as processes of their own, which gloo joins."""

import os
import socket
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from commands import call
from kills import forked, waited
from torch import Tensor

from quatgraph.training.launch import TIMEOUT, Launch

SECONDS = 20
"""After which a rank is missing."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment_of(rank: int, size: int, port: int, seconds: float = SECONDS) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "tests",
        TIMEOUT: str(seconds),
    }


def codes_of(
    size: int,
    work: Callable[[int], object],
    *,
    port: int | None = None,
    missing: Sequence[int] = (),
    seconds: float = SECONDS,
) -> list[int]:
    """The exit codes of processes that do the work of each rank, but for missing ones."""
    port = port or free_port()

    def of(rank: int) -> Callable[[], object]:
        def run() -> None:
            os.environ.update(environment_of(rank, size, port, seconds))
            warnings.simplefilter("error")
            torch.set_num_threads(1)
            work(rank)

        return run

    started = [forked(of(rank)) for rank in range(size) if rank not in missing]
    return [waited(process) for process in started]


def on_ranks(size: int, folder: Path, work: Callable[[Launch], Any]) -> list[Any]:
    """What joined ranks compute: tensors, numbers and lists of them."""
    folder.mkdir(exist_ok=True)

    def run(rank: int) -> None:
        launch = Launch.find()
        assert launch is not None
        dist.all_reduce = _contiguous_only(dist.all_reduce)
        with launch.joined():
            torch.save(work(launch), folder / f"{rank}.pt")

    assert codes_of(size, run) == [0] * size
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]


def _contiguous_only(all_reduce: Callable[..., Any]) -> Callable[..., Any]:
    """NCCL refuses what gloo takes."""

    def checked(value: Tensor, *others: Any) -> Any:
        assert value.is_contiguous()
        return all_reduce(value, *others)

    return checked


def commands(
    size: int, folder: Path, *arguments: str, of: Callable[[int], object] | None = None, **how: Any
) -> list[tuple[int, str, str]]:
    """What a command does on each rank: the exit code, standard output and standard error.

    Args:
        of: Called on each rank before the command, with its number; perhaps it returns arguments.
        how: Missing ranks, the port, the seconds; see :func:`codes_of`.
    """
    folder.mkdir(exist_ok=True)
    missing = how.get("missing", ())

    def run(rank: int) -> None:
        more = of(rank) if of else None
        done = call(*arguments, *(more if isinstance(more, list) else []))
        values = str(done.exit_code), done.stdout, done.stderr
        (folder / f"{rank}.txt").write_text("\0".join(values))

    codes = codes_of(size, run, **how)
    assert not any(codes), codes
    found = []
    for rank in range(size):
        if rank not in missing:
            code, out, err = (folder / f"{rank}.txt").read_text().split("\0")
            found.append((int(code), out, err))
    return found
