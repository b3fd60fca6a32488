"""Knowledge graphs: the catalog's, one's own, and what is made of them."""

import time

import numpy as np
import pytest
import torch

from quatgraph.adjacency import Adjacency
from quatgraph.data import link
from quatgraph.data.io import store
from quatgraph.data.link import entity_graph, load, random_triples, statistics
from quatgraph.errors import UserError

LABELLED = {"codex-s": 2034, "codex-m": 9961, "fb15k-237": 14515, "umls": 0, "nations": 0}
CALLED = {
    "codex-s": [("Q7604", "Leonhard Euler")],
    "codex-m": [("Q90", "Paris"), ("Q168756", "University of California, Berkeley")],
    "fb15k-237": [("/m/010016", "Denton")],
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path / "cache"))


def positives(triples: link.Triples) -> set[tuple[int, ...]]:
    parts = (triples.train, triples.valid, triples.test)
    return {tuple(row) for part in parts for row in part.tolist()}


@pytest.mark.realdata
@pytest.mark.parametrize("name", LABELLED)
def test_a_published_dataset_is_what_the_catalog_says(name):
    start = time.process_time()
    triples = load(name)
    assert time.process_time() - start < 5
    assert statistics(triples) == store.entry(name).statistics
    assert triples.entities == sorted(triples.entities)
    assert triples.relations == sorted(triples.relations)
    pairs = zip(triples.entities, triples.entity_labels, strict=True)
    assert sum(name != label for name, label in pairs) == LABELLED[name]
    for entity, label in CALLED.get(name, ()):
        place = triples.entity(entity)
        assert triples.entity(label) == place
        assert triples.entity_labels[place] == label
    assert triples.notes == []
    facts = positives(triples)
    assert len(facts) == len(triples.train) + len(triples.valid) + len(triples.test)
    first = store.read_bytes(name, store.entry(name).files[0].path).split(b"\n")[0].decode()
    head, relation, tail = triples.train[0].tolist()
    assert first.split("\t") == [
        triples.entities[head],
        triples.relations[relation],
        triples.entities[tail],
    ]


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "total"), [("codex-s", 36_543), ("codex-m", 206_205)])
def test_hard_negatives_are_wrong_and_relations_have_labels(name, total):
    triples = load(name)
    facts = positives(triples)
    assert len(facts) == total
    for part, wrong in (
        (triples.valid, triples.valid_negatives),
        (triples.test, triples.test_negatives),
    ):
        assert wrong.shape == part.shape
        assert not facts & {tuple(row) for row in wrong.tolist()}
    assert triples.relation_labels[triples.relation("P106")] == "occupation"
    assert triples.relation("Place of Birth") == triples.relation("P19")
    pairs = zip(triples.relations, triples.relation_labels, strict=True)
    assert all(name != label for name, label in pairs)


@pytest.mark.realdata
def test_an_ambiguous_name_is_refused_with_the_ids():
    with pytest.raises(UserError, match=r"4 entities are called 'John Adams': 'Q11806', .* its id"):
        load("codex-m").entity("John Adams")


@pytest.mark.realdata
def test_without_the_list_of_labels_ids_serve(tmp_path, monkeypatch):
    whole = load("codex-s")
    folder = tmp_path / "data/kg"
    (folder / "codex-meta").mkdir(parents=True)
    root = store.data_root() / "kg"
    (folder / "codex-s").symlink_to(root / "codex-s")
    relations = "codex-meta/relations.en.json"
    (folder / relations).symlink_to(root / relations)
    monkeypatch.setenv("QUATGRAPH_DATA", str(tmp_path / "data"))
    plain = load("codex-s")
    assert plain.entity_labels == plain.entities
    assert plain.digest == whole.digest
    assert {state for _, state in store.check("codex-s")} == {"ok"}


@pytest.mark.realdata
def test_the_training_file_that_is_missing_is_named(monkeypatch):
    for proxy in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")
    if ("codex-l/train.txt", "missing") not in store.check("codex-l"):
        pytest.skip("codex-l is whole here")
    with pytest.raises(
        UserError, match=r"codex-l/train\.txt .*; put the file at kg/codex-l/train\.txt in a folder"
    ):
        load("codex-l")


def test_the_countries_are_what_the_catalog_says():
    triples = load("countries")
    assert statistics(triples) == store.entry("countries").statistics
    assert triples.entity("france") == triples.entity("France")
    assert not set(triples.test[:, [0, 2]].flatten().tolist()) - set(
        triples.train[:, [0, 2]].flatten().tolist()
    )
    assert len(positives(triples)) == sum(
        len(part) for part in (triples.train, triples.valid, triples.test)
    )


def test_a_dataset_of_another_task_is_refused():
    with pytest.raises(UserError, match="'cora' is a dataset of the task 'node', not of"):
        load("cora")
    with pytest.raises(UserError, match="no dataset 'codex-x'; did you mean 'codex-"):
        load("codex-x")


def test_the_entity_graph_has_every_pair_once_in_both_directions():
    triples = random_triples(30, 3, 200, seed=2)
    dense = np.zeros((30, 30), dtype=bool)
    for head, _, tail in triples.train.tolist():
        dense[head, tail] = dense[tail, head] = head != tail
    edges = entity_graph(triples.train, 30)
    assert edges.tolist() == [list(ends) for ends in np.nonzero(dense)]
    adjacency = Adjacency.from_edge_index(edges, 30)
    degrees = adjacency @ torch.ones(30, 1)
    assert degrees.flatten().tolist() == dense.sum(axis=1).tolist()
