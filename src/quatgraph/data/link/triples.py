"""A knowledge graph as numbers, the same wherever it came from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from quatgraph.data.link.parts import Parts
from quatgraph.data.link.vocabulary import Vocabulary, labelled


@dataclass(frozen=True, eq=False, repr=False)
class Triples:
    """A knowledge graph: triples of a head entity, a relation and a tail entity.

    Attributes:
        name: The dataset's name.
        train: Triples to learn from, in the order of their file.
        valid: Triples to choose by.
        test: Triples to measure with.
        entities: Ids as in the files, sorted by their characters; an entity's number is its place.
        relations: Ids of the relations, likewise.
        entity_labels: What people call each entity; its id where there is nothing else.
        relation_labels: What people call each relation, likewise.
        valid_negatives: Plausible but wrong triples, for telling right from wrong, or ``None``.
        test_negatives: The same for the test part.
        notes: What a person should know of what was read: sentences.

    Shape:
        - train, valid, test, valid_negatives, test_negatives: ``(N, 3)`` int64, each row head,
          relation, tail
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
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return (
            f"Triples({self.name!r}, {self.num_entities} entities, {self.num_relations} relations, "
            f"{len(self.train)} + {len(self.valid)} + {len(self.test)} triples)"
        )

    @property
    def num_entities(self) -> int:
        """All entities, those of valid and test too."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """Relations as in the files, without inverses."""
        return len(self.relations)

    def entity(self, name: str) -> int:
        """The number of an entity by its id or label, see :meth:`Vocabulary.find`."""
        return self._entity_names.find(name)

    def relation(self, name: str) -> int:
        """The number of a relation by its id or label, see :meth:`Vocabulary.find`."""
        return self._relation_names.find(name)

    @cached_property
    def digest(self) -> str:
        """A sha256 of everything that can change a number: triples, negatives and ids.

        It depends neither on where the triples were read from, nor on the dataset's name, nor on
        labels.
        """
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
    def _entity_names(self) -> Vocabulary:
        return Vocabulary("entity", self.entities, self.entity_labels)

    @cached_property
    def _relation_names(self) -> Vocabulary:
        return Vocabulary("relation", self.relations, self.relation_labels)


def statistics(triples: Triples) -> dict[str, int]:
    """The sizes of a knowledge graph, in the catalog's terms."""
    negatives = (triples.valid_negatives, triples.test_negatives)
    return {
        "entities": triples.num_entities,
        "relations": triples.num_relations,
        "train": len(triples.train),
        "valid": len(triples.valid),
        "test": len(triples.test),
        "negatives": sum(len(part) for part in negatives if part is not None),
    }


def assemble(
    parts: Parts,
    *,
    name: str,
    entity_labels: Mapping[str, str] | None = None,
    relation_labels: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> Triples:
    """Puts what was read together.

    Args:
        parts: ``"train"``, ``"valid"``, ``"test"`` and perhaps ``"valid_negatives"`` and
            ``"test_negatives"``.
        name: The dataset's name.
        entity_labels: What people call entities, by id.
        relation_labels: What people call relations, by id.
        notes: What a person should know.
    """
    return Triples(
        name=name,
        **{key: torch.from_numpy(part.triples) for key, part in parts.by_name.items()},
        entities=parts.entities,
        relations=parts.relations,
        entity_labels=labelled(parts.entities, entity_labels or {}),
        relation_labels=labelled(parts.relations, relation_labels or {}),
        notes=notes or [],
    )
