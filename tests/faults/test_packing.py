"""A graph is packed whole or not at all: after a failure or a kill, the same call succeeds."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import call
from kills import forked, killed, points_of, steps_of, waited
from programs import shell
from torch_geometric.data import Data

from quatgraph.data import node
from quatgraph.data.node import packed
from quatgraph.errors import UserError

FILES = {"edge_index.npy", "x.npy", "y.npy", "train.npy", "valid.npy", "test.npy", "names.json"}
GRAPH = node.from_data(
    Data(
        x=torch.arange(60.0 * 32).view(60, 32),
        y=torch.arange(60) % 3,
        edge_index=torch.stack((torch.arange(60), (torch.arange(60) + 1) % 60)),
    )
)
pack = partial(node.write_packed, GRAPH)


def assert_packed(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    assert node.read(folder).digest == GRAPH.digest


def failing(name: str, error: BaseException, write: Callable[..., None]) -> Callable[..., None]:
    """A function that writes half of a file, and then fails."""

    def fail(file: Any, data: Any) -> None:
        if f".{name}." not in str(file.name):
            return write(file, data)
        file.write(data[: len(data) // 2])
        raise error

    return fail


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("name", ["x.npy", "test.npy", "edge_index.npy"])
def test_a_full_disk_is_told_with_the_file_and_nothing_is_left(
    name: str, existed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs" / "packed"
    if existed:
        out.mkdir(parents=True)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(packed, "write_all", failing(name, full, packed.write_all))
        with pytest.raises(UserError, match=rf"cannot write .*/{name}: No space left .*; choose"):
            pack(out)
    assert list(tmp_path.rglob("*")) == ([out.parent, out] if existed else [])
    pack(out)
    assert_packed(out)


def test_a_rename_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name == "edge_index.npy":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(UserError, match=r"cannot write .*edge_index\.npy: Input/output error"):
        pack(tmp_path / "packed")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_the_size_of_files_is_named(tmp_path: Path) -> None:
    pack(tmp_path / "graph")
    line = "ulimit -f 4; PYTHONDONTWRITEBYTECODE=1 quatgraph data pack graph --out packed"
    code, printed, told = shell(line, cwd=tmp_path)
    assert (code, printed) == (2, "")
    assert told == (
        "quatgraph: cannot write packed/x.npy: File too large; raise the limit on the size of a "
        "file (ulimit -f)\n"
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "graph"]


def test_an_interrupted_command_leaves_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = failing("y.npy", KeyboardInterrupt(), packed.write_all)
    monkeypatch.setattr(packed, "write_all", interrupt)
    result = call("data", "pack", "karate", "--out", str(tmp_path / "packed"))
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "quatgraph: interrupted: nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_a_graph_can_be_packed_again_wherever_a_kill_stopped_it(tmp_path: Path) -> None:
    points = points_of(steps_of(partial(pack, tmp_path / "counted")))
    unfinished = 0
    for number, point in enumerate(points):
        out = tmp_path / str(number)
        assert killed(partial(pack, out), point)
        if (out / "edge_index.npy").exists():
            assert_packed(out)
            continue
        unfinished += 1
        pack(out)
        assert_packed(out)
    assert unfinished > len(points) / 2


def test_what_a_kill_left_is_also_removed_by_a_process_that_is_killed(tmp_path: Path) -> None:
    steps = steps_of(partial(pack, tmp_path / "counted"))
    last = len(steps) - 1 - steps[::-1].index("replace")

    def leave(out: Path) -> Path:
        assert killed(partial(pack, out), (last, False))
        assert FILES - {path.name for path in out.iterdir()} == {"edge_index.npy"}
        return out

    cleaning = steps_of(partial(pack, leave(tmp_path / "cleaned")))
    for number in range(cleaning.index("write_all")):
        out = leave(tmp_path / str(number))
        killed(partial(pack, out), (number, False))
        pack(out)
        assert_packed(out)


def test_a_folder_that_another_process_is_writing_is_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "packed"
    begun, go_on = os.pipe(), os.pipe()

    def pack_slowly() -> None:
        write = packed._write_array

        def wait(*arguments: Any, **named: Any) -> None:
            if not (out / "x.npy").exists():
                write(*arguments, **named)
                return
            packed._write_array = write
            os.write(begun[1], b"!")
            os.read(go_on[0], 1)
            write(*arguments, **named)

        packed._write_array = wait
        pack(out)

    other = forked(pack_slowly)
    os.read(begun[0], 1)
    with pytest.raises(UserError, match="exists and is not an empty folder"):
        pack(out)
    os.write(go_on[1], b"!")
    assert waited(other) == 0
    assert_packed(out)
    for end in (*begun, *go_on):
        os.close(end)


def test_of_two_processes_that_begin_at_once_none_writes_over_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, prepare = tmp_path / "packed", packed._prepare

    def overtaken(path: Path) -> None:
        prepare(path)
        monkeypatch.setattr(packed, "_prepare", prepare)
        pack(path)

    monkeypatch.setattr(packed, "_prepare", overtaken)
    with pytest.raises(UserError, match="exists and is not an empty folder"):
        pack(out)
    assert_packed(out)


def test_what_is_packed_after_a_failure_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write_atomic = tmp_path / "packed", packed.write_atomic

    def overtaken(path: Path, content: Any) -> None:
        try:
            write_atomic(path, content)
        except UserError:
            if path.name == "edge_index.npy":  # nothing is locked any more
                monkeypatch.undo()
                pack(out)
            raise

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(packed, "write_all", failing("test.npy", full, packed.write_all))
    monkeypatch.setattr(packed, "write_atomic", overtaken)
    with pytest.raises(UserError, match="No space left"):
        pack(out)
    assert_packed(out)


def test_arrays_that_no_packing_left_are_kept(tmp_path: Path) -> None:
    for name in ("x.npy", ".x.npy.4242-0123abcd.tmp", ".card.json.4242-0123abcd.tmp"):
        out = tmp_path / name.strip(".")
        out.mkdir()
        (out / name).write_text("mine")
        (out / "x.npy").write_text("mine")
        with pytest.raises(UserError, match="exists and is not an empty folder"):
            pack(out)
        assert {path.name for path in out.iterdir()} == {name, "x.npy"}
