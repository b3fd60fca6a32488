"""Files that are whole or not there."""

import errno
import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from quatgraph.errors import UserError
from quatgraph.files import check_writable, ensure_folder, write_atomic


def fail(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    write_atomic(path, "é")
    assert path.read_bytes() == "é".encode()
    write_atomic(path, b"\x00new")
    assert path.read_bytes() == b"\x00new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    write_atomic(tmp_path / "ours", "")
    usual, ours = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours"))
    assert ours == usual


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_failed_write_keeps_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    path = tmp_path / "card.json"
    write_atomic(path, "old")
    monkeypatch.setattr(os, function, fail)
    with pytest.raises(UserError, match=r"cannot write .*card\.json: No space left"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "card.json", "new")
    assert not any(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_a_mistake_naming_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*below"):
        write_atomic(tmp_path / "file" / "below", "x")
    with pytest.raises(UserError, match=r"cannot write .*below"):
        ensure_folder(tmp_path / "file" / "below")
    with pytest.raises(UserError, match=r"cannot write .*file"):
        ensure_folder(tmp_path / "file")


def test_a_file_that_cannot_be_written_is_told_beforehand(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("kept")
    for place in (tmp_path, tmp_path / "there" / "below", tmp_path / "nowhere" / "below"):
        with pytest.raises(UserError, match=f"cannot write {place}: "):
            check_writable(place)
    check_writable(tmp_path / "there")
    check_writable(tmp_path / "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("there", "kept")]


def test_a_read_only_folder_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(UserError, match="Permission denied; choose a folder that is writable"):
        ensure_folder(tmp_path)


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path: Path) -> None:
    folder = ensure_folder(tmp_path / "a" / "b")
    assert ensure_folder(folder) == folder
    assert not any(folder.iterdir())
