"""The command line as a whole: help, exit codes, where output goes, and the commands that look."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from commands import assert_user_error, call
from typer.testing import CliRunner

import quatgraph
from quatgraph.cli import app
from quatgraph.presets import names
from quatgraph.tasks import TASKS

COMMANDS = ["train", "search", "reproduce", "demo", "list", "evaluate", "predict", "info"]
COMMANDS += ["compare", "data fetch", "data check", "data stats", "data formats"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_shows_an_example(command: str) -> None:
    result = call(*command.split(), "--help")
    assert result.exit_code == 0
    assert re.search(rf"^  quatgraph {command}( |$)", result.stdout, flags=re.MULTILINE)
    assert result.stderr == ""


def test_the_help_lists_every_command() -> None:
    printed = call("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"^  {command.split()[0]} ", printed, flags=re.MULTILINE)


def test_the_version_is_printed() -> None:
    result = call("--version")
    assert (result.exit_code, result.stdout) == (0, f"{quatgraph.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--frobnicate", "no such option: --frobnicate; see `quatgraph --help`"),
        ("frobnicate", "no such command 'frobnicate'; see `quatgraph --help`"),
        ("data stat", "no such command 'stat'; did you mean 'stats'?"),
        ("train", "missing argument 'what'; see `quatgraph train --help`"),
        ("train node --frobnicate", "no such option: --frobnicate; see `quatgraph train --help`"),
        ("train node --see 3", "no such option: --see (possible options: "),
        ("train node --data", "option '--data' requires an argument\n"),
        ("train node/karate-qgnn --seeds many", "invalid value for '--seeds': "),
        ("train node/karate-qgnn --max-minutes soon", "invalid value for '--max-minutes': "),
        ("list models presets", "; see `quatgraph list --help`"),
    ],
)
def test_arguments_that_cannot_be_read_are_told_in_one_sentence_and_write_nothing(
    arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_user_error(call(*arguments.split()), sentence)
    assert list(tmp_path.iterdir()) == []


def test_commands_that_stand_in_a_group_are_shown_without_one() -> None:
    result = call("data")
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: quatgraph data")
    assert "  stats " in result.stderr


def test_a_file_that_one_may_not_open_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    (tmp_path / "mine.tsv").touch()
    monkeypatch.setattr(Path, "open", refuse)
    place = str(tmp_path / "mine.tsv")
    assert_user_error(call("data", "stats", place), f"{place}: Permission denied")


def test_a_text_in_place_of_a_path_is_told() -> None:
    text = "a charming little film " * 20
    for command in (("data", "stats"), ("predict",)):
        assert_user_error(call(*command, text), "File name too long")


def test_lists_show_what_there_is_in_groups() -> None:
    lines = call("list").stdout.splitlines()
    heads = [line for line in lines if not line.startswith("  ")]
    assert [line.split(":")[0] for line in heads] == ["datasets", "models", "presets", "tables"]
    assert lines[1].split(maxsplit=1) == ["node", "karate, cora, citeseer, pubmed"]
    assert all(len(line) <= 100 for line in lines)
    whole = re.sub(r"\n {4,}", " ", call("list", "presets").stdout)
    found = [line.split(maxsplit=1) for line in whole.splitlines()[1:]]
    cora = "deep-qgnn, gat, gcn-matched, gcn, gcnii, hgcn-two-hops, hgcn, mlp, phm, qgnn, sgc"
    assert ["node/cora", cora] in found
    assert [f"{group}-{m}" for group, methods in found for m in methods.split(", ")] == names()
    title = "  node       Node classification accuracy (Table 2)"
    assert title in call("list", "tables").stdout.splitlines()


def test_models_are_listed_all() -> None:
    (line,) = call("list", "models", "--json").stdout.splitlines()
    models = {f"{task.name}/{name}" for task in TASKS.values() for name in task.models}
    assert set(json.loads(line)["models"]) == models


def completed(*words: str) -> list[str]:
    """The completions that a shell is offered for the last word."""
    environment = {
        "_QUATGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("quatgraph", *words)),
        "COMP_CWORD": str(len(words)),
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="quatgraph")
    return result.stdout.splitlines()


def test_a_shell_completes_commands_options_and_presets() -> None:
    assert completed("tr") == ["train"]
    assert completed("train", "--pro") == ["--protocol"]
    assert completed("train", "node/cora-g") == [n for n in names() if n.startswith("node/cora-g")]


def test_lists_are_json_for_programs() -> None:
    lines = [json.loads(line) for line in call("list", "--json").stdout.splitlines()]
    assert [list(line) for line in lines] == [["datasets"], ["models"], ["presets"], ["tables"]]
    assert json.loads(call("list", "presets", "--json").stdout) == {"presets": names()}
    assert lines[-1] == {"tables": ["fb15k-237", "graph", "link", "node", "text"]}


def test_a_list_of_something_else_is_a_mistake() -> None:
    assert_user_error(call("list", "preset"), "cannot list 'preset'", "did you mean 'presets'?")


def test_info_tells_versions_device_and_where_data_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUATGRAPH_DATA", str(tmp_path))
    result = call("info", "--json", "--device", "cpu")
    refused = json.loads(result.stdout)
    assert refused["quatgraph"] == quatgraph.__version__
    assert refused["device"] == "cpu"
    assert refused["data"] == str(tmp_path)
    assert refused.keys() >= {"torch", "torch_geometric", "cuda", "backend", "triton", "cache"}
    plain = dict(line.split(maxsplit=1) for line in call("info").stdout.splitlines())
    assert plain["data"] == str(tmp_path)


def test_the_data_of_the_sample_is_counted() -> None:
    result = call("data", "stats", "karate", "--json")
    assert json.loads(result.stdout) == {
        "name": "karate",
        "nodes": 34,
        "labelled": 34,
        "edges": 78,
        "features": 0,
        "classes": 2,
        "splits": 1,
    }
    assert call("data", "stats", "karate").stdout.splitlines()[0] == "nodes     34"


def test_the_data_of_a_folder_of_ones_own_is_counted(tmp_path: Path) -> None:
    lines = [f"n{i},{'ab'[i % 2]},{i},0" for i in range(10)]
    (tmp_path / "nodes.csv").write_text("id,label,f,g\n" + "\n".join(lines))
    (tmp_path / "edges.csv").write_text("n0,n1\nn1,n0\nn1,n2\n")
    result = json.loads(call("data", "stats", str(tmp_path), "--json").stdout)
    assert (result["nodes"], result["edges"], result["features"]) == (10, 2, 2)
    one_way = call("data", "stats", str(tmp_path), "--json", "--set", "data.directed=true")
    assert json.loads(one_way.stdout)["edges"] == 3
    for assignment, sentence in {
        "data.direct=true": "unknown key 'data.direct'; did you mean 'data.directed'?",
        "data=3": "data must be a table",
    }.items():
        assert_user_error(call("data", "stats", str(tmp_path), "--set", assignment), sentence)
    (tmp_path / "nodes.csv").write_text("id,f\n" + "\n".join(f"n{i},{i}" for i in range(10)))
    unlabelled = json.loads(call("data", "stats", str(tmp_path), "--json").stdout)
    assert (unlabelled["nodes"], unlabelled["labelled"]) == (10, 0)


def test_a_folder_that_looks_like_no_data_is_a_mistake(tmp_path: Path) -> None:
    assert_user_error(call("data", "stats", str(tmp_path)), "is not data of any task", "nodes.csv")


def test_checking_data_that_is_not_there_fails_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUATGRAPH_DATA", str(tmp_path))
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path / "cache"))
    result = call("data", "check", "cora")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0].startswith("missing")
    assert not (tmp_path / "cache").exists()
    assert call("data", "check", "karate").exit_code == 0


def test_fetching_tells_the_licence_and_whom_to_cite() -> None:
    result = call("data", "fetch", "karate")
    assert (result.exit_code, result.stdout) == (0, "karate is built in\n")
    licence, citation = result.stderr.splitlines()
    assert licence.startswith("quatgraph: licence: none stated; facts published")
    assert citation.startswith("quatgraph: please cite: W. W. Zachary, An Information Flow Model")


@pytest.mark.parametrize("command", ["fetch", "check", "stats"])
def test_an_unknown_dataset_is_a_mistake(command: str) -> None:
    assert_user_error(call("data", command, "coro"), "no dataset 'coro'", "did you mean 'cora'?")


@pytest.mark.realdata
def test_the_files_of_cora_are_as_the_catalog_says() -> None:
    result = call("data", "check", "cora")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith("files, all ok")
    assert json.loads(call("data", "stats", "cora", "--json").stdout)["nodes"] == 2708


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """As in ``quatgraph list | head -0``."""
    environment = os.environ | {"PYTHONPATH": str(Path(quatgraph.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-m", "quatgraph", "list", "presets"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    result = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert result == b""


def test_collections_of_graphs_are_counted_too(tmp_path: Path) -> None:
    assert json.loads(call("data", "stats", "cycles", "--json").stdout)["classes"] == 2
    own = tmp_path / "mine.jsonl"
    own.write_text('{"edges": [[0, 1]], "label": "a"}\n{"edges": [[0, 1], [1, 2]], "label": "b"}\n')
    counted = json.loads(call("data", "stats", str(own), "--json").stdout)
    assert (counted["graphs"], counted["nodes"], counted["edges"]) == (2, 5, 3)
    assert_user_error(call("data", "stats", "mutagg"), "did you mean 'mutag'?")
    assert_user_error(call("data", "stats", "glove-100d"), "is a dataset of vectors")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is left as it is")
def test_memory_that_was_freed_is_used_again() -> None:
    script = """
