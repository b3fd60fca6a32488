"""Lists of networkx graphs as a collection; networkx is not imported."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from quatgraph.data.graph.collection import Graphs
from quatgraph.data.graph.jsonl import EDGE_DATA, NODE_DATA, merge_objects
from quatgraph.data.io.files import to_plain
from quatgraph.data.labels import label_type, list_labels
from quatgraph.data.node.networkx import is_networkx
from quatgraph.errors import UserError

NODE_KEYS = dict(zip(("label", "x"), NODE_DATA, strict=True))
EDGE_KEYS = dict(zip(("label", "x"), EDGE_DATA, strict=True))
"""Attributes of nodes and of edges, and what they are called in JSON."""


def from_networkx(
    graphs: Sequence[Any],
    labels: Iterable[object] | None = None,
    own: tuple[str, str] = ("split", "group"),
    *,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
) -> Graphs:
    """Checks networkx graphs and merges them into one collection of undirected graphs.

    Args:
        graphs: Each perhaps with ``graph.graph["label"]``, ``"id"``, ``"split"`` and ``"group"``.
            The attribute ``label`` of a node is its tag, ``x`` its features; likewise for edges.
        labels: Label of each graph, if the graphs do not hold them.
        own: Keys of split and group in ``graph.graph``.
        missing: Labels that count as missing.
        labels_needed: Whether to report labels that look like a missing one.
    """
    known = None if labels is None else list_labels(labels, "graph")
    if known is not None and len(known) != len(graphs):
        raise UserError(f"there are {len(graphs)} graphs but {len(known)} labels; give one to each")
    objects = []
    for place, graph in enumerate(graphs):
        where = f"graphs[{place}]"
        if not is_networkx(graph):
            kind = type(graph).__name__
            raise UserError(f"{where} is a {kind} among networkx graphs; give graphs of one kind")
        value = _to_object(graph, where, own)
        if known is not None:
            value["label"] = known[place]
        objects.append((where, value))
    merged = merge_objects(objects, own, missing=missing, labels_needed=labels_needed)
    return replace(merged, label_type=label_type(value.get("label") for _, value in objects))


def _to_object(graph: Any, where: str, own: tuple[str, str]) -> dict[str, Any]:
    """A graph as JSON has it."""
    number = {node: place for place, node in enumerate(graph.nodes)}
    value: dict[str, Any] = {
        "edges": [[number[sender], number[receiver]] for sender, receiver in graph.edges()],
        "num_nodes": len(number),
    }
    for key in ("label", "id", *own):
        if key in graph.graph:
            value[key] = to_plain(graph.graph[key])
    for attribute, key in NODE_KEYS.items():
        cells = [(f"node {node!r}", cell) for node, cell in graph.nodes(data=attribute)]
        value |= _read_attribute(cells, where, attribute, key)
    for attribute, key in EDGE_KEYS.items():
        edges = graph.edges(data=attribute)
        cells = [(f"edge {(one, other)!r}", cell) for one, other, cell in edges]
        value |= _read_attribute(cells, where, attribute, key)
    return value


def _read_attribute(
    cells: Sequence[tuple[str, Any]], where: str, attribute: str, key: str
) -> dict[str, list[Any]]:
    """An attribute of all nodes or edges, by its key; nothing if none has it."""
    lacking = [name for name, cell in cells if cell is None]
    if len(lacking) == len(cells):
        return {}
    if lacking:
        raise UserError(
            f"{lacking[0]} of {where} has no attribute {attribute!r} but others do; "
            "give it to all or to none"
        )
    return {key: [to_plain(cell) for _, cell in cells]}
