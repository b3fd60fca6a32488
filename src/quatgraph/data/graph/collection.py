"""Many graphs as one: flat tensors, put together the same way wherever they came from."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.errors import Mistake

if TYPE_CHECKING:
    from torch_geometric.data import Data

Ids = NDArray[np.int64]

MAX_NODES = 2**31 - 1
"""Of all graphs together: a pair of nodes must fit an int64, a node an int32."""


@dataclass(frozen=True, eq=False, repr=False)
class Graphs:
    """A collection of undirected graphs with a class each, all graphs one after the other.

    Nodes are numbered through the whole collection. Edges stand in both directions, each once,
    sorted by sender and receiver, without self-loops. A tag is a node's kind, stored as its place
    in ``tag_names``; a one-hot matrix of tags is never built.

    Attributes:
        name: The dataset's name.
        node_ptr: Where the nodes of each graph begin, and the number of nodes.
        edge_ptr: Where the edges of each graph begin, and the number of edges.
        edge_index: Sender and receiver of each edge.
        tags: Tag of each node; all zero where the nodes have none.
        tag_names: Name of each tag, sorted, by value where all are numbers.
        attributes: Real features of each node, or ``None``.
        y: Class of each graph, ``-1`` where it is unknown.
        label_names: Name of each class, sorted as the tags are.
        graph_ids: Name of each graph.
        tagged: Whether the nodes came with tags; without, all have the tag ``"0"``.
        notes: What a person should know of what was read: sentences.

    Shape:
        - node_ptr, edge_ptr: ``(G + 1,)`` int64
        - edge_index: ``(2, E)`` int64
        - tags: ``(N,)`` int64
        - attributes: ``(N, F)`` float32
        - y: ``(G,)`` int64
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
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return self.y.numel()

    def __repr__(self) -> str:
        edges = self.edge_index.size(1) // 2
        return f"Graphs({self.name!r}, {len(self)} graphs, {self.num_nodes} nodes, {edges} edges)"

    @property
    def num_nodes(self) -> int:
        """Nodes of all graphs together."""
        return self.tags.numel()

    @property
    def num_classes(self) -> int:
        """Distinct labels."""
        return len(self.label_names)

    @property
    def num_tags(self) -> int:
        """Distinct tags."""
        return len(self.tag_names)

    @cached_property
    def degrees(self) -> Tensor:
        """Number of neighbours of each node, ``(N,)``."""
        return torch.bincount(self.edge_index[0], minlength=self.num_nodes)

    @cached_property
    def digest(self) -> str:
        """A sha256 of everything that can change a number: graphs, labels, ids and names.

        It does not depend on where the graphs were read from, nor on the collection's name.
        """
        return flat_digest(flat_form(self), self.label_names, self.tag_names, self.graph_ids)

    def select(self, index: Tensor | Sequence[int]) -> "Graphs":
        """Some of the graphs, in the order of ``index``; a graph may come more than once.

        Names of labels and tags stay as they are, so that codes mean the same in both collections.

        Args:
            index: Places of the graphs, or a boolean mask.

        Shape:
            - index: ``(K,)``, or ``(G,)`` for a mask
        """
        index = torch.as_tensor(index)
        if index.dtype == torch.bool:
            if index.shape != self.y.shape:
                raise Mistake(f"a mask over {len(self)} graphs must have shape ({len(self)},)")
            index = index.nonzero().flatten()
        index = index.long().flatten()
        if bool(((index < 0) | (index >= len(self))).any()):
            wrong = int(index[(index < 0) | (index >= len(self))][0])
            raise Mistake(f"there is no graph {wrong}; the graphs are 0..{len(self) - 1}")
        nodes, node_ptr = _ranges(self.node_ptr, index)
        edges, edge_ptr = _ranges(self.edge_ptr, index)
        # How far the nodes of each chosen graph have moved.
        moved = (node_ptr[:-1] - self.node_ptr[index]).repeat_interleave(edge_ptr.diff())
        return replace(
            self,
            node_ptr=node_ptr,
            edge_ptr=edge_ptr,
            edge_index=self.edge_index[:, edges] + moved,
            tags=self.tags[nodes],
            attributes=None if self.attributes is None else self.attributes[nodes],
            y=self.y[index],
            graph_ids=[self.graph_ids[place] for place in index.tolist()],
        )

    def with_present_labels(self) -> "Graphs":
        """The same graphs, without the names of classes that none of them has."""
        used, y = self.y.unique(return_inverse=True)
        missing = int((used < 0).any())  # -1, unknown, comes first and stays what it is
        names = [self.label_names[place] for place in used[missing:].tolist()]
        return replace(self, y=y - missing, label_names=names)

    def with_degrees_as_tags(self) -> "Graphs":
        """The same graphs, each node's tag replaced by its number of neighbours.

        For social sets, whose nodes all have one tag. A self-loop in a source is no neighbour.
        """
        values, tags = self.degrees.unique(return_inverse=True)
        names = [str(value) for value in values.tolist()]
        return replace(self, tags=tags, tag_names=names, tagged=True)

    def to_data_list(self) -> "list[Data]":
        """One PyG ``Data`` per graph: ``edge_index``, ``tag``, ``y``, and ``x`` for attributes."""
        from torch_geometric.data import Data

        nodes, edges = self.node_ptr.tolist(), self.edge_ptr.tolist()
        graphs = []
        for place in range(len(self)):
            own = slice(nodes[place], nodes[place + 1])
            graph = Data(
                edge_index=self.edge_index[:, edges[place] : edges[place + 1]] - nodes[place],
                tag=self.tags[own],
                y=self.y[place : place + 1],
                num_nodes=nodes[place + 1] - nodes[place],
            )
            if self.attributes is not None:
                graph.x = self.attributes[own]
            graphs.append(graph)
        return graphs


