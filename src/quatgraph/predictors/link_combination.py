"""The members of a link bundle as one model."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from quatgraph.data.link import Triples
from quatgraph.models.link.graphs import Graph, build_graph
from quatgraph.predictors.members import Cache, TrainedMember
from quatgraph.predictors.predictions import refuse_not_finite
from quatgraph.tasks.link.config import LinkConfig

SCORES_AT_ONCE = 1 << 24


class CombinedModel(nn.Module):
    """The members as one model, whose inner products are the combined scores.

    The weighted mean of log-softmax scores is an inner product too: of the weighted query vectors
    and the candidate vectors, each side by side, minus a constant of the query.
    """

    def __init__(self, members: Sequence[TrainedMember[LinkConfig]], triples: Triples) -> None:
        super().__init__()
        self.members, self.triples = members, triples
        total = sum(member.weight for member in members)
        self.shares = [member.weight / total for member in members]
        self._cache = Cache()

    def forward(self, graph: Graph, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Queries ``(Q, D)`` and candidates ``(E, D)``; each member has its own graph."""
        query, candidates = self.combine_vectors(head, relation)
        ones = candidates.new_ones(len(candidates), 1)
        constants = self.compute_constants(head, relation)[:, None]
        return torch.cat((query, constants), dim=1), torch.cat((candidates, ones), dim=1)

    def combine_vectors(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and candidates whose products lack the constants, which change no rank; all
        products are finite."""
        pairs = self._decode(head, relation)
        query, candidates = pairs[0]
        if len(pairs) > 1:
            weighted = zip(self.shares, pairs, strict=True)
            query = torch.cat([share * own for share, (own, _) in weighted], dim=1)
            candidates = torch.cat([own for _, own in pairs], dim=1)
        # With a NaN among them, ranks would look like any others.
        bounds = query.abs() @ candidates.abs().amax(dim=0)
        refuse_not_finite(bounds, lambda row: self._name(int(head[row]), int(relation[row])))
        return query, candidates

    def compute_constants(self, head: Tensor, relation: Tensor) -> Tensor:
        """What the log-softmax of several members adds to the scores of a query, ``(Q,)``."""
        if len(self.members) == 1:
            return torch.zeros(len(head), device=head.device)
        pairs = zip(self.shares, self._decode(head, relation), strict=True)
        return -torch.stack([share * _log_sums(*pair) for share, pair in pairs]).sum(dim=0)

    def _decode(self, head: Tensor, relation: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [m.model.decode(self.encode(m), head, relation) for m in self.members]

    def encode(self, member: TrainedMember[LinkConfig]) -> Tensor:
        """The vectors of all entities, computed once."""
        return self._cache.get(member, lambda: member.model.encode(self._graph(member)))

    def _graph(self, member: TrainedMember[LinkConfig]) -> Graph:
        kind = member.config.model.graph

        def build() -> Graph:
            graph = build_graph(self.triples, kind)
            return None if graph is None else graph.to(next(member.model.parameters()).device)

        return self._cache.get(kind, build)

    def _name(self, head: int, relation: int) -> tuple[str, str]:
        graph = self.triples
        return graph.entity_labels[head], graph.relation_labels[relation % graph.num_relations]


def _log_sums(query: Tensor, candidates: Tensor) -> Tensor:
    """The logarithm of the softmax's denominator for each query, ``(Q,)``."""
    rows = max(1, SCORES_AT_ONCE // len(candidates))
    pieces = [(some_rows @ candidates.mT).logsumexp(dim=1) for some_rows in query.split(rows)]
    return torch.cat(pieces)
