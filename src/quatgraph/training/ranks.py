"""The state of training on several ranks, each holding some rows of a table: what they agree on,
and their checkpoints, which have the format of one process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import safe_open
from torch import Tensor

from quatgraph.ops import Shards
from quatgraph.training.checkpoint import (
    CHECKPOINT,
    PIECE,
    load_checkpoint,
    read_state,
    save_checkpoint,
    split_numbers,
    stored_order,
)
from quatgraph.training.launch import share_from_first

State = dict[str, Any]


class OneProcess:
    """Training in one process."""

    def agree(self, *values: float) -> Sequence[float]:
        """The largest value of any rank."""
        return values

    def save(self, folder: Path, tensors: Mapping[str, Tensor], state: State) -> None:
        """Replaces the folder's checkpoint; see :func:`save_checkpoint`."""
        save_checkpoint(folder, tensors, state)

    def load(self, folder: Path) -> tuple[State, Callable[[Mapping[str, Tensor]], None]] | None:
        """The state of the folder's checkpoint, and what copies its tensors into others; None where
        there is no checkpoint."""
        found = load_checkpoint(folder)
        if found is None:
            return None
        tensors, state = found
        return state | {"shapes": _shapes(tensors)}, lambda into: copy_tensors(into, tensors)


ONE_PROCESS = OneProcess()


