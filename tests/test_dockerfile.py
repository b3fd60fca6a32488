"""The image: what it is built from, and its commands, run here in place of a container."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import portfolios
import pytest
from programs import ENVIRONMENT, ended, started

ROOT = Path(__file__).parents[1]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile in their order."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def only(word: str) -> str:
    """The arguments of an instruction that is there once."""
    (found,) = [rest for name, rest in instructions() if name == word]
    return found


def is_ignored(path: str) -> bool:
    """Whether the build does not see a path; the last line that matches decides."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and fnmatch(path, pattern):
            ignored = not line.startswith("!")
    return ignored


def test_everything_that_is_copied_is_there_and_nothing_else_is_sent() -> None:
    copied = [name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]]
    assert all((ROOT / name).exists() and not is_ignored(name) for name in copied)
    visible = {path.name for path in ROOT.iterdir() if not is_ignored(path.name)}
    assert visible == set(copied)


def test_the_package_is_installed_with_the_tested_versions() -> None:
    (command,) = [rest for word, rest in instructions() if word == "RUN" and "pip" in rest]
    words = shlex.split(command)
    assert words[words.index("--constraint") + 1] == "constraints.txt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = re.fullmatch(r"\.\[(\w+)\]", words[-1])
    assert extra is not None
    assert extra[1] in project["optional-dependencies"]
    assert only("ARG") == 'EXTRA_INDEX_URL=""'
    assert "://" not in command


@pytest.mark.parametrize(("given", "expected"), [("", ""), ("X", "--extra-index-url X")])
def test_an_extra_index_is_used_only_if_it_is_given(given: str, expected: str) -> None:
    (command,) = [rest for word, rest in instructions() if word == "RUN" and "pip" in rest]
    printed = subprocess.run(
        ["sh", "-c", command.replace("pip", "echo pip", 1)],
        env={"EXTRA_INDEX_URL": given, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ("--extra-index-url" in printed) == bool(given)
    assert expected in printed


def test_the_service_does_not_run_as_root() -> None:
    words = [word for word, _ in instructions()]
    assert only("USER") not in ("root", "0")
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert "RUN" not in words[words.index("USER") :]


def test_the_container_needs_a_token_serves_the_mounted_bundle_and_is_healthy(
    tmp_path: Path,
) -> None:
    bundle = portfolios.link(tmp_path / "data")[0][0].rename(tmp_path / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program, *command = json.loads(only("ENTRYPOINT")) + json.loads(only("CMD"))
    assert program == "quatgraph"
    assert command[command.index("--port") + 1] == only("EXPOSE") == "8000"
    here = {"/model": str(bundle), "8000": port}
    arguments = [here.get(word, word) for word in command]

    code, printed, sentence = ended(*arguments)
    assert (code, printed) == (2, "")
    assert "give --token" in sentence

    python, *check = json.loads(only("HEALTHCHECK").partition(" CMD ")[2])
    assert python == "python"
    health = [sys.executable, *(word.replace(":8000/", f":{port}/") for word in check)]
    assert subprocess.run(health, capture_output=True).returncode != 0
    environment = ENVIRONMENT | {"QUATGRAPH_TOKEN": "secret"}
    process = started(*arguments, env=environment)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"http://0.0.0.0:{port}/\n"
        end = time.monotonic() + 60
        while subprocess.run(health, capture_output=True).returncode and time.monotonic() < end:
            time.sleep(0.1)
        assert subprocess.run(health, capture_output=True).returncode == 0
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
