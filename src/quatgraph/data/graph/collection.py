"""Many graphs as flat tensors."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.labels import LabelType
from quatgraph.data.tensors import hash_tensor, select_ranges, sizes_to_ptr
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Ids = NDArray[np.int64]
Encoded = tuple[Ids, list[str]]
"""Numbers, ``-1`` for none, and their names, as of :func:`quatgraph.data.labels.encode_labels`."""

MAX_NODES = 2**31 - 1
"""Maximum for all graphs: a pair of nodes must fit an int64, a node an int32."""


@dataclass(frozen=True, eq=False, repr=False)
class Graphs:
    """A collection of undirected graphs with a class each, one after the other.

    Nodes are numbered through the whole collection. Each edge is stored once per direction, sorted
    by sender and receiver, without self-loops. A node's tag is an index into ``tag_names``; a
    one-hot matrix of tags is never built.

    Attributes:
        name: The dataset's name.
        node_ptr: Offset of the first node of each graph, then the number of nodes.
        edge_ptr: Offset of the first edge of each graph, then the number of edges.
        edge_index: Sender and receiver of each edge.
        tags: Tag of each node; all zero without tags.
        tag_names: Name of each tag, sorted, by value if all are numbers.
        attributes: Real features of each node, or ``None``.
        y: Class of each graph, ``-1`` if unknown.
        label_names: Name of each class, sorted like the tags.
        graph_ids: Name of each graph.
        tagged: Whether the source has tags; without, all nodes have the tag ``"0"``.
        parts: For each graph 0, 1 or 2 for train, valid and test, ``-1`` for none; ``None`` if the
            source gives no split.
        groups: Number of each graph's group, which folds keep whole; ``None`` without groups.
        notes: What was inferred: sentences for the user.
        label_type: The type of the labels in memory; ``str`` for those of files.
        edge_tags: Label of each edge, the same in both directions; ``None`` without edge labels.
        edge_tag_names: Name of each label of an edge, sorted like the tags.
        edge_attributes: Real features of each edge, or ``None``.

    Shape:
        - node_ptr, edge_ptr: ``(G + 1,)`` int64
        - edge_index: ``(2, E)`` int64
        - tags: ``(N,)`` int64
        - attributes: ``(N, F)`` float32
        - y, parts, groups: ``(G,)`` int64
        - edge_tags: ``(E,)`` int64
        - edge_attributes: ``(E, D)`` float32
    """

    name: str
    node_ptr: Tensor
    edge_ptr: Tensor
    edge_index: Tensor
    tags: Tensor
    tag_names: list[str]
    attributes: Tensor | None
    y: Tensor
    label_names: list[str]
    graph_ids: list[str]
    tagged: bool = True
    parts: Tensor | None = None
    groups: Tensor | None = None
    notes: list[str] = field(default_factory=list)
    label_type: LabelType = "str"
    edge_tags: Tensor | None = None
    edge_tag_names: list[str] = field(default_factory=list)
    edge_attributes: Tensor | None = None

    def __len__(self) -> int:
        return self.y.numel()

    def __repr__(self) -> str:
        edges = self.edge_index.size(1) // 2
        return f"Graphs({self.name!r}, {len(self)} graphs, {self.num_nodes} nodes, {edges} edges)"

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs."""
        return self.tags.numel()

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.label_names)

    @property
    def num_tags(self) -> int:
        """Number of distinct tags."""
        return len(self.tag_names)

    @property
    def node_names(self) -> list[list[str]]:
        """A name for each node of each graph: its number and, before a colon, its tag, if any."""
        tags, ptr = self.tags.tolist(), self.node_ptr.tolist()
        return [
            [f"{self.tag_names[tag]}:{n}" if self.tagged else f"{n}" for n, tag in enumerate(own)]
            for own in (tags[first:last] for first, last in pairwise(ptr))
        ]

    @cached_property
    def degrees(self) -> Tensor:
        """Number of neighbours of each node, ``(N,)``."""
        return torch.bincount(self.edge_index[0], minlength=self.num_nodes)

    @cached_property
    def digest(self) -> str:
        """A sha256 of everything that can change a result: graphs, labels, splits, ids and names.

        It does not depend on the source of the graphs or the collection's name.
        """
        names = [self.label_names, self.tag_names, self.graph_ids]
        if self.edge_tags is not None:
            names.append(self.edge_tag_names)
        return flat_digest(flat_form(self), *names)

    def select(self, index: Tensor | Sequence[int]) -> "Graphs":
        """The graphs at ``index`` ``(K,)``, possibly repeated, or of a boolean mask ``(G,)``.

        Names of labels and tags stay, so codes mean the same in both collections.
        """
        index = torch.as_tensor(index)
        if index.dtype == torch.bool:
            if index.shape != self.y.shape:
                raise UserError(f"a mask over {len(self)} graphs must have shape ({len(self)},)")
            index = index.nonzero().flatten()
        index = index.long().flatten()
        outside = index[(index < 0) | (index >= len(self))]
        if len(outside):
            raise UserError(
                f"there is no graph {int(outside[0])}; the graphs are 0..{len(self) - 1}"
            )
        nodes, node_ptr = select_ranges(self.node_ptr, index)
        edges, edge_ptr = select_ranges(self.edge_ptr, index)
        shift = (node_ptr[:-1] - self.node_ptr[index]).repeat_interleave(edge_ptr.diff())
        return replace(
            self,
            node_ptr=node_ptr,
            edge_ptr=edge_ptr,
            edge_index=self.edge_index[:, edges] + shift,
            tags=self.tags[nodes],
            attributes=None if self.attributes is None else self.attributes[nodes],
            y=self.y[index],
            parts=None if self.parts is None else self.parts[index],
            groups=None if self.groups is None else self.groups[index],
            edge_tags=None if self.edge_tags is None else self.edge_tags[edges],
            edge_attributes=None if self.edge_attributes is None else self.edge_attributes[edges],
            graph_ids=[self.graph_ids[place] for place in index.tolist()],
        )

    def with_present_labels(self) -> "Graphs":
        """The same graphs without unused names of classes."""
        used, y = self.y.unique(return_inverse=True)
        missing = int((used < 0).any())  # -1, for unknown, sorts first
        names = [self.label_names[place] for place in used[missing:].tolist()]
        if names == self.label_names:
            return self
        return replace(self, y=y - missing, label_names=names)

    def with_degrees_as_tags(self) -> "Graphs":
        """The same graphs with node degrees as tags, for social networks without tags."""
        values, tags = self.degrees.unique(return_inverse=True)
        names = [str(value) for value in values.tolist()]
        return replace(self, tags=tags, tag_names=names, tagged=True)

    def to_data_list(self) -> "list[Data]":
        """One PyG ``Data`` per graph: ``edge_index``, ``tag``, ``y``, and ``x`` for attributes;
        ``edge_attr`` for those of edges or, without any, for labels of edges."""
        from torch_geometric.data import Data

        nodes, edges = self.node_ptr.tolist(), self.edge_ptr.tolist()
        edge_attr = self.edge_tags if self.edge_attributes is None else self.edge_attributes
        graphs = []
        for place in range(len(self)):
            own = slice(nodes[place], nodes[place + 1])
            own_edges = slice(edges[place], edges[place + 1])
            graph = Data(
                edge_index=self.edge_index[:, own_edges] - nodes[place],
                tag=self.tags[own],
                y=self.y[place : place + 1],
                num_nodes=nodes[place + 1] - nodes[place],
            )
            if self.attributes is not None:
                graph.x = self.attributes[own]
            if edge_attr is not None:
                graph.edge_attr = edge_attr[own_edges]
            graphs.append(graph)
        return graphs


