"""`quatgraph train link` on several ranks: what people read, and what keeps ranks from training."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cities import write_cities
from commands import call
from programs import ENVIRONMENT, started
from ranks import codes_of, commands, environment_of, free_port
from safetensors.torch import load_file

import quatgraph
from quatgraph.training.launch import TIMEOUT

OPTIONS = ["model.name=embeddings", "model.decoder=quate", "model.dim_quats=2", "train.epochs=4"]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return write_cities(tmp_path / "cities")


def train(
    graph: Path, out: Path, *more: str, options: list[str] = OPTIONS, device: str = "cpu"
) -> list[str]:
    sets = [word for option in options for word in ("--set", option)]
    where = ["--data", str(graph), "--out", str(out), "--device", device]
    return ["train", "link", *where, *sets, *more]


def mistake_of(found: list[tuple[int, str, str]]) -> str:
    """The sentence of the first rank, if all ranks end with code 2 and the others say nothing."""
    assert [code for code, _, _ in found] == [2] * len(found), found
    assert [out + err for _, out, err in found[1:]] == [""] * (len(found) - 1)
    _, out, err = found[0]
    assert out == ""
    *notes, sentence = err.splitlines()
    assert sentence.startswith("quatgraph: ")
    assert all("--data is the dataset" in note for note in notes)
    return sentence


def test_ranks_train_a_model_that_predicts_in_one_process(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = commands(2, tmp_path / "ranks", *train(graph, out))
    assert first[0] == 0, first
    assert "test MRR" in first[1]
    assert second == (0, "", "")
    assert {path.name for path in out.iterdir()} == {
        "card.json", "model.safetensors", "records.jsonl"
    }  # fmt: skip
    done = call("predict", str(out), "--head", "person 3", "--relation", "lives in", "--json")
    assert done.exit_code == 0
    assert len(json.loads((out / "records.jsonl").read_text())["runs"]) > 0
    again = mistake_of(commands(2, tmp_path / "again", *train(graph, out)))
    assert "already holds" in again


def test_the_seeds_of_a_preset_train_on_ranks_and_a_refit_too(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = commands(2, tmp_path / "ranks", *train(graph, out, "--seeds", "2", "--refit"))
    assert first[0] == 0, first
    assert "trained again on all labels" in first[1]
    assert second == (0, "", "")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--set", "model.name=simqgnn"], "model simqgnn cannot be sharded over ranks: choose one "
         "of embeddings, phm, rescal, tucker"),
        (["--ray", "local"], "--ray and torchrun both start processes"),
        (["--only", "embeddings"], "torchrun trains one model, not a portfolio"),
        (["--fast"], "torchrun trains one model, not a portfolio"),
        (["--device", "cuda:1"], "each rank has a GPU of its own"),
        (["--set", "train.lr=-1"], "train.lr must be"),
        (["--max-minutes", "-1"], "the number of minutes must be zero or more"),
    ],
)  # fmt: skip
def test_what_ranks_cannot_do_is_one_sentence(
    more: list[str], words: str, graph: Path, tmp_path: Path
) -> None:
    options = [] if "model.name=simqgnn" in more else OPTIONS
    given = train(graph, tmp_path / "out", *more, options=options)
    assert words in mistake_of(commands(2, tmp_path / "ranks", *given))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words", [["train", "node", "--data", "karate"], ["search", "node", "--data", "karate"]]
)
def test_other_commands_do_not_run_on_ranks(words: list[str], tmp_path: Path) -> None:
    given = [*words, "--out", str(tmp_path / "out")]
    assert "torchrun shards the entities" in mistake_of(commands(2, tmp_path / "ranks", *given))
    assert not (tmp_path / "out").exists()


def test_ranks_that_read_other_data_do_not_train(graph: Path, tmp_path: Path) -> None:
    other = write_cities(tmp_path / "other")
    (other / "test.tsv").write_text((other / "valid.tsv").read_text())
    given = train(graph, tmp_path / "out")

    def data(rank: int) -> list[str]:
        return ["--data", str(other)] if rank == 1 else []

    words = mistake_of(commands(3, tmp_path / "ranks", *given, of=data))
    assert "rank 1 on " in words
    assert "reads other data than rank 0" in words
    assert not (tmp_path / "out").exists()


def test_ranks_with_other_settings_or_no_data_do_not_train(graph: Path, tmp_path: Path) -> None:
    given = train(graph, tmp_path / "out")

    def other(rank: int) -> list[str]:
        return ["--set", "train.lr=0.5"] if rank else []

    words = mistake_of(commands(2, tmp_path / "ranks", *given, of=other))
    assert "rank 1 on " in words
    assert "was started with other settings" in words
    none = ["--data", str(tmp_path / "none")]
    absent = commands(2, tmp_path / "ranks", *given, of=lambda rank: none if rank else [])
    words = mistake_of(absent)
    assert "rank 1 on " in words
    assert "none" in words
    assert not (tmp_path / "out").exists()


def test_a_rank_with_another_version_is_named(graph: Path, tmp_path: Path) -> None:
    def older(rank: int) -> None:
        if rank == 1:
            quatgraph.__version__ = "0.0.1"

    words = mistake_of(commands(2, tmp_path / "ranks", *train(graph, tmp_path / "out"), of=older))
    assert "runs quatgraph 0.0.1 (" in words
    assert f"instead of {quatgraph.__version__} (" in words
    assert not (tmp_path / "out").exists()


def test_more_ranks_than_entities_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "few.tsv"
    path.write_text("a\tr\tb\nb\tr\ta\n")
    given = train(path, tmp_path / "out", "--set", "train.select=last")
    assert "2 entities are too few for 3 ranks" in mistake_of(
        commands(3, tmp_path / "ranks", *given)
    )


def test_a_missing_rank_is_reported_after_a_while(graph: Path, tmp_path: Path) -> None:
    given = train(graph, tmp_path / "out")
    for missing in ([1], [0]):
        found = commands(2, tmp_path / "ranks", *given, missing=missing, seconds=2)
        words = mistake_of(found)
        assert "cannot join the other 1 at 127.0.0.1:" in words
        assert f"within 2 s ({TIMEOUT}): check that all ranks were started" in words
        assert "timed out after" in words.lower()
    assert not (tmp_path / "out").exists()


def test_a_port_in_use_is_named(graph: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        given = train(graph, tmp_path / "out")
        ((code, out, err),) = commands(
            2, tmp_path / "ranks", *given, missing=[1], port=port, seconds=2
        )
    assert (code, out) == (2, "")
    assert f"the port 127.0.0.1:{port} is in use" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"RANK": "one"}, "RANK must be a whole number, got 'one'"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT must be a whole number, got 'http'"),
        ({"RANK": "2"}, "RANK must be less than WORLD_SIZE, got 2 of 2"),
        (
            {"MASTER_PORT": "99999"},
            "cannot join the other 1 at 127.0.0.1:99999: check that all ranks were started, and "
            "the address (port must have value from 0 to 65535 but was 99999)\n",
        ),
        ({TIMEOUT: "soon"}, f"{TIMEOUT} must be a number of seconds greater than 0, got 'soon'"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(
    values: dict[str, str], words: str, graph: Path, tmp_path: Path
) -> None:
    environment = environment_of(0, 2, free_port()) | values

    def work(rank: int) -> None:
        os.environ.update(environment)
        done = call(*train(graph, tmp_path / "out"))
        assert done.exit_code == 2, done
        assert words in done.stderr

    assert codes_of(1, work) == [0]


def test_a_missing_rank_is_one_sentence_whoever_writes_to_standard_error(
    graph: Path, tmp_path: Path
) -> None:
    environment = ENVIRONMENT | environment_of(1, 2, free_port(), 2)
    alone = started(*train(graph, tmp_path / "out"), env=environment)
    out, err = alone.communicate(timeout=120)
    assert (alone.returncode, out) == (2, "")
    assert err.startswith("quatgraph: rank 1 cannot join the other 1 at 127.0.0.1:")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_torchrun_starts_ranks(graph: Path, tmp_path: Path) -> None:
    words: list[Any] = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    words += ["--master-port", str(free_port()), "-m", "quatgraph"]
    words += train(graph, tmp_path / "out")
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test MRR") >= 1
    assert (tmp_path / "out" / "card.json").exists()


@pytest.mark.gpu
def test_two_nodes_with_a_gpu_each_train_what_one_trains(graph: Path, tmp_path: Path) -> None:
    """NCCL sees two nodes with a GPU each; it is the same GPU."""
    nodes, outs = [], {size: tmp_path / f"{size} nodes" for size in (1, 2)}
    try:
        for size, out in outs.items():
            port = free_port()
            for rank in range(size):
                own = {"LOCAL_RANK": "0", "NCCL_HOSTID": f"{rank}", "NCCL_SOCKET_IFNAME": "lo"}
                own |= {"PYTHONPATH": ENVIRONMENT["PYTHONPATH"]}
                environment = os.environ | environment_of(rank, size, port, 60) | own
                nodes.append(started(*train(graph, out, device="cuda"), env=environment))
        for node in nodes:
            _, err = node.communicate(timeout=120)
            assert node.returncode == 0, err
    finally:
        for node in nodes:
            node.kill()
            node.communicate()
    one, two = (load_file(out / "model.safetensors") for out in outs.values())
    torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-4)
