"""Queries in files and in lists."""

import dataclasses
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.predictors.queries import OPEN, example_query, parse_queries, parse_triples

NONE = torch.empty(0, 3, dtype=torch.int64)
GRAPH = Triples(
    name="towns",
    train=torch.tensor([[0, 0, 1], [2, 1, 1]]),
    valid=NONE,
    test=NONE,
    entities=["Q1", "Q2", "Q3"],
    relations=["P1", "P2"],
    entity_labels=["Bonn", "New York", "Bonn"],
    relation_labels=["near", "twin of"],
)
NUMBERS = [[OPEN, 0, 1], [2, 1, OPEN], [0, 0, 1]]


@pytest.mark.parametrize(
    "text",
    [
        "?\tnear\tNew York\nQ3\ttwin of\t?\nQ1\tP1\tQ2\n",
        "\tnear\tNew York\nQ3\ttwin of\t\nQ1\tP1\tQ2",
        "?,near,new york\r\n\r\nq3,TWIN OF,\r\nQ1,P1,Q2\r\n",
        'head;relation;tail\n?;near;"New York"\nQ3;twin of;?\nQ1;P1;Q2',
        "relation,object,subject\nnear,New York,?\ntwin of,?,Q3\nP1,Q2,Q1\n",
    ],
    ids=["tabs", "empty cells", "commas", "header", "other order"],
)
def test_a_file_is_read_in_any_form(text: str, tmp_path: Path) -> None:
    file = tmp_path / "queries.csv"
    file.write_bytes(text.encode())
    assert parse_queries(file, GRAPH).tolist() == NUMBERS
    assert parse_queries(str(file), GRAPH).tolist() == NUMBERS


