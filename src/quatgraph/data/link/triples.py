"""A knowledge graph as numbers."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from quatgraph.data.link.features import Features, pack_features
from quatgraph.data.link.parts import Parts
from quatgraph.data.link.vocabulary import Vocabulary
from quatgraph.data.splits import PARTS
from quatgraph.data.tensors import hash_tensor


@dataclass(frozen=True, eq=False, repr=False)
class Triples:
    """A knowledge graph: triples of a head entity, a relation and a tail entity.

    Attributes:
        name: The dataset's name.
        train, valid, test: Head, relation and tail of each triple, ``(N, 3)`` int64, in the order
            of their file.
        entities, relations: Ids, sorted; triples hold indices into them.
        entity_labels, relation_labels: Label of each, by default its id.
        valid_negatives, test_negatives: Plausible but false triples for triple classification, or
            ``None``.
        features: Features of the entities, scaled, see :mod:`quatgraph.data.link.entities`; or
            ``None``. An entity without any has zeros.
        feature_names: Name of each feature.
        notes: What was inferred: sentences for the user.
    """

    name: str
    train: Tensor
    valid: Tensor
    test: Tensor
    entities: list[str]
    relations: list[str]
    entity_labels: list[str]
    relation_labels: list[str]
    valid_negatives: Tensor | None = None
    test_negatives: Tensor | None = None
    features: Features | None = None
    feature_names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return (
            f"Triples({self.name!r}, {self.num_entities} entities, {self.num_relations} relations, "
            f"{len(self.train)} + {len(self.valid)} + {len(self.test)} triples)"
        )

    @property
    def num_entities(self) -> int:
        """Number of entities of all splits."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """Number of relations without inverses."""
        return len(self.relations)

    def entity(self, name: str) -> int:
        """The number of an entity by its id or label, see :meth:`Vocabulary.find`."""
        return self._entity_names.find(name)

    def relation(self, name: str) -> int:
        """The number of a relation by its id or label, see :meth:`Vocabulary.find`."""
        return self._relation_names.find(name)

    @cached_property
    def digest(self) -> str:
        """A sha256 of everything that can change a result: triples, negatives, ids and features.

        It does not depend on the source of the triples, the dataset's name or labels.
        """
        if self.features is None:
            return self.triples_digest
        total = hashlib.sha256(self.triples_digest.encode())
        for key, tensor in pack_features(self.features).items():
            hash_tensor(total, key, tensor)
        return total.hexdigest()

    @cached_property
    def triples_digest(self) -> str:
        """The digest without features: models with and without them have the same test triples."""
        total = hashlib.sha256(b"quatgraph link data 1")
        total.update(json.dumps((self.entities, self.relations)).encode())
        for part in (self.train, self.valid, self.test, self.valid_negatives, self.test_negatives):
            if part is None:
                total.update(b"\nnone")
                continue
            total.update(f"\n{len(part)} ".encode())
            total.update(part.contiguous().numpy().astype("<i8", copy=False).data)
        return total.hexdigest()

    @cached_property
    def has_labels(self) -> tuple[bool, bool]:
        """Whether labels of entities, and of relations, differ from their ids."""
        return self.entity_labels != self.entities, self.relation_labels != self.relations

    @cached_property
    def trained_entities(self) -> Tensor:
        """Whether a training triple has an entity, ``(E,)``."""
        return torch.bincount(self.train[:, [0, 2]].flatten(), minlength=self.num_entities) > 0

    @cached_property
    def trained_relations(self) -> Tensor:
        """Whether a training triple has a relation, ``(R,)``."""
        return torch.bincount(self.train[:, 1], minlength=self.num_relations) > 0

    @cached_property
    def _entity_names(self) -> Vocabulary:
        return Vocabulary("entity", self.entities, self.entity_labels)

    @cached_property
    def _relation_names(self) -> Vocabulary:
        return Vocabulary("relation", self.relations, self.relation_labels)


def statistics(triples: Triples) -> dict[str, int]:
    """The sizes of a knowledge graph, as the catalog lists them."""
    negatives = (triples.valid_negatives, triples.test_negatives)
    return {
        "entities": triples.num_entities,
        "relations": triples.num_relations,
        **{part: len(getattr(triples, part)) for part in PARTS},
        "negatives": sum(len(part) for part in negatives if part is not None),
    }


def assemble(
    parts: Parts,
    *,
    name: str,
    entity_labels: Mapping[str, str] = {},
    relation_labels: Mapping[str, str] = {},
) -> Triples:
    """Builds a knowledge graph from its splits, optional negatives, and labels by id."""
    triples: dict[str, Any] = {
        key: torch.from_numpy(part.triples) for key, part in parts.by_name.items()
    }
    return Triples(
        name=name,
        **triples,
        entities=parts.entities,
        relations=parts.relations,
        entity_labels=[entity_labels.get(name, name) for name in parts.entities],
        relation_labels=[relation_labels.get(name, name) for name in parts.relations],
        notes=parts.notes,
    )
