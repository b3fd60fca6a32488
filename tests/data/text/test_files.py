"""Texts from files: tables, JSON lines, folders, lines."""

import csv
import json
import math
import time
from pathlib import Path

import pytest

from quatgraph.data.formats import infer_task
from quatgraph.data.text import TextOptions, names_a_file, read_texts
from quatgraph.data.text.documents import Texts
from quatgraph.data.text.files import lines_of
from quatgraph.errors import UserError

TABLE = 'text,label,split,id\n"Rain, again",weather,train,a\n"Two\nlines ""quoted""",,test,b\n'


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(texts: Texts) -> list[tuple[str, str]]:
    return list(zip(texts.texts, texts.labels, strict=True))


def refused(path: Path, message: str, **options) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_texts(path, TextOptions(**options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_table_with_quotes_and_line_breaks(tmp_path, start, end):
    content = start + TABLE.replace("\n", end)
    texts = read_texts(written(tmp_path, "a.csv", content))
    lines = f'Two{end}lines "quoted"'
    assert rows(texts) == [("Rain, again", "weather"), (lines, "")]
    assert texts.parts == [0, 2]
    assert texts.ids == ["a", "b"]
    assert texts.notes == []
    assert texts.at(0).endswith("a.csv line 2")
    assert texts.at(1).endswith("a.csv line 4")


def test_a_table_with_semicolons_and_other_columns(tmp_path):
    content = "author;label;;text\nme;1;7;some words\nyou;2;8;other words\n"
    texts = read_texts(written(tmp_path, "a.csv", content))
    assert rows(texts) == [("some words", "1"), ("other words", "2")]
    assert texts.parts is None
    assert texts.ids == ["0", "1"]


def test_between_tabs_a_lonely_quote_is_a_letter(tmp_path):
    content = 'text\tlabel\n"Well, he said\tx\n\nsize 6" nails\ty\n"all ""in"" quotes"\t"x"\n'
    content += '"a" or "b"\ty\n'
    texts = read_texts(written(tmp_path, "a.tsv", content))
    assert rows(texts) == [
        ('"Well, he said', "x"),
        ('size 6" nails', "y"),
        ('all "in" quotes', "x"),
        ('"a" or "b"', "y"),
    ]
    assert [texts.at(row).rsplit(" ")[-1] for row in range(4)] == ["2", "4", "5", "6"]


def test_between_tabs_quotes_may_hold_line_breaks(tmp_path):
    content = 'text\tlabel\n"over two\nlines"\tx\none line\ty\n'
    texts = read_texts(written(tmp_path, "a.tsv", content))
    assert rows(texts) == [("over two\nlines", "x"), ("one line", "y")]


@pytest.mark.parametrize(
    ("content", "options", "found"),
    [
        ("Label,TEXT\nx,some words\n", {}, ("some words", "x")),
        ("v1,v2\nham,see you at the station\n", {}, ("see you at the station", "ham")),
        ("review,stars\nwonderful film,5\n", {}, ("wonderful film", "5")),
        ("text,topic\nshort,a long topic\n", {}, ("short", "a long topic")),
        ("label,sentence\na long label,short\n", {}, ("short", "a long label")),
        ("id,body,kind\n1,some words,x\n", {}, ("some words", "x")),
        ("a,b,c\n1,some words,x\n", {"text": "b", "label": "c"}, ("some words", "x")),
        ("text,label,b\nno,no,some words\n", {"text": "b"}, ("some words", "no")),
        ("query\nsome words\n", {"labels_needed": False}, ("some words", "")),
        ("text,author\nsome words,me\n", {"labels_needed": False}, ("some words", "")),
        ("v1,v2\nham,some words\n", {"labels_needed": False}, ("some words", "ham")),
    ],
)
def test_columns_are_found_by_their_names_or_are_the_only_two(tmp_path, content, options, found):
    path = written(tmp_path, "a.csv", content)
    assert rows(read_texts(path, TextOptions(**options))) == [found]


def test_columns_that_are_not_used_and_a_split_called_dev_are_reported(tmp_path):
    rows = "text,label,split,author,date\nsome words,ham,dev,me,today\n"
    path = written(tmp_path, "a.csv", rows)
    assert read_texts(path).notes == [
        f"{path}: not used: 'author', 'date'",
        "the split 'dev' is read as valid",
    ]
    assert read_texts(path, TextOptions(labels_needed=False)).notes == []


def test_inferred_columns_are_reported(tmp_path):
    path = written(tmp_path, "a.csv", "v1,v2\nham,some words\n")
    assert read_texts(path).notes == [
        f"{path} has the texts in its column 'v2' and the labels in 'v1'"
    ]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "a.csv is empty"),
        ("\n\n", {}, "a.csv is empty"),
        ("text,label\n", {}, "a.csv lists no documents"),
        ("a,b,c\n1,2,3\n", {}, "no column 'text', its columns are 'a', 'b', 'c'; rename"),
        ("text,b,c\n1,2,3\n", {}, "no column 'label', its columns are 'text', 'b', 'c'; rename"),
        ("text\nwords\n", {}, "no column 'label', its columns are 'text'"),
        ("a,b,c\n1,2,3\n", {"labels_needed": False}, "no column 'text'"),
        ("text,label\n1,2\n", {"text": "txt"}, "no column 'txt'; did you mean 'text'"),
        (
            "text,label\n1,2\n",
            {"label": "xyz"},
            "no column 'xyz'; its columns are 'text', 'label'; rename",
        ),
        ("text,text,label\n1,2,3\n", {}, "two columns named 'text'"),
        ("text,label\na\n", {}, "line 2 has 1 cells but the first line has 2"),
        ('text,label\n"a,b\n', {}, "line 2 is not valid CSV"),
        ("text,label,split\na,b,tran\n", {}, "line 2 has the unknown split 'tran'.* mean 'train'"),
        ("id,text,label\n1,a,b\n1,a,b\n", {}, "line 3 repeats the id '1' of .* line 2"),
        ("id,text,label\n1,a,b\n,a,b\n", {}, "line 3 has no id"),
        (b"text,label\nok,a\ncaf\xe9,b\n", {}, "line 3 is not UTF-8 text"),
        ("text,label\nok,a\n".encode("utf-16"), {}, "line 1 is not UTF-8 text"),
    ],
)
def test_what_is_wrong_with_a_table_is_reported(tmp_path, content, options, message):
    refused(written(tmp_path, "a.csv", content), message, **options)


