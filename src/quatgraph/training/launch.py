"""Processes joined by :mod:`torch.distributed` and started by ``torchrun``.

Ranks send each other JSON and tensors, never pickled objects.
"""

import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from textwrap import shorten
from typing import Any

import torch
import torch.distributed as dist

from quatgraph.errors import UserError

TIMEOUT = "QUATGRAPH_RANK_TIMEOUT"
"""The environment variable with the seconds after which a rank that does not answer is missing."""
_SECONDS = 600.0
_VARIABLES = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"
_LONGEST = 1 << 26
"""Bytes of JSON that a rank accepts."""


@dataclass(frozen=True, slots=True)
class Launch:
    """This process among those started together."""

    rank: int
    world_size: int
    local_rank: int

    @classmethod
    def find(cls) -> "Launch | None":
        """What the environment says; None if this process was started alone."""
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
            return None
        missing = [name for name in _VARIABLES if name not in os.environ]
        if missing:
            raise UserError(
                f"RANK and WORLD_SIZE are set, but not {' and '.join(missing)}: start the ranks "
                "with torchrun, or unset them to train in one process"
            )
        rank, size, _ = map(_number, ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        if not rank < size:
            raise UserError(f"RANK must be less than WORLD_SIZE, got {rank} of {size}")
        return cls(rank, size, _number("LOCAL_RANK") if "LOCAL_RANK" in os.environ else rank)

    def device(self, name: str) -> str:
        """The device of this rank: ``auto`` and ``cuda`` are a GPU of its own."""
        if name not in ("auto", "cpu", "cuda"):
            raise UserError(f"each rank has a GPU of its own: use auto, cpu or cuda, not {name!r}")
        count = torch.cuda.device_count()
        if name == "cpu" or (name == "auto" and not count):
            return "cpu"
        if self.local_rank >= count:
            raise UserError(
                f"{platform.node()} has {count} GPUs, too few for a rank {self.local_rank} of its "
                "own: start as many ranks as there are GPUs, or use --device cpu"
            )
        return f"cuda:{self.local_rank}"

    @contextmanager
    def joined(self) -> Iterator[None]:
        """A block in which the ranks can communicate.

        Raises:
            UserError: A rank is missing, or has died.
        """
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        seconds = timeout()
        try:
            with _without_stderr():  # where torch writes its stack if it cannot connect
                dist.init_process_group(backend, timeout=timedelta(seconds=seconds))
        except (RuntimeError, ValueError) as error:
            raise UserError(self._explain(error, where, seconds)) from error
        try:
            yield
        except RuntimeError as error:
            if not _is_connection(error):
                raise
            raise UserError(
                f"rank {self.rank} of {self.world_size} has lost another rank, which died or did "
                f"not answer for {seconds:g} s ({TIMEOUT}); repeat the command with --resume to go "
                "on from the last checkpoint, if there is one yet"
            ) from error
        finally:
            dist.destroy_process_group()

    def _explain(self, error: Exception, where: str, seconds: float) -> str:
        text = str(error)
        if "EADDRINUSE" in text or "address already in use" in text:
            return f"the port {where} is in use: choose another one with torchrun --master-port"
        late = any(words in text.lower() for words in ("timed out", "timeout"))
        within = f" within {seconds:g} s ({TIMEOUT})" if late else ""
        reason = shorten(text.partition("\n")[0], 200, placeholder=" ...").rstrip(".")
        return (
            f"rank {self.rank} cannot join the other {self.world_size - 1} at {where}{within}: "
            f"check that all ranks were started, and the address ({reason})"
        )


@contextmanager
def _without_stderr() -> Iterator[None]:
    """A block that discards what compiled code writes to standard error."""
    kept = os.dup(2)
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def timeout() -> float:
    """The seconds after which a rank that does not answer is missing."""
    text = os.environ.get(TIMEOUT, str(_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UserError(f"{TIMEOUT} must be a number of seconds greater than 0, got {text!r}")
    return seconds


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal():
        raise UserError(f"{name} must be a whole number, got {text!r}: start ranks with torchrun")
    return int(text)


def _is_connection(error: RuntimeError) -> bool:
    words = "gloo", "Gloo", "NCCL", "Connection", "Timed out"
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


def share(value: Any, source: int = 0) -> Any:
    """The value of one rank, on every rank, as JSON holds it."""
    if not dist.is_initialized():
        return value
    own = dist.get_rank() == source
    data = json.dumps(value).encode() if own else b""
    size = torch.tensor([len(data)])
    dist.broadcast(size, source)
    if not 0 < int(size) <= _LONGEST:
        raise UserError(f"rank {source} sends {int(size):,} bytes, which is no quatgraph")
    content = torch.zeros(int(size), dtype=torch.uint8)
    if own:
        content = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    dist.broadcast(content, source)
    return json.loads(bytes(content.tolist()))


def share_all(value: Any) -> list[Any]:
    """The values of all ranks."""
    count = dist.get_world_size() if dist.is_initialized() else 1
    return [share(value, source) for source in range(count)]


def share_from_first(work: Callable[[], Any] | None) -> Any:
    """What a function returns on the first rank, or the error that it raises there, on all."""
    first = not dist.is_initialized() or dist.get_rank() == 0
    result = error = None
    if first and work is not None:
        try:
            result = work()
        except UserError as mistake:
            error = str(mistake)
    result, error = share([result, error])
    if error is not None:
        raise UserError(error)
    return result
