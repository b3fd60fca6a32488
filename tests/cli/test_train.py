"""Commands that train: from a person's folder to a bundle, stopped, resumed, refused."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import assert_user_error, call
from on_cpu import changed

import quatgraph
from quatgraph.callbacks import progress_bar
from quatgraph.cli.sources import dataset_name
from quatgraph.tasks import TASKS
from quatgraph.training.record import read_records

SHORT = ["--set", "train.epochs=5", "--set", "model.hidden_quats=2", "--device", "cpu"]
SHORT += ["--set", "model.name=qgnn"]


def last_object(result) -> dict:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_train_prints_one_object_for_programs(tmp_path: Path) -> None:
    result = call("train", "node/karate-qgnn", *SHORT, "--seeds", "3", "--out", "m", "--json")
    assert len(result.stdout.splitlines()) == 1
    refused = last_object(result)
    assert refused["bundle"] == "m"
    assert (refused["runs"], refused["configs"]) == (3, 1)
    assert refused["metrics"].keys() == {
        "train/accuracy",
        "valid/accuracy",
        "test/accuracy",
        "valid/loss",
    }
    assert all(0 <= refused["metrics"][f"{part}/accuracy"] <= 1 for part in ("train", "test"))
    assert refused["config"]["train"]["epochs"] == 5
    assert refused["seconds"] > 0
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    assert card["metrics"] == refused["metrics"]
    records = read_records(tmp_path / "m" / "records.jsonl")
    tests = [record.metrics["test/accuracy"] for record in records]
    assert refused["mean"] == pytest.approx(sum(tests) / 3)


def test_a_training_goes_to_a_folder_of_its_name_unless_told(pets: Path, tmp_path: Path) -> None:
    fixed = ["--set", "model.dropout=0.1", "--seeds", "2", "--fast"]
    result = last_object(call("train", "node", "--data", "pets/", *SHORT, *fixed, "--json"))
    assert result["bundle"] == "quatgraph-runs/pets"
    # What was set is not searched: three learning rates with their weight decay are left.
    assert (result["configs"], result["runs"]) == (3, 2)
    assert result["config"]["model"]["dropout"] == 0.1
    result = last_object(call("train", "node/karate-qgnn", *SHORT, "--json"))
    assert result["bundle"] == "quatgraph-runs/node/karate-qgnn-honest"
    assert (tmp_path / result["bundle"] / "card.json").exists()


@pytest.mark.parametrize(("place", "name"), [("my.pets.jsonl", "my.pets"), ("my.pets", "my.pets")])
def test_a_file_of_ones_own_names_the_folder_by_its_stem(
    place: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / place).touch() if place.endswith("jsonl") else (tmp_path / place).mkdir()
    assert dataset_name(Path(place)) == name


def test_what_was_chosen_is_told_by_what_was_tried(pets: Path) -> None:
    fixed = ["--set", "train.lr=0.05", "--out", "m", "--fast"]
    lines = call("train", "node", "--data", "pets", *SHORT, *fixed).stdout.splitlines()
    found = re.fullmatch(
        "the best of 3 configurations of qgnn on validation data: "
        r"dropout (\S+), input dropout (\S+)",
        lines[1],
    )
    assert found
    chosen = json.loads(Path("m/card.json").read_text())["members"][0]["config"]
    assert float(found[1]) == chosen["model"]["dropout"]
    assert float(found[2]) == chosen["model"]["input_dropout"]
    assert len(call("train", "node/karate-qgnn", *SHORT).stdout.splitlines()) == 4


def test_directed_edges_belong_to_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(TASKS, "graph", changed(TASKS["node"], name="graph"))
    result = call("train", "graph", "--data", "mine.jsonl", "--directed")
    assert_user_error(result, "--directed is an option of the task node")
    assert list(tmp_path.iterdir()) == []


def test_the_protocol_is_honest_unless_told() -> None:
    honest = last_object(call("train", "node/karate-qgnn", *SHORT, "--json"))
    assert honest["config"]["protocol"] == "honest"
    paper = ["--protocol", "paper", "--out", "paper", "--json"]
    result = last_object(call("train", "node/karate-qgnn", *SHORT, *paper))
    assert result["config"]["protocol"] == "paper"


MISTAKES = [
    (["node/karate-qgn"], "no preset 'node/karate-qgn'; did you mean 'node/karate-qgnn'?"),
    (["nodes"], "no task or preset 'nodes'; did you mean 'node'?"),
    (["node"], "--data PATH"),
    (["node", "--data", "nowhere"], "there is no file or folder /"),
    (["node", "--data", "."], "nodes.csv"),
    (["node/karate-qgnn", "--data", "."], "use `train node --data ...`"),
    (["node/karate-qgnn", "--set", "train.lrr=1"], "unknown key 'train.lrr'"),
    (["node/karate-qgnn", "--set", "lr=1"], "did you mean 'train.lr'?"),
    (["node/karate-qgnn", "--set", "train.lr"], "write it as key=value"),
    (["node/karate-qgnn", "--set", "train.lr=fast"], "train.lr must be a number, got 'fast'"),
    (["node/karate-qgnn", "--set", "train.epochs=1.5"], "train.epochs must be a whole number"),
    (["node/karate-qgnn", "--set", "train.epochs=0"], "train.epochs must be positive"),
    (["node/karate-qgnn", "--set", "model.name=gin"], "model.name must be one of"),
    (["node/karate-qgnn", "--set", "data.name=karat"], "did you mean 'karate'?"),
    (["node/karate-qgnn", "--protocol", "fair"], "--protocol must be honest or paper, got 'fair'"),
    (["node/karate-qgnn", "--seeds", "0"], "seeds must be at least 1"),
    (
        ["node/karate-qgnn", "--device", "gpu"],
        "unknown device 'gpu'; choose auto, cpu, cuda or cuda:N",
    ),
    (["node/karate-qgnn", "--max-minutes", "-1"], "minutes must be zero or more"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_told_in_one_sentence_and_leaves_nothing(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    assert_user_error(call("train", *arguments), words)
    assert list(tmp_path.iterdir()) == []


def test_cuda_without_cuda_is_a_mistake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = call("train", "node/karate-qgnn", "--device", "cuda")
    assert_user_error(
        result, "device 'cuda' needs CUDA, which is not available here; use cpu or auto"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file/out", "file"])
def test_a_place_that_cannot_be_written_is_a_mistake(out: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    assert_user_error(
        call("train", "node/karate-qgnn", *SHORT, "--out", out), f"cannot write {out}"
    )
    assert (tmp_path / "file").read_text() == "precious"


def test_a_model_that_cannot_be_built_is_a_mistake(tmp_path: Path) -> None:
    gat = ["--set", "model.name=gat", "--set", "model.hidden_quats=1", "--out", "m"]
    assert_user_error(call("train", "node/karate-qgnn", *gat), "cannot be shared among 8 heads")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_a_training_is_not_overwritten(tmp_path: Path) -> None:
    first = ["train", "node/karate-qgnn", *SHORT, "--out", "m"]
    assert call(*first).exit_code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    assert_user_error(
        call(*first), "m already holds records.jsonl, card.json", "--resume", "--overwrite"
    )
    other = call(*first, "--set", "train.lr=0.3", "--resume")
    assert_user_error(other, "m holds a training with other settings")
    assert call(*first, "--resume").exit_code == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before


def test_what_cannot_be_resumed_begins_and_says_so() -> None:
    begun = call("train", "node/karate-qgnn", *SHORT, "--out", "m", "--resume")
    assert begun.exit_code == 0
    assert begun.stderr == "quatgraph: m holds nothing to resume: training from the beginning\n"


@pytest.mark.parametrize("saved", [False, True])
def test_an_interrupted_training_says_whether_there_is_something_to_resume(
    monkeypatch: pytest.MonkeyPatch, *, saved: bool
) -> None:
    first = ["train", "node/karate-qgnn", *SHORT, "--out", "m"]
    if saved:
        assert call(*first, "--max-minutes", "0").exit_code == 0

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quatgraph.tasks.job.train_in_folder", interrupted)
    result = call(*first)
    advice = "repeat the command with --resume --out m" if saved else "nothing was saved yet"
    assert (result.exit_code, result.stderr) == (130, f"quatgraph: interrupted: {advice}\n")


def test_time_that_is_up_exits_with_0_and_says_how_to_go_on() -> None:
    first = ["train", "node/karate-qgnn", *SHORT, "--out", "m"]
    stopped = call(*first, "--max-minutes", "0")
    assert stopped.exit_code == 0
    assert stopped.stdout.strip() == (
        "stopped after 1 of 5 epochs: repeat the command with --resume --out m"
    )
    again = call(*first, "--resume", "--max-minutes", "0", "--json")
    assert last_object(again) == {"paused": True, "done": 2, "epochs": 5, "out": "m"}
    assert_user_error(call("predict", "m"), "m is not a bundle")
    resumed = last_object(call(*first, "--resume", "--json"))
    whole = last_object(call(*first[:-1], "whole", "--json"))
    assert resumed["metrics"] == whole["metrics"]


LONG = ["train", "node/karate-qgnn", "--seeds", "3", "--device", "cpu", "--json"]
LONG += ["--set", "train.epochs=400", "--set", "train.patience=none"]


SAVE_OFTEN = """
from quatgraph.cli import main
from quatgraph.training.loop import Plan
Plan.__init__.__kwdefaults__["save_every"] = 0.0
main()
"""


def started(*how: str, until: Path) -> subprocess.Popen:
    """The long training in a process of its own, half a second after a file is there."""
    environment = os.environ | {
        "PYTHONPATH": str(Path(quatgraph.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, *how, *LONG, "--out", "m"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = time.monotonic() + 60
    while not until.exists() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    time.sleep(0.5)
    assert process.poll() is None, process.communicate()
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("polite", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_ctrl_c_keeps_what_is_done_and_resume_ends_as_if_nothing_had_been(
    tmp_path: Path, polite: signal.Signals, code: int
) -> None:
    whole = last_object(call(*LONG, "--out", "whole"))
    process = started("-c", SAVE_OFTEN, until=tmp_path / "m" / "checkpoint.safetensors")
    process.send_signal(polite)
    printed, result = process.communicate(timeout=60)
    assert process.returncode == code
    assert printed == ""
    assert result.startswith("quatgraph: interrupted: repeat the command with --resume")
    assert result.count("\n") == 1
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["checkpoint.safetensors"]
    resumed = last_object(call(*LONG, "--out", "m", "--resume"))
    assert resumed["metrics"] == whole["metrics"]
    assert resumed["mean"] == whole["mean"]


@pytest.mark.slow
def test_a_training_killed_while_it_saves_can_be_resumed(tmp_path: Path) -> None:
    whole = last_object(call(*LONG, "--out", "whole"))
    process = started("-c", SAVE_OFTEN, until=tmp_path / "m" / "checkpoint.safetensors")
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "m" / "card.json").exists()
    done = last_object(call(*LONG, "--out", "m", "--resume", "--max-minutes", "0"))["done"]
    assert 2 < done < 400
    resumed = last_object(call(*LONG, "--out", "m", "--resume"))
    assert resumed["metrics"] == whole["metrics"]


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), 1, ": out of memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), 1, "device is out of memory"),
    ],
)
def test_what_ends_a_training_is_told_in_one_sentence(
    error: BaseException, code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("quatgraph.tasks.job.train_in_folder", fails)
    result = call("train", "node/karate-qgnn", "--device", "cpu")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("quatgraph: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_goes_to_a_terminal_on_standard_error_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar() as show:
        show("karate", 1, 2)
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar() as show:
        for title in ("karate", "cora", "karate"):
            show(title, 1, 2)
            show(title, 2, 2)
    assert "karate" in terminal.getvalue()
    assert "epochs" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_the_protocol_of_the_paper_belongs_to_presets(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    own = call("train", "node", "--data", "g", "--protocol", "paper")
    assert_user_error(own, "--protocol paper needs a preset")
    assert_user_error(call("train", "node/karate-qgnn", "--set", "protocol=paper"), "--protocol")


def test_a_training_that_diverges_is_a_mistake(tmp_path: Path) -> None:
    result = call("train", "node/karate-qgnn", *SHORT, "--set", "train.lr=1e30", "--out", "m")
    assert_user_error(result, "every run diverged: lower train.lr")
    assert not (tmp_path / "m" / "card.json").exists()


def test_resuming_with_other_data_is_refused(pets: Path) -> None:
    first = ["train", "node", "--data", "pets", "--out", "m", *SHORT]
    assert call(*first, "--max-minutes", "0").exit_code == 0
    text = (pets / "nodes.csv").read_text()
    (pets / "nodes.csv").write_text(text.replace("dog", "wolf"))
    words = ("checkpoint of another run", "settings and data")
    assert_user_error(call(*first, "--resume"), *words, notes=True)
    (pets / "nodes.csv").write_text(text)
    assert call(*first, "--resume").exit_code == 0
    (pets / "nodes.csv").write_text(text.replace("dog", "wolf"))
    assert_user_error(call(*first, "--seeds", "2", "--resume"), "other settings or data")


def test_data_that_was_moved_is_named_again(pets: Path, tmp_path: Path) -> None:
    assert call("train", "node", "--data", "pets", "--out", "m", *SHORT).exit_code == 0
    pets.rename(tmp_path / "moved")
    assert call("evaluate", "m", "--device", "cpu").exit_code == 2
    assert call("evaluate", "m", "moved", "--device", "cpu").exit_code == 0
    assert call("predict", "m", "moved", "--device", "cpu").exit_code == 0


@pytest.mark.parametrize(
    ("what", "metric", "words"),
    [
        ("link", "accuracy", "the task link has no metric 'accuracy'; choose from mrr, hits@1"),
        ("node", "macrof1", "the task node has no metric 'macrof1'; did you mean 'macro-f1'?"),
        ("text", "mrr", "the task text has no metric 'mrr'; choose from accuracy, macro-f1"),
    ],
)
def test_a_metric_that_a_task_lacks_names_those_it_has(what: str, metric: str, words: str) -> None:
    data = {"link": "countries", "node": "karate", "text": "snippets"}[what]
    assert_user_error(call("train", what, "--data", data, "--metric", metric), words)


def test_options_that_contradict_each_other_are_refused() -> None:
    given = ("train", "node", "--data", "karate", "--device", "cpu")
    both = call(*given, "--metric", "accuracy", "--set", "train.metric=macro-f1")
    assert_user_error(both, "--metric and --set train.metric are the same setting: leave out one")
    two = call(*given, "--only", "gcn", "--set", "model.name=mlp")
    assert_user_error(
        two, "model.name=mlp is not among the models to try, gcn: leave out", notes=True
    )