def test_json_lines(tmp_path):
    objects = [
        {"text": "two\nlines", "label": "x", "other": [1]},
        {"text": "caf\u00e9", "label": None, "split": "Test"},
        {"text": 5, "label": True, "split": "validation"},
        {"text": 0.5, "label": math.nan},
        {"text": "a", "label": 2.0},
    ]
    content = "\n\n".join(map(json.dumps, objects))
    texts = read_texts(written(tmp_path, "a.jsonl", content))
    assert rows(texts)[:3] == [("two\nlines", "x"), ("caf\u00e9", ""), ("5", "true")]
    assert rows(texts)[3:] == [("0.5", ""), ("a", "2")]
    assert texts.parts == [-1, 2, 1, -1, -1]
    assert texts.at(1).endswith("a.jsonl line 3")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.jsonl is empty"),
        ('{"text": "a", "label": "b"}\n{"text": ', "line 2 is not valid JSON"),
        ("[" * 100_000, "line 1 is not valid JSON"),
        ("[1]", "line 1 .object 1. is not a JSON object"),
        ('{"text": ["a"], "label": "b"}', "line 1 has .* in column 'text'; write one"),
        ('{"text": "a"}', "no column 'label', its columns are 'text'"),
        ("{}", "no column 'text', its columns are none"),
        (r'{"text": "a", "label": "b\ud800"}', "line 1 has half a character in column 'label'"),
        (r'{"text": "a", "label": "b", "id": "\ud800"}', "has half a character in column 'id'"),
        (b'{"text": "\xff", "label": "b"}', "line 1 is not UTF-8 text"),
    ],
)
def test_what_is_wrong_with_json_lines_is_reported(tmp_path, content, message):
    refused(written(tmp_path, "a.jsonl", content), message)


def test_a_folder_has_a_sub_folder_per_label(tmp_path):
    for name in ("spam/2.txt", "spam/1.txt", "ham/mail", ".git/config", "spam/.hidden"):
        written(tmp_path, name, f"\ufefftext of {name}")
    written(tmp_path, "README.md", "about")
    texts = read_texts(tmp_path)
    assert rows(texts) == [
        ("text of ham/mail", "ham"),
        ("text of spam/1.txt", "spam"),
        ("text of spam/2.txt", "spam"),
    ]
    assert texts.ids == ["ham/mail", "spam/1.txt", "spam/2.txt"]
    assert texts.parts is None
    assert texts.at(0) == str(tmp_path / "ham" / "mail")


def test_a_folder_may_be_split(tmp_path):
    for name in ("train/spam/1", "train/ham/1", "test/ham/1"):
        written(tmp_path, name, name)
    texts = read_texts(tmp_path)
    assert texts.ids == ["test/ham/1", "train/ham/1", "train/spam/1"]
    assert texts.labels == ["ham", "ham", "spam"]
    assert texts.parts == [2, 0, 0]


def test_labels_may_be_called_like_parts(tmp_path):
    for name in ("train/1", "test/1"):
        written(tmp_path, name, name)
    texts = read_texts(tmp_path)
    assert texts.labels == ["test", "train"]
    assert texts.parts is None


def test_a_folder_of_files_alone_has_no_labels(tmp_path):
    for name in ("b.txt", "a.txt"):
        written(tmp_path, name, name)
    texts = read_texts(tmp_path, TextOptions(labels_needed=False))
    assert rows(texts) == [("a.txt", ""), ("b.txt", "")]
    refused(tmp_path, "has no sub-folders with texts; put the texts of each label")


