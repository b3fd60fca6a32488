"""A search in a folder: which configurations, in what order, and what a repeated call adds."""

import dataclasses
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from karate import SMALL

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.metrics.classification import mean_std
from quatgraph.tasks import TASKS
from quatgraph.tasks import search as searching
from quatgraph.tasks.search import (
    Trial,
    rank_trials,
    search_candidates,
    search_in_folder,
    summarize_test,
    varied_settings,
)
from quatgraph.training.context import Context
from quatgraph.training.loop import Paused
from quatgraph.training.record import append_records, read_records
from quatgraph.training.runtime import Deadline

NODE = TASKS["node"]
CPU = Context(torch.device("cpu"))
VALUES = {"data": {"name": "karate"}, "seeds": 1}
FIXED = [f"{key}={value}" for key, value in SMALL.items() if key not in ("data.name", "train.lr")]
FIXED = [item.lower() for item in FIXED]
LISTS = ["train.lr=[0.01, 0.05]", "model.dropout=[0.1, 0.5]"]


def candidates_of(*lists: str, seeds: int = 1, **others: Any) -> list[Any]:
    made = [item for item in FIXED if item.split("=")[0] not in "".join(lists)]
    return search_candidates(NODE, VALUES | {"seeds": seeds}, [*made, *lists], **others)


def settings_of(candidates: list[Any], *keys: str) -> list[tuple[Any, ...]]:
    flat = [configs.flatten(configs.to_dict(config)) for config in candidates]
    return [tuple(one.get(key) for key in keys) for one in flat]


def test_lists_are_combined_and_single_values_are_fixed() -> None:
    found = candidates_of(*LISTS, "train.weight_decay=0.25")
    assert settings_of(found, "train.lr", "model.dropout", "train.weight_decay") == [
        (0.01, 0.1, 0.25),
        (0.01, 0.5, 0.25),
        (0.05, 0.1, 0.25),
        (0.05, 0.5, 0.25),
    ]
    assert varied_settings(found) == ["model.dropout", "train.lr"]


def test_without_a_list_the_grid_of_the_task_is_searched_as_far_as_the_model_reads_it() -> None:
    assert len(search_candidates(NODE, VALUES, [])) == 2 * 3 * 2 * 2 * 3 * 2
    assert len(search_candidates(NODE, VALUES, ["model.name=mlp"])) == 2 * 3 * 2 * 2 * 3  # no skip
    found = search_candidates(NODE, VALUES, ["train.lr=0.3"])
    assert (len(found), settings_of(found, "train.lr")[0]) == (72, (0.3,))
    text = search_candidates(TASKS["text"], {"data": {"name": "snippets"}}, [])
    pairs = set(settings_of(text, "train.batch_size", "train.patience"))
    assert (len(text), pairs) == (32, {(256, 20), (4096, None)})


def test_several_models_are_searched_each_with_the_options_that_it_reads() -> None:
    found = candidates_of("model.name=[qgnn, mlp]", "model.skip=[true, false]")
    assert settings_of(found, "model.name", "model.skip") == [
        ("qgnn", True),
        ("qgnn", False),
        ("mlp", None),
    ]


def test_a_sample_is_without_replacement_and_repeatable() -> None:
    whole = search_candidates(NODE, VALUES, [])
    some = search_candidates(NODE, VALUES, [], sample=20, seed=0)
    assert len(some) == 20
    places = [whole.index(config) for config in some]
    assert places == sorted(set(places))
    assert search_candidates(NODE, VALUES, [], sample=20, seed=0) == some
    assert search_candidates(NODE, VALUES, [], sample=20, seed=1) != some
    assert search_candidates(NODE, VALUES, [], sample=1000) == whole