def merge_graphs(
    *,
    name: str,
    sizes: Ids,
    edges: Iterable[Ids],
    labels: Encoded,
    tags: Encoded | None = None,
    attributes: NDArray[np.float32] | None = None,
) -> Graphs:
    """Builds a collection with each edge once in both directions, without self-loops. Graphs are
    numbered; a reader that knows their ids replaces the numbers.

    Args:
        sizes: Number of nodes of each graph.
        edges: Sender and receiver of each edge, numbered through the whole collection; in any
            order, repeated, in one direction or in both.
        tags: Of each node; by default all nodes have the same one.
    """
    num_nodes = int(sizes.sum())
    if num_nodes > MAX_NODES:
        raise UserError(f"{name} has {num_nodes:,} nodes; take fewer graphs, at most {MAX_NODES:,}")
    sender, receiver = edges
    edge_index = _both_directions(sender, receiver, num_nodes)
    node_ptr = np.concatenate(([0], np.cumsum(sizes)))
    y, label_names = labels
    tag_of, tag_names = tags or (np.zeros(num_nodes, dtype=np.int64), ["0"])
    return Graphs(
        name=name,
        node_ptr=torch.from_numpy(node_ptr),
        edge_ptr=torch.from_numpy(np.searchsorted(edge_index[0], node_ptr)),
        edge_index=torch.from_numpy(edge_index),
        tags=torch.from_numpy(tag_of),
        tag_names=tag_names,
        attributes=None if attributes is None else torch.from_numpy(attributes),
        y=torch.from_numpy(y),
        label_names=label_names,
        graph_ids=[str(place) for place in range(len(sizes))],
        tagged=tags is not None,
    )