@pytest.mark.parametrize(("packing", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_file_may_be_packed(packing: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = tmp_path / f"queries.tsv{packing}"
    file.write_bytes(pack(b"?\tnear\tQ2\n"))
    assert parse_queries(file, GRAPH).tolist() == [[OPEN, 0, 1]]


OBJECTS = [
    {"relation": "near", "tail": "New York"},
    {"head": "Q3", "relation": "twin of", "tail": None},
    {"head": "Q1", "relation": "P1", "tail": "Q2"},
]


def test_json_and_parquet_are_read_as_training_reads_them(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    lines, array, parquet = (tmp_path / f"queries.{end}" for end in ("jsonl", "json", "parquet"))
    lines.write_text("".join(json.dumps(one) + "\n" for one in OBJECTS))
    array.write_text(json.dumps(OBJECTS))
    frame = pandas.DataFrame(OBJECTS)
    frame.to_parquet(parquet)
    for source in (lines, array, parquet, frame):
        assert parse_queries(source, GRAPH).tolist() == NUMBERS
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(lines.read_bytes()))
    assert parse_queries(tmp_path / "packed.jsonl.gz", GRAPH).tolist() == NUMBERS
    columns = {"head": "who", "relation": "how", "tail": "whom"}
    named = frame.rename(columns=columns).assign(when=1990)
    named.to_parquet(parquet)
    notes = list[str]()
    assert parse_queries(parquet, GRAPH, notes, columns).tolist() == NUMBERS
    assert "'who' as head, 'how' as relation, 'whom' as tail; not used: 'when'" in notes[0]
    assert parse_queries(lines, GRAPH, columns=columns).tolist() == NUMBERS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("new.nt", "<u:a> <u:r> <u:b> .\n<u:b> <u:r> <u:c> .\n<u:a> <u:r> 'text' .\n"),
        ("new.ttl", "@prefix u: <u:> . u:a u:r u:b , 'text' . u:b u:r u:c ."),
    ],
)
def test_rdf_is_read_as_whole_triples(name: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    ids, kinds = ["u:a", "u:b"], ["u:r"]
    graph = dataclasses.replace(
        GRAPH, entities=ids, entity_labels=ids, relations=kinds, relation_labels=kinds
    )
    (tmp_path / name).write_text(text.replace("'", '"'))
    notes = list[str]()
    assert parse_triples(tmp_path / name, graph, notes).tolist() == [[0, 0, 1]]
    assert notes == [
        f"1 literal of {tmp_path / name} is left out: only IRIs and blank nodes are entities",
        "1 of 2 triples left out: the model does not know 'u:c'",
    ]
    with pytest.raises(UserError, match=r"triple 2: there is no entity 'u:c'"):
        parse_queries(tmp_path / name, graph)


def test_of_a_folder_the_test_triples_are_taken(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("Q1,P1,Q2\nQ3,P2,Q2\n")
    with pytest.raises(UserError) as result:
        parse_triples(tmp_path, GRAPH)
    assert str(result.value) == (
        f"{tmp_path} has no test.tsv; name the file of the triples to rank, such as "
        f"{tmp_path / 'train.csv'}"
    )
    test, notes = tmp_path / "test.jsonl", list[str]()
    test.write_text(json.dumps(OBJECTS[2]))
    assert parse_triples(str(tmp_path), GRAPH, notes).tolist() == [[0, 0, 1]]
    assert notes[0] == f"the triples that are ranked are those of {test}"
    with pytest.raises(UserError, match=rf"is a folder; name a file of queries, such as {test}$"):
        parse_queries(tmp_path, GRAPH)


def test_a_folder_of_another_task_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label\na,x\n")
    with pytest.raises(UserError, match="is not link data"):
        parse_triples(tmp_path, GRAPH)


def test_rows_are_read_too() -> None:
    rows = [("?", "near", "New York"), ["Q3", "twin of", None], ("Q1", "P1", "Q2")]
    assert parse_queries(rows, GRAPH).tolist() == NUMBERS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"Q1\tnear\nQ1\tnear\t?\n", "line 1 has 2 columns where 3 are needed"),
        (b"Q1\tnear\t?\nQ1\tnear\t?\tx\n", "line 2 has 4 columns where 3 are needed"),
        (b"", "has no queries; write head, relation and tail"),
        (b"head\trelation\ttail\n", "has no queries"),
        (b"Q1\tnear\t?\nQ1\tn\xe4her\t?\n", "line 2 is not UTF-8 text"),
        (b"Q1\tnear\t?\n?\tnear\t?\n", "line 2: head and tail are both missing"),
        (b"Q1\tnear\t?\n\nQ1\t?\tQ2\n", "line 3: the relation is missing; choose from 'near'"),
        (b"Q1\tnear\t?\nNew Yorck\tnear\t?\n", "line 2: there is no entity 'New Yorck'; did you"),
        (b"Bonn\tnear\t?\n", "line 1: 2 entities are called 'Bonn'"),
        (b"Q1\tnear\t?\nQ2\tclose\t?\n", "line 2: there is no relation 'close'; relations are"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(
    content: bytes, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "queries.tsv"
    file.write_bytes(content)
    with pytest.raises(UserError) as result:
        parse_queries(file, GRAPH)
    assert words in str(result.value)
    assert str(file) in str(result.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("q.jsonl", '{"head": "Q1"}', "the columns 'head' where head, relation and tail are need"),
        ("q.jsonl", '{"head": "Q1", "relation": "P1", "tail": ["Q2"]}', "line 1 has "),
        ("q.jsonl", '\n{"head": "Q", "relation": "P1", "tail": "?"}', "line 2: there is no entity"),
        ("q.jsonl", "Q1\tP1\t?", "line 1 is not valid JSON"),
        ("q.json", "[]", "is empty; write a JSON object per triple"),
        ("q.xlsx", "Q1", ".xlsx files are not supported; save the sheet as .csv"),
    ],
)
def test_a_mistake_in_a_file_of_another_format_is_told_with_its_place(
    name: str, text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as result:
        parse_queries(tmp_path / name, GRAPH)
    assert words in str(result.value)
    assert str(tmp_path / name) in str(result.value)
    assert "--set" not in str(result.value)


@pytest.mark.parametrize("name", ["nowhere.tsv", "nowhere.nt", "nowhere.json", "nowhere.parquet"])
def test_a_file_that_is_not_there_is_a_mistake(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        parse_queries(tmp_path / name, GRAPH)


def test_a_frame_without_rows_has_no_queries() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UserError, match="the frame has no queries"):
        parse_queries(pandas.DataFrame({"head": [], "relation": [], "tail": []}), GRAPH)


def test_a_mistake_in_a_list_is_told_with_its_number() -> None:
    good = ("Q1", "near", None)
    with pytest.raises(UserError, match="query 2: there is no entity 'Rome'"):
        parse_queries([good, ("Rome", "near", None)], GRAPH)
    with pytest.raises(
        UserError, match=r"query 2: \('Q1', 'near'\) is not a row of head, relation"
    ):
        parse_queries([good, ("Q1", "near")], GRAPH)
    with pytest.raises(UserError, match="query 1: 'Q1' is not a row of head, relation and tail"):
        parse_queries(good, GRAPH)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="there are no queries"):
        parse_queries([], GRAPH)


def test_the_example_is_a_query() -> None:
    assert example_query(GRAPH) == "--head Q1 --relation near"
    other = dataclasses.replace(GRAPH, test=torch.tensor([[1, 1, 0]]))
    assert example_query(other) == "--head 'New York' --relation 'twin of'"


def test_columns_cannot_be_selected_by_a_setting_so_none_is_advised(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("a,b,c,d\n")
    with pytest.raises(UserError, match=r"name three of them head, relation and tail$"):
        parse_triples(tmp_path / "new.csv", GRAPH)


def test_a_file_with_the_columns_of_the_training_data_is_read_likewise(tmp_path: Path) -> None:
    file, notes = tmp_path / "queries.csv", list[str]()
    file.write_text("when,whom,who,how\n1990,New York,?,near\n1991,,Q3,twin of\n1992,Q2,Q1,P1\n")
    columns = {"head": "who", "relation": "how", "tail": "whom"}
    assert parse_queries(file, GRAPH, notes, columns).tolist() == NUMBERS
    assert "'who' as head, 'how' as relation, 'whom' as tail; not used: 'when'" in notes[0]
    file.write_text("?\tnear\tNew York\nQ3\ttwin of\t?\nQ1\tP1\tQ2\n")  # without these columns
    assert parse_queries(file, GRAPH, columns=columns).tolist() == NUMBERS
    file.write_text("who,how,whom\nQ1,near,Q2\n")
    assert parse_triples(file, GRAPH, columns=columns).tolist() == [[0, 0, 1]]
