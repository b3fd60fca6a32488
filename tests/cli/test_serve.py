"""The commands serve and board."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import portfolios
import pytest
from commands import assert_user_error, call
from programs import ENVIRONMENT, ended, started

SLOW = """
import sys, time
from quatgraph.__main__ import main
from quatgraph.predictors.link import LinkPredictor

predict_rows = LinkPredictor.predict_rows

def slow(self, rows, *, top=10, known="mark"):
    time.sleep(1.5 * (top == 7))
    return predict_rows(self, rows, top=top, known=known)

LinkPredictor.predict_rows = slow
main()
"""
"""The program, in which a query for seven answers takes a second and a half."""
QUERY = {"head": "person 1", "relation": "knows"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return portfolios.link(tmp_path_factory.mktemp("served"))[0][0].rename(
        tmp_path_factory.mktemp("folder") / "cities"
    )


@contextmanager
def serving(*arguments: str, **how: Any) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A service in a process of its own on any free port: its URL and the process."""
    process = started("serve", *arguments, "--port", "0", "--device", "cpu", **how)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), process.communicate(timeout=30)
        yield url, process
    finally:
        process.kill()
        process.communicate()


def ask(url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and reply, once the model is loaded."""
    data = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json"} | headers
    end = time.monotonic() + 60
    while True:
        try:
            request = urllib.request.Request(url, data, given)
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            found = error.code, json.load(error)
            if error.code != 503 or time.monotonic() > end:
                return found
        time.sleep(0.05)


def test_sigterm_lets_a_running_request_finish(bundle: Path) -> None:
    with serving(str(bundle), code=SLOW) as (url, process):
        predict = f"{url}api/models/cities/predict"
        assert ask(predict, QUERY)[0] == 200
        port = url.strip("/").rpartition(":")[2]
        assert ended("serve", str(bundle), "--port", port) == (
            2,
            "",
            f"quatgraph: cannot listen on 127.0.0.1:{port} (Address already in use): choose "
            "another --port\n",
        )
        replies: list[tuple[int, Any]] = []
        thread = threading.Thread(target=lambda: replies.append(ask(predict, QUERY | {"top": 7})))
        thread.start()
        time.sleep(0.5)
        process.terminate()
        thread.join(30)
        assert replies[0][0] == 200
        assert len(replies[0][1]["answers"]) == 7
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Traceback" not in errors
        assert "POST /api/models/cities/predict 200 " in errors


def test_a_token_guards_the_service_and_is_not_printed_into_a_log(bundle: Path) -> None:
    how = {"env": ENVIRONMENT | {"QUATGRAPH_TOKEN": "s3cret"}}
    with serving(str(bundle), "--host", "0.0.0.0", "--quiet", **how) as (url, process):
        assert "s3cret" not in url
        predict = url.replace("0.0.0.0", "127.0.0.1") + "api/models/cities/predict"
        assert ask(predict, QUERY)[0] == 401
        assert ask(predict, QUERY, Authorization="Bearer s3cret")[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0


def test_a_service_for_everyone_says_so(bundle: Path) -> None:
    with serving(str(bundle), "--host", "0.0.0.0", "--no-auth", "--quiet") as (url, process):
        assert ask(f"{url}healthz")[0] == 200  # it runs: until then a signal interrupts the start
        process.terminate()
        _, errors = process.communicate(timeout=30)
        assert errors == (
            "quatgraph: --no-auth: everyone who reaches 0.0.0.0 may use this service\n"
        )


def test_what_is_no_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    assert_user_error(call("serve", str(tmp_path / "none")), "there is no bundle", "none")
    assert_user_error(call("serve", str(tmp_path)), "is not a bundle: it has no card.json")
    assert_user_error(call("serve", str(bundle), str(bundle)), "cities is given twice")
    other = shutil.copytree(bundle, tmp_path / "cities")
    assert_user_error(call("serve", str(bundle), str(other)), "two models are called 'cities'")
    assert_user_error(call("board", str(tmp_path / "none")), "there is no folder")


def test_a_mistake_in_the_address_is_refused(bundle: Path) -> None:
    assert_user_error(call("serve", str(bundle), "--host", "0.0.0.0"), "give --token, for instance")
    assert_user_error(call("serve", str(bundle), "--port", "70000"), "'--port'", "65535")
    assert_user_error(call("serve", str(bundle), "--cors", "*"), "is not the origin of a site")
    assert_user_error(call("serve", str(bundle), "--device", "tpu"), "unknown device 'tpu'")
    assert_user_error(call("serve", str(bundle), "--token", "a b"), "visible ASCII characters")
    assert_user_error(
        call("serve", str(bundle), "--host", "a..b", "--token", "x"), "choose another --host"
    )


def test_a_missing_extra_is_named(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith("quatgraph.serve"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert_user_error(call("serve", str(bundle)), "pip install 'quatgraph[serve]'")
