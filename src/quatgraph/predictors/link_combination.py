"""The members of a link bundle as one model, and its triples."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from quatgraph.data.link import Triples, from_names, unpack_features
from quatgraph.data.link.entities import NO_FEATURES
from quatgraph.errors import UserError
from quatgraph.models.link.graphs import Graph, build_graph
from quatgraph.predictors.members import Cache, TrainedMember
from quatgraph.predictors.predictions import refuse_not_finite
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.joined import (
    Vectors,
    append_constants,
    compute_constants,
    join_candidates,
    join_queries,
    log_normalizers,
)
from quatgraph.training.bundle import Bundle


class CombinedModel(nn.Module):
    """The members as one model, whose inner products are the combined scores; see
    :mod:`quatgraph.tasks.link.joined`."""

    def __init__(self, members: Sequence[TrainedMember[LinkConfig]], triples: Triples) -> None:
        super().__init__()
        self.members, self.triples = members, triples
        total = sum(member.weight for member in members)
        self.shares = [member.weight / total for member in members]
        self._cache = Cache()

    def forward(self, graph: Graph, head: Tensor, relation: Tensor) -> Vectors:
        """Queries and candidates, with the constants; each member has its own graph."""
        vectors = self.combine_vectors(head, relation)
        return append_constants(vectors, self.compute_constants(head, relation))

    def combine_vectors(self, head: Tensor, relation: Tensor) -> Vectors:
        """Queries and candidates whose products lack the constants; all products are finite."""
        each = self._decode(head, relation)
        query = join_queries(self.shares, each)
        # The vectors of candidates are the same for all queries.
        candidates = self._cache.get("candidates", lambda: join_candidates(each))
        largest = self._cache.get("largest", lambda: candidates.abs().amax(dim=0))
        # With a NaN among them, ranks would look like any others.
        bounds = query.abs() @ largest
        refuse_not_finite(bounds, lambda row: self._name(int(head[row]), int(relation[row])))
        return query, candidates

    def compute_constants(self, head: Tensor, relation: Tensor) -> Tensor:
        """See :func:`quatgraph.tasks.link.joined.compute_constants`."""
        if len(self.members) == 1:
            return torch.zeros(len(head), device=head.device)
        return compute_constants(self.shares, self._decode(head, relation))

    def log_normalizers(self, head: Tensor, relation: Tensor) -> Tensor:
        """See :func:`quatgraph.tasks.link.joined.log_normalizers`."""
        return log_normalizers(self.shares, self._decode(head, relation))

    def log_probabilities(self, head: Tensor, relation: Tensor) -> Tensor:
        """The weighted mean of the members' log-softmax scores over all entities, ``(Q, E)``."""
        pairs = zip(self.shares, self._decode(head, relation), strict=True)
        (share, (query, candidates)), *others = pairs
        total = share * (query @ candidates.mT).log_softmax(dim=1)
        for share, (query, candidates) in others:
            total.add_((query @ candidates.mT).log_softmax(dim=1), alpha=share)
        return total

    def _decode(self, head: Tensor, relation: Tensor) -> list[Vectors]:
        return [m.model.decode(self.encode(m), head, relation) for m in self.members]

    @torch.no_grad()
    def encode(self, member: TrainedMember[LinkConfig]) -> Tensor:
        """The vectors of all entities, computed once."""
        return self._cache.get(member, lambda: member.model.encode(self._graph(member)))

    def _graph(self, member: TrainedMember[LinkConfig]) -> Graph:
        kind, every = member.config.model.graph, member.config.train.labels == "all"

        def build() -> Graph:
            graph = build_graph(self.triples, kind, all_triples=every)
            return None if graph is None else graph.to(next(member.model.parameters()).device)

        return self._cache.get((kind, every), build)

    def _name(self, head: int, relation: int) -> tuple[str, str]:
        graph = self.triples
        return graph.entity_labels[head], graph.relation_labels[relation % graph.num_relations]


def read_bundled_triples(bundle: Bundle) -> Triples:
    """The triples that a bundle holds, checked against its card."""
    card, tensors = bundle.card, bundle.select_tensors("data")
    names = card.get("features", [])  # older bundles have none
    values: dict[str, Any] = {"feature_names": names}
    values["features"] = unpack_features(tensors, len(names))
    for name, part in tensors.items():
        if not name.startswith("feature"):
            values[name] = part.long()
    for name in ("entities", "relations", "entity_labels", "relation_labels", "notes"):
        values[name] = card[name]
    triples = Triples(card["data"]["name"], **values)
    if triples.digest != card["data"]["digest"]:
        raise UserError(
            f"the bundle's triples of {triples.name!r} are not those its card describes: "
            "the bundle was changed, so train it again"
        )
    return triples


def is_training_data(data: Any, config: LinkConfig, known: Triples) -> bool:
    """Whether a path, a frame or rows have the triples of a bundle over all parts, in any order.
    They are read as a training with this configuration reads them."""
    try:
        found = _read_triples(data, config)
    except UserError:  # such data could not be trained on
        return False
    if (found.entities, found.relations) != (known.entities, known.relations):
        return False
    whole = [torch.cat((graph.train, graph.valid, graph.test)) for graph in (found, known)]
    return torch.equal(*(triple_keys(triples, known).unique() for triples in whole))


def _read_triples(data: Any, config: LinkConfig) -> Triples:
    """Reads triples without features, which need a table that may be gone."""
    if isinstance(data, Triples):
        return data
    settings = config.data
    if not isinstance(data, Path | str):
        return from_names(data, columns=settings.columns)
    entity = settings.entity if Path(data).is_dir() else ""
    settings = replace(settings, name="", path=str(data), entities=NO_FEATURES, entity=entity)
    return LINK.load(replace(config, data=settings))


def triple_keys(triples: Tensor, graph: Triples) -> Tensor:
    """A unique number for each triple of a graph, ``(N,)``."""
    head, relation, tail = triples.unbind(1)
    return (head * graph.num_relations + relation) * graph.num_entities + tail
