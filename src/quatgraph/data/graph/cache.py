"""A cache of graphs in a form that is read faster than their source.

A damaged file or one of another version is ignored, and a cache that cannot be written is no error.
"""

import contextlib
import hashlib
import json
from pathlib import Path

import safetensors
import safetensors.torch

from quatgraph.data.graph.collection import Graphs, flat_digest, flat_form, from_flat_form
from quatgraph.data.io import store
from quatgraph.files import replacing, write_all

_VERSION = "1"
"""Version of the cached form and of the readers."""
_NAMES = ("label_names", "tag_names", "graph_ids")


def load_cached(name: str, source: str) -> Graphs | None:
    """The cached graphs of a dataset, read from a file of the digest ``source``; or ``None``."""
    try:
        place = _cache_file(name, source)
        if place is None:
            return None
        with safetensors.safe_open(place, framework="pt") as file:
            metadata = file.metadata()
            flat = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        names = json.loads(metadata["names"])
        # Checked first: damaged sizes could request any amount of memory.
        digest = flat_digest(flat, *(names[key] for key in _NAMES))
        if digest != metadata["digest"]:
            return None
        graphs = from_flat_form(flat, name=name, **names)
    except (OSError, safetensors.SafetensorError, LookupError, TypeError, ValueError, RuntimeError):
        return None
    vars(graphs)["digest"] = digest  # fills the cached property
    return graphs


def save_cached(graphs: Graphs, source: str) -> None:
    """Writes graphs to the cache; the file appears only when it is complete."""
    place = _cache_file(graphs.name, source)
    if place is None:
        return
    names = {key: getattr(graphs, key) for key in _NAMES}
    metadata = {"digest": graphs.digest, "names": json.dumps(names)}
    with contextlib.suppress(OSError, safetensors.SafetensorError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as file:
            write_all(file, safetensors.torch.save(flat_form(graphs), metadata))


def _cache_file(name: str, source: str) -> Path | None:
    """The file of a dataset in the cache; None without a cache."""
    root = store.cache_root()
    digest = hashlib.sha256(f"{_VERSION} {source}".encode()).hexdigest()
    return root and root / "graph" / f"{name}-{digest[:16]}.safetensors"
