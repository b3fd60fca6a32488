"""The graphs of training triples that models take."""

from typing import Literal, NamedTuple

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.data import link as source
from quatgraph.data.link import Triples

Graph = Adjacency | None


class GraphKind(NamedTuple):
    """Which graph of the training triples a model takes; models of one kind share it."""

    edges: Literal["none", "entities"]
    """``entities``: the undirected graph of all entities, with self-loops, without relations."""
    normalization: Normalization


NO_GRAPH = GraphKind("none", "none")


def build_graph(triples: Triples, kind: GraphKind) -> Graph:
    """Builds the graph of a model; None for a model without one."""
    if kind.edges == "none":
        return None
    edges = source.entity_graph(triples.train, triples.num_entities)
    prepared = Adjacency.from_edge_index(edges, triples.num_entities, self_loops=True)
    return prepared.normalized(kind.normalization)
