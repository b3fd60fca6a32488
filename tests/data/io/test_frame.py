"""Tables with named columns, from files and from memory."""

import datetime
import gzip
import json
import lzma
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from quatgraph.data.io.frame import Frame, find_files, is_frame, read_frame, to_frame
from quatgraph.errors import UserError

ROWS = [
    {"id": "a", "size": 1, "open": True, "kind": "x"},
    {"id": "b", "size": None, "open": False, "kind": None},
    {"id": "c", "size": 2.5, "open": None, "kind": "y"},
]


def written(path: Path, content: str) -> Path:
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(content)
    return path


def contents(path: Path) -> dict[str, list[str]]:
    frame = read_frame(path, "row")
    return {name: frame.words(name) for name in frame.columns}


CSV = "id,size,open,kind\na,1,true,x\nb,,false,\nc,2.5,,y\n"
WORDS = {
    "id": ["a", "b", "c"],
    "size": ["1", "", "2.5"],
    "open": ["true", "false", ""],
    "kind": ["x", "", "y"],
}


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
def test_all_text_formats_hold_the_same_table(packing, tmp_path):
    lines = "\n".join(json.dumps(row) for row in ROWS)
    assert contents(written(tmp_path / f"t.csv{packing}", CSV)) == WORDS
    assert contents(written(tmp_path / f"t.tsv{packing}", CSV.replace(",", "\t"))) == WORDS
    for name, text in {
        "t.jsonl": lines,
        "t.ndjson": lines,
        "t.json": json.dumps(ROWS),
        "u.json": json.dumps(ROWS, indent=2),
        "v.json": lines,
    }.items():
        assert contents(written(tmp_path / f"{name}{packing}", text)) == WORDS


def test_numbers_stay_numbers_and_other_columns_are_words(tmp_path):
    frame = read_frame(written(tmp_path / "t.json", json.dumps(ROWS)), "row")
    np.testing.assert_array_equal(frame.numbers_or_words("size"), [1, np.nan, 2.5])
    assert frame.numbers_or_words("open") == ["true", "false", ""]
    huge = read_frame(written(tmp_path / "u.json", f'[{{"n": 1{"0" * 400}}}]'), "row")
    assert huge.numbers_or_words("n") == ["1" + "0" * 400]


def test_parquet_holds_the_same_table(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "t.parquet")
    assert contents(tmp_path / "t.parquet") == WORDS
    frame = read_frame(tmp_path / "t.parquet", "row")
    assert frame.at(1) == f"{tmp_path / 't.parquet'} row 2"


def test_a_folder_name_with_an_equals_sign_adds_no_column_to_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "year=2020"
    folder.mkdir()
    parquet.write_table(pyarrow.table({"id": [1]}), folder / "t.parquet")
    assert contents(folder / "t.parquet") == {"id": ["1"]}


