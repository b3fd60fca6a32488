"""Predictions in a file have the format of its suffix, and other suffixes are refused."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import cities
import pytest
import reviews
from commands import assert_user_error, call

from quatgraph.cli import tables
from quatgraph.predictors import load, train_texts, train_triples

ROWS = [
    {"id": "a,b\t\x1b[31m", "p(x)": 0.25, "rank": 1, "support": {"film": 0.5, "dull": -0.125}},
    {"id": 'c "d"\ne', "p(x)": 0.75, "rank": None, "support": {}},
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    config = reviews.config_of()
    train_texts(reviews.TEXTS, reviews.LABELS, place / "text", config=config, device="cpu")
    train_triples(cities.cities(), place / "link", config=cities.config_of(), device="cpu")
    return place


def predicted(models: Path, out: Path, *more: str) -> Path:
    result = call(
        "predict", str(models / "text"), "a dull film", "lovely", "--out", str(out), *more
    )
    assert (result.exit_code, result.stdout) == (0, f"2 predictions in {out}\n"), result.stderr
    return out


def answers(models: Path, explain: bool = False) -> list[dict[str, Any]]:
    texts = ["a dull film", "lovely"]
    return list(load(models / "text", device="cpu").predict(texts, explain=explain).rows())


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t"), (".CSV", ",")])
def test_a_table_of_text_has_the_delimiter_of_its_suffix(
    suffix: str, delimiter: str, models: Path, tmp_path: Path
) -> None:
    out = predicted(models, tmp_path / f"p{suffix}")
    rows = list(csv.DictReader(io.StringIO(out.read_text()), delimiter=delimiter))
    assert [row["text"] for row in rows] == ["a dull film", "lovely"]
    for row, answer in zip(rows, answers(models), strict=True):
        assert float(row["probability"]) == answer["probability"]


def test_json_is_lines_or_an_array(models: Path, tmp_path: Path) -> None:
    lines = predicted(models, tmp_path / "p.jsonl", "--explain").read_text().splitlines()
    array = json.loads(predicted(models, tmp_path / "p.json", "--explain", "--json").read_text())
    assert [json.loads(line) for line in lines] == array == answers(models, explain=True)


def test_parquet_has_columns_with_types_and_maps_by_word(models: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(predicted(models, tmp_path / "p.parquet", "--explain"))
    assert table.schema.field("text").type == pyarrow.string()
    assert table.schema.field("probability").type == pyarrow.float64()
    for row, answer in zip(table.to_pylist(), answers(models, explain=True), strict=True):
        for key, value in answer.items():
            assert row[key] == (list(value.items()) if isinstance(value, dict) else value)


def test_parquet_holds_ranks_with_halves_and_without(models: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    questions = tmp_path / "questions.tsv"
    questions.write_text("person 1\tknows\t?\nperson 1\tknows\tperson 2\n")
    out = tmp_path / "p.parquet"
    result = call("predict", str(models / "link"), str(questions), "--out", str(out))
    assert result.exit_code == 0
    rows = parquet.read_table(out).to_pylist()
    expected = list(load(models / "link", device="cpu").predict(questions).rows())
    assert rows == expected


def test_no_predictions_are_an_empty_file_of_any_format() -> None:
    assert [tables.encode([], form) for form in (".csv", ".tsv", ".jsonl", ".json")] == [
        *("", "", ""),
        "[]\n",
    ]
    parquet = pytest.importorskip("pyarrow.parquet")
    content = tables.encode([], ".parquet")
    assert isinstance(content, bytes)
    assert parquet.read_table(io.BytesIO(content)).num_rows == 0


def test_every_format_holds_awkward_names_exactly() -> None:
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        text = tables.encode(ROWS, suffix)
        assert isinstance(text, str)
        rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))
        assert [row["id"] for row in rows] == [row["id"] for row in ROWS]
        assert [row["support"] for row in rows] == ["film 0.5000; dull -0.1250", ""]
    array = tables.encode(ROWS, ".json")
    assert json.loads(array) == ROWS
    parquet = pytest.importorskip("pyarrow.parquet")
    content = tables.encode(ROWS, ".parquet")
    assert isinstance(content, bytes)
    found = parquet.read_table(io.BytesIO(content)).to_pylist()
    assert [row["id"] for row in found] == [row["id"] for row in ROWS]
    assert [row["rank"] for row in found] == [1, None]


@pytest.mark.parametrize("name", ["p.xlsx", "p.csv.gz", "p.parq", "p.txt"])
def test_another_suffix_is_refused_before_the_model_is_opened(name: str, tmp_path: Path) -> None:
    result = call("predict", "no-model", "--out", str(tmp_path / name))
    assert_user_error(
        result, "cannot write predictions to ", "use one of .csv, .tsv, .jsonl, .json, .parquet"
    )
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_json_into_a_file_of_another_format_is_refused(suffix: str, tmp_path: Path) -> None:
    result = call("predict", "no-model", "--json", "--out", str(tmp_path / f"p{suffix}"))
    assert_user_error(
        result, "--json does not match the suffix of ", f"{suffix}; omit --json or use .jsonl"
    )


def test_parquet_without_pyarrow_is_told_before_the_model_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    result = call("predict", "no-model", "--out", str(tmp_path / "p.parquet"))
    assert_user_error(result, "pip install 'quatgraph[tables]'")


def test_a_file_without_a_suffix_is_csv_or_json_lines(models: Path, tmp_path: Path) -> None:
    csv_ = predicted(models, tmp_path / "p.csv").read_text()
    assert predicted(models, tmp_path / "plain").read_text() == csv_
    lines = predicted(models, tmp_path / "lines", "--json").read_text()
    assert lines == predicted(models, tmp_path / "p.jsonl").read_text()


@pytest.mark.parametrize("place", ["-", "/dev/stdout"])
def test_standard_output_gets_nothing_but_the_table(place: str, models: Path) -> None:
    asked = ("predict", str(models / "text"), "a dull film", "lovely")
    result = call(*asked, "--out", place)
    assert result.exit_code == 0
    assert result.stdout == call(*asked).stdout
    assert result.stdout.startswith("text,prediction,")
    assert not Path("-").exists()


def test_a_device_is_written_to_and_not_replaced(models: Path) -> None:
    result = call("predict", str(models / "text"), "a dull film", "--out", "/dev/null")
    assert (result.exit_code, result.stdout) == (0, "")
    assert Path("/dev/null").is_char_device()