def join_edges(edges: Iterable[Ids], sizes: Ids) -> Ids:
    """Edge lists of single graphs, ``(2, E)`` each, as one of the whole collection."""
    offsets = np.cumsum(sizes) - sizes
    return np.concatenate(
        [ends + offset for ends, offset in zip(edges, offsets, strict=True)], axis=1
    )


def check_labels(graphs: Graphs, where: str) -> None:
    """Refuses graphs that cannot be trained on: no labels, or one class only."""
    if not graphs.label_names:
        raise UserError(f"no graph in {where} has a label; give a class to every graph you know")
    if graphs.num_classes < 2:
        raise UserError(
            f"all labelled graphs in {where} have the class {graphs.label_names[0]!r}; "
            "training needs at least two classes"
        )


def flat_form(graphs: Graphs) -> dict[str, Tensor]:
    """The tensors that determine a collection, as int32 for a digest or a file.

    Edges are sorted by sender, so node degrees and neighbours determine them.
    """
    offset = graphs.node_ptr[:-1].repeat_interleave(graphs.edge_ptr.diff())
    flat = {
        "sizes": graphs.node_ptr.diff().int(),
        "degrees": graphs.degrees.int(),
        "neighbours": (graphs.edge_index[1] - offset).int(),
        "tags": graphs.tags.int(),
        "y": graphs.y.int(),
    }
    if graphs.attributes is not None:
        flat["attributes"] = graphs.attributes
    if graphs.edge_attributes is not None:
        flat["edge_attributes"] = graphs.edge_attributes
    own = {"parts": graphs.parts, "groups": graphs.groups, "edge_tags": graphs.edge_tags}
    return flat | {key: value.int() for key, value in own.items() if value is not None}


def flat_digest(flat: dict[str, Tensor], *names: list[str]) -> str:
    """The digest of a collection from its flat form and names."""
    total = hashlib.sha256(b"quatgraph graph data 1")
    for key in sorted(flat):
        hash_tensor(total, key, flat[key])
    total.update(json.dumps(names).encode())
    return total.hexdigest()


def from_flat_form(flat: dict[str, Tensor], **names: Any) -> Graphs:
    """The inverse of :func:`flat_form`, with the names of the collection."""
    sizes, degrees = flat["sizes"].long(), flat["degrees"].long()
    node_ptr, degree_ptr = sizes_to_ptr(sizes), sizes_to_ptr(degrees)
    edge_ptr = degree_ptr[node_ptr]
    # In place: for the largest datasets a copy doubles the time.
    edge_index = torch.empty(2, flat["neighbours"].numel(), dtype=torch.long)
    edge_index[0] = torch.arange(degrees.numel()).repeat_interleave(degrees)
    offset = node_ptr[:-1].repeat_interleave(edge_ptr.diff())
    torch.add(flat["neighbours"], offset, out=edge_index[1])
    return Graphs(
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        edge_index=edge_index,
        tags=flat["tags"].long(),
        attributes=flat.get("attributes"),
        y=flat["y"].long(),
        parts=flat["parts"].long() if "parts" in flat else None,
        groups=flat["groups"].long() if "groups" in flat else None,
        edge_tags=flat["edge_tags"].long() if "edge_tags" in flat else None,
        edge_attributes=flat.get("edge_attributes"),
        **names,
    )


def _both_directions(sender: Ids, receiver: Ids, num_nodes: int) -> Ids:
    """Every edge once in each direction, sorted by sender and receiver, without self-loops.

    Like :func:`quatgraph.data.edges.merge_edges`, for tens of millions of edges: sorting undirected
    edges first halves time and memory, and a stable sort is fast on the sorted runs of the files.
    """
    key = np.minimum(sender, receiver) * num_nodes + np.maximum(sender, receiver)
    key = np.sort(key[sender != receiver], kind="stable")
    key = key[np.concatenate((key[:1] >= 0, key[1:] != key[:-1]))]
    low, high = np.divmod(key, num_nodes)
    key = np.sort(np.concatenate((key, high * num_nodes + low)), kind="stable")
    return np.stack(np.divmod(key, num_nodes))