def test_the_index_that_pandas_writes_has_no_name(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"size": [1, 2]}, index=["a", "b"])
    frame.to_csv(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert contents(tmp_path / name) == {"": ["a", "b"], "size": ["1", "2"]}


@pytest.mark.parametrize("content", [b"", b"id,label\n1,2\n", b"PAR1 PAR1", b"\x00" * 64])
def test_a_file_that_is_no_parquet_is_refused_by_name(content, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"t\.parquet cannot be read as Parquet \(.*\); write it"):
        read_frame(tmp_path / "t.parquet", "row")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"")
    with pytest.raises(UserError, match=r"needs pyarrow; install it with pip install 'quatgraph"):
        read_frame(tmp_path / "t.parquet", "row")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "", "is empty; it needs a line of column names and a line per row"),
        ("t.csv", "a,a\n1,2\n", "has two columns named 'a'"),
        ("t.csv", "a,,b\n1,2,3\n", "column 2 of .* has no name"),
        ("t.csv", "a,b\n1\n", r"line 2 has 1 cells but the first line has 2"),
        ("t.json", "", "is empty; write a JSON object per row"),
        ("t.json", "[]", "is empty; write a JSON object per row"),
        ("t.json", '[{"a": 1},\n 2]', r"line 2 \(object 2\) is not a JSON object"),
        ("t.json", '[{"a": 1},\n {"a": }]', r"line 2 is not valid JSON \(Expecting value, column"),
        ("t.json", '[{"a": 1}\n {"a": 2}]', "line 1 .* is followed by neither a comma nor ]"),
        ("t.json", '[{"a": 1},]', r"line 1 is not valid JSON"),
        ("t.json", '[{"a": 1}', r"followed by neither a comma nor ]"),
        ("t.json", '[{"a": 1}] {"a": 2}', "goes on after its array"),
        ("t.json", '[\n{"a": 1, "a": 2}]', r"line 2 \(object 1\) has the key 'a' twice"),
        ("t.json", '[{"": 1}]', r"line 1 \(object 1\) has an empty key"),
        ("t.json", '{"a": 1}\n[2]', "line 2 is not a JSON object"),
        ("t.jsonl", '{"a": 1}\n{"a"}', r"line 2 is not valid JSON"),
        ("t.json", "[" * 100_000, "is not valid JSON"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(name, content, words, tmp_path):
    with pytest.raises(UserError, match=words) as caught:
        read_frame(written(tmp_path / name, content), "row")
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize("nested", [[1, 2], {"b": 1}])
def test_a_nested_value_is_refused_with_its_line_and_column(nested, tmp_path):
    rows = [{"a": "x"}, {"a": nested}]
    path = written(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError) as caught:
        read_frame(path, "row").words("a")
    assert str(caught.value) == (
        f"{path} line 2 has {json.dumps(nested)} in column 'a'; write one text or number, or "
        "remove the column"
    )


def test_half_a_character_is_refused(tmp_path):
    path = written(tmp_path / "t.jsonl", '{"a": "\\ud800"}')
    with pytest.raises(UserError, match="line 1 has half a character in column 'a'"):
        read_frame(path, "row").words("a")


def test_columns_without_a_name_may_be_empty(tmp_path):
    assert contents(written(tmp_path / "t.csv", "id;size;\na;1;\n")) == {"id": ["a"], "size": ["1"]}


def test_files_of_all_formats_are_found(tmp_path):
    for name in ("nodes.csv", "nodes.json.gz", "nodes.parquet", "nodes.xlsx", "edges.csv"):
        (tmp_path / name).touch()
    found = [path.name for path in find_files(tmp_path, "nodes")]
    assert sorted(found) == ["nodes.csv", "nodes.json.gz", "nodes.parquet"]


def test_frames_of_pandas_polars_and_arrow_hold_the_same_table():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    made = [
        pandas.DataFrame(ROWS),
        pandas.DataFrame(ROWS).convert_dtypes(),
        polars.DataFrame(ROWS),
        pyarrow.Table.from_pylist(ROWS),
    ]
    for one in made:
        frame = to_frame(one, "it")
        assert is_frame(one)
        assert {name: frame.words(name) for name in frame.columns} == WORDS
        np.testing.assert_array_equal(frame.numbers_or_words("size"), [1, np.nan, 2.5])
    assert not any(map(is_frame, [ROWS, {"a": [1]}, np.ones((2, 2)), "a.csv", None]))


def test_large_ids_of_a_frame_keep_all_digits():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    ids = [2**62 + 1, 2**62 + 3]
    for library in (pandas, polars):
        assert to_frame(library.DataFrame({"id": ids}), "it").words("id") == list(map(str, ids))
    missing = pandas.DataFrame({"id": pandas.array([*ids, None], dtype="Int64")})
    assert to_frame(missing, "it").words("id") == [*map(str, ids), ""]


def test_dates_decimals_and_categories_of_a_frame_become_words():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "day": [datetime.date(2020, 1, 2), None],
            "price": [Decimal("1.50"), Decimal("2")],
            "kind": pandas.Categorical(["x", None]),
            "when": pandas.to_datetime(["2020-01-02", None]),
        }
    )
    made = to_frame(frame, "it")
    assert made.words("day") == ["2020-01-02", ""]
    assert made.words("price") == ["1.50", "2"]
    assert made.words("kind") == ["x", ""]
    assert made.words("when") == ["2020-01-02 00:00:00", ""]


def test_frames_that_cannot_be_read_are_refused():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    twice = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(UserError, match=r"^it has two columns named 'a'; rename or remove one$"):
        to_frame(twice, "it")
    with pytest.raises(UserError, match=r"^it is lazy; pass what its collect\(\) returns$"):
        to_frame(polars.DataFrame({"a": [1]}).lazy(), "it")
    with pytest.raises(UserError, match=r"^it must be a pandas or Polars frame, not list$"):
        to_frame([[1]], "it")
    nested = to_frame(pandas.DataFrame({"a": [[1, 2]]}), "it")
    with pytest.raises(UserError, match=r"^row 0 \(counted from 0\) of it has \[1, 2\] in column"):
        nested.words("a")


def test_reading_files_imports_no_library_of_frames():
    code = (
        "import sys, quatgraph.predictors; "
        "print({'pandas', 'polars', 'pyarrow', 'networkx', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_taken_rows_keep_their_location():
    frame = Frame("t", {"a": ["x", "y", "z"], "b": np.arange(3)}, "t line {}".format, ",")
    taken = frame.take([2, 0])
    assert (taken.columns["a"], taken.columns["b"].tolist()) == (["z", "x"], [2, 0])
    assert [taken.at(row) for row in range(2)] == ["t line 2", "t line 0"]
