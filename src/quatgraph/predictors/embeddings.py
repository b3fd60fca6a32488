"""The vectors from which models predict."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.predictors.predictions import Table, refuse_not_finite

Kind = Literal["entities", "relations"]
Names = Sequence[str] | None
"""Names or ids; all if None."""


class Weighted(Protocol):
    """A member of a bundle."""

    @property
    def weight(self) -> float: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Embeddings(Table):
    """Vectors of nodes, graphs, texts, entities or relations."""

    ids: list[str]
    vectors: Tensor
    """``(N, D)``, float32, in the order of ``ids``."""
    notes: list[str] = field(default_factory=list)
    """What the user should know about these vectors, a sentence each."""

    def __post_init__(self) -> None:
        refuse_not_finite(self.vectors, self.ids.__getitem__)

    def __repr__(self) -> str:
        return f"Embeddings({len(self.ids)} vectors of {self.vectors.size(1)} numbers)"

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each: ``id`` and the numbers ``v0``, ``v1``, ..."""
        names = [f"v{place}" for place in range(self.vectors.size(1))]
        for name, vector in zip(self.ids, self.vectors.tolist(), strict=True):
            yield {"id": name, **dict(zip(names, vector, strict=True))}


def join_vectors(vectors: Sequence[Tensor], members: Sequence[Weighted]) -> Tensor:
    """The members' vectors side by side, each scaled by the square root of its share of the weight,
    float32 on the CPU.

    A squared distance is then the weighted mean of the members' own.

    Shape:
        - vectors: ``(N, D)`` of each member
        - output: ``(N, sum of D)``
    """
    total = sum(member.weight for member in members)
    shares = [member.weight / total for member in members]
    scaled = [math.sqrt(share) * own for share, own in zip(shares, vectors, strict=True)]
    return torch.cat(scaled, dim=1).float().cpu()


def embed_triples(
    graph: Triples,
    vectors: Mapping[Kind, Sequence[Tensor]],
    members: Sequence[Weighted],
    kind: Kind,
    names: Names,
) -> Embeddings:
    """The vectors of entities or relations.

    Args:
        graph: The knowledge graph.
        vectors: Those of each member, of relations perhaps with inverse ones, which are left out.
            With several members they are joined, see :func:`join_vectors`.
        kind: ``entities`` or ``relations``.
        names: Names or ids; all by default.
    """
    if kind not in get_args(Kind):
        raise UserError(f"kind must be one of {', '.join(get_args(Kind))}, got {kind!r}")
    ids, labels, find = graph.entities, graph.entity_labels, graph.entity
    if kind == "relations":
        ids, labels, find = graph.relations, graph.relation_labels, graph.relation
    places = list(range(len(ids))) if names is None else [find(name) for name in names]
    shown = labels if len(set(labels)) == len(ids) else ids
    joined = join_vectors([own[places] for own in vectors[kind]], members)
    return Embeddings([shown[place] for place in places], joined)
