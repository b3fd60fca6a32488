"""Lists of PyG ``Data`` as a collection of graphs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from quatgraph.data.graph.collection import Graphs, check_labels, join_edges, merge_graphs
from quatgraph.data.labels import encode_labels, encode_numbers
from quatgraph.data.pyg import check_edge_index, check_features, count_nodes
from quatgraph.errors import Mistake

if TYPE_CHECKING:
    from torch_geometric.data import Data


def from_list(
    graphs: "Iterable[Data]", *, name: str = "data", labels_needed: bool = True
) -> Graphs:
    """Checks PyG graphs and merges them into one collection of undirected graphs.

    Classes may have any numbers from 0, which become their names.

    Args:
        graphs: Each with ``edge_index``, optionally ``y`` (one whole number, ``-1`` for unknown),
            ``x`` (features, all graphs or none) and ``tag`` (a whole number per node, likewise).
        name: Name of the collection.
        labels_needed: Whether to refuse graphs that cannot be trained on.
    """
    from torch_geometric.data import Data
    from torch_geometric.data.data import BaseData

    refused = isinstance(graphs, str | bytes | Mapping | Tensor | BaseData)
    if refused or not (hasattr(graphs, "__iter__") or hasattr(graphs, "__getitem__")):
        raise Mistake(
            "graphs must be a list of PyG's Data, or the path of a file or folder of graphs, not "
            f"{type(graphs).__name__}"
        )
    graphs = list(graphs)
    if not graphs:
        raise Mistake("the list has no graphs; give at least one")
    for place, graph in enumerate(graphs):
        if not isinstance(graph, Data):
            kind = type(graph).__name__
            raise Mistake(f"graphs[{place}] is a {kind}; give a list of PyG's Data")
    for key in ("x", "tag"):
        given = [graph.get(key) is not None for graph in graphs]
        if any(given) and not all(given):
            place = given.index(False)
            raise Mistake(f"graphs[{place}] has no {key} but others do; give all or none")
    sizes = np.array([_count_nodes(graph, place) for place, graph in enumerate(graphs)])
    edges = [
        check_edge_index(graph.get("edge_index"), int(size), f"graphs[{place}].edge_index").numpy()
        for place, (graph, size) in enumerate(zip(graphs, sizes, strict=True))
    ]
    tags = None
    if graphs[0].get("tag") is not None:
        parts = [_tags(g, at, int(n)) for at, (g, n) in enumerate(zip(graphs, sizes, strict=True))]
        tags = encode_numbers(np.concatenate(parts))
    labels = [_label(graph, place, needed=labels_needed) for place, graph in enumerate(graphs)]
    whole = merge_graphs(
        name=name,
        sizes=sizes,
        edges=join_edges(edges, sizes),
        labels=encode_labels(labels),
        tags=tags,
        attributes=_attributes(graphs),
    )
    if labels_needed:
        check_labels(whole, "the list")
    return whole


def _count_nodes(graph: "Data", place: int) -> int:
    size = count_nodes(graph, "x", "tag", "num_nodes")
    if not size or size < 1:
        raise Mistake(f"graphs[{place}] has no nodes; give it x, tag or num_nodes")
    return size


def _label(graph: "Data", place: int, *, needed: bool) -> str:
    y = graph.get("y")
    if y is None:
        return ""
    if isinstance(y, Tensor) and y.numel() == 1 and not (y.is_floating_point() or y.is_complex()):
        y = int(y)
    if not isinstance(y, int) or y < -1:
        if not needed:
            return ""
        raise Mistake(f"graphs[{place}].y must be one whole number, 0 or more, or -1 for unknown")
    return "" if y == -1 else str(int(y))


def _tags(graph: "Data", place: int, num_nodes: int) -> np.ndarray:
    tag = graph.tag
    if not isinstance(tag, Tensor) or tag.shape != (num_nodes,) or tag.is_floating_point():
        raise Mistake(f"graphs[{place}].tag must be a whole number for each of its nodes")
    return tag.detach().cpu().long().numpy()


def _attributes(graphs: "Sequence[Data]") -> np.ndarray | None:
    if graphs[0].get("x") is None:
        return None
    parts: list[np.ndarray] = []
    for place, graph in enumerate(graphs):
        x = check_features(graph.x, f"graphs[{place}].x")
        if parts and x.size(1) != parts[0].shape[1]:
            raise Mistake(
                f"graphs[{place}].x has {x.size(1)} features but graphs[0].x has "
                f"{parts[0].shape[1]}; give every node the same number"
            )
        parts.append(x.numpy())
    whole = np.concatenate(parts)
    return whole if whole.shape[1] else None