@dataclass(frozen=True, eq=False)
class GraphLists:
    """Graphs as a reader finds them: edges in any order, repeated, in one direction or in both.

    Attributes:
        name: The dataset's name.
        sizes: Number of nodes of each graph.
        sender: First node of each edge, numbered through the whole collection.
        receiver: Second node, in the same graph.
        y: Class of each graph, ``-1`` for none.
        label_names: Name of each class.
        tags: Tag of each node; ``None`` gives all nodes the same one.
        tag_names: Name of each tag.
        attributes: Real features of each node.
        graph_ids: Name of each graph; by default its number.
        notes: What was inferred: sentences for the user.
    """

    name: str
    sizes: Ids
    sender: Ids
    receiver: Ids
    y: Ids
    label_names: list[str]
    tags: Ids | None = None
    tag_names: list[str] = field(default_factory=list)
    attributes: NDArray[np.float32] | None = None
    graph_ids: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    def merge(self) -> Graphs:
        """Keeps each edge once in both directions and drops self-loops."""
        num_nodes = int(self.sizes.sum())
        if num_nodes > MAX_NODES:
            raise Mistake(
                f"{self.name} has {num_nodes:,} nodes; take fewer graphs, at most {MAX_NODES:,}"
            )
        edge_index = _both_directions(self.sender, self.receiver, num_nodes)
        node_ptr = np.concatenate(([0], np.cumsum(self.sizes)))
        tagged = self.tags is not None
        tags = np.zeros(num_nodes, dtype=np.int64) if self.tags is None else self.tags
        numbers = map(str, range(len(self.sizes)))
        return Graphs(
            name=self.name,
            node_ptr=torch.from_numpy(node_ptr),
            edge_ptr=torch.from_numpy(np.searchsorted(edge_index[0], node_ptr)),
            edge_index=torch.from_numpy(edge_index),
            tags=torch.from_numpy(tags),
            tag_names=self.tag_names if tagged else ["0"],
            attributes=None if self.attributes is None else torch.from_numpy(self.attributes),
            y=torch.from_numpy(self.y),
            label_names=self.label_names,
            graph_ids=list(numbers) if self.graph_ids is None else self.graph_ids,
            tagged=tagged,
            notes=self.notes,
        )


