"""Devices, seeds, deadlines, and what a record says of the machine."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from clocks import set_clock

import quatgraph
from quatgraph.errors import UserError
from quatgraph.training import runtime
from quatgraph.training.runtime import (
    Deadline,
    environment,
    json_text,
    resolve_device,
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


@pytest.mark.usefixtures("without_cuda")
def test_without_cuda_auto_is_the_cpu_and_cuda_a_mistake() -> None:
    assert resolve_device("auto") == resolve_device("cpu") == CPU
    for name in ("cuda", "cuda:1"):
        with pytest.raises(UserError, match="needs CUDA, which is not available here; use cpu"):
            resolve_device(name)


@pytest.mark.usefixtures("two_gpus")
def test_with_cuda_a_device_has_its_index() -> None:
    assert resolve_device("auto") == resolve_device("cuda") == torch.device("cuda:0")
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    assert resolve_device("cpu") == CPU
    with pytest.raises(UserError, match="the last one here is 'cuda:1'"):
        resolve_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:-1", "cuda:x", "CPU", "mps"])
def test_an_unknown_device_is_a_mistake(name: str) -> None:
    with pytest.raises(UserError, match="unknown device"):
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


def test_a_deadline_passes_after_its_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    set_clock(monkeypatch, lambda: clock.now, runtime)
    deadline = Deadline(2)
    for now, passed in ((100.0, False), (219.0, False), (220.0, True), (221.0, True)):
        clock.now = now
        assert deadline.passed() == passed


def test_without_minutes_a_deadline_never_passes() -> None:
    assert not Deadline(None).passed()


@pytest.mark.parametrize("minutes", [-1.0, float("nan")])
def test_a_deadline_needs_a_sensible_number(minutes: float) -> None:
    with pytest.raises(UserError, match="zero or more"):
        Deadline(minutes)


def test_json_has_null_for_what_is_not_a_number() -> None:
    assert json_text({"b": [float("nan"), 1.5], "a": (float("inf"),)}) == (
        '{"a":[null],"b":[null,1.5]}'
    )
