"""A search on one's own data on the command line: a ranking, a file, the command to train it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from commands import assert_user_error, call

from quatgraph import config as configs
from quatgraph.settings import read_settings
from quatgraph.tasks import TASKS
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.training.record import read_records

SMALL = ["train.epochs=5", "model.num_layers=1", "model.hidden_quats=2"]
LIST = ["--set", "train.lr=[0.01, 0.1]"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def search(*more: str, out: str = "found") -> Any:
    small = [word for item in SMALL for word in ("--set", item)]
    return call("search", "node", "--data", "karate", *small, *more, "--out", out)


def test_a_search_ends_with_a_ranking_the_best_file_and_a_command(tmp_path: Path) -> None:
    result = search(*LIST, "--seeds", "2")
    assert result.exit_code == 0, result.stderr
    assert "quatgraph: searching 2 configurations: 4 runs\n" in result.stderr
    heading, header, first, second, test, saved, command = result.stdout.splitlines()
    assert heading == "2 configurations ranked by validation accuracy, mean ± std over 2 runs"
    assert header.split() == ["rank", "accuracy", "train.lr"]
    number = r"\d+\.\d\d ± \d+\.\d\d %"
    for rank, line in enumerate((first, second), 1):
        assert re.fullmatch(rf" +{rank}  {number} +0\.\d+", line)
    assert re.fullmatch(rf"test accuracy {number} \(rank 1\)", test)
    assert saved == "saved the best configuration in found/best.toml"
    assert command == (
        "train it with: quatgraph train node --data karate --config found/best.toml --out my-model"
    )
    config = configs.build(NodeConfig, read_settings(tmp_path / "found/best.toml", NodeConfig))
    assert str(config.train.lr) == first.split()[-1]
    assert (config.model.hidden_quats, config.train.epochs) == (2, 5)
    comment = (tmp_path / "found/best.toml").read_text().splitlines()[:3]
    assert re.fullmatch(rf"# The best of 2 .*: accuracy {number}, 2 runs\.", comment[0])
    again = shlex.split(comment[1].removeprefix("# Searched by: "))
    assert again[:5] == ["quatgraph", "search", "node", "--data", "karate"]
    repeated = call(*again[1:])
    assert repeated.stdout == result.stdout
    assert "of which 4 are on record" in repeated.stderr


def test_one_run_each_has_no_deviation() -> None:
    lines = search(*LIST).stdout.splitlines()
    assert lines[0] == "2 configurations ranked by validation accuracy"
    assert "±" not in "".join(lines)


def test_a_search_is_an_object_for_programs(tmp_path: Path) -> None:
    found = json.loads(search(*LIST, "--json").stdout)
    assert (found["configs"], found["finished"], found["paused"]) == (2, 2, False)
    assert (found["metric"], found["best"]) == ("valid/accuracy", "found/best.toml")
    assert [row["rank"] for row in found["ranking"]] == [1, 2]
    assert {row["settings"]["train.lr"] for row in found["ranking"]} == {0.01, 0.1}
    best = found["ranking"][0]["settings"]["train.lr"]
    (run,) = (
        r for r in read_records(tmp_path / "found/records.jsonl") if r.config["train"]["lr"] == best
    )
    assert found["ranking"][0]["mean"] == run.metrics["valid/accuracy"]
    assert found["test"]["accuracy"]["mean"] == run.metrics["test/accuracy"]


def test_ten_configurations_are_shown_at_most() -> None:
    rates = [round(0.01 * (1 + i), 2) for i in range(12)]
    lines = search("--set", f"train.lr={rates}").stdout.splitlines()
    assert lines[0].startswith("12 configurations ")
    assert len(lines) == 2 + 10 + 3


def test_a_time_limit_keeps_what_is_done_and_the_command_continues() -> None:
    stopped = search(*LIST, "--max-minutes", "0")
    assert (stopped.exit_code, stopped.stdout) == (0, "")
    assert stopped.stderr.endswith(
        "time limit reached after 0 of 2 configurations; repeat the command to continue\n"
    )
    assert search(*LIST).stdout.startswith("2 configurations ranked")


def test_an_interrupted_search_says_how_to_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quatgraph.tasks.search.search_in_folder", interrupted)
    result = search(*LIST)
    assert (result.exit_code, result.stdout) == (130, "")
    last = result.stderr.splitlines()[-1]
    assert last.startswith("quatgraph: interrupted: quatgraph search node --data karate --set ")
    assert last.endswith(" --out found continues")


@pytest.mark.parametrize(
    "options",
    [
        "--seeds 2 --random 1 --seed 3",
        "--device cpu --ray local",
        "--device cpu --max-minutes 1234567.5 --json",
    ],
)
def test_the_command_that_continues_repeats_every_option(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quatgraph.cli.search.training_context", interrupted)
    out = "a folder"
    result = search(*LIST, *options.split(), out=out)
    assert result.exit_code == 130
    last = result.stderr.splitlines()[-1]
    printed = last.removeprefix("quatgraph: interrupted: ").removesuffix(" continues")
    again = shlex.split(printed)
    assert again[:5] == ["quatgraph", "search", "node", "--data", "karate"]
    small = [word for item in SMALL for word in ("--set", item)]
    assert sorted(again[5:]) == sorted([*small, *LIST, *options.split(), "--out", out])
    assert call(*again[1:]).stderr.splitlines()[-1] == last


def test_triples_are_ranked_by_their_monitor() -> None:
    small = ["train.epochs=2", "train.evaluate_every=1", "model.dim_quats=2"]
    options = [word for item in (*small, "train.lr=[0.01, 0.1]") for word in ("--set", item)]
    result = call("search", "link", "--data", "countries", *options, "--out", "found")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "2 configurations ranked by validation MRR"
    assert lines[1].split() == ["rank", "MRR", "train.lr"]
    assert re.fullmatch(r"test MRR \.\d{3}, Hits@10 \d+\.\d % \(rank 1\)", lines[4])


def test_folds_are_tested_with_the_configuration_best_on_their_own_validation_data() -> None:
    small = ["train.epochs=1", "model.hidden_quats=1", "model.num_layers=1", "data.num_folds=2"]
    options = [word for item in (*small, "train.lr=[0.01, 0.1]") for word in ("--set", item)]
    result = call("search", "graph", "--data", "cycles", *options, "--out", "found")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[4].endswith(
        " %, each split with the configuration best on its validation data"
    )
    assert read_settings(Path("found/best.toml"), TASKS["graph"].config)["data"]["num_folds"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("search nod --data karate", "no task or preset 'nod'; did you mean 'node'?"),
        ("search node", "no data given; use `quatgraph search node --data PATH`"),
        ("search node/karate-qgnn --data x", "--data does not go with a preset; use `search node"),
        ("search node/karate-qgnn --out x", "--out does not go with a preset"),
        ("search node --data karat", "no file, folder or dataset 'karat'; did you mean 'karate'?"),
        ("search node --data karate --set protocol=paper", "under the protocol honest"),
        ("search node --data karate --random 0", "--random must be at least 1, got 0"),
        ("search node --data karate --seeds 0", "seeds must be at least 1, got 0"),
        ("search node --data karate --set train.lrr=[1]", "unknown key 'train.lrr'"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    arguments: str, words: str, tmp_path: Path
) -> None:
    assert_user_error(call(*arguments.split()), words, notes=True)
    assert list(tmp_path.iterdir()) == []
