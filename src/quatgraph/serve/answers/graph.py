"""Answers about graphs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch

from quatgraph.data.graph import Graphs
from quatgraph.data.graph.jsonl import merge_objects
from quatgraph.errors import UserError
from quatgraph.predictors.predictions import find_positions
from quatgraph.serve.answers.base import (
    MAX_DRAWN,
    Keywords,
    Reply,
    check_explained,
    exact,
    reply_of,
)
from quatgraph.serve.answers.items import ItemAnswers

EXPLAINED = 100
"""Nodes of a graph that are left out in turn, at most."""
MAX_NODES = 100_000
"""Nodes of the graphs of a request, at most."""


class GraphAnswers(ItemAnswers):
    """Classifies graphs, new ones or those of the training data."""

    task = "graph"
    kinds = ("graphs", "classes")

    def _answer(self, keywords: Keywords, explain: bool) -> Reply:
        given, ids = keywords.get("graphs"), keywords.get("ids")
        if given is None and ids is None:
            raise UserError("give ids of the training data, or new graphs")
        graphs = None
        if explain:
            check_explained(len(ids if ids is not None else given or ()))
        if given is not None:
            if not given:
                raise UserError("there are no graphs; give at least one")
            if (size := sum(map(count_nodes, given))) > MAX_NODES:
                raise UserError(
                    f"a request has at most {MAX_NODES:,} nodes, and these are {size:,}: send "
                    "fewer or smaller graphs"
                )
            named = ((f"graph {place}", one) for place, one in enumerate(given, 1))
            graphs = merge_objects(named, labels_needed=False)
        predictions = self.predictor.predict(graphs, ids=ids)
        reply = reply_of(predictions)
        if explain:
            known = self.predictor.training_data if graphs is None else graphs
            places = find_positions(ids, known.graph_ids, "there is no graph {}")
            for place, answer in zip(places, reply["answers"], strict=True):
                answer["nodes"] = self._weigh_nodes(known, place, answer)
        return reply

    def _weigh_nodes(self, graphs: Graphs, place: int, answer: Reply) -> list[float]:
        """For each node of a graph, the drop of the probability of its class without the node."""
        size = int(graphs.node_ptr[place : place + 2].diff())
        if not 1 < size <= EXPLAINED:
            return []
        chosen = max(range(len(answer["probabilities"])), key=answer["probabilities"].__getitem__)
        others = self.predictor.predict(without_each_node(graphs, place))
        lost = answer["probability"] - others.probabilities[:, chosen]
        return [exact(value) for value in lost.tolist()]

    def draw(self, name: str, hops: int, limit: int) -> Reply:
        graphs = self.predictor.training_data
        (place,) = find_positions([name], graphs.graph_ids, "there is no graph {}")
        first, last = graphs.node_ptr[place : place + 2].tolist()
        start, end = graphs.edge_ptr[place : place + 2].tolist()
        if last - first > MAX_DRAWN:
            raise UserError(
                f"graph {name!r} has {last - first:,} nodes; at most {MAX_DRAWN} can be drawn"
            )
        tags = graphs.tags[first:last].tolist()
        edges = (graphs.edge_index[:, start:end] - first).mT.tolist()
        return {
            "nodes": [
                {"id": str(node), "label": graphs.tag_names[tag] if graphs.tagged else "", "hop": 0}
                for node, tag in enumerate(tags)
            ],
            "edges": [{"source": str(a), "target": str(b)} for a, b in edges if a < b],
        }

    def _ids(self) -> Sequence[str]:
        return self.predictor.training_data.graph_ids

    def _example(self) -> Reply:
        return {"ids": [self._ids()[0]]}

    def _names(self, kind: str) -> tuple[Sequence[str], Sequence[str]]:
        names: Any = self._ids() if kind == "graphs" else list(map(str, self.predictor.classes))
        return names, names


def count_nodes(graph: Mapping[str, Any]) -> int:
    """The nodes that a graph of a request needs memory for, before anything is made of it."""
    largest = max(chain.from_iterable(graph["edges"]), default=-1)
    return max(graph.get("num_nodes") or 0, len(graph.get("node_labels") or ()), largest + 1)


def without_each_node(graphs: Graphs, place: int) -> Graphs:
    """A graph as often as it has nodes, each time without one of them and its edges."""
    one = graphs.select([place])
    size, num_edges = one.num_nodes, one.edge_index.size(1)
    copies, nodes = one.select([0] * size), torch.arange(size)
    kept = (nodes[None, :] != nodes[:, None]).flatten()
    left_out = nodes.repeat_interleave(num_edges)
    edges = (copies.edge_index % size != left_out).all(dim=0)
    counts = edges.view(size, num_edges).sum(dim=1)
    number = kept.long().cumsum(0) - 1
    return replace(
        copies,
        node_ptr=torch.arange(size + 1) * (size - 1),
        edge_ptr=torch.nn.functional.pad(counts.cumsum(0), (1, 0)),
        edge_index=number[copies.edge_index[:, edges]],
        tags=copies.tags[kept],
        attributes=None if copies.attributes is None else copies.attributes[kept],
        graph_ids=[str(node) for node in range(size)],
    )
