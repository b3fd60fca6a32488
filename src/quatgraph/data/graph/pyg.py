"""Lists of PyG ``Data`` as a collection of graphs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.graph.collection import (
    Encoded,
    Graphs,
    check_labels,
    join_edges,
    merge_graphs,
)
from quatgraph.data.graph.edge_data import with_edge_data
from quatgraph.data.graph.own_split import with_own_split
from quatgraph.data.io.files import to_plain, to_word
from quatgraph.data.labels import encode_labels, encode_numbers
from quatgraph.data.pyg import check_edge_index, check_features, count_nodes
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data


def from_list(
    graphs: "Iterable[Data]",
    *,
    labels_needed: bool = True,
    own: tuple[str, str] = ("split", "group"),
) -> Graphs:
    """Checks PyG graphs and merges them into one collection of undirected graphs.

    Classes may have any numbers from 0, which become their names.

    Args:
        graphs: Each with ``edge_index``, optionally ``y`` (one whole number, ``-1`` for unknown),
            ``x`` (features, all graphs or none), ``tag`` (a whole number per node, likewise) and
            ``edge_attr`` (likewise; whole numbers are labels of edges, real ones their features).
        labels_needed: Whether to refuse graphs that cannot be trained on.
        own: Attributes that hold a graph's split (``train``, ``valid`` or ``test``) and its group.
    """
    from torch_geometric.data import Data
    from torch_geometric.data.data import BaseData

    refused = isinstance(graphs, str | bytes | Mapping | Tensor | BaseData)
    if refused or not (hasattr(graphs, "__iter__") or hasattr(graphs, "__getitem__")):
        raise UserError(
            "graphs must be a list of PyG's Data, or the path of a file or folder of graphs, not "
            f"{type(graphs).__name__}"
        )
    graphs = list(graphs)
    if not graphs:
        raise UserError("the list has no graphs; give at least one")
    for place, graph in enumerate(graphs):
        if not isinstance(graph, Data):
            kind = type(graph).__name__
            raise UserError(f"graphs[{place}] is a {kind}; give a list of PyG's Data")
    sizes = np.empty(len(graphs), dtype=np.int64)
    edges, labels, tags, features, edge_rows = [], [], [], [], []
    for place, graph in enumerate(graphs):
        where = f"graphs[{place}]"
        sizes[place] = size = count_nodes(graph, "x", "tag", "num_nodes") or 0
        if size < 1:
            raise UserError(f"{where} has no nodes; give it x, tag or num_nodes")
        edges.append(check_edge_index(graph.get("edge_index"), size, f"{where}.edge_index").numpy())
        labels.append(_parse_label(graph.get("y"), where, needed=labels_needed))
        if graph.get("tag") is not None:
            tags.append(_check_tags(graph.tag, size, where))
        if graph.get("x") is not None:
            features.append(check_features(graph.x, f"{where}.x").numpy())
        if graph.get("edge_attr") is not None:
            edge_rows.append(_check_edge_attr(graph.edge_attr, edges[-1].shape[1], where))
    _check_alike(graphs, {"x": features, "tag": tags, "edge_attr": edge_rows})
    joined = join_edges(edges, sizes)
    whole = merge_graphs(
        name="data",
        sizes=sizes,
        edges=joined,
        labels=encode_labels(labels),
        tags=encode_numbers(np.concatenate(tags)) if tags else None,
        attributes=np.concatenate(features) if features and features[0].shape[1] else None,
    )
    whole = with_edge_data(whole, joined, *_split_edge_attr(edge_rows))
    if labels_needed:
        check_labels(whole, "the list")
    splits, groups = (
        [_parse_word(graph, key, at) for at, graph in enumerate(graphs)] for key in own
    )
    whole = replace(whole, label_type="int")
    return with_own_split(whole, splits, groups, "graphs[{}]".format)


def _parse_word(graph: "Data", key: str, place: int) -> str:
    value = graph.get(key)
    word = "" if value is None else to_word(to_plain(value))
    if word is None:
        raise UserError(f"graphs[{place}].{key} must be text or a number, not {value!r}")
    return word


def _parse_label(y: object, where: str, *, needed: bool) -> str:
    if y is None:
        return ""
    if isinstance(y, Tensor) and y.numel() == 1 and not (y.is_floating_point() or y.is_complex()):
        y = int(y)
    if not isinstance(y, int) or y < -1:
        if not needed:
            return ""
        raise UserError(f"{where}.y must be one whole number, 0 or more, or -1 for unknown")
    return "" if y == -1 else str(int(y))


def _check_tags(tag: object, num_nodes: int, where: str) -> np.ndarray:
    if not isinstance(tag, Tensor) or tag.shape != (num_nodes,) or tag.is_floating_point():
        raise UserError(f"{where}.tag must be a whole number for each of its nodes")
    return tag.detach().cpu().long().numpy()


def _check_edge_attr(edge_attr: object, num_edges: int, where: str) -> np.ndarray:
    """Checks labels or features of edges, and returns a row per edge."""
    if not isinstance(edge_attr, Tensor) or edge_attr.dim() not in (1, 2):
        raise UserError(f"{where}.edge_attr must be a tensor with a row per edge")
    rows = edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr
    if rows.size(0) != num_edges:
        raise UserError(
            f"{where}.edge_attr has {rows.size(0)} rows but there are {num_edges} edges; give each "
            "edge one"
        )
    if rows.is_floating_point():
        return check_features(rows, f"{where}.edge_attr").numpy()
    return rows.detach().cpu().long().numpy()


def _split_edge_attr(
    edge_rows: Sequence[np.ndarray],
) -> tuple[Encoded | None, NDArray[np.float32] | None]:
    """The labels or the features of all edges; several whole numbers of an edge are one label."""
    if not edge_rows or not edge_rows[0].shape[1]:
        return None, None
    rows = np.concatenate(edge_rows)
    if rows.dtype.kind == "f":
        return None, rows
    if rows.shape[1] == 1:
        return encode_numbers(rows[:, 0]), None
    return encode_labels([",".join(map(str, row)) for row in rows.tolist()]), None


def _check_alike(graphs: "Sequence[Data]", found: Mapping[str, Sequence[np.ndarray]]) -> None:
    """Refuses graphs of which only some have an attribute, and features of different widths."""
    for key, arrays in found.items():
        if arrays and len(arrays) < len(graphs):
            place = [graph.get(key) is None for graph in graphs].index(True)
            raise UserError(f"graphs[{place}] has no {key} but others do; give all or none")
    for key, what in (("x", "node"), ("edge_attr", "edge")):
        widths = [rows.shape[1] for rows in found[key]]
        for place, width in enumerate(widths):
            if width != widths[0]:
                raise UserError(
                    f"graphs[{place}].{key} has {width} features but graphs[0].{key} has "
                    f"{widths[0]}; give every {what} the same number"
                )
    kinds = [rows.dtype.kind for rows in found["edge_attr"]]
    if len(set(kinds)) > 1:
        place = [kind != kinds[0] for kind in kinds].index(True)
        raise UserError(
            f"graphs[{place}].edge_attr and graphs[0].edge_attr differ in type; give whole numbers "
            "for labels of edges, or real numbers for features, in all graphs"
        )
