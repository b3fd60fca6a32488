"""A search on a real Ray cluster of two nodes on this machine, one worker of which is killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from quatgraph.tasks import TASKS
from quatgraph.tasks.cluster import connect
from quatgraph.tasks.search import search_candidates, search_in_folder
from quatgraph.training.context import Context
from quatgraph.training.record import read_records

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'quatgraph[cluster]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own: deprecations, sockets left open
]

NODE = TASKS["node"]
HERE = Context(torch.device("cpu"))
DIFFERENT = {"environment", "seconds", "finished"}
FIXED = ["train.epochs=200", "train.patience=none", "model.dropout=0.5"]
LISTS = ["model.hidden_quats=[4, 8, 12]", "model.num_layers=[1, 2]", "train.lr=[0.01, 0.05]"]


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_INCLUDE_DASHBOARD"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    src = str(Path(__file__).parents[2] / "src")
    monkeypatch.setenv("PYTHONPATH", src)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def workers_of(cluster: Any) -> list[int]:
    """The processes that are training on the nodes of a cluster."""
    nodes = {node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()}
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_bytes()
            if parent in nodes and command.startswith(b"ray::_train"):
                found.append(int(path.name))
    return found


def runs_in(folder: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    records = read_records(folder / "records.jsonl")
    found = {(r.config_digest, r.split, r.seed): asdict(r) for r in records}
    assert len(found) == len(records), "a run is on record twice"
    return {k: {n: v for n, v in r.items() if n not in DIFFERENT} for k, r in found.items()}


def test_every_run_is_recorded_once_though_a_worker_is_killed(
    tmp_path: Path, two_nodes: Any
) -> None:
    candidates = search_candidates(NODE, {"data": {"name": "karate"}, "seeds": 2}, [*FIXED, *LISTS])
    search_in_folder(NODE, candidates, tmp_path / "here", HERE)
    killed: list[int] = []

    def kill_one(title: str, done: int, total: int) -> None:
        if not killed and (found := workers_of(two_nodes)):
            os.kill(found[0], signal.SIGKILL)
            killed.append(found[0])

    with connect(two_nodes.address) as resources:
        assert resources == {"num_cpus": 1, "num_gpus": 0}
        there = replace(HERE, cluster=resources, progress=kill_one)
        search_in_folder(NODE, candidates, tmp_path / "there", there)
    assert killed
    assert not Path(f"/proc/{killed[0]}").exists()
    assert len(runs_in(tmp_path / "here")) == 24
    assert runs_in(tmp_path / "there") == runs_in(tmp_path / "here")
