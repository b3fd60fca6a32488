"""A knowledge graph as numbers."""

from dataclasses import replace

import pytest
import torch

from quatgraph.data.link.parts import read_parts
from quatgraph.data.link.triples import Triples, assemble, statistics
from quatgraph.errors import UserError


def small(**more: object) -> Triples:
    contents = {
        "train": ("a", b"b\tis\ta\na\tis\tc\n"),
        "valid": ("b", b"a\tof\tb\n"),
        "test": ("c", b"c\tis\tb\nc\tof\ta\n"),
        "test_negatives": ("d", b"c\tis\tc\n"),
    }
    return replace(assemble(read_parts(contents), name="small", entity_labels={"a": "A"}), **more)


def test_a_graph_knows_its_parts_names_and_sizes():
    graph = small()
    assert repr(graph) == "Triples('small', 3 entities, 2 relations, 2 + 1 + 2 triples)"
    assert graph.train.tolist() == [[1, 0, 0], [0, 0, 2]]
    assert graph.train.dtype == torch.int64
    assert graph.entity_labels == ["A", "b", "c"]
    assert graph.relation_labels == graph.relations == ["is", "of"]
    assert graph.valid_negatives is None
    assert graph.test_negatives.tolist() == [[2, 0, 2]]
    assert (graph.entity("A"), graph.entity("c"), graph.relation("OF")) == (0, 2, 1)
    with pytest.raises(UserError, match="there is no relation 'iz'"):
        graph.relation("iz")
    assert statistics(graph) == {
        "entities": 3,
        "relations": 2,
        "train": 2,
        "valid": 1,
        "test": 2,
        "negatives": 1,
    }


def test_the_digest_is_that_of_the_content():
    graph = small()
    for same in (small(name="other"), small(entity_labels=["x", "y", "z"]), small(notes=["!"])):
        assert same.digest == graph.digest
    others = [
        small(train=graph.train.flip(0)),
        small(entities=["a", "b", "d"]),
        small(relations=["is", "on"]),
        small(test_negatives=None),
        small(valid_negatives=graph.test_negatives, test_negatives=None),
        small(train=torch.cat((graph.train, graph.valid)), valid=graph.valid[:0]),
    ]
    assert len({graph.digest, *(other.digest for other in others)}) == 1 + len(others)
