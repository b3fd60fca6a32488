"""Devices, seeds, deadlines, and files that are whole or not there."""

import errno
import os
import stat
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
import torch

import quatgraph
from quatgraph.errors import Mistake
from quatgraph.training import runtime
from quatgraph.training.runtime import (
    Deadline,
    check_writable,
    ensure_folder,
    environment,
    json_text,
    resolve_device,
    seeded,
    write_atomic,
)

CPU = torch.device("cpu")


@pytest.fixture
def without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)


def fail(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("without_cuda")
def test_without_cuda_auto_is_the_cpu_and_cuda_a_mistake() -> None:
    assert resolve_device("auto") == resolve_device("cpu") == CPU
    for name in ("cuda", "cuda:1"):
        with pytest.raises(Mistake, match="needs CUDA, which is not available here; use cpu"):
            resolve_device(name)


@pytest.mark.usefixtures("two_gpus")
def test_with_cuda_a_device_has_its_index() -> None:
    assert resolve_device("auto") == resolve_device("cuda") == torch.device("cuda:0")
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    assert resolve_device("cpu") == CPU
    with pytest.raises(Mistake, match="the last one here is 'cuda:1'"):
        resolve_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:-1", "cuda:x", "CPU", "mps"])
def test_an_unknown_device_is_a_mistake(name: str) -> None:
    with pytest.raises(Mistake, match="unknown device"):
        resolve_device(name)


def test_the_environment_is_text_and_names_versions() -> None:
    found = environment(CPU)
    assert all(isinstance(value, str) and value for value in found.values())
    assert found["torch"] == torch.__version__
    assert found["quatgraph"] == quatgraph.__version__
    assert found["device"] == "cpu"
    assert found["cuda"] == (torch.version.cuda or "none")


def test_the_commit_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUATGRAPH_COMMIT", "abc123")
    assert environment()["commit"] == "abc123"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package inside a committed checkout, beside a tracked file of records."""
    folder = tmp_path / "src" / "package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (tmp_path / "records.jsonl").write_text("")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return folder


def test_the_commit_is_read_from_a_checkout(package: Path) -> None:
    (package.parents[1] / "records.jsonl").write_text("{}\n")
    assert runtime._commit(package) == git(package, "rev-parse", "--short=12", "HEAD")


def test_changed_code_is_said_to_be_dirty(package: Path) -> None:
    (package / "__init__.py").write_text("x = 1\n")
    assert runtime._commit(package).endswith("+dirty")


def test_a_package_outside_version_control_has_no_known_commit(package: Path) -> None:
    installed = package.parents[1] / ".venv" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert runtime._commit(installed) == "unknown"


def test_without_git_the_commit_is_unknown(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert runtime._commit(package) == "unknown"


def test_a_block_with_a_seed_repeats_and_leaves_no_trace() -> None:
    before = torch.get_rng_state()
    with seeded(7, CPU):
        first = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(1)
    with seeded(7, CPU):
        assert torch.equal(torch.rand(3), first)
    with seeded(8, CPU):
        assert not torch.equal(torch.rand(3), first)


def test_the_generator_is_restored_after_an_error() -> None:
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded(7, CPU):
        torch.rand(int(1 / 0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_block_with_a_seed_restores_the_gpu_too() -> None:
    device = resolve_device("cuda")
    torch.rand(1, device=device)
    before = torch.cuda.get_rng_state(device)
    with seeded(7, device):
        first = torch.rand(3, device=device)
    assert torch.equal(torch.cuda.get_rng_state(device), before)
    with seeded(7, device):
        assert torch.equal(torch.rand(3, device=device), first)


def test_a_deadline_passes_after_its_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    deadline = Deadline(2)
    assert (deadline.left(), deadline.passed()) == (120.0, False)
    clock.now = 219.0
    assert not deadline.passed()
    clock.now = 221.0
    assert (deadline.left(), deadline.passed()) == (0.0, True)


def test_without_minutes_a_deadline_never_passes() -> None:
    assert Deadline(None).left() == float("inf")
    assert not Deadline(None).passed()


@pytest.mark.parametrize("minutes", [-1.0, float("nan")])
def test_a_deadline_needs_a_sensible_number(minutes: float) -> None:
    with pytest.raises(Mistake, match="zero or more"):
        Deadline(minutes)


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
    with pytest.raises(Mistake, match=r"cannot write .*card\.json: No space left"):
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
    with pytest.raises(Mistake, match=r"cannot write .*below"):
        write_atomic(tmp_path / "file" / "below", "x")
    with pytest.raises(Mistake, match=r"cannot write .*below"):
        ensure_folder(tmp_path / "file" / "below")
    with pytest.raises(Mistake, match=r"cannot write .*file"):
        ensure_folder(tmp_path / "file")


def test_a_file_that_cannot_be_written_is_told_beforehand(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("kept")
    for place in (tmp_path, tmp_path / "there" / "below", tmp_path / "nowhere" / "below"):
        with pytest.raises(Mistake, match=f"cannot write {place}: "):
            check_writable(place)
    check_writable(tmp_path / "there")
    check_writable(tmp_path / "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("there", "kept")]


def test_a_read_only_folder_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(Mistake, match="Permission denied; choose a folder that is writable"):
        ensure_folder(tmp_path)


def test_a_folder_is_made_with_its_parents_and_left_empty(tmp_path: Path) -> None:
    folder = ensure_folder(tmp_path / "a" / "b")
    assert ensure_folder(folder) == folder
    assert not any(folder.iterdir())


def test_json_has_null_for_what_is_not_a_number() -> None:
    assert json_text({"b": [float("nan"), 1.5], "a": (float("inf"),)}) == (
        '{"a":[null],"b":[null,1.5]}'
    )
