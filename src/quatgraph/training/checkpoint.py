"""Exact checkpoints: a resumed run continues as if it had never stopped.

Tensors and state are in one file, so that a rename replaces both. The file's header holds a digest
of the rest of the file, which detects any changed bit.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.files import ensure_folder, remove_leftovers, unwritable, write_atomic
from quatgraph.training.runtime import safetensors_bytes

CHECKPOINT, _STATE, _DIGEST = "checkpoint.safetensors", "state", "sha256"
_BLANK = 64 * "0"
_FORMAT = "4"
"""Changes whenever the content of checkpoints, or its order, does."""


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Replaces the folder's checkpoint. Tensors are stored bit for bit, and the state as JSON, with
    exact floats and infinities."""
    ensure_folder(folder)
    about = {"format": _FORMAT, _STATE: json.dumps(state), _DIGEST: _BLANK}
    data = safetensors_bytes(tensors, about)
    start = data.index(f'"{_DIGEST}":"{_BLANK}"'.encode()) + len(_DIGEST) + 4
    digest = _digest_around(data, start).encode()
    rest = memoryview(data)[start + len(_BLANK) :]
    write_atomic(folder / CHECKPOINT, b"".join((data[:start], digest, rest)))


def has_checkpoint(folder: Path) -> bool:
    """Whether the folder holds a checkpoint, readable or not."""
    return (folder / CHECKPOINT).is_file()


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The tensors, on the CPU, and the state; None where there is no checkpoint."""
    if not has_checkpoint(folder):
        return None
    path = folder / CHECKPOINT
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata()
        state = json.loads(about[_STATE])
        if about["format"] == _FORMAT:
            data, digest = path.read_bytes(), about[_DIGEST]
            if _digest_around(data, data.find(digest.encode())) != digest:
                raise ValueError("another digest")
            return safetensors.torch.load(data), state
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


def _digest_around(data: bytes, start: int) -> str:
    """The digest of a file but for its own place, which begins at ``start``."""
    view = memoryview(data)
    digest = hashlib.sha256(view[:start])
    digest.update(view[start + len(_BLANK) :])
    return digest.hexdigest()


def remove_checkpoint(folder: Path) -> None:
    """Removes the folder's checkpoint, if any, and leftovers of killed processes."""
    try:
        (folder / CHECKPOINT).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(folder / CHECKPOINT, error) from error
    remove_leftovers(folder / CHECKPOINT)
