"""Answers about graphs."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from quatgraph.data.graph import Graphs
from quatgraph.data.graph.jsonl import merge_objects
from quatgraph.data.graph.smiles import from_smiles
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

MAX_NODES = 100_000
"""Nodes of the graphs of a request, at most."""


class GraphAnswers(ItemAnswers):
    """Classifies new graphs or those of the training data."""

    task = "graph"
    kinds = ("graphs", "classes")

    def _answer(self, keywords: Keywords, explain: bool) -> Reply:
        given, ids, smiles = (keywords.get(key) for key in ("graphs", "ids", "smiles"))
        if given is None and ids is None and smiles is None:
            raise UserError("give ids of the training data, or new graphs")
        graphs, wanted = None, explain or bool(keywords.get("explain"))
        if wanted:
            check_explained(sum(len(some) for some in (given, ids, smiles) if some))
        # An atom of a molecule has at least one letter.
        if (size := sum(map(count_nodes, given or ())) + sum(map(len, smiles or ()))) > MAX_NODES:
            raise UserError(
                f"a request has at most {MAX_NODES:,} nodes, and these are {size:,}: send fewer or "
                "smaller graphs"
            )
        if given is not None:
            if not given:
                raise UserError("there are no graphs; give at least one")
            named = ((f"graph {place}", one) for place, one in enumerate(given, 1))
            graphs = merge_objects(named, labels_needed=False)
        predictions = self.predictor.predict(graphs, ids=ids, smiles=smiles, explain=wanted)
        reply = reply_of(predictions)
        if predictions.drops is not None and predictions.node_names is not None:
            found = zip(reply["answers"], predictions.drops, predictions.node_names, strict=True)
            for answer, drops, names in found:
                answer |= {"nodes": [exact(value) for value in drops], "node_names": names}
        return reply

    def draw(self, name: str, hops: int, limit: int) -> Reply:
        graphs = self.predictor.training_data
        (place,) = find_positions([name], graphs.graph_ids, "there is no graph {}")
        return _draw(graphs, place)

    def draw_molecule(self, smiles: str) -> Reply:
        return _draw(from_smiles([smiles], labels_needed=False), 0)

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


def _draw(graphs: Graphs, place: int) -> Reply:
    """A graph to draw."""
    first, last = graphs.node_ptr[place : place + 2].tolist()
    start, end = graphs.edge_ptr[place : place + 2].tolist()
    if last - first > MAX_DRAWN:
        raise UserError(
            f"graph {graphs.graph_ids[place]!r} has {last - first:,} nodes; at most {MAX_DRAWN} "
            "can be drawn"
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
