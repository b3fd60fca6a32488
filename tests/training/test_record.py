"""Records: what is read back equals what was written, whatever happened in between."""

import dataclasses
import errno
import json
import math
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest
from made_up import made_up

from quatgraph.errors import UserError
from quatgraph.training.record import RunRecord, append_records, read_records


def record(seed: int = 0, **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "config": {"train": {"lr": 0.1, "clip": None}},
        "members": {"product": {"seed": [seed], "split": [0, 1]}},
        "metrics": {"test/accuracy": 0.1 + 0.2},
        "curves": {"valid/accuracy": [0.123456, 1234.56, 1.00004e-7]},
        "environment": {"torch": "2"},
    }
    return made_up("node", "cora", "qgnn", protocol="honest", seed=seed, **fields | changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records" / "node.jsonl"


def test_records_come_back_in_order_and_equal(path: Path) -> None:
    append_records(path, [record(0), record(1)])
    append_records(path, [record(2, dataset="éß\n")])
    assert read_records(path) == [record(0), record(1), record(2, dataset="éß\n")]


def test_the_runs_of_one_ensemble_share_a_line(path: Path) -> None:
    runs = [record(seed, metrics={"test/accuracy": seed / 7}) for seed in range(50)]
    append_records(path, [*runs, record(0, ensemble="e2")])
    first, second = path.read_bytes().splitlines()
    assert len(first) < 4 * len(second)
    assert read_records(path) == [*runs, record(0, ensemble="e2")]


def test_metrics_keep_six_digits() -> None:
    assert record(metrics={"test/accuracy": 0.857142857}).metrics == {"test/accuracy": 0.857143}


def test_appending_nothing_makes_no_file(path: Path) -> None:
    append_records(path, [])
    assert not path.exists()


def test_curves_keep_four_digits() -> None:
    assert record().curves == {"valid/accuracy": [0.1235, 1235.0, 1e-7]}


def test_a_run_that_diverged_is_recorded_in_strict_json(path: Path) -> None:
    append_records(
        path,
        [
            record(
                metrics={"test/accuracy": math.nan, "valid/loss": math.inf},
                curves={"loss": [1.0, math.nan]},
            )
        ],
    )
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    (back,) = read_records(path)
    assert all(map(math.isnan, back.metrics.values()))
    assert math.isnan(back.curves["loss"][1])
    assert back.config["train"]["clip"] is None


def test_a_folder_is_read_by_file_name(tmp_path: Path) -> None:
    append_records(tmp_path / "b.jsonl", [record(2)])
    append_records(tmp_path / "a.jsonl", [record(1)])
    (tmp_path / "notes.txt").write_text("not a record")
    assert [found.seed for found in read_records(tmp_path)] == [1, 2]
    assert read_records(tmp_path / "a.jsonl") == [record(1)]


def test_a_torn_last_line_is_ignored_wherever_it_was_cut(path: Path) -> None:
    append_records(path, [record(0)])
    first = path.read_bytes()
    append_records(path, [record(1)])
    whole = path.read_bytes()
    for end in range(len(first), len(whole) - 1, 7):
        path.write_bytes(whole[:end])
        assert read_records(path) == [record(0)]
        append_records(path, [record(2)])
        assert read_records(path) == [record(0), record(2)]


def test_a_whole_last_line_without_its_newline_still_counts(path: Path) -> None:
    append_records(path, [record(0), record(1)])
    path.write_bytes(path.read_bytes()[:-1])
    assert read_records(path) == [record(0), record(1)]
    append_records(path, [record(2)])
    assert read_records(path) == [record(0), record(1), record(2)]


def test_a_corrupt_line_elsewhere_is_named(path: Path) -> None:
    append_records(path, [record(0)])
    line = path.read_bytes()
    for broken in (b"{", b"[]", b"3", b"null", b"\xff", b'{"schema": 1}', b'{"task": "node"}'):
        path.write_bytes(line + broken + b"\n" + line)
        with pytest.raises(UserError, match=r"line 2 of .*node\.jsonl is not a run record"):
            read_records(path)


def test_a_record_with_an_unknown_field_is_refused(path: Path) -> None:
    values = dataclasses.asdict(record()) | {"colour": "red"}
    path.parent.mkdir()
    path.write_text(json.dumps(values) + "\n")
    with pytest.raises(UserError, match=r"line 1 of .* is not a run record"):
        read_records(path)


def test_another_schema_is_refused(path: Path) -> None:
    append_records(path, [record()])
    append_records(path, [record(schema=2)])
    with pytest.raises(UserError, match=r"line 2 of .*node\.jsonl has schema 2.* reads schema 1"):
        read_records(path)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read the records in .*node\.jsonl"):
        read_records(path)


def test_a_write_that_fails_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    append_records(path, [record(0)])
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(UserError, match=r"cannot write .*node\.jsonl: No space left"):
            append_records(path, [record(1)])
    assert path.read_bytes() == before
    append_records(path, [record(2)])
    assert read_records(path) == [record(0), record(2)]


def test_a_place_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        append_records(tmp_path / "file" / "node.jsonl", [record()])
    with pytest.raises(UserError, match="cannot write"):
        append_records(tmp_path, [record()])


def test_writers_at_the_same_time_do_not_mix_lines(path: Path) -> None:
    long = {"valid/loss": [0.5] * 5000}
    batches = [[record(seed, curves=long), record(seed)] for seed in range(60)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        list(pool.map(append_records, [path] * len(batches), batches))
    seeds = [found.seed for found in read_records(path)]
    assert sorted(seeds[::2]) == list(range(60))
    assert seeds[::2] == seeds[1::2]
