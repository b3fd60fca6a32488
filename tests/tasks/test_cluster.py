"""Ensembles on a cluster: the same runs as in one process, recorded once, whatever fails."""

import itertools
import pickle
import re
import socket
import sys
from collections import Counter
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fake_ray
import pytest
import torch
from commands import assert_user_error, call
from fake_ray import FakeRay
from karate import SMALL
from on_cpu import train_in_folder

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.tasks import TASKS, cluster
from quatgraph.tasks.cluster import connect
from quatgraph.tasks.search import search_candidates, search_in_folder
from quatgraph.training.bundle import load_bundle
from quatgraph.training.context import Context
from quatgraph.training.loop import Paused
from quatgraph.training.record import read_records
from quatgraph.training.runtime import Deadline

NODE = TASKS["node"]
HERE = Context(torch.device("cpu"))
THERE = replace(HERE, cluster={"num_cpus": 1, "num_gpus": 0})
DIFFERENT = {"environment", "seconds", "finished"}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    return fake_ray.install(monkeypatch)


def candidates() -> list[Any]:
    """Three ensembles of four runs."""
    fixed = [f"{k}={v}".lower() for k, v in SMALL.items() if k.partition(".")[0] != "data"]
    fixed = [item for item in fixed if not item.startswith(("train.lr", "model.hidden_quats"))]
    lists = ["train.lr=[0.01, 0.05]", "model.hidden_quats=[2, 3, 4]"]
    values = {"data": {"name": "karate"}, "seeds": 2}
    return search_candidates(NODE, values, [*fixed, *lists])


def runs_in(folder: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    """What the records say of each run, which must be recorded once."""
    records = read_records(folder / "records.jsonl")
    found = {(r.config_digest, r.split, r.seed): asdict(r) for r in records}
    assert len(found) == len(records)
    return {k: {n: v for n, v in r.items() if n not in DIFFERENT} for k, r in found.items()}


def test_a_search_on_a_cluster_has_the_records_of_one_process(tmp_path: Path, ray: FakeRay) -> None:
    bars: list[tuple[str, int, int]] = []
    search_in_folder(NODE, candidates(), tmp_path / "here", HERE)
    watched = replace(THERE, progress=lambda *bar: bars.append(bar))
    search_in_folder(NODE, candidates(), tmp_path / "there", watched)
    assert runs_in(tmp_path / "there") == runs_in(tmp_path / "here")
    assert len(runs_in(tmp_path / "there")) == 12
    assert ray.options == {
        "max_retries": 3,
        "retry_exceptions": False,
        "num_cpus": 1,
        "num_gpus": 0,
    }
    assert len(ray.stored) == 1 + 3  # the data once, and the members of each ensemble
    epochs = SMALL["train.epochs"]
    assert bars[-1] == ("karate, 12 runs in 3 ensembles", 3 * epochs, 3 * epochs)
    assert [done for _, done, _ in bars] == sorted(done for _, done, _ in bars)


def test_a_training_on_a_cluster_leaves_the_bundle_of_one_process(
    tmp_path: Path, ray: FakeRay
) -> None:
    for name, cluster_ in (("here", None), ("there", THERE.cluster)):
        train_in_folder(NODE, candidates(), tmp_path / name, cluster=cluster_, combine=True)
    assert runs_in(tmp_path / "there") == runs_in(tmp_path / "here")
    here, there = (load_bundle(tmp_path / name) for name in ("here", "there"))
    timed = {"environment", "finished", "sha256", "card_sha256"}
    cards = [{k: v for k, v in b.card.items() if k not in timed} for b in (here, there)]
    assert cards[0] == cards[1]
    assert here.tensors.keys() == there.tensors.keys()
    assert all(torch.equal(value, there.tensors[name]) for name, value in here.tensors.items())


@pytest.mark.parametrize(
    ("task", "name"),
    [("node", "karate"), ("graph", "cycles"), ("link", "countries"), ("text", "snippets")],
)
def test_the_data_of_every_task_can_be_sent(task: str, name: str) -> None:
    config = configs.build(TASKS[task].config, {"data": {"name": name}})
    data = TASKS[task].load(config)
    sent, members = pickle.loads(pickle.dumps((data, TASKS[task].members(config, data))))
    assert sent.digest == data.digest
    assert members == TASKS[task].members(config, data)


def test_a_worker_that_dies_is_replaced(tmp_path: Path, ray: FakeRay) -> None:
    ray.deaths = itertools.chain([False, True, True, True], itertools.repeat(False))
    search_in_folder(NODE, candidates(), tmp_path, THERE)
    assert len(runs_in(tmp_path)) == 12


def test_a_worker_that_always_dies_ends_the_search_and_what_is_done_is_kept(
    tmp_path: Path, ray: FakeRay
) -> None:
    ray.deaths = itertools.chain([False], itertools.repeat(True))
    died = r"a Ray worker died 4 times \(The worker died unexpectedly.\); what is done is kept"
    with pytest.raises(UserError, match=died):
        search_in_folder(NODE, candidates(), tmp_path, THERE)
    assert len(runs_in(tmp_path)) == 4
    assert len(ray.cancelled) == 1
    ray.deaths = itertools.repeat(False)
    search_in_folder(NODE, candidates(), tmp_path, THERE)
    assert len(runs_in(tmp_path)) == 12


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"quatgraph": "0.0.1"}, r"runs quatgraph 0\.0\.1 \(.*\) instead of 0\."),
        ({"commit": "fedcba"}, r"runs quatgraph .* \(fedcba\) instead of .* \(abcdef\): install"),
    ],
)
def test_a_worker_of_another_version_is_refused(
    tmp_path: Path,
    ray: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
    own: dict[str, str],
    words: str,
) -> None:
    monkeypatch.setenv("QUATGRAPH_COMMIT", "abcdef")
    expected = cluster.environment()
    counts = Counter[str]()

    def environment() -> dict[str, str]:
        counts["calls"] += 1
        return expected if counts["calls"] <= 3 else expected | own  # three tasks are submitted

    monkeypatch.setattr(cluster, "environment", environment)
    with pytest.raises(UserError, match=words):
        search_in_folder(NODE, candidates(), tmp_path, THERE)
    assert not (tmp_path / "records.jsonl").exists()


