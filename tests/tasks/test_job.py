"""Trainings in a folder: refused, paused, resumed, finished; the bundle they leave."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import settings
import torch
from on_cpu import changed, train_in_folder

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.tasks import job as jobs
from quatgraph.tasks import stored
from quatgraph.tasks.job import CURVES, Job
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.training.bundle import load_bundle
from quatgraph.training.loop import Fit, Paused
from quatgraph.training.record import RunRecord, read_records
from quatgraph.training.runtime import Deadline

CPU = torch.device("cpu")
SMALL = {"data.name": "karate", "train.epochs": 10, "train.lr": 0.05, "model.hidden_quats": 2}
SMALL |= {"model.num_layers": 1, "model.skip": False}


def config_of(**values: Any) -> NodeConfig:
    return settings.built(NodeConfig, values, SMALL)


def trained(candidates: list[NodeConfig], folder: Path, **others: Any) -> Job:
    return train_in_folder(NODE, candidates, folder, **others)


def numbers(record: RunRecord) -> tuple[Any, ...]:
    """What a run gave, without the clock."""
    return (
        *(record.config_digest, record.split, record.seed, record.best_epoch, record.metrics),
        *(record.curves, record.members, record.ensemble, record.epochs_run),
    )


def assert_same(one: Job, other: Job) -> None:
    assert list(map(numbers, one.records)) == list(map(numbers, other.records))
    assert numbers(one.chosen) == numbers(other.chosen)
    first, second = load_bundle(one.folder), load_bundle(other.folder)
    assert first.card["sha256"] == second.card["sha256"]
    assert first.card["metrics"] == second.card["metrics"]
    for name, tensor in first.tensors.items():
        assert torch.equal(tensor, second.tensors[name])


def test_a_training_leaves_records_and_a_bundle_and_nothing_else(tmp_path: Path) -> None:
    job = trained([config_of(seeds=3)], tmp_path / "new" / "out")
    files = {path.name for path in job.folder.iterdir()}
    assert files == {"records.jsonl", "card.json", "model.safetensors"}
    assert read_records(job.folder / "records.jsonl") == job.records
    assert [r.seed for r in job.records] == [0, 1, 2]
    assert (job.num_configs, job.chosen_settings) == (1, {})
    assert job.summary == ["nodes: 34 in 2 classes, 50.0 % in the largest, 78 edges"]


def test_the_bundle_is_the_best_run_on_validation_data(tmp_path: Path) -> None:
    candidates = [config_of(seeds=3, **{"train.lr": lr}) for lr in (0.001, 0.1)]
    job = trained(candidates, tmp_path)
    scores = [(r.metrics["valid/accuracy"], -r.metrics["valid/loss"]) for r in job.records]
    best = job.records[scores.index(max(scores))]
    assert job.chosen == best
    assert job.num_configs == 2
    assert job.chosen_settings == {"train.lr": best.config["train"]["lr"]}
    card = load_bundle(tmp_path).card
    assert card["metrics"] == best.metrics
    (member,) = card["members"]
    assert (member["seed"], member["epoch"]) == (best.seed, best.best_epoch)
    assert configs.build(NodeConfig, member["config"]).identity() == best.config


def test_the_bundle_is_the_best_whichever_ensemble_it_is_in(tmp_path: Path) -> None:
    wide, narrow = config_of(seeds=2, **{"model.hidden_quats": 8}), config_of(seeds=2)
    first = trained([wide, narrow], tmp_path / "wide-first")
    second = trained([narrow, wide], tmp_path / "narrow-first")
    assert len({r.ensemble for r in first.records}) == 2
    assert numbers(first.chosen) == numbers(second.chosen)
    bundles = [load_bundle(job.folder).card["sha256"] for job in (first, second)]
    assert bundles[0] == bundles[1]


def test_what_was_settled_is_what_the_candidates_differ_in(tmp_path: Path) -> None:
    candidates = [
        config_of(**{"model.hidden_quats": quats, "model.dropout": rate, "train.lr": 0.02 * quats})
        for quats, rate in ((2, 0.1), (3, 0.1), (2, 0.4))
    ]
    job = trained(candidates, tmp_path)
    assert list(job.chosen_settings) == ["train.lr", "model.dropout", "model.hidden_quats"]
    assert job.chosen_settings.items() <= configs.flatten(job.chosen.config).items()


def test_a_task_may_summarize_its_bundle(tmp_path: Path) -> None:
    talking = changed(NODE, summarize=lambda card: [f"{len(card['labels'])} factions"])
    job = train_in_folder(talking, [config_of()], tmp_path)
    assert job.summary == ["2 factions"]


def test_runs_without_validation_data_leave_a_bundle(tmp_path: Path) -> None:
    def blind(*arguments: Any) -> Fit:
        fit = NODE.train(*arguments)
        return dataclasses.replace(fit, metrics={"test/accuracy": fit.metrics["test/accuracy"]})

    job = train_in_folder(changed(NODE, train=blind), [config_of(seeds=2)], tmp_path)
    assert job.chosen == job.records[0]
    assert load_bundle(tmp_path).card["metrics"].keys() == {"test/accuracy"}


def test_without_validation_data_what_would_be_chosen_must_be_set(tmp_path: Path) -> None:
    blind = changed(NODE, has_validation=lambda config, data: False)

    def refused(*candidates: NodeConfig) -> str:
        with pytest.raises(UserError) as error:
            train_in_folder(blind, candidates, tmp_path / "model")
        assert not (tmp_path / "model").exists()
        return str(error.value)

    best, last = ({"train.select": select} for select in ("best-valid", "last"))
    nothing = "there is no validation data to choose by: set "
    assert refused(config_of(**best)) == f"{nothing}train.select=last yourself"
    several = [config_of(**best, **{"train.lr": lr}) for lr in (0.1, 0.2)]
    assert refused(*several) == f"{nothing}train.select=last and train.lr yourself"
    several = [config_of(**last, **{"train.lr": lr}) for lr in (0.1, 0.2)]
    assert refused(*several) == f"{nothing}train.lr yourself"
    job = train_in_folder(blind, [config_of(**last)], tmp_path / "model")
    assert job.chosen_settings == {}


def test_a_folder_that_holds_a_training_is_refused_and_left_alone(tmp_path: Path) -> None:
    trained([config_of()], tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=r"already holds records\.jsonl, card\.json, model\.sa"):
        trained([config_of(**{"train.lr": 0.2})], tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_finished_training_is_resumed_by_doing_nothing(tmp_path: Path) -> None:
    first = trained([config_of(seeds=2)], tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    reported: list[Any] = []
    again = trained(
        [config_of(seeds=2)], tmp_path, resume=True, progress=lambda *a: reported.append(a)
    )
    assert reported == []
    assert again == first
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_finished_training_without_its_bundle_cannot_be_resumed(tmp_path: Path) -> None:
    trained([config_of()], tmp_path)
    (tmp_path / "card.json").unlink()
    with pytest.raises(UserError, match="no whole bundle: train again in another folder"):
        trained([config_of()], tmp_path, resume=True)


def test_more_seeds_of_the_same_settings_go_on_from_those_that_are_there(tmp_path: Path) -> None:
    two = trained([config_of(seeds=2)], tmp_path)
    three = trained([config_of(seeds=3)], tmp_path, resume=True)
    assert three.records[:2] == two.records
    assert [r.seed for r in three.records] == [0, 1, 2]


@pytest.mark.parametrize("changed", [{"train.lr": 0.2}, {"model.hidden_quats": 3}, {"seeds": 1}])
def test_other_settings_cannot_resume_a_training(tmp_path: Path, changed: dict[str, Any]) -> None:
    trained([config_of(seeds=2)], tmp_path)
    with pytest.raises(UserError, match="holds a training with other settings"):
        trained([config_of(**changed)], tmp_path, resume=True)


def test_other_settings_cannot_resume_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(Paused):
        trained([config_of()], tmp_path, deadline=Deadline(0))
    with pytest.raises(UserError, match="checkpoint of another run"):
        trained([config_of(**{"train.lr": 0.2})], tmp_path, resume=True)
    # The checkpoint is still there for the run it belongs to.
    assert len(trained([config_of()], tmp_path, resume=True).records) == 1


def test_a_paused_training_has_no_bundle_yet_and_says_how_far_it_is(tmp_path: Path) -> None:
    with pytest.raises(Paused, match="stopped after 1 of 10 epochs") as paused:
        trained([config_of()], tmp_path, deadline=Deadline(0))
    assert (paused.value.done, paused.value.epochs) == (1, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_training_that_saved_nothing_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "train_ensembles", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained([config_of()], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("select", ["best-valid", "last"])
def test_a_resumed_training_equals_the_uninterrupted_one_bit_for_bit(
    tmp_path: Path, select: str
) -> None:
    # Two ensembles, with dropout, each stopped after its first three epochs.
    candidates = [
        config_of(seeds=2, **{"train.select": select, "model.hidden_quats": quats, "train.lr": lr})
        for quats in (2, 3)
        for lr in (0.05, 0.1)
    ]
    whole = trained(candidates, tmp_path / "whole")
    pauses = 0
    for limit in [Deadline(0)] * 3 + [None, Deadline(0), Deadline(0), None]:
        deadline = limit or StopAfterOneEnsemble(tmp_path / "parts" / "records.jsonl")
        try:
            parts = trained(candidates, tmp_path / "parts", resume=pauses > 0, deadline=deadline)
        except Paused:
            pauses += 1
    assert pauses == 6
    assert_same(parts, whole)
    assert not (tmp_path / "parts" / "checkpoint.safetensors").exists()


class StopAfterOneEnsemble(Deadline):
    """Passes as soon as one more ensemble has been recorded."""

    def __init__(self, records: Path) -> None:
        super().__init__(None)
        self.records = records
        self.before = self._size()

    def passed(self) -> bool:
        return self._size() > self.before

    def _size(self) -> int:
        return self.records.stat().st_size if self.records.exists() else 0


def test_a_paused_training_is_not_begun_anew_by_mistake(tmp_path: Path) -> None:
    with pytest.raises(Paused):
        trained([config_of()], tmp_path, deadline=Deadline(0))
    with pytest.raises(UserError, match=r"already holds checkpoint\.safetensors: .* --resume"):
        trained([config_of()], tmp_path)
    assert len(trained([config_of()], tmp_path, resume=True).records) == 1


def test_resuming_where_nothing_was_begun_begins(tmp_path: Path) -> None:
    job = trained([config_of()], tmp_path, resume=True)
    assert len(job.records) == 1


def test_what_a_kill_between_bundle_and_records_left_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained([config_of(seeds=2)], tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(stored, "append_records", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trained([config_of(seeds=2)], tmp_path / "cut")
    assert (tmp_path / "cut" / "card.json").exists()
    assert_same(trained([config_of(seeds=2)], tmp_path / "cut", resume=True), whole)


def test_data_that_cannot_be_read_leaves_no_folder(tmp_path: Path) -> None:
    config = config_of(**{"data.name": "", "data.path": str(tmp_path / "nowhere")})
    with pytest.raises(UserError, match="there is no file or folder"):
        trained([config], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(UserError, match="cannot write"):
        trained([config_of()], tmp_path / "file" / "out")


def test_curves_are_kept_for_a_few_runs_and_not_for_many(tmp_path: Path) -> None:
    few = trained([config_of(seeds=2)], tmp_path / "few")
    assert len(few.records[0].curves["valid/loss"]) == 10
    many = trained([config_of(seeds=CURVES + 1, **{"train.epochs": 1})], tmp_path / "many")
    assert many.records[0].curves == {}
    assert json.loads((tmp_path / "many" / "card.json").read_text())["task"] == "node"
