"""Standard streams that are closed or full, and a machine on which one has no home."""

import subprocess
from pathlib import Path

import pytest
from programs import SHORT, shell

from quatgraph.data.graph.cache import load_cached, save_cached
from quatgraph.data.graph.dgcnn import read_dgcnn
from quatgraph.data.io import store
from quatgraph.errors import UserError
from quatgraph.training.bundle import load_bundle
from quatgraph.training.record import read_records

TRAIN = f"quatgraph {' '.join(SHORT)} --out m"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_no_mistake(closed: str) -> None:
    code, printed, result = shell(f"quatgraph list {closed}")
    assert (code, result) == (0, "")
    assert printed.startswith("datasets") == (closed != ">&-")


@pytest.mark.slow
def test_a_training_without_streams_writes_its_files_and_nothing_into_them(tmp_path: Path) -> None:
    assert shell(f"{TRAIN} <&- >&- 2>&-", cwd=tmp_path) == (0, "", "")
    assert load_bundle(tmp_path / "m").card["task"] == "node"
    assert len(read_records(tmp_path / "m" / "records.jsonl")) == 1


def test_a_mistake_keeps_its_exit_code_where_nobody_hears_of_it(tmp_path: Path) -> None:
    for stream in ("2>&-", "2>/dev/full"):
        assert shell(f"quatgraph train nodes {stream}", cwd=tmp_path) == (2, "", "")


@pytest.mark.parametrize("command", ["list", "--help", "--version", "train --help"])
def test_a_full_disk_under_standard_output_is_told(command: str) -> None:
    result = "quatgraph: standard output: No space left on device\n"
    assert shell(f"quatgraph {command} >/dev/full") == (2, "", result)
    assert shell(f"PYTHONUNBUFFERED=1 quatgraph {command} >/dev/full") == (2, "", result)


def test_a_reader_that_has_seen_enough_is_no_mistake() -> None:
    code, printed, result = shell("quatgraph list --json | head -c 1")
    assert (code, printed, result) == (0, "{", "")


@pytest.fixture
def _homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: object) -> None:
        raise KeyError

    for variable in ("HOME", "XDG_CACHE_HOME", "QUATGRAPH_CACHE", "QUATGRAPH_DATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)


@pytest.mark.usefixtures("_homeless")
def test_without_a_home_nothing_is_kept_and_a_download_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert store.cache_root() is None
    assert {state for _, state in store.check("cora")} == {"missing"}
    with pytest.raises(UserError, match="no home folder for downloads; set QUATGRAPH_CACHE"):
        store.fetch("cora")
    graphs = read_dgcnn(b"1\n1 5\n0 0\n", name="toy", where="toy")
    save_cached(graphs, "abc")
    assert load_cached("toy", "abc") is None
    monkeypatch.setenv("QUATGRAPH_CACHE", "~/cache")
    assert store.cache_root() is None
    monkeypatch.setenv("QUATGRAPH_DATA", "~/data")
    with pytest.raises(UserError, match="QUATGRAPH_DATA names '~/data', which is not a folder"):
        store.data_root()


STRANGER = "unshare --user --map-user=54321 --map-group=54321"


def test_a_person_whom_the_machine_does_not_know_can_train(tmp_path: Path) -> None:
    try:
        subprocess.run([*STRANGER.split(), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine has no user namespaces")
    code, printed, result = shell(f"{STRANGER} {TRAIN}", cwd=tmp_path)
    assert (code, result) == (0, "")
    assert printed.endswith("predict with: quatgraph predict m\n")
