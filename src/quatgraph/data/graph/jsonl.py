"""Graphs as JSON objects: one per line, or a list of them; one graph per object.

    {"edges": [[0, 1], [1, 2]], "node_labels": ["C", "C", "O"], "label": "toxic"}

* ``edges``: pairs of nodes, counted from 0
* ``node_labels``: for each node its tag; ``node_features``: for each node its numbers; either, both
  or none, but the same in every graph
* ``edge_labels``, ``edge_features``: the same for each of the ``edges``
* ``num_nodes``: needed only for a graph without any of the above
* ``label``: the graph's class; absent or null if unknown
* ``id``: the graph's name; by default its number, from 0
* ``split``: train, valid or test, instead of folds; absent for a graph in no part
* ``group``: the graph's group, which folds keep whole; absent for a graph of its own

Other keys are not used, and a note names them; one that looks like a misspelt key is refused.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quatgraph.data.graph.collection import (
    MAX_NODES,
    Encoded,
    Graphs,
    Ids,
    join_edges,
    merge_graphs,
)
from quatgraph.data.graph.edge_data import with_edge_data
from quatgraph.data.graph.own_split import with_own_split
from quatgraph.data.io.files import is_unicode, to_word
from quatgraph.data.io.jsonl import json_objects
from quatgraph.data.io.messages import quote_some
from quatgraph.data.labels import encode_labels, label_notes
from quatgraph.errors import UserError, did_you_mean

NODE_DATA = "node_labels", "node_features"
EDGE_DATA = "edge_labels", "edge_features"
KEYS = ("edges", *NODE_DATA, *EDGE_DATA, "num_nodes", "label", "id")
"""All keys but those of split and group, which may have other names."""
OWN = "split", "group"
UNUSED = "num_edges", *OWN
"""Keys that never count as misspellings, even if they are unused."""
Located = tuple[str, dict[str, Any]]
"""Where an object is, for messages, and the object."""


class _Graph(NamedTuple):
    where: str
    num_nodes: int
    edges: Ids
    labels: dict[str, list[str]]
    """``node_labels`` and ``edge_labels``, if there are any."""
    features: dict[str, NDArray[np.float32]]
    """``node_features`` and ``edge_features``, if there are any."""
    label: str
    name: str
    split: str
    group: str


def read_jsonl(
    path: Path,
    *,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
    split: str = "",
    group: str = "",
) -> Graphs:
    """Reads a file; for the options see :func:`quatgraph.data.graph.read`."""
    objects = list(json_objects(path, "graph"))
    if not objects:
        raise UserError(f"{path} has no graphs; write one JSON object per line")
    keys = dict.fromkeys(key for _, value in objects for key in value)
    for name in filter(None, (split, group)):
        if name not in keys and labels_needed:
            hint = did_you_mean(name, keys) or f"; its keys are {quote_some(keys)}"
            raise UserError(f"no graph in {path} has the key {name!r}{hint}")
    own = split or "split", group or "group"
    merged = merge_objects(objects, own, missing=missing, labels_needed=labels_needed)
    unused = [key for key in keys if key not in (*KEYS, *own)]
    if unused and labels_needed:
        merged.notes.append(f"{path}: not used: {quote_some(unused)}")
    return replace(merged, name=path.stem)


def merge_objects(
    objects: Iterable[Located],
    own: tuple[str, str] = OWN,
    *,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
) -> Graphs:
    """Checks graphs as JSON has them and merges them; ``own`` are the keys of split and group."""
    located = enumerate(objects)
    graphs = [_parse_graph(value, where, str(place), own) for place, (where, value) in located]
    _check_alike(graphs)
    sizes = np.array([graph.num_nodes for graph in graphs])
    labels = [graph.label for graph in graphs]
    edges = join_edges((graph.edges.T for graph in graphs), sizes)
    tags, attributes = _join_data(graphs, *NODE_DATA)
    merged = merge_graphs(
        name="data",
        sizes=sizes,
        edges=edges,
        labels=encode_labels(labels, missing),
        tags=tags,
        attributes=attributes,
    )
    merged = with_edge_data(merged, edges, *_join_data(graphs, *EDGE_DATA))
    if labels_needed:
        merged.notes.extend(label_notes(labels, missing, ("graph", "graphs")))
    merged = replace(merged, graph_ids=[graph.name for graph in graphs])
    splits, groups = [graph.split for graph in graphs], [graph.group for graph in graphs]
    return with_own_split(merged, splits, groups, lambda row: graphs[row].where)


def _join_data(
    graphs: list[_Graph], labels: str, features: str
) -> tuple[Encoded | None, NDArray[np.float32] | None]:
    """The labels and the features of all nodes or edges, by their keys."""
    tags = list(chain.from_iterable(graph.labels.get(labels, ()) for graph in graphs))
    numbers = [rows for graph in graphs if len(rows := graph.features.get(features, ()))]
    return (
        encode_labels(tags) if tags else None,
        np.concatenate(numbers) if numbers else None,
    )


def _parse_graph(
    value: dict[str, Any], where: str, default_name: str, own: tuple[str, str]
) -> _Graph:
    _check_keys(value, where, own)
    edges = _parse_edges(value.get("edges"), where)
    counts = {}
    if (count := value.get("num_nodes")) is not None:
        if isinstance(count, bool) or not isinstance(count, int):
            raise UserError(f"{where}: 'num_nodes' must be a whole number, not {count!r}")
        counts["num_nodes"] = count
    labels, features = {}, {}
    for what, (label_key, feature_key) in (("node", NODE_DATA), ("edge", EDGE_DATA)):
        if value.get(label_key) is not None:
            labels[label_key] = _parse_labels(value[label_key], where, what)
        if value.get(feature_key) is not None:
            features[feature_key] = _parse_features(value[feature_key], where, what)
    for key, rows in (labels | features).items():
        if key in NODE_DATA:
            counts[key] = len(rows)
        elif len(rows) != len(edges):
            raise UserError(
                f"{where} has {len(edges)} edges but {len(rows)} {key!r}; give one to each edge"
            )
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{key} for {size}" for key, size in counts.items())
        raise UserError(f"{where} gives {shown} nodes; make the numbers agree")
    if not counts and not len(edges):
        raise UserError(f"{where} has no edges and no nodes; set 'num_nodes'")
    num_nodes = next(iter(counts.values())) if counts else int(edges.max()) + 1
    if num_nodes < 1:
        raise UserError(f"{where} is a graph without nodes; give it at least one or remove it")
    if num_nodes > MAX_NODES:
        raise UserError(
            f"{where} is a graph of {num_nodes} nodes; at most {MAX_NODES} are possible"
        )
    outside = (edges < 0) | (edges >= num_nodes)
    if outside.any():
        raise UserError(
            f"{where} has an edge to the node {edges[outside][0]} but the nodes are "
            f"0..{num_nodes - 1}; correct the edge or the number of nodes"
        )
    known, name = value.get("label"), value.get("id")
    label = "" if known is None else _parse_word(known, where, "a graph's label")
    name = default_name if name is None else _parse_word(name, where, "an id")
    split, group = (
        "" if value.get(key) is None else _parse_word(value[key], where, f"{key!r}") for key in own
    )
    return _Graph(where, num_nodes, edges, labels, features, label, name, split, group)


def _check_keys(value: dict[str, Any], where: str, own: tuple[str, str]) -> None:
    """Refuses an unknown key if it is similar to a known one, but for those that the user named."""
    unknown = [key for key in value if key not in KEYS and key not in own]
    usual = tuple(key for key in OWN if key in own)
    for key in unknown:
        if key not in UNUSED and (hint := _suggest(key, (*KEYS, *usual))):
            raise UserError(f"{where} has the unknown key {key!r}{hint}")
    if unknown and value.get("edges") is None:
        raise UserError(
            f"{where} has no 'edges', its unknown keys are {quote_some(unknown)}; rename one of "
            "them, or write [] for a graph without edges"
        )


_suggest = lru_cache(maxsize=256)(did_you_mean)
"""Most graphs of a file have the same keys."""


def _parse_edges(value: object, where: str) -> Ids:
    if value is None:
        raise UserError(f"{where} has no 'edges'; write [] for a graph without any")
    if value == []:
        return np.empty((0, 2), dtype=np.int64)
    array = _to_matrix(value, {int})
    if array is None or array.dtype.kind != "i" or array.shape[1] != 2:
        raise UserError(f"{where}: 'edges' must be pairs of whole numbers, as [[0, 1], [1, 2]]")
    return array.astype(np.int64)


def _parse_labels(value: object, where: str, what: str) -> list[str]:
    if not isinstance(value, list):
        raise UserError(f"{where}: '{what}_labels' must be a list, a label per {what}")
    article = "an" if what == "edge" else "a"
    labels = [_parse_word(label, where, f"{article} {what} label") for label in value]
    if "" in labels:
        raise UserError(f"{where}: {what} {labels.index('')} has no label; give every {what} one")
    return labels


def _parse_features(value: object, where: str, what: str) -> NDArray[np.float32]:
    if value == [] and what == "edge":
        return np.empty((0, 0), dtype=np.float32)
    array = _to_matrix(value, {int, float})
    if array is None or array.dtype.kind not in "iuf" or not array.shape[1]:
        raise UserError(
            f"{where}: '{what}_features' must be a list of numbers for each {what}, all of one "
            "length"
        )
    # The largest float32: what is larger becomes infinite in a model.
    bad = ~(np.abs(array) <= np.finfo(np.float32).max)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise UserError(
            f"{where}: feature {column} of {what} {row} is no finite number; replace it"
        )
    return array.astype(np.float32)


def _to_matrix(value: Any, kinds: set[type]) -> NDArray[Any] | None:
    """A list of lists of numbers as an array; None for anything else."""
    try:
        # numpy alone would read true as 1 among other numbers.
        if not set(map(type, chain.from_iterable(value))) <= kinds:
            return None
        array = np.array(value)
    except (TypeError, ValueError, OverflowError):  # no lists, of unequal length, too large
        return None
    return array if array.ndim == 2 else None


def _parse_word(value: object, where: str, what: str) -> str:
    word = to_word(value)
    if word is None:
        raise UserError(f"{where}: {what} must be text or a number, not {json.dumps(value)[:40]}")
    if not is_unicode(word):
        raise UserError(f"{where}: {what} holds half a character; write it in UTF-8")
    return word


def _check_alike(graphs: list[_Graph]) -> None:
    """Refuses graphs with different data of nodes or edges, and repeated names."""
    first, edged = graphs[0], next((graph for graph in graphs if len(graph.edges)), graphs[0])
    seen: dict[str, str] = {}
    widths: dict[str, tuple[int, str]] = {}
    for graph in graphs:
        # A graph without edges has nothing to label.
        keys = (*NODE_DATA, *EDGE_DATA) if len(graph.edges) else NODE_DATA
        for key in keys:
            one = first if key in NODE_DATA else edged
            has = [key in (each.labels | each.features) for each in (one, graph)]
            if has[0] != has[1]:
                there, here = (graph, one) if has[0] else (one, graph)
                raise UserError(
                    f"{here.where} has {key!r} but {there.where} has none; give them for every "
                    "graph or for none"
                )
        for key, rows in graph.features.items():
            width = rows.shape[1]
            expected, where = widths.setdefault(key, (width, graph.where)) if len(rows) else (0, "")
            if len(rows) and width != expected:
                what = key.removesuffix("_features")
                raise UserError(
                    f"{graph.where} has {width} features per {what} but {where} has "
                    f"{expected}; give every {what} the same number"
                )
        if graph.name in seen:
            raise UserError(
                f"{graph.where} repeats the id {graph.name!r} of {seen[graph.name]}; "
                "give each graph its own"
            )
        seen[graph.name] = graph.where
