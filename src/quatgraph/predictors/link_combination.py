"""The members of a link bundle as one model, and its triples."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.predictors.members import Cache, TrainedMember
from quatgraph.predictors.predictions import refuse_not_finite
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.problem import entity_adjacency
from quatgraph.training.bundle import Bundle

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

    def forward(
        self, adjacency: Adjacency, head: Tensor, relation: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries ``(Q, D)`` and candidates ``(E, D)``; each member has its own adjacency."""
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
        return -self.log_normalizers(head, relation)

    def log_normalizers(self, head: Tensor, relation: Tensor) -> Tensor:
        """The difference between the products of vectors and the weighted mean of log-softmax
        scores, ``(Q,)``."""
        pairs = zip(self.shares, self._decode(head, relation), strict=True)
        return torch.stack([share * _log_sums(*pair) for share, pair in pairs]).sum(dim=0)

    def log_probabilities(self, head: Tensor, relation: Tensor) -> Tensor:
        """The weighted mean of the members' log-softmax scores over all entities, ``(Q, E)``."""
        pairs = zip(self.shares, self._decode(head, relation), strict=True)
        (share, (query, candidates)), *others = pairs
        total = share * (query @ candidates.mT).log_softmax(dim=1)
        for share, (query, candidates) in others:
            total.add_((query @ candidates.mT).log_softmax(dim=1), alpha=share)
        return total

    def _decode(self, head: Tensor, relation: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [m.model.decoder(self.encode(m), head, relation) for m in self.members]

    def encode(self, member: TrainedMember[LinkConfig]) -> Tensor:
        """The vectors of all entities, computed once."""
        return self._cache.get(member, lambda: member.model.encode(self._adjacency(member)))

    def _adjacency(self, member: TrainedMember[LinkConfig]) -> Adjacency:
        matrix = member.config.model.matrix
        device = next(member.model.parameters()).device
        return self._cache.get(matrix, lambda: entity_adjacency(self.triples, matrix).to(device))

    def _name(self, head: int, relation: int) -> tuple[str, str]:
        graph = self.triples
        return graph.entity_labels[head], graph.relation_labels[relation % graph.num_relations]


def read_bundled_triples(bundle: Bundle) -> Triples:
    """The triples that a bundle holds, checked against its card."""
    card = bundle.card
    values: dict[str, Any] = {
        name: part.long() for name, part in bundle.select_tensors("data").items()
    }
    for name in ("entities", "relations", "entity_labels", "relation_labels", "notes"):
        values[name] = card[name]
    triples = Triples(card["data"]["name"], **values)
    if triples.digest != card["data"]["digest"]:
        raise UserError(
            f"the bundle's triples of {triples.name!r} are not those its card describes: "
            "the bundle was changed, so train it again"
        )
    return triples


def _log_sums(query: Tensor, candidates: Tensor) -> Tensor:
    """The logarithm of the softmax's denominator for each query, ``(Q,)``."""
    rows = max(1, SCORES_AT_ONCE // len(candidates))
    pieces = [(some_rows @ candidates.mT).logsumexp(dim=1) for some_rows in query.split(rows)]
    return torch.cat(pieces)
