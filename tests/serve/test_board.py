"""The results board reads run records as trainings write them."""

import lzma
from pathlib import Path
from typing import Any

import made_up
import pytest
from services import ask, refused, service

from quatgraph.errors import UserError
from quatgraph.serve import board as module
from quatgraph.serve.board import Board
from quatgraph.training.record import append_records


def runs(method: str, **values: Any) -> list[Any]:
    """Runs of a method on three splits."""
    return [
        made_up.made_up(
            *("node", "cora", method),
            split=split,
            metrics={"test/accuracy": 0.8 + 0.01 * split + 0.001 * len(method) * split},
            curves={"valid/accuracy": [0.1, 0.7]},
            best_epoch=2,
            finished=f"2030-01-0{split + 1}T00:00:00+00:00",
            **values,
        )
        for split in range(3)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    append_records(tmp_path / "a" / "records.jsonl", runs("qgnn") + runs("gcn"))
    return tmp_path


def test_runs_are_listed_the_last_finished_first(folder: Path) -> None:
    found = Board(folder).list_runs()
    assert found["notes"] == []
    assert [run["split"] for run in found["runs"]] == [2, 2, 1, 1, 0, 0]
    last = found["runs"][0]
    assert last["group"] == "a/records.jsonl node cora qgnn"
    assert last["metrics"]["test/accuracy"] == pytest.approx(0.828)
    assert last["settings"]["model.name"] == "qgnn"


def test_a_file_is_read_again_only_when_it_has_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "other.jsonl").write_text('{"not": "a record"}\n')
    read, seen = module._read_or_explain, list[str]()
    monkeypatch.setattr(module, "_read_or_explain", lambda p: seen.append(p.name) or read(p))
    board = Board(folder)
    assert len(board.list_runs()["runs"]) == len(board.list_runs()["runs"]) == 6
    assert seen == ["records.jsonl", "other.jsonl"]
    append_records(folder / "a" / "records.jsonl", runs("mlp"))
    assert len(board.list_runs()["runs"]) == 9
    assert seen == ["records.jsonl", "other.jsonl", "records.jsonl"]
    (folder / "a" / "records.jsonl").unlink()
    assert board.list_runs()["runs"] == []
    assert list(board._files) == [folder / "other.jsonl"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonl", b"{}\n"),
        ("x.jsonl", b"\xff\xfe\n\n"),
        ("x.jsonl", b"[" * 5000 + b"\n"),
        ("x.jsonl.xz", b"not compressed"),
        ("x.jsonl.xz", lzma.compress(b"{}\n")[:-9]),
    ],
)
def test_a_file_without_records_is_noted(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    found = Board(folder).list_runs()
    assert len(found["runs"]) == 6
    (note,) = found["notes"]
    assert note.startswith(f"{name}: ")


def test_two_groups_are_compared_as_the_command_does(folder: Path) -> None:
    first, second = (f"a/records.jsonl node cora {name}" for name in ("qgnn", "gcn"))
    with service(board=folder) as client:
        found = ask(client, f"/api/runs/compare?first={first}&second={second}")
        assert found["pair"]["pairs"] == 3
        assert found["pair"]["difference"] == pytest.approx(0.001)
        assert [row["split"] for row in found["splits"]] == [0, 1, 2]
        assert refused(client, f"/api/runs/compare?first={first}&second={first}") == (
            422,
            "a group is compared with another one; choose two",
        )
        assert refused(client, f"/api/runs/compare?first={first}&second=x") == (
            422,
            "there is no group 'x'; /api/runs lists them",
        )


def test_splits_show_the_configuration_that_is_compared(tmp_path: Path) -> None:
    def run(method: str, seed: int, lr: float, valid: float, test: float) -> Any:
        metrics = {"valid/accuracy": valid, "test/accuracy": test}
        lr_ = f"train.lr={lr}"
        return made_up.made_up("node", "cora", method, lr_, seed=seed, metrics=metrics)

    # Validation data chooses the second configuration of qgnn, which is worse on test data.
    tried = [
        run("qgnn", seed, lr, lr, 0.95 - lr - 0.01 * seed) for lr in (0.1, 0.3) for seed in (0, 1)
    ]
    others = [run("gcn", seed, 0.1, 0.5, 0.6) for seed in (0, 1)]
    append_records(tmp_path / "records.jsonl", tried + others)
    first, second = (f"records.jsonl node cora {name}" for name in ("qgnn", "gcn"))
    found = Board(tmp_path).compare(first, second)
    shown = [(row["seed"], row["first"], row["second"]) for row in found["splits"]]
    assert shown == [(0, pytest.approx(0.65), 0.6), (1, pytest.approx(0.64), 0.6)]
    differences = [row["first"] - row["second"] for row in found["splits"]]
    assert sum(differences) / 2 == pytest.approx(found["pair"]["difference"])


def test_curves_of_runs_are_returned_by_their_ids(folder: Path) -> None:
    with service(board=folder) as client:
        key = ask(client, "/api/runs")["runs"][0]["id"]
        (curve,) = ask(client, f"/api/runs/curves?id={key}")["curves"]
        assert (curve["id"], curve["epochs"], curve["selected"]) == (key, [1, 2], 2)
        assert curve["values"] == {"valid/accuracy": [0.1, 0.7]}
        assert refused(client, "/api/runs/curves?id=../x:0")[0] == 422
        assert refused(client, "/api/runs/curves")[0] == 422


def test_a_board_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*; give one with run records"):
        Board(tmp_path / "none")


def test_without_a_board_there_are_no_runs(bundles: dict[str, Path]) -> None:
    with service([bundles["link"]]) as client:
        assert ask(client, "/api/models")["board"] is False
        assert refused(client, "/api/runs")[0] == 404
