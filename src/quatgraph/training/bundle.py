"""A trained model on disk: ``model.safetensors`` and ``card.json``, never a pickle."""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.files import ensure_folder, write_atomic
from quatgraph.training.runtime import json_text, map_leaves, safetensors_bytes

FORMAT_VERSION = 3
BUNDLE = _CARD, _TENSORS = "card.json", "model.safetensors"
_OWN, _KEY = "card_sha256", "key"
_AGAIN = "train again in another folder or with --overwrite"


@dataclass(frozen=True)
class Bundle:
    """Trained models whose predictions are combined, and what they share.

    Attributes:
        card: ``task``; ``members``, each with its config, split, seed, epoch, weight, metrics and
            number of parameters; what they share, such as labels and the reported metrics; perhaps
            a ``key``, see :func:`bundle_key`. Where the inputs of a member are prepared in its own
            way, its entry overrides the card's. Saving adds ``format``, ``sha256``, the digest of
            the tensors' file, and ``card_sha256``, that of all else in the card.
        tensors: ``members.<i>.<name>`` from the state dict of member i, and ``data.<name>``.
    """

    card: dict[str, Any]
    tensors: dict[str, Tensor]

    def select_tensors(self, prefix: str) -> dict[str, Tensor]:
        """The tensors below a prefix, such as ``members.0`` or ``data``, without the prefix."""
        start = f"{prefix}."
        names = [name for name in self.tensors if name.startswith(start)]
        return {name.removeprefix(start): self.tensors[name] for name in names}


def save_bundle(folder: Path, bundle: Bundle) -> None:
    """Writes both files, the card last.

    The card names the tensors' digest and its own, so a pair of which only one file was written or
    one was changed is noticed on loading.
    """
    if "task" not in bundle.card:
        raise ValueError("a bundle's card must name its task")
    ensure_folder(folder)
    data = safetensors_bytes(bundle.tensors, {_KEY: bundle.card.get(_KEY, "")})
    card = bundle.card | {"format": FORMAT_VERSION, "sha256": hashlib.sha256(data).hexdigest()}
    write_atomic(folder / _TENSORS, data)
    write_atomic(folder / _CARD, json_text(card | {_OWN: _digest(card)}, indent=2) + "\n")


def load_bundle(folder: Path, *, task: str | None = None) -> Bundle:
    """Reads a bundle, with its tensors on the CPU; checks that it is whole, and for the task if one
    is given."""
    card = _card(folder)
    found = card.get("format")
    if found != FORMAT_VERSION:
        age = "an older" if isinstance(found, int) and found < FORMAT_VERSION else "another"
        raise UserError(
            f"the bundle {folder} was made by {age} version of quatgraph (format {found}, this one "
            f"reads {FORMAT_VERSION}): train it again"
        )
    if task is not None and card.get("task") != task:
        raise UserError(f"the bundle {folder} is for the task {card.get('task')!r}, not {task!r}")
    try:
        data = (folder / _TENSORS).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {folder / _TENSORS}: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != card.get("sha256"):
        raise UserError(
            f"{folder / _TENSORS} is not the file its {_CARD} describes: the bundle was changed "
            f"or only half written, so {_AGAIN}"
        )
    if card.get(_OWN) != _digest(card):
        raise UserError(f"{folder / _CARD} was changed after the training, so {_AGAIN}")
    try:
        tensors = safetensors.torch.load(data)
    except SafetensorError as error:
        raise UserError(f"{folder / _TENSORS} is corrupt ({error}); {_AGAIN}") from error
    return Bundle(card, tensors)


def restore_nan(value: Any) -> Any:
    """Metrics out of a card, which holds ``null`` for one that is not defined."""
    return map_leaves(value, lambda leaf: math.nan if leaf is None else leaf)


def bundle_key(folder: Path) -> str | None:
    """Reads the key that names what a bundle was trained with, even if the bundle is incomplete.

    None if the tensors are missing, damaged or not ours.
    """
    try:
        with safe_open(folder / _TENSORS, framework="pt") as file:
            return (file.metadata() or {}).get(_KEY)
    except (OSError, SafetensorError):
        return None


def _digest(card: dict[str, Any]) -> str:
    """The digest of a card without the digest itself."""
    rest = {key: value for key, value in card.items() if key != _OWN}
    return hashlib.sha256(json_text(rest).encode()).hexdigest()


def _card(folder: Path) -> dict[str, Any]:
    path = folder / _CARD
    if not folder.is_dir():
        raise UserError(f"there is no bundle {folder}; give the folder that a training wrote")
    if not path.is_file():
        hint = "; if its training is unfinished, go on with --resume" * any(folder.iterdir())
        raise UserError(f"{folder} is not a bundle: it has no {_CARD}{hint}")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is corrupt (no valid JSON: {error}); {_AGAIN}") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(card, dict):
        raise UserError(f"{path} is not a bundle's card: it holds no JSON object")
    return card