def test_a_wheel_without_a_commit_goes_with_a_checkout_of_its_version() -> None:
    mine = {"quatgraph": "1.0", "commit": "abcdef"}
    cluster._check_version(mine, mine | {"commit": "unknown"})


def test_the_time_limit_stops_a_search_on_a_cluster(tmp_path: Path, ray: FakeRay) -> None:
    with pytest.raises(Paused, match="stopped after 0 of"):
        search_in_folder(NODE, candidates(), tmp_path, replace(THERE, deadline=Deadline(0)))
    assert len(ray.cancelled) == 3


def test_an_interrupted_search_cancels_what_is_not_done(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = sys.modules["ray"].wait

    def interrupted(references: list[Any], timeout: float) -> Any:
        if len(references) < 3:
            raise KeyboardInterrupt
        return wait(references, timeout)

    monkeypatch.setattr(sys.modules["ray"], "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search_in_folder(NODE, candidates(), tmp_path, THERE)
    assert (len(runs_in(tmp_path)), len(ray.cancelled)) == (4, 2)


@pytest.mark.parametrize(
    ("nodes", "device", "threads", "expected"),
    [
        ([{"CPU": 2.0}], "auto", None, (1, 0)),
        ([{"CPU": 2.0}, {"CPU": 4.0}], "cpu", "3", (3, 0)),
        ([{"CPU": 2.0}], "auto", "3", (2, 0)),
        ([{}, {"CPU": 8.0, "GPU": 4.0}], "auto", None, (1, 1)),
        ([{"CPU": 8.0, "GPU": 4.0}], "cuda", None, (1, 1)),
        ([{"CPU": 8.0, "GPU": 4.0}], "cpu", None, (1, 0)),
    ],
)
def test_an_ensemble_takes_its_threads_and_a_gpu_where_there_is_one(
    ray: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
    nodes: list[dict[str, float]],
    device: str,
    threads: str | None,
    expected: tuple[int, int],
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        torch.set_num_threads(int(threads))
    ray.nodes = nodes
    with connect("local", device) as resources:
        assert tuple(resources.values()) == expected
        assert ray.joined == ["local"]
    assert ray.joined == ["local", "left"]


@pytest.mark.parametrize(
    ("address", "device", "words"),
    [
        ("ray://host:10001", "auto", "--ray must be auto, local or HOST:PORT"),
        ("somewhere", "auto", "--ray must be auto, local or HOST:PORT, got 'somewhere'"),
        ("localhost:99999", "auto", "no Ray cluster at localhost:99999: start one"),
        ("local", "cuda", "the Ray cluster has no GPU: use --device cpu or auto"),
        ("local", "cuda:1", "Ray assigns the GPUs: use auto, cpu or cuda"),
    ],
)
def test_what_cannot_be_joined_is_a_mistake(
    ray: FakeRay, address: str, device: str, words: str
) -> None:
    with pytest.raises(UserError, match=re.escape(words)), connect(address, device):
        pass
    assert ray.joined in ([], ["local", "left"])


def test_an_address_where_nothing_listens_is_refused_at_once(ray: FakeRay) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = f"there is no Ray cluster at 127.0.0.1:{port}"
    with pytest.raises(UserError, match=words), connect(f"127.0.0.1:{port}"):
        pass


def test_a_web_server_is_not_taken_for_a_cluster(ray: FakeRay) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.handle_request).start()
        address = f"127.0.0.1:{server.server_port}"
        words = f"{address} is a web server, not a Ray cluster: check the address"
        with pytest.raises(UserError, match=words), connect(address):
            pass
    assert ray.joined == []


def test_a_cluster_that_refuses_to_be_joined_may_want_a_token(ray: FakeRay) -> None:
    ray.is_absent = True
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        words = f"{address} answers, but not as a Ray cluster that can be joined: .* RAY_AUTH_TOKEN"
        with pytest.raises(UserError, match=words), connect(address):
            pass


def test_the_command_says_what_is_missing(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    words = ["search", "node", "--data", "karate", "--out", str(tmp_path / "out"), "--ray", "auto"]
    ray.is_absent = True
    absent = "there is no Ray cluster: start one with `ray start --head`"
    assert_user_error(call(*words), absent, notes=True)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert_user_error(call(*words), "pip install 'quatgraph[cluster]'", notes=True)


def test_commands_train_on_a_cluster(tmp_path: Path, ray: FakeRay) -> None:
    small = ["--set", "train.epochs=3", "--set", "model.hidden_quats=2", "--ray", "auto"]
    own = ["node", "--data", "karate", *small, "--out"]
    lists = ["--set", "model.num_layers=[1, 2]"]
    assert call("search", *own, str(tmp_path / "search"), *lists).exit_code == 0
    only = ["--only", "qgnn", "--refit"]
    assert call("train", *own, str(tmp_path / "train"), *only).exit_code == 0
    assert ray.joined == ["auto", "left"] * 2
    assert load_bundle(tmp_path / "train").card["refit"]