def test_what_is_wrong_with_a_folder_is_reported(tmp_path):
    refused(tmp_path, "has no sub-folders with texts")
    refused(tmp_path, "has no sub-folders with texts", labels_needed=False)
    written(tmp_path, "x/1", "fine\n")
    path = written(tmp_path, "x/2", b"fine\nfine\nna\xefve\n")
    refused(tmp_path, f"{path} line 3 is not UTF-8 text; save it as UTF-8")
    path.unlink()
    written(tmp_path, "x/more/3", "too deep")
    refused(tmp_path, "more lies within the folder of a label")


def test_a_plain_text_has_a_document_per_line_and_no_labels(tmp_path):
    path = written(tmp_path, "a.txt", "first, one\n\nsecond\n")
    texts = read_texts(path, TextOptions(labels_needed=False))
    assert rows(texts) == [("first, one", ""), ("second", "")]
    assert texts.at(1).endswith("a.txt line 3")
    refused(path, "a.txt has no labels; write a .csv file")
    refused(written(tmp_path, "b.txt", ""), "b.txt lists no documents", labels_needed=False)


def test_lines_of_bytes_are_texts():
    assert lines_of("\ufeffone\r\n\n \ntw\xf6\n".encode(), "here") == ["one", "tw\xf6"]
    assert lines_of(b"\n", "here") == []
    for content, message in (
        (b"one\nt\xf6o\n", "here line 2 is not UTF-8 text; save it as UTF-8"),
        (b"one\ntwo\n\0\n", "here line 3 holds a NUL byte"),
    ):
        with pytest.raises(UserError, match=message):
            lines_of(content, "here")


def test_a_text_names_a_file_that_is_there_or_ends_like_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "film").mkdir()
    assert all(map(names_a_file, ("film", "./film", "x.csv", "x.TSV", "a b.jsonl", "x.txt")))
    assert not any(map(names_a_file, ("", "films", "a film.", "film " * 5000, "fi\0lm", "x.csv?")))


def looks_like_texts(path: Path) -> bool:
    try:
        return infer_task(path) == "text"
    except UserError:
        return False


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.csv", "id,text,stars\n", True),
        ("a.csv", '\ufeff"Text";"label"\n', True),
        ("a.tsv", "text\tlabel\tsplit\n", True),
        ("a.csv", "text\n", True),
        ("a.csv", "review,stars\n", True),
        ("a.csv", "head,relation,tail\n", False),
        ("a.tsv", "a\tknows\tb\n", False),
        ("a.csv", "context,texts,c\n", False),
        ("a.csv", "", False),
        ("a.jsonl", '{"id": 1, "Text" : "x"}\n', True),
        ("a.jsonl", '{"edges": [], "num_nodes": 1, "label": "text"}\n', False),
        ("a.jsonl", '{"num_nodes": 1, "label": "text"}\n', False),
        ("a.txt", "text\n", False),
        ("a.csv.gz", "text,label\n", False),
    ],
)
def test_whether_a_file_looks_like_texts(tmp_path, name, content, found):
    assert looks_like_texts(written(tmp_path, name, content)) == found


def test_whether_a_folder_looks_like_texts(tmp_path):
    assert not looks_like_texts(tmp_path)
    written(tmp_path, "a.txt", "x")
    (tmp_path / "spam").mkdir()
    assert not looks_like_texts(tmp_path)
    written(tmp_path / "spam", "a.txt", "x")
    assert looks_like_texts(tmp_path)
    (tmp_path / "split" / "train" / "spam").mkdir(parents=True)
    assert not looks_like_texts(tmp_path / "split")
    written(tmp_path / "split" / "train" / "spam", "a.txt", "x")
    assert looks_like_texts(tmp_path / "split")


def test_what_is_no_file_of_texts_is_refused(tmp_path):
    refused(tmp_path / "none.csv", "no file or folder .*none.csv; the task text reads a .csv")
    refused(
        written(tmp_path, "a.pdf", "x"),
        "a.pdf is not text data: the task text reads",
    )


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", 'text,label\n"{}",x\nshort,y\n', 3),
        ("a.tsv", "text\tlabel\n{}\tx\nshort\ty\n", 3),
        ("a.jsonl", '{{"text": "{}", "label": "x"}}\n{{"text": "short"}}', 2),
    ],
)
def test_a_document_may_have_a_million_words(tmp_path, name, content, line):
    text = "words and, " * 500_000
    limit = csv.field_size_limit()
    start = time.process_time()
    texts = read_texts(written(tmp_path, name, content.format(text)))
    assert texts.texts == [text.strip(), "short"]
    assert texts.at(1).endswith(f"{name} line {line}")
    assert time.process_time() - start < 5
    assert csv.field_size_limit() == limit