def check_labels(graphs: Graphs, where: str) -> None:
    """Refuses graphs that nothing can be learned from: no labels, or one class only."""
    if not graphs.label_names:
        raise Mistake(f"no graph in {where} has a label; give a class to every graph you know")
    if graphs.num_classes < 2:
        raise Mistake(
            f"all labelled graphs in {where} have the class {graphs.label_names[0]!r}; "
            "training needs at least two classes"
        )


def flat_form(graphs: Graphs) -> dict[str, Tensor]:
    """What a collection is made of, without what follows from it, in small numbers.

    Edges are sorted by sender, so the neighbours and their number per node say all.
    """
    start = graphs.node_ptr[:-1].repeat_interleave(graphs.edge_ptr.diff())
    flat = {
        "sizes": graphs.node_ptr.diff().int(),
        "degrees": graphs.degrees.int(),
        "neighbours": (graphs.edge_index[1] - start).int(),
        "tags": graphs.tags.int(),
        "y": graphs.y.int(),
    }
    if graphs.attributes is not None:
        flat["attributes"] = graphs.attributes
    return flat


def flat_digest(flat: dict[str, Tensor], *names: list[str]) -> str:
    """The digest of the collection that has this flat form and these names."""
    total = hashlib.sha256(b"quatgraph graph data 1")
    for key in sorted(flat):
        array = flat[key].contiguous().numpy()
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        total.update(f"\n{key} {array.dtype.str} {array.shape} ".encode())
        total.update(array.data)
    total.update(json.dumps(names).encode())
    return total.hexdigest()


def from_flat_form(
    flat: dict[str, Tensor],
    *,
    name: str,
    label_names: list[str],
    tag_names: list[str],
    graph_ids: list[str],
) -> Graphs:
    """The inverse of :func:`flat_form`."""
    sizes, degrees = flat["sizes"].long(), flat["degrees"].long()
    node_ptr, upto = _starts(sizes), _starts(degrees)
    edge_ptr = upto[node_ptr]
    # Written in place: for the largest sets a copy takes as long as all the rest.
    edge_index = torch.empty(2, flat["neighbours"].numel(), dtype=torch.long)
    edge_index[0] = torch.arange(degrees.numel()).repeat_interleave(degrees)
    start = node_ptr[:-1].repeat_interleave(edge_ptr.diff())
    torch.add(flat["neighbours"], start, out=edge_index[1])
    return Graphs(
        name=name,
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        edge_index=edge_index,
        tags=flat["tags"].long(),
        tag_names=tag_names,
        attributes=flat.get("attributes"),
        y=flat["y"].long(),
        label_names=label_names,
        graph_ids=graph_ids,
    )


def _both_directions(sender: Ids, receiver: Ids, num_nodes: int) -> Ids:
    """Every edge once in each direction, sorted by sender and receiver, without self-loops.

    What :func:`quatgraph.data.edges.merge_edges` gives, for tens of millions of edges: sorting the
    undirected edges first halves time and memory, and sources come in sorted runs, which a stable
    sort makes use of.
    """
    key = np.minimum(sender, receiver) * num_nodes + np.maximum(sender, receiver)
    key = np.sort(key[sender != receiver], kind="stable")
    key = key[np.concatenate((key[:1] >= 0, key[1:] != key[:-1]))]
    low, high = np.divmod(key, num_nodes)
    key = np.sort(np.concatenate((key, high * num_nodes + low)), kind="stable")
    return np.stack(np.divmod(key, num_nodes))


def _starts(sizes: Tensor) -> Tensor:
    return torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))


def _ranges(start: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """All places of the chosen pieces, one after the other, and where each piece begins now."""
    sizes = start.diff()[index]
    begins = _starts(sizes)
    places = torch.arange(int(begins[-1]))
    return places + (start[index] - begins[:-1]).repeat_interleave(sizes), begins
