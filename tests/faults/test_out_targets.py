"""``--out`` writes to what it names: a link stays a link, a device a device, a mode a mode."""

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from commands import assert_user_error, call

from quatgraph.errors import UserError
from quatgraph.files import check_writable, write_atomic

ROOT = os.geteuid() == 0


def write(path: Path, content: str = "new") -> None:
    check_writable(path)
    write_atomic(path, content)


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "near").symlink_to("far/middle")
    (tmp_path / "far" / "middle").symlink_to("file")
    write(tmp_path / "near")
    assert (tmp_path / "near").is_symlink()
    assert (tmp_path / "far" / "middle").is_symlink()
    assert (tmp_path / "far" / "file").read_text() == "new"
    assert {path.name for path in (tmp_path / "far").iterdir()} == {"middle", "file"}


def test_a_link_to_a_file_that_is_not_there_yet_makes_it(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to("far/file")
    write(tmp_path / "near")
    assert (tmp_path / "near").is_symlink()
    assert (tmp_path / "far" / "file").read_text() == "new"


@pytest.mark.parametrize("target", ["near", "nowhere/file"])
def test_a_link_that_leads_nowhere_is_a_mistake(tmp_path: Path, target: str) -> None:
    (tmp_path / "near").symlink_to(target)
    for function in (check_writable, lambda path: write_atomic(path, "new")):
        with pytest.raises(UserError, match=r"cannot write .*near: (Too many|No such file)"):
            function(tmp_path / "near")
    assert (tmp_path / "near").is_symlink()


@pytest.mark.parametrize("linked", [False, True])
def test_a_named_pipe_takes_what_is_written(tmp_path: Path, linked: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    place = tmp_path / "link" if linked else pipe
    if linked:
        place.symlink_to(pipe)
    writer = threading.Thread(target=write, args=(place,))
    writer.start()
    assert pipe.read_text() == "new"
    writer.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert place.is_symlink() == linked


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    place = tmp_path / "null"
    try:
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        place.write_text("")
    except PermissionError:
        place.unlink(missing_ok=True)
        place.symlink_to(os.devnull)  # which only root could replace
    write(place)
    assert stat.S_ISCHR(place.stat().st_mode)


def test_an_open_stream_is_added_to(tmp_path: Path) -> None:
    with (tmp_path / "log").open("a") as log:
        log.write("before\n")
        log.flush()
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{log.fileno()}")
        for place in (Path(f"/dev/fd/{log.fileno()}"), tmp_path / "link"):
            write(place, "ours\n")
        log.write("after\n")
    assert (tmp_path / "log").read_text() == "before\nours\nours\nafter\n"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_text() == "new"


@pytest.mark.skipif(not ROOT, reason="only root may give a file away")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, 1234, 5678)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)


def test_a_file_that_may_not_be_written_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o444)
    if ROOT:  # who may write anything
        monkeypatch.setattr(os, "access", lambda *_: False)
    for function in (check_writable, lambda path: write_atomic(path, "new")):
        with pytest.raises(UserError, match=r"cannot write .*file: Permission denied"):
            function(path)
    assert path.read_text() == "old"


def test_a_device_that_is_full_is_a_mistake() -> None:
    with pytest.raises(UserError, match="cannot write /dev/full: No space left on device"):
        write(Path("/dev/full"))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    short = ["--set", "train.epochs=1", "--device", "cpu", "--out", "m"]
    assert call("train", "node/karate-qgnn", *short).exit_code == 0
    return tmp_path


def test_predictions_go_where_they_are_wanted(model: Path) -> None:
    ask = ["predict", "m", "--device", "cpu"]
    expected = call(*ask).stdout
    for pipe, wanted in (("pipe", expected), ("pipe.jsonl", call(*ask, "--json").stdout)):
        os.mkfifo(model / pipe)
        found: list[Any] = []
        reader = threading.Thread(target=lambda: found.append((model / pipe).read_text()))  # noqa: B023
        reader.start()
        assert call(*ask, "--out", pipe).exit_code == 0
        reader.join()
        assert found == [wanted]
    (model / "link").symlink_to("file")
    assert call(*ask, "--out", "link").stdout == "34 predictions in link\n"
    assert (model / "file").read_text() == expected
    assert_user_error(call(*ask, "--out", "/dev/full"), "cannot write /dev/full: No space left on")
