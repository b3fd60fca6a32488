"""A few made-up graphs, one by one and as the collection that batches are taken from."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.codes import Codes
from quatgraph.tasks.graph.batches import Batch, Capacity, Collection, assemble
from quatgraph.training.ensemble import Ensemble

CODES, ATTRIBUTES, CLASSES = 5, 4, 3
SIZES = [3, 1, 5, 2]
STARTS = [0, 3, 4, 9, 11]
# Sender and receiver. Directed; a node without edges is a graph, one stands beside others, one has
# a loop.
EDGES: list[list[tuple[int, int]]] = [
    [(0, 1), (1, 0), (2, 1)],
    [],
    [(0, 1), (1, 2), (2, 3), (3, 0), (0, 3), (3, 3)],
    [(0, 1), (1, 0)],
]
NODES = STARTS[-1]

Kind = Literal["loops", "symmetric", "neighbours", "adjacency"]


def edge_index(graph: int) -> Tensor:
    return torch.tensor(EDGES[graph], dtype=torch.int64).view(-1, 2).mT


def matrix(edges: Tensor, nodes: int, kind: Kind) -> Adjacency:
    """A + I, the same normalised, the mean over neighbours, or A alone."""
    loops = kind in ("loops", "symmetric")
    made = Adjacency.from_edge_index(edges, nodes, self_loops=loops)
    return made.normalized({"symmetric": "symmetric", "neighbours": "row"}.get(kind, "none"))


def pool_of(sizes: list[int]) -> Adjacency:
    owner = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    nodes = torch.arange(len(owner))
    return Adjacency.from_entries(owner, nodes, None, (len(sizes), len(owner)))


def features(kind: Literal["codes", "dense"]) -> Codes | Tensor:
    """Of all nodes; the same each time. One node has no known code."""
    generator = torch.Generator().manual_seed(7)
    if kind == "dense":
        return torch.randn(NODES, ATTRIBUTES, generator=generator, dtype=torch.float64)
    known = torch.ones(NODES, dtype=torch.float64)
    known[5] = 0
    return Codes(torch.randint(CODES, (NODES,), generator=generator).int(), known, CODES)


def width(x: Codes | Tensor) -> int:
    return x.shape[-1]


def of_nodes(x: Codes | Tensor, nodes: slice) -> Codes | Tensor:
    return Codes(x.code[nodes], x.weight[nodes], CODES) if isinstance(x, Codes) else x[nodes]


def dense(x: Codes | Tensor) -> Tensor:
    return x @ torch.eye(CODES, dtype=torch.float64) if isinstance(x, Codes) else x


def collection(x: Codes | Tensor, kind: Kind = "loops", device: str = "cpu") -> Collection:
    moved = [edge_index(g) + start for g, start in enumerate(STARTS[:-1])]
    return Collection(
        node_start=torch.tensor(STARTS, dtype=torch.int32).to(device),
        adjacency=matrix(torch.cat(moved, dim=1), NODES, kind).to(device),
        symmetric=False,
        pool=pool_of(SIZES).to(device),
        features=x.to(device),
        labels=(torch.arange(len(SIZES)) % CLASSES).to(device),
    )


def alone(x: Codes | Tensor, graph: int, kind: Kind = "loops") -> tuple[Any, Adjacency, Adjacency]:
    """What a model takes for one graph."""
    return joined(x, [graph], kind)


def joined(x: Codes | Tensor, graphs: list[int], kind: Kind) -> tuple[Any, Adjacency, Adjacency]:
    """What a model takes for a few graphs, without padding and as plain matrices."""
    sizes = [SIZES[g] for g in graphs]
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    edges = torch.cat([edge_index(g) + b for g, b in zip(graphs, begins, strict=True)], dim=1)
    parts = [of_nodes(x, slice(STARTS[g], STARTS[g + 1])) for g in graphs]
    if isinstance(x, Codes):
        code = torch.cat([part.code for part in parts])
        together: Any = Codes(code, torch.cat([part.weight for part in parts]), CODES)
    else:
        together = torch.cat(parts)
    return together, matrix(edges, sum(sizes), kind), pool_of(sizes)


# Graphs of three members, in any order, with gaps and repetitions.
GRAPHS = torch.tensor([[2, 0, -1], [1, -1, 3], [3, 3, 0]])
CAPACITY = 9


def batch(
    x: Codes | Tensor,
    kind: Kind = "loops",
    graphs: Tensor = GRAPHS,
    entries: int | None = None,
) -> Batch:
    return batch_of(collection(x, kind), graphs, entries)


def batch_of(whole: Collection, graphs: Tensor, entries: int | None = None) -> Batch:
    """The batch; ``entries`` bounds the entries of a member's adjacency."""
    return assemble(whole, graphs, Capacity(CAPACITY, entries, max(SIZES)))


def chosen(blocks: Blocks, member: int) -> Blocks:
    """One member's blocks."""
    own = (getattr(blocks, name)[member] for name in ("row", "shift", "t_row", "t_shift"))
    return Blocks(blocks.whole, *own, max_row=blocks.max_row, max_entries=blocks.max_entries)


def member_inputs(made: Batch, member: int) -> tuple[Any, Blocks, Blocks]:
    """What a model takes for one member of a batch."""

    features = pytree.tree_map(lambda t: t[member], made.features)
    assert isinstance(made.adjacency, Blocks)
    return features, chosen(made.adjacency, member), chosen(made.pool, member)


def assert_gradients(
    ensemble: Ensemble, flat: Tensor, member: int, model: nn.Module, grads: Sequence[Tensor]
) -> None:
    """Compares a member's part of the gradient at all parameters with those of a single model."""
    by_name = ensemble.stacked(ensemble.raw_state() | {"flat": flat})
    for (name, _), grad in zip(model.named_parameters(), grads, strict=True):
        torch.testing.assert_close(by_name[name][member], grad)
