"""``python -m benchmarks``: rows are printed and appended, mistakes are one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import assert_user_error
from typer.testing import CliRunner

from benchmarks import conv
from benchmarks.__main__ import app


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_benchmark_prints_its_rows_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv, "SIZES", {"cpu": [(20, 60, 8)]})
    result = call("conv", "--device", "cpu", "--json", "--out", str(tmp_path))
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["bench"] for row in rows] == ["conv"] * 5
    kept = [json.loads(line) for line in (tmp_path / "conv.jsonl").read_text().splitlines()]
    assert [row["ms"] for row in kept] == [row["ms"] for row in rows]
    assert kept[0]["environment"]["device"] == "cpu"
    plain = call("conv", "--device", "cpu").stdout.splitlines()
    assert len(plain) == 5
    assert plain[0].startswith("conv  20 nodes, 60 edges, 8 wide")


def test_a_benchmark_that_could_not_be_kept_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = ["--out", str(tmp_path / "file")]
    assert_user_error(call("conv", "--device", "cpu", *kept), "cannot write ")


def test_an_option_of_another_benchmark_is_a_mistake() -> None:
    assert_user_error(call("conv", "--only", "umls"), "--only also of explain and missing")
    assert_user_error(call("missing", "--jobs", "2"), "are options of the benchmark own_data")
    assert_user_error(call("missing", "--only", "uml"), "did you mean 'umls'?")


def test_an_unknown_benchmark_or_device_is_a_mistake() -> None:
    assert_user_error(call("con"), "no benchmark 'con'", "did you mean 'conv'?")
    assert_user_error(call("conv", "--device", "gpu"), "unknown device 'gpu'")
