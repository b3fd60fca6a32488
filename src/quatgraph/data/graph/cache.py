"""Graphs that were read once, kept in a form that is read faster.

A kept file is only a shortcut: what is damaged, cut short or of another version counts as absent,
and a cache that cannot be written is no mistake.
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
"""Of the form of a kept file and of the way from a source to graphs; another one is read anew."""


def kept_graphs(name: str, source: str) -> Graphs | None:
    """The graphs kept for a source, or ``None``.

    Args:
        name: The dataset's name.
        source: Digest of the file that the graphs were read from.
    """
    try:
        place = _place(name, source)
        if place is None:
            return None
        with safetensors.safe_open(place, framework="pt") as file:
            told = file.metadata()
            flat = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        names = json.loads(told["names"])
        # Before anything is made of them: damaged sizes could ask for any amount of memory.
        digest = flat_digest(flat, names["label_names"], names["tag_names"], names["graph_ids"])
        if digest != told["digest"]:
            return None
        graphs = from_flat_form(flat, name=name, **names)
    except (OSError, safetensors.SafetensorError, LookupError, TypeError):
        return None
    except (ValueError, RuntimeError):  # names that are no JSON, arrays that do not fit together
        return None
    vars(graphs)["digest"] = digest  # as the first look at it would
    return graphs


def keep_graphs(graphs: Graphs, source: str) -> None:
    """Keeps graphs for the next time; the file appears only when it is whole."""
    place = _place(graphs.name, source)
    if place is None:
        return
    names = {key: getattr(graphs, key) for key in ("label_names", "tag_names", "graph_ids")}
    told = {"digest": graphs.digest, "names": json.dumps(names)}
    with contextlib.suppress(OSError, safetensors.SafetensorError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as file:
            write_all(file, safetensors.torch.save(flat_form(graphs), told))


def _place(name: str, source: str) -> Path | None:
    """Where the graphs are kept; None without a cache."""
    root = store.cache_root()
    digest = hashlib.sha256(f"{_VERSION} {source}".encode()).hexdigest()
    return root and root / "graph" / f"{name}-{digest[:16]}.safetensors"
