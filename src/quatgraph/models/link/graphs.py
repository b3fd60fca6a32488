"""The graphs of training triples that models take."""

from typing import Literal, NamedTuple, cast

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.data import link as source
from quatgraph.data.link import Triples
from quatgraph.relational import EdgeWeights, RelationalGraph

Graph = Adjacency | RelationalGraph | None


class GraphKind(NamedTuple):
    """Which graph of the training triples a model takes; models of one kind share it."""

    edges: Literal["none", "entities", "relations"]
    """``entities``: the undirected graph of all entities, with self-loops, without relations;
    ``relations``: the triples in both directions, with their relations."""
    normalization: Normalization | EdgeWeights


NO_GRAPH = GraphKind("none", "none")


def build_graph(triples: Triples, kind: GraphKind) -> Graph:
    """Builds the graph of a model; None for a model without one."""
    if kind.edges == "none":
        return None
    entities = triples.num_entities
    if kind.edges == "relations":
        sizes = entities, triples.num_relations
        return RelationalGraph.from_triples(triples.train, *sizes, kind.normalization)
    edges = source.entity_graph(triples.train, entities)
    prepared = Adjacency.from_edge_index(edges, entities, self_loops=True)
    return prepared.normalized(cast(Normalization, kind.normalization))
