"""Answers about nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from quatgraph.errors import UserError
from quatgraph.predictors.predictions import find_positions
from quatgraph.serve.answers.base import Keywords, Reply, check_explained, exact, reply_of
from quatgraph.serve.answers.items import ItemAnswers
from quatgraph.serve.drawing import draw_around

EXPLAINED = 30
"""Edges of a node that are left out in turn, at most."""
MAX_EXPLAINED = 10
"""Nodes that are explained at once, at most: for each edge all nodes are computed again."""


class NodeAnswers(ItemAnswers):
    """Classifies the nodes of the training graph."""

    task = "node"
    kinds = ("nodes", "classes")

    def _answer(self, keywords: Keywords, explain: bool) -> Reply:
        nodes = keywords.get("nodes")
        if nodes is None:
            raise UserError(f"give the ids of nodes, such as {self._ids()[0]!r}")
        reply = reply_of(self._select(self._find(nodes)))
        if explain:
            check_explained(len(nodes), MAX_EXPLAINED)
            for answer in reply["answers"]:
                answer["edges"] = self._weigh_edges(answer["id"])
        return reply

    def _weigh_edges(self, name: str) -> list[Reply]:
        """For the neighbours of a node, the drop of the probability of its class without the edge;
        what smoothing adds to predictions is left aside."""
        data = self.predictor.training_data
        (place,) = self._find([name])
        senders, receivers = data.edge_index
        touching = ((senders == place) | (receivers == place)) & (senders != receivers)
        own = data.edge_index[:, touching]
        others = torch.where(own[0] == place, own[1], own[0]).unique()[:EXPLAINED]
        before = self._plain(data, place)
        chosen = int(before.argmax())
        found = []
        for other in others.tolist():
            pair = torch.tensor([place, other])
            lost = torch.isin(senders, pair) & torch.isin(receivers, pair) & (senders != receivers)
            changed = data.clone()
            changed.edge_index = data.edge_index[:, ~lost]
            if data.get("edge_weight") is not None:
                changed.edge_weight = data.edge_weight[~lost]
            drop = float(before[chosen] - self._plain(changed, place)[chosen])
            found.append({"node": data.node_ids[other], "support": exact(drop)})
        return sorted(found, key=lambda one: -one["support"])

    def _plain(self, data: Any, place: int) -> torch.Tensor:
        """The probabilities of a node before smoothing, ``(C,)``."""
        members = self.predictor.members
        with torch.no_grad():
            logits = self.predictor._logits(members, data, [place])
        return self.predictor._combine(members, logits, data, [place]).exp()[0]

    def draw(self, name: str, hops: int, limit: int) -> Reply:
        data = self.predictor.training_data
        (place,) = self._find([name])
        edges = data.edge_index.numpy()
        nodes, chosen = draw_around(edges, data.num_nodes, place, hops, limit)
        answers = reply_of(self._select([number for number, _ in nodes]))["answers"]
        pairs = np.unique(np.sort(edges[:, chosen], axis=0), axis=1).T.tolist() if chosen else []
        return {
            "nodes": [
                {key: value for key, value in answer.items() if key != "probabilities"}
                | {"label": answer["id"], "known": answer.get("label"), "hop": hop}
                for answer, (_, hop) in zip(answers, nodes, strict=True)
            ],
            "edges": [
                {"source": data.node_ids[a], "target": data.node_ids[b]} for a, b in pairs if a != b
            ],
        }

    def _find(self, names: Sequence[str]) -> list[int]:
        places = self._cache.get(
            "places", lambda: {name: place for place, name in enumerate(self._ids())}
        )
        if all(name in places for name in names):
            return [places[name] for name in names]
        return find_positions(names, list(self._ids()), "there is no node {} in the graph")

    def _ids(self) -> Sequence[str]:
        return self.predictor.training_data.node_ids

    def _example(self) -> Reply:
        splits = self.predictions.splits or []
        return {"nodes": [self._ids()[splits.index("test") if "test" in splits else 0]]}

    def _names(self, kind: str) -> tuple[Sequence[str], Sequence[str]]:
        names: Any = self._ids() if kind == "nodes" else list(map(str, self.predictor.classes))
        return names, names
