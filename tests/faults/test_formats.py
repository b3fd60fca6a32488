"""Which task a file is for: read as that, or refused in one sentence with a remedy."""

import gzip
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import assert_user_error, call

ROLES = ("head", "relation", "tail")
BINARY = bytes(range(256)) * 4
TEXTS = "text,label\na good film,x\na bad film,y\n"
TRIPLES = "a\tknows\tb\nb\tknows\tc\n"
GRAPH = '{"edges": [[0, 1]], "label": "x"}\n'


def packed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)  # the same in every process


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("facts.nq", "<a> <p> <b> <g> .\n", "write the triples as .nt or .ttl, or as a .tsv"),
        ("facts.RDF.gz", packed("<rdf:RDF/>\n"), "write the triples as .nt or .ttl"),
        ("reviews.csv", "__label__x a good, old film\n", "fastText's format, which only a .txt"),
        ("reviews.tsv", "__label__x\ta good film\n", "fastText's format, which only a .txt"),
        ("texts.json", '[{"body": "a"}]', "the first object of "),
        ("texts.json.gz", packed('[{"text": "a"}]'), "is packed, which only triples may be"),
        ("sheet.xlsx", BINARY, "save the sheet as .csv"),
        ("table.parquet", b"PAR1" + BINARY, "table.parquet cannot be read as Parquet"),
        ("table.feather", BINARY, "write the table as .csv"),
        ("net.graphml", "<graphml/>", "write a folder with nodes.csv and edges.csv"),
        ("all.zip", BINARY, "unpack it and name what it holds"),
        ("empty.csv", "", "empty.csv is empty"),
        ("empty.jsonl", "", "empty.jsonl is empty"),
        ("blank.txt", " \n\n", "blank.txt is empty"),
        ("noise.csv", BINARY, "noise.csv is not UTF-8 text; save it as UTF-8"),
        ("noise.txt", BINARY, "noise.txt is not UTF-8 text"),
        ("noise.jsonl", BINARY, "noise.jsonl is not UTF-8 text"),
        ("noise", BINARY, "noise is not UTF-8 text"),
        ("wide.csv", TEXTS.encode("utf-16"), "wide.csv is not UTF-8 text"),
        (
            "reviews.csv.gz",
            packed(TEXTS),
            "is packed, which only triples may be",
        ),
        ("graphs.jsonl.xz", lzma.compress(GRAPH.encode()), "is packed, which only triples may be"),
        ("broken.tsv.gz", b"\x1f\x8b\x08" + BINARY, "is damaged and cannot be unpacked"),
        ("plain.tsv.gz", TRIPLES, "is damaged and cannot be unpacked"),
        ("prose.txt", "A line of prose.\n", "is neither a file of graphs, whose first line"),
        ("pairs.txt", "1 2\n2 3\n", "is neither a file of graphs, whose first line"),
        ("noext", "a,b,c\n", "has an unknown format; graphs are .jsonl files, triples .tsv"),
        ("model.pt", "a", "has an unknown format"),
        ("one.csv", "a\nb\n", "has one column, separated by commas, tabs or semicolons"),
        ("edges.csv", "a,b\n", "is part of a graph of the task node"),
        ("mine.csv", "source,target\na,b\n", "is part of a graph of the task node"),
        ("mine.csv", "id,from,to\n0,a,b\n", "is part of a graph of the task node"),
        ("keys.jsonl", '{"body": "a film"}\n', "has neither 'edges', as a graph has, nor 'text'"),
        ("four.csv", "a,b,c,d\n", "the columns 'a', 'b', 'c', 'd', which tell no task: texts have"),
    ],
)
def test_what_is_not_read_is_refused_with_a_remedy(
    name: str, content: str | bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert_user_error(call("data", "stats", str(path)), str(path), words)


@pytest.mark.parametrize(
    ("name", "content", "count"),
    [
        ("facts.txt", TRIPLES, "entities  3"),
        ("facts.TSV", TRIPLES, "entities  3"),
        ("facts.tsv.gz", packed(TRIPLES), "entities  3"),
        ("facts.json", '[{"subject": 1, "object": 2, "predicate": 3}]', "entities  2"),
        ("facts.csv.xz", lzma.compress(b"a,knows,b\nb,knows,c\n"), "entities  3"),
        ("mine.csv", "source,type,target\na,knows,b\nb,knows,c\n", "entities  3"),
        ("facts.NT", "<urn:a> <urn:p> <urn:b> .\n<urn:b> <urn:p> <urn:c> .\n", "entities  3"),
        ("facts.ttl.gz", packed("<urn:a> <urn:p> <urn:b>, <urn:c> .\n"), "entities  3"),
        ("list.json", json.dumps([{"text": "a", "label": "x"}], indent=2), "documents  1"),
        ("graph.json", f"\n [{GRAPH}]", "graphs    1"),
        ("lines.json", GRAPH, "graphs    1"),
        ("reviews.txt", "__label__x a good film\n__label__y a bad one\n", "documents  2"),
        ("graphs.txt", "1\n2 0\n0 1 1\n0 1 0\n", "graphs    1"),
        ("graphs.JSONL", GRAPH, "graphs    1"),
        ("reviews.CSV", TEXTS, "documents  2"),
        ("reviews.csv", "\n\n" + TEXTS, "documents  2"),
        ("long.csv", f"text,label\n{'word ' * 20_000},x\n{'word ' * 20_000},y\n", "documents  2"),
        ("wide.jsonl", json.dumps({"text": "\u00e9" * 70_000, "label": "x"}), "documents  1"),
    ],
)
def test_what_says_what_it_is_is_counted(
    name: str, content: str | bytes, count: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    result = call("data", "stats", str(path))
    assert result.exit_code == 0
    assert count in result.stdout.splitlines()


def test_a_key_that_is_named_makes_lines_texts(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text('{"body": "a film", "label": "x"}\n')
    named = call("data", "stats", str(path), "--set", "data.text=body")
    assert "documents  1" in named.stdout.splitlines()


def test_columns_that_are_named_make_lines_triples(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("who,what,text,when\na,knows,b,1\nb,knows,c,2\n")
    names = [f"data.{key}={name}" for key, name in zip(ROLES, ("who", "what", "text"), strict=True)]
    named = call("data", "stats", str(path), *(word for n in names for word in ("--set", n)))
    assert "entities  3" in named.stdout.splitlines()


def images(path: Path) -> None:
    for place in range(3):
        (path / f"{place}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + BINARY)


def images_by_class(path: Path) -> None:
    for name in "ab":
        (path / name).mkdir()
        images(path / name)


def parts_of_texts(path: Path) -> None:
    for part in ("train", "test"):
        (path / f"{part}.csv").write_text(TEXTS)


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        (lambda path: None, "is not data of any task"),
        (images, "is not data of any task"),
        (images_by_class, "is not data of any task"),
        (parts_of_texts, "has texts in train.csv; put all texts into one table, with a column"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    fill: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    fill(tmp_path)
    assert_user_error(call("data", "stats", str(tmp_path)), str(tmp_path), words)


@pytest.mark.parametrize(
    ("task", "name", "words"),
    [
        ("link", "facts.trig", "write the triples as .nt or .ttl"),
        ("link", "sheet.xlsx", "save the sheet as .csv"),
        ("text", "ft.csv", "fastText's format, which only a .txt file may be"),
    ],
)
def test_training_refuses_it_in_the_same_words(
    task: str, name: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text("__label__x a good film\n" if name.startswith("ft") else "{}\n")
    out = tmp_path / "model"
    assert_user_error(call("train", task, "--data", str(path), "--out", str(out)), words)
    assert not out.exists()


def test_a_spreadsheet_that_is_called_csv_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>" * 50)
    assert_user_error(call("data", "stats", str(path)), "sheet.csv is not UTF-8 text")