def copy_tensors(into: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in into.items():
            tensor.copy_(values[name])


class Ranks(OneProcess):
    """Training on several ranks. The flat parameters ``(M, P)`` begin with this rank's rows of a
    table; the rest is replicated. All ranks call the same methods in the same order.

    Args:
        shards: The rows of this rank.
        width: Width of a row.
        num_flat: Number of this rank's flat parameters, P.
    """

    def __init__(self, shards: Shards, width: int, num_flat: int) -> None:
        self.shards, self.width = shards, width
        self.num_own = shards.size * width
        self.num_flat, self.num_shared = num_flat, num_flat - self.num_own

    def agree(self, *values: float) -> Sequence[float]:
        if self.shards.world_size == 1:
            return values
        found = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        largest: list[float] = found.tolist()
        return largest

    def count_squares(self, grads: Sequence[Tensor]) -> Tensor:
        """The sums of the squares of gradients of the flat parameters, ``(M, 1)``."""
        (grad,) = grads
        own, others = (
            torch.linalg.vector_norm(part, dim=1).square()
            for part in grad.split((self.num_own, self.num_shared), dim=1)
        )
        return (self.shards.sum_(own) + others).unsqueeze(1)

    def save(self, folder: Path, tensors: Mapping[str, Tensor], state: State) -> None:
        """The first rank writes the rows of all ranks, as it receives them."""
        if self.shards.rank:
            for name in stored_order(tensors):
                for _ in self._pieces(tensors[name]):
                    pass
            share_from_first(None)
            return
        whole = {
            name: tensor.new_empty(self._shape(tensor), device="meta")
            for name, tensor in tensors.items()
        }
        order = iter(stored_order(tensors))
        left: list[Iterator[Tensor]] = []

        def pieces(_: Tensor) -> Iterator[Tensor]:
            left[:] = [self._pieces(tensors[next(order)])]
            yield from left[0]

        def write() -> None:
            try:
                save_checkpoint(folder, whole, state, pieces)
            except BaseException:
                # The other ranks send all the same.
                for rest in (*left, *(self._pieces(tensors[name]) for name in order)):
                    for _ in rest:
                        pass
                raise

        share_from_first(write)

    def load(self, folder: Path) -> tuple[State, Callable[[Mapping[str, Tensor]], None]] | None:
        def read() -> State | None:
            state = read_state(folder)
            if state is None:
                return None
            with safe_open(folder / CHECKPOINT, framework="pt") as file:
                names = file.keys()
                shapes = {name: file.get_slice(name).get_shape() for name in names}
            return state | {"shapes": shapes}

        state = share_from_first(read)
        return None if state is None else (state, lambda into: self._scatter(folder, into))

    def whole(self, tensor: Tensor) -> Tensor:
        """The rows of all ranks, ``(M, rows, width)``, in the main memory of the first rank; on the
        others their own."""
        if self.shards.world_size == 1:
            return tensor
        flat = tensor.flatten(1)
        pieces = list(self._pieces(flat, shared=0))
        if self.shards.rank:
            return tensor
        return torch.cat(pieces).view(len(tensor), -1, self.width)

    def _shape(self, tensor: Tensor) -> list[int]:
        """The shape of a tensor of the state in a checkpoint."""
        members, *others = tensor.shape if tensor.dim() else (0,)
        if others != [self.num_flat]:
            return list(tensor.shape)
        return [members, self.shards.num_rows * self.width + self.num_shared]

    def _pieces(self, tensor: Tensor, shared: int | None = None) -> Iterator[Tensor]:
        """The numbers of a tensor as a checkpoint stores them, in the first rank's main memory; the
        others send theirs."""
        rank, shared = self.shards.rank, self.num_shared if shared is None else shared
        if list(tensor.shape[1:]) != [self.num_own + shared]:
            if rank == 0:
                yield from split_numbers(tensor.to("cpu"))
            return
        for row in tensor.detach():
            own, others = row.split((self.num_own, shared))
            for sender in range(self.shards.world_size):
                for first, last in self._ranges(sender, tensor.element_size()):
                    if sender == rank:
                        piece = own[first:last].to("cpu").contiguous()
                        if rank:
                            dist.send(piece, 0)
                        else:
                            yield piece
                    elif rank == 0:
                        piece = torch.empty(last - first, dtype=tensor.dtype)
                        dist.recv(piece, sender)
                        yield piece
            if rank == 0:
                yield from split_numbers(others.to("cpu"))

    def _ranges(self, rank: int, element_size: int) -> Iterator[tuple[int, int]]:
        """The pieces of a rank's rows, as places among its numbers."""
        first, last = self.shards.bounds(rank)
        numbers, step = (last - first) * self.width, max(1, PIECE // element_size)
        for start in range(0, numbers, step):
            yield start, min(start + step, numbers)

    @torch.no_grad()
    def _scatter(self, folder: Path, into: Mapping[str, Tensor]) -> None:
        """Copies the tensors of a checkpoint, of which the first rank sends each its rows."""
        if self.shards.rank:
            for name in stored_order(into):
                self._receive(into[name])
            return
        with safe_open(folder / CHECKPOINT, framework="pt") as file:
            for name in stored_order(into):
                self._send(into[name], file.get_slice(name), lambda: file.get_tensor(name))  # noqa: B023

    def _receive(self, tensor: Tensor) -> None:
        if list(tensor.shape[1:]) != [self.num_flat]:
            found = torch.empty(tensor.shape, dtype=tensor.dtype)
            dist.broadcast(found, 0)
            tensor.copy_(found)
            return
        for row in tensor:
            for first, last in self._ranges(self.shards.rank, tensor.element_size()):
                piece = torch.empty(last - first, dtype=tensor.dtype)
                dist.recv(piece, 0)
                row[first:last].copy_(piece)
            rest = torch.empty(self.num_shared, dtype=tensor.dtype)
            dist.broadcast(rest, 0)
            row[self.num_own :].copy_(rest)

    def _send(self, tensor: Tensor, stored: Any, whole: Callable[[], Tensor]) -> None:
        alone = self.shards.world_size == 1
        if list(tensor.shape[1:]) != [self.num_flat]:
            found = whole().contiguous()
            if not alone:
                dist.broadcast(found, 0)
            tensor.copy_(found)
            return
        for member, row in enumerate(tensor):
            for rank in range(self.shards.world_size):
                begin = self.shards.bounds(rank)[0] * self.width
                for first, last in self._ranges(rank, tensor.element_size()):
                    piece = stored[member : member + 1, begin + first : begin + last].flatten()
                    if rank:
                        dist.send(piece.contiguous(), rank)
                    else:
                        row[first:last].copy_(piece)
            rest = stored[member : member + 1, self.shards.num_rows * self.width :].flatten()
            if not alone:
                dist.broadcast(rest.contiguous(), 0)
            row[self.num_own :].copy_(rest)


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in tensors.items()}
