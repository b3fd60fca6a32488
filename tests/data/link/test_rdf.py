"""N-Triples and Turtle."""

import gzip
import sys

import pytest

from quatgraph.data.formats import infer_task
from quatgraph.data.link import Triples, read
from quatgraph.errors import UserError

pyoxigraph = pytest.importorskip("pyoxigraph")

TURTLE = """@prefix ex: <http://ex.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:a ex:knows ex:b , ex:c ; ex:age 7 ; rdfs:label "Ah"@de , "A"@en , "a" .
ex:b ex:knows [ ex:likes ex:a ] ; rdfs:label "Beh"@de .
_:x ex:likes ex:b .
ex:knows rdfs:label "knows"@en .
ex:c ex:likes ex:a .
"""


def facts_of(graph: Triples) -> set[tuple[str, str, str]]:
    rows = [row for part in (graph.train, graph.valid, graph.test) for row in part.tolist()]
    ends, kinds = graph.entities, graph.relations
    return {(ends[head], kinds[relation], ends[tail]) for head, relation, tail in rows}


def test_turtle_and_its_n_triples_give_the_same_graph(tmp_path):
    (tmp_path / "g.ttl").write_text(TURTLE)
    plain = TURTLE.replace("[ ex:likes ex:a ]", "_:anonymous0 . _:anonymous0 ex:likes ex:a")
    plain = plain.replace("_:anonymous0 ex:likes ex:a ;", "_:anonymous0 ex:likes ex:a . ex:b")
    statements = pyoxigraph.parse(plain, pyoxigraph.RdfFormat.TURTLE)
    lines = pyoxigraph.serialize(statements, format=pyoxigraph.RdfFormat.N_TRIPLES)
    with gzip.open(tmp_path / "g.nt.gz", "wb") as file:
        file.write(lines)
    turtle, packed = read(tmp_path / "g.ttl"), read(tmp_path / "g.nt.gz")
    assert (
        facts_of(turtle)
        == facts_of(packed)
        == {
            ("http://ex.org/a", "http://ex.org/knows", "http://ex.org/b"),
            ("http://ex.org/a", "http://ex.org/knows", "http://ex.org/c"),
            ("http://ex.org/b", "http://ex.org/knows", "_:anonymous0"),
            ("_:anonymous0", "http://ex.org/likes", "http://ex.org/a"),
            ("_:x", "http://ex.org/likes", "http://ex.org/b"),
            ("http://ex.org/c", "http://ex.org/likes", "http://ex.org/a"),
        }
    )
    assert turtle.name == packed.name == "g"
    assert infer_task(tmp_path / "g.ttl") == infer_task(tmp_path / "g.nt.gz") == "link"


def test_blank_nodes_have_the_same_names_whenever_they_are_read(tmp_path):
    (tmp_path / "g.ttl").write_text(TURTLE)
    assert read(tmp_path / "g.ttl").digest == read(tmp_path / "g.ttl").digest


def test_labels_are_english_if_there_is_a_choice_and_literals_are_counted(tmp_path):
    (tmp_path / "g.ttl").write_text(TURTLE)
    graph = read(tmp_path / "g.ttl")
    labels = dict(zip(graph.entities, graph.entity_labels, strict=True))
    assert labels["http://ex.org/a"] == "A"
    assert labels["http://ex.org/b"] == "Beh"
    assert labels["http://ex.org/c"] == "http://ex.org/c"
    assert graph.relation_labels == ["knows", "http://ex.org/likes"]
    assert graph.entity("a") == graph.entities.index("http://ex.org/a")
    note = f"1 literal of {tmp_path / 'g.ttl'} is left out: only IRIs and blank nodes are entities"
    assert note in graph.notes


def test_a_folder_brings_its_own_parts_and_blank_nodes_of_two_files_differ(tmp_path):
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.ttl").write_text("<urn:a> <urn:p> <urn:b>, [] .\n")
    graph = read(tmp_path)
    assert infer_task(tmp_path) == "link"
    assert (len(graph.train), len(graph.valid), len(graph.test)) == (2, 2, 2)
    assert graph.entities == ["_:anonymous0", "_:anonymous1", "_:anonymous2", "urn:a", "urn:b"]
    assert any(f"{tmp_path / 'test.ttl'}, the first in triple 2, has" in n for n in graph.notes)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("g.ttl", "<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:p>\n<urn:b> <urn:c> .", "line 3, col"),
        ("g.ttl", "ex:a ex:p ex:b .", r"line 1, column 1 is not valid Turtle \(.*prefix"),
        ("g.nt", "<urn:a> <urn:p> <urn:b> .\n<urn:a> .", "line 2, column .* is not valid N-Trip"),
        ("g.nt", b"\xff", r"line 1, column 1 is not valid N-Triples \(Invalid UTF-8"),
        ("g.nt", '<urn:a> <urn:p> "b" .', "has no triples of two entities: it has 1 literal;"),
        ("g.nt", "", "has no triples of two entities; write one statement per triple"),
    ],
)
def test_what_is_no_rdf_is_one_sentence_with_its_line(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "Parser error" not in str(caught.value)


def test_without_pyoxigraph_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "g.ttl").write_text(TURTLE)
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(UserError, match=r"needs pyoxigraph; install it with `pip install quatgr"):
        read(tmp_path / "g.ttl")