import resource, torch
from quatgraph.cli.common import retain_freed_memory

def new_pages(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.ones(1 << 24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

retain_freed_memory()
print(new_pages(10), new_pages(50))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    first, others = map(int, found.stdout.split())
    assert others < first / 10  # not five times: what the heap looks like at first is chance


def test_a_graph_is_packed_and_trains_as_its_tables_do(tmp_path: Path) -> None:
    result = call("data", "pack", "karate", "--out", str(tmp_path / "packed"))
    assert result.exit_code == 0, result.output
    assert "34 nodes and 156 edges" in result.stdout
    stats = [call("data", "stats", name).stdout for name in ("karate", str(tmp_path / "packed"))]
    assert stats[0] == stats[1] != ""
    refused = call("data", "pack", "snippets", "--out", str(tmp_path / "texts"))
    assert refused.exit_code == 2
    assert "snippets is text data; only graphs of the task node are packed" in refused.stderr
    assert not (tmp_path / "texts").exists()


def test_formats_are_listed_by_task() -> None:
    heading, *lines = call("data", "formats").stdout.splitlines()
    assert heading == "task   format    files"
    assert lines[3].startswith("graph  jsonl     a .jsonl file with one graph per line, or a .json")
    assert list(dict.fromkeys(line.split()[0] for line in lines)) == list(TASKS)
    texts = call("data", "formats", "text").stdout.splitlines()
    assert texts == [heading, *(line for line in lines if line.startswith("text"))]
    rows = [json.loads(line) for line in call("data", "formats", "--json").stdout.splitlines()]
    assert [f"{row['task']:5}  {row['format']:8}  {row['files']}" for row in rows] == lines
    assert_user_error(call("data", "formats", "grpah"), "no task 'grpah'; did you mean 'graph'?")
