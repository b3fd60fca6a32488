"""Exact checkpoints: a resumed run continues as if it had never stopped.

Tensors and state are in one file, so that a rename replaces both. The file's header holds a digest
of the rest of the file, which detects any changed bit. Tensors are written and read in pieces, so a
process needs no room for all of them.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.files import ensure_folder, remove_leftovers, unwritable, write_all, write_atomic

CHECKPOINT, _STATE, _DIGEST = "checkpoint.safetensors", "state", "sha256"
_BLANK = 64 * "0"
_FORMAT = "4"
"""Changes whenever the content of checkpoints does."""
PIECE = 1 << 24
"""Bytes that are written or read at once."""
Pieces = Callable[[Tensor], Iterable[Tensor]]
"""Gives the numbers of a tensor piece by piece, in their order."""


def save_checkpoint(
    folder: Path,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    pieces: Pieces | None = None,
) -> None:
    """Replaces the folder's checkpoint. Tensors are stored bit for bit, and the state as JSON, with
    exact floats and infinities.

    Args:
        tensors: Of what is stored, the types and shapes; on the device ``meta`` if they are given
            by ``pieces`` alone.
        pieces: Called with each tensor, in the order of :func:`stored_order`.
    """
    ensure_folder(folder)
    order = stored_order(tensors)
    header, start = _header({name: tensors[name] for name in order}, state)

    def write(file: FileIO) -> None:
        digest = hashlib.sha256(header[:start])
        digest.update(header[start + len(_BLANK) :])
        waiting = bytearray(header)  # small tensors are written together
        for name in order:
            for piece in (pieces or split_numbers)(tensors[name]):
                data = _as_bytes(piece)
                digest.update(data)
                waiting += data
                if len(waiting) >= PIECE:
                    write_all(file, waiting)
                    waiting.clear()
        write_all(file, waiting)
        file.seek(start)
        write_all(file, digest.hexdigest().encode())

    write_atomic(folder / CHECKPOINT, write)


def stored_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of tensors as a checkpoint stores them: wide types first, which aligns all."""
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def split_numbers(tensor: Tensor) -> Iterator[Tensor]:
    """The numbers of a tensor, in pieces of at most :data:`PIECE` bytes."""
    yield from tensor.detach().reshape(-1).split(max(1, PIECE // tensor.element_size()))


def _as_bytes(piece: Tensor) -> memoryview:
    return piece.to("cpu").contiguous().view(torch.uint8).numpy().data


def _header(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> tuple[bytes, int]:
    """The header of a safetensors file with a blank digest, and where that is."""
    about = {"format": _FORMAT, _STATE: json.dumps(state), _DIGEST: _BLANK}
    entries: dict[str, Any] = {"__metadata__": about}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.numel() * tensor.element_size()
        # What an empty tensor of this type is called in such a file.
        empty = safetensors.torch.save({name: torch.empty(0, dtype=tensor.dtype)})
        kind = json.loads(empty[8:])[name]["dtype"]
        entries[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = len(text).to_bytes(8, "little") + text
    return data, data.index(f'"{_DIGEST}":"{_BLANK}"'.encode()) + len(_DIGEST) + 4


def has_checkpoint(folder: Path) -> bool:
    """Whether the folder holds a checkpoint, readable or not."""
    return (folder / CHECKPOINT).is_file()


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The tensors, on the CPU, and the state; None where there is no checkpoint."""
    state = read_state(folder)
    if state is None:
        return None
    return safetensors.torch.load_file(folder / CHECKPOINT), state


def read_state(folder: Path) -> dict[str, Any] | None:
    """The state of a checkpoint, whose digest is checked; None where there is none."""
    if not has_checkpoint(folder):
        return None
    path = folder / CHECKPOINT
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata()
        state = json.loads(about[_STATE])
        if about["format"] == _FORMAT:
            if _digest_around(path, about[_DIGEST].encode()) != about[_DIGEST]:
                raise ValueError("another digest")
            return state
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is damaged, or no checkpoint of quatgraph: choose another folder, or remove "
            "the file to train from the beginning"
        ) from error
    except OSError as error:
        raise UserError(f"cannot read the checkpoint {path}: {error.strerror}") from error
    raise UserError(
        f"the checkpoint {path} is of another version of quatgraph: finish that training with that "
        "version, or remove it to start afresh"
    )


def _digest_around(path: Path, own: bytes) -> str:
    """The digest of a file but for its own place in the header."""
    with path.open("rb") as file:
        size = file.read(8)
        header = size + file.read(int.from_bytes(size, "little"))
        start = header.find(own)
        digest = hashlib.sha256(header[:start])
        digest.update(header[start + len(_BLANK) :])
        while data := file.read(PIECE):
            digest.update(data)
    return digest.hexdigest()


def remove_checkpoint(folder: Path) -> None:
    """Removes the folder's checkpoint, if any, and leftovers of killed processes."""
    try:
        (folder / CHECKPOINT).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(folder / CHECKPOINT, error) from error
    remove_leftovers(folder / CHECKPOINT)