def test_a_huge_grid_is_sampled_without_listing_it_and_refused_otherwise() -> None:
    rates = [f"{key}={[i / 1000 for i in range(1000)]}" for key in ("model.dropout", "train.lr")]
    decays = f"train.weight_decay={[i / 1000 for i in range(1000)]}"
    lists = [rates[0], rates[1].replace("[0.0, ", "["), decays]
    with pytest.raises(UserError, match="999,000,000 configurations, more than 10,000: shorten"):
        search_candidates(NODE, VALUES, lists)
    assert len(search_candidates(NODE, VALUES, lists, sample=5)) == 5


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("data.split_seed=[0, 1]", "data.split_seed must have one value"),
        ("train.lrr=[0.1]", "unknown key 'train.lrr'; did you mean 'train.lr'?"),
        ("train.lr=[0.1, fast]", "train.lr must be a number, got 'fast'"),
        ("train.lr=[0.1, ", "cannot read the value"),
        ("train.lr=[]", "train.lr must be a list of values to search, got []"),
        ("model.name=[qgnn, gnc]", "model.name must be one of"),
        ("model.heads=[2, 4]", "unknown key 'model.heads'"),
        ("train.lr=[0.1, -1]", "train.lr must be positive, got -1"),
    ],
)
def test_a_list_that_cannot_be_searched_is_a_mistake(item: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        search_candidates(NODE, VALUES, [item])


def test_a_search_trains_few_ensembles_and_is_ranked_by_validation_data(tmp_path: Path) -> None:
    found = candidates_of(*LISTS, "model.hidden_quats=[2, 3]", seeds=2)
    search_in_folder(NODE, found, tmp_path, CPU)
    records = read_records(tmp_path / "records.jsonl")
    assert len(records) == 2 * 2 * 2 * 2
    assert len({record.ensemble for record in records}) == 2  # by width
    assert [path.name for path in tmp_path.iterdir()] == ["records.jsonl"]
    trials = rank_trials(found, tmp_path)
    assert len(trials) == 8
    means = []
    for trial in trials:
        assert len(trial.runs) == 2
        values = [run.metrics["valid/accuracy"] for run in trial.runs]
        assert trial.validation("accuracy") == mean_std(values)
        losses = [run.metrics["valid/loss"] for run in trial.runs]
        means.append((sum(values) / 2, -sum(losses) / 2))
    assert means == sorted(means, reverse=True)
    test = summarize_test(NODE, trials[0].runs)
    assert test == {"accuracy": mean_std([r.metrics["test/accuracy"] for r in trials[0].runs])}


def test_a_repeated_search_trains_only_what_is_new(tmp_path: Path) -> None:
    logged: list[str] = []
    context = dataclasses.replace(CPU, log=logged.append)
    search_in_folder(NODE, candidates_of(LISTS[0]), tmp_path, context)
    before = (tmp_path / "records.jsonl").read_bytes()
    search_in_folder(NODE, candidates_of(LISTS[0]), tmp_path, context)
    assert (tmp_path / "records.jsonl").read_bytes() == before
    search_in_folder(NODE, candidates_of("train.lr=[0.05, 0.2]"), tmp_path, context)
    rates = [r.config["train"]["lr"] for r in read_records(tmp_path / "records.jsonl")]
    assert rates == [0.01, 0.05, 0.2]
    assert logged == [
        "searching 2 configurations: 2 runs",
        "searching 2 configurations: 2 runs, of which 2 are on record",
        "searching 2 configurations: 2 runs, of which 1 are on record",
    ]
    ranked = rank_trials(candidates_of("train.lr=[0.05, 0.2]"), tmp_path)
    assert sorted(t.settings(["train.lr"])["train.lr"] for t in ranked) == [0.05, 0.2]


def test_a_search_that_was_stopped_continues_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = candidates_of(LISTS[0], "model.hidden_quats=[2, 3]")
    search_in_folder(NODE, found, tmp_path / "whole", CPU)
    real = searching.run

    def stopped(*args: Any, **others: Any) -> Iterator[Any]:
        yield next(real(*args, **others))
        raise KeyboardInterrupt(signal.SIGINT)

    folder = tmp_path / "parts"
    monkeypatch.setattr(searching, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        search_in_folder(NODE, found, folder, CPU)
    assert len(rank_trials(found, folder)) == 2
    monkeypatch.undo()
    with pytest.raises(Paused):
        search_in_folder(NODE, found, folder, dataclasses.replace(CPU, deadline=Deadline(0)))
    assert (folder / "checkpoints").is_dir()
    search_in_folder(NODE, found, folder, CPU)
    assert [path.name for path in folder.iterdir()] == ["records.jsonl"]
    whole, parts = rank_trials(found, tmp_path / "whole"), rank_trials(found, folder)
    assert [t.config for t in parts] == [t.config for t in whole]
    assert [t.validation("accuracy") for t in parts] == [t.validation("accuracy") for t in whole]


def test_the_time_left_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "REPORT_EVERY", 0.0)
    logged: list[str] = []
    context = dataclasses.replace(CPU, log=logged.append)
    found = candidates_of("model.hidden_quats=[1, 2, 3]")
    search_in_folder(NODE, found, tmp_path, context)
    assert [line.partition(", about ")[0] for line in logged[1:]] == [
        "1 of 3 runs done",
        "2 of 3 runs done",
    ]
    assert all(line.endswith(" left") for line in logged[1:])


def test_configurations_with_fewer_runs_are_not_compared_with_whole_ones(tmp_path: Path) -> None:
    found = candidates_of(LISTS[0], seeds=2)
    search_in_folder(NODE, found, tmp_path / "all", CPU)
    records = read_records(tmp_path / "all" / "records.jsonl")
    append_records(tmp_path / "records.jsonl", records[:3])
    assert [t.config for t in rank_trials(found, tmp_path)] == [found[0]]


def test_runs_that_diverged_do_not_win(tmp_path: Path) -> None:
    found = candidates_of("train.lr=[0.05, 1e30]")
    search_in_folder(NODE, found, tmp_path, CPU)
    assert [t.config for t in rank_trials(found, tmp_path)] == found[:1]
    with pytest.raises(UserError, match=r"every run diverged: search lower values of train\.lr"):
        rank_trials(found[1:], tmp_path)


def test_nothing_is_ranked_before_a_run_is_done(tmp_path: Path) -> None:
    assert rank_trials(candidates_of(LISTS[0]), tmp_path) == []


def test_a_folder_of_other_data_or_with_a_model_is_refused(tmp_path: Path) -> None:
    found = candidates_of(LISTS[0])
    search_in_folder(NODE, found, tmp_path / "a", CPU)
    record = read_records(tmp_path / "a" / "records.jsonl")[0]
    other = dataclasses.replace(record, data_digest="other")
    append_records(tmp_path / "b" / "records.jsonl", [other])
    with pytest.raises(UserError, match="holds a search of other data: choose another folder"):
        search_in_folder(NODE, found, tmp_path / "b", CPU)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "card.json").touch()
    with pytest.raises(UserError, match="holds a trained model: choose another folder"):
        search_in_folder(NODE, found, tmp_path / "c", CPU)


def test_settings_that_a_model_lacks_are_empty() -> None:
    (config,) = search_candidates(NODE, VALUES, ["model.name=[mlp]"])
    assert Trial(config, []).settings(["model.name", "model.skip"]) == {
        "model.name": "mlp",
        "model.skip": "",
    }
