"""Answers about graphs."""

from collections.abc import Sequence
from typing import Any

from quatgraph.data.graph import Graphs
from quatgraph.data.graph.ablation import without_each_node
from quatgraph.data.graph.jsonl import merge_objects
from quatgraph.errors import UserError
from quatgraph.predictors.predictions import find_positions
from quatgraph.serve.answers.base import MAX_DRAWN, Keywords, Reply, exact, reply_of
from quatgraph.serve.answers.items import ItemAnswers

EXPLAINED = 100
"""Nodes of a graph that are left out in turn, at most."""


class GraphAnswers(ItemAnswers):
    """Classifies graphs, new ones or those of the training data."""

    task = "graph"
    kinds = ("graphs", "classes")

    def _answer(self, keywords: Keywords, explain: bool) -> Reply:
        given, ids = keywords.get("graphs"), keywords.get("ids")
        if given is None and ids is None:
            raise UserError("give ids of the training data, or new graphs")
        graphs = None
        if given is not None:
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
