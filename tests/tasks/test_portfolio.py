"""The default portfolio: its configurations, and bundles of combined runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cities
import karate
import pytest
import reviews
import rings
import torch
from on_cpu import changed, train_in_folder
from torch_geometric.data import Data

from quatgraph import config as configs
from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.predictors import PREDICTORS
from quatgraph.presets import preset, protocols
from quatgraph.tasks import TASKS, portfolio
from quatgraph.tasks.combination import Score, TrainedRun, Weights, select_bagged
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.refit import refit
from quatgraph.tasks.selection import rank_groups
from quatgraph.tasks.stored import RUNS
from quatgraph.tasks.text.problem import corpus_of
from quatgraph.training.bundle import load_bundle
from quatgraph.training.context import Context
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline

CPU = torch.device("cpu")
three_splits = karate.graph


@pytest.mark.parametrize("task", TASKS)
def test_every_entry_of_a_portfolio_holds_settings_that_its_model_reads(task: str) -> None:
    config = TASKS[task].config
    for entry in protocols(task)["portfolio"]:
        known = configs.to_dict(configs.build(config, {"model": {"name": entry["model.name"]}}))
        assert set(configs.grid_keys(entry)) - {"fast"} <= configs.flatten(known).keys()


@pytest.mark.parametrize("task", TASKS)
def test_a_portfolio_has_several_models_and_no_configuration_twice(task: str) -> None:
    candidates = default_candidates(TASKS[task])
    assert len({configs.digest(c.identity()) for c in candidates}) == len(candidates)
    names = [c.model.name for c in candidates]
    assert len(set(names)) > 1
    assert list(dict.fromkeys(names)) == list(
        dict.fromkeys(entry["model.name"] for entry in protocols(task)["portfolio"])
    )
    fast = default_candidates(TASKS[task], fast=True)
    assert 0 < len(fast) < len(candidates)
    assert all(config in candidates for config in fast)


def test_on_ones_own_graph_the_loss_breaks_ties_and_presets_stay_what_they_were() -> None:
    candidates = [*default_candidates(NODE), *default_candidates(NODE, only=["gat"])]
    assert {config.train.ties for config in candidates} == {"loss"}
    given = default_candidates(NODE, {"train": {"ties": "first"}})
    assert {config.train.ties for config in given} == {"first"}
    assert "ties" not in configs.build(NodeConfig, preset("node/cora-qgnn")).identity()["train"]


def test_a_setting_that_is_given_is_not_varied() -> None:
    candidates = default_candidates(NODE, {"train": {"lr": 0.05}})
    assert {config.train.lr for config in candidates} == {0.05}
    assert len({config.train.weight_decay for config in candidates}) > 1


def test_models_that_do_not_read_a_setting_are_left_out() -> None:
    names = {c.model.name for c in default_candidates(NODE, {"model": {"skip": False}})}
    assert "qgnn" in names
    assert "mlp" not in names


def test_a_setting_that_no_model_reads_is_an_error() -> None:
    with pytest.raises(UserError, match=r"unknown key 'model\.skipp'; did you mean 'model\.skip'"):
        default_candidates(NODE, {"model": {"skipp": False}})


def test_only_some_models_are_tried() -> None:
    assert {c.model.name for c in default_candidates(NODE, only=["gcn"])} == {"gcn"}
    named = default_candidates(NODE, {"model": {"name": "gcn"}})
    assert named == default_candidates(NODE, only=["gcn"])
    decoder = (
        "no model 'complex'; complex is a model.decoder of embeddings: --only embeddings --set"
    )
    with pytest.raises(UserError, match=f"{decoder} model.decoder=complex"):
        default_candidates(TASKS["link"], only=["complex"])
    with pytest.raises(UserError, match="the task node has no model 'gnc'; did you mean 'gcn'"):
        default_candidates(NODE, only=["gnc"])


def test_a_model_outside_the_portfolio_is_tried_with_the_grid_of_its_task() -> None:
    candidates = default_candidates(GRAPH, only=["sage"])
    assert {config.model.name for config in candidates} == {"sage"}
    assert len(candidates) == 4


def node(folder: Path) -> tuple[list[Any], Any]:
    made = [
        *(karate.config_of(**{"train.lr": lr}) for lr in (0.01, 0.1)),
        karate.config_of(**{"model.hidden_quats": 3}),
    ]
    return made, NODE.load(NodeConfig(data=DataConfig(name="karate")))


def graph(folder: Path) -> tuple[list[Any], Any]:
    made = [rings.config_of(**{"model.hidden_quats": size}) for size in (1, 2)]
    return made, rings.collection(folder)


def link(folder: Path) -> tuple[list[Any], Any]:
    made = [cities.config_of(**{"model.dim_quats": size}) for size in (1, 2, 3)]
    return made, cities.with_negatives(cities.cities())


def text(folder: Path) -> tuple[list[Any], Any]:
    made = [reviews.config_of(**{"model.hidden_quats": size}) for size in (1, 2)]
    return made, corpus_of(from_list(reviews.TEXTS, reviews.LABELS), made[0])


MAKERS: dict[str, Callable[[Path], tuple[list[Any], Any]]] = {
    maker.__name__: maker for maker in (node, graph, link, text)
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_combination_is_evaluated_as_it_was_selected(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    candidates, data = MAKERS[name](tmp_path)
    job = train_in_folder(task, candidates, tmp_path / "model", data=data, combine=True)
    assert {path.name for path in job.folder.iterdir()} == {
        *("records.jsonl", "card.json", "model.safetensors")
    }
    assert sum(job.shares.values()) == pytest.approx(1.0)
    groups = {(record.split, record.seed) for record in job.records}
    assert [(each["split"], each["seed"]) for each in job.selection] == sorted(groups)
    metric = task.reported_metrics[0]
    for each in job.selection if not task.bags_selection else ():
        # On validation data, greedy selection is never worse than a single run.
        assert each["combination"][f"valid/{metric}"] >= each["single"][f"valid/{metric}"]
    bundle = load_bundle(job.folder)
    predictor = PREDICTORS[name](bundle, CPU)
    if name == "link":
        assert {"test/classified", "test/f1"} <= job.metrics.keys()
        measured = predictor.evaluate()
    else:
        assert bundle.card["temperature"] > 0
        measured = predictor.evaluate(data.documents if name == "text" else data)
    assert measured.keys() == job.metrics.keys()
    for key, value in measured.items():
        assert value == pytest.approx(job.metrics[key], abs=1e-5), key


def test_a_combination_out_of_time_is_made_of_what_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates, data = node(tmp_path)
    whole = train_in_folder(NODE, candidates, tmp_path / "whole", data=data, combine=True)
    deadline, folder = Deadline(None), tmp_path / "model"

    def stop_in_the_second(title: str, done: int, total: int) -> None:
        if "2 of 2" in title:
            monkeypatch.setattr(Deadline, "passed", lambda self: True)

    with pytest.raises(Paused):
        train_in_folder(
            NODE,
            candidates,
            folder,
            data=data,
            combine=True,
            deadline=deadline,
            progress=stop_in_the_second,
        )
    assert len(load_bundle(folder).card["selection"]) == 1
    assert (folder / RUNS).is_dir()
    monkeypatch.undo()
    resumed = train_in_folder(NODE, candidates, folder, data=data, combine=True, resume=True)
    assert not (folder / RUNS).exists()
    assert load_bundle(folder).card["sha256"] == load_bundle(whole.folder).card["sha256"]
    assert resumed.selection == whole.selection


def in_pieces(task: Any, size: int = 1) -> Any:
    """The task with so little memory that an ensemble has few runs."""
    return changed(task, max_members=lambda *_: size)


def watch(folder: Path, seen: list[int]) -> Callable[[str, int, int], None]:
    """Counts the configurations that are stored, after every epoch."""

    def count(title: str, done: int, total: int) -> None:
        stored = (folder / RUNS).iterdir() if (folder / RUNS).is_dir() else ()
        seen.append(len({path.name.partition("-")[2] for path in stored}))

    return count


@pytest.mark.parametrize(
    ("setting", "values", "bounds", "count"),
    [
        ("train.lr", (0.003, 0.01, 0.03, 0.1, 0.3), {"KEPT": 3}, 3),
        ("model.hidden_quats", (1, 2, 3, 4), {"KEPT_NUMBERS": 2 * 34 * 2}, 2),
    ],
)
def test_few_configurations_are_stored_the_best_ones(
    setting: str,
    values: tuple[float, ...],
    bounds: dict[str, int],
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a shape, and of all shapes if their outputs are large: one configuration per ensemble."""
    for name, bound in bounds.items():
        monkeypatch.setattr(portfolio, name, bound)
    pooled: list[list[str]] = []

    def pool(runs: list[TrainedRun], data: Any, device: torch.device) -> Any:
        pooled.append([configs.digest(run.config.identity()) for run in runs])
        return NODE.pool(runs, data, device)

    _, data = node(tmp_path)
    candidates, seen = [karate.config_of(**{setting: value}) for value in values], list[int]()
    how = {"data": data, "combine": True, "progress": watch(tmp_path / "m", seen)}
    task = changed(in_pieces(NODE), pool=pool)
    job = train_in_folder(task, candidates, tmp_path / "m", **how)
    assert max(seen) == count
    assert pooled == 2 * [[group.digest for group in rank_groups(job.records)[:count]]]


def test_a_combination_does_not_depend_on_the_ensembles(three_splits: Data, tmp_path: Path) -> None:
    candidates = [karate.config_of(**{"train.lr": lr}) for lr in (0.003, 0.01, 0.03, 0.1, 0.3)]
    candidates.append(karate.config_of(**{"model.hidden_quats": 3}))
    jobs = [
        train_in_folder(task, candidates, tmp_path / name, data=three_splits, combine=True)
        for name, task in (("one", NODE), ("pieces", in_pieces(NODE)))
    ]
    one, pieces = (load_bundle(job.folder) for job in jobs)
    weights = [[member["weight"] for member in b.card["members"]] for b in (one, pieces)]
    assert weights[0] == weights[1]
    assert one.card["metrics"] == pytest.approx(pieces.card["metrics"])
    assert one.card["temperature"] == pytest.approx(pieces.card["temperature"])
    for name, tensor in one.tensors.items():
        torch.testing.assert_close(tensor, pieces.tensors[name])
    assert jobs[0].chosen.config_digest == jobs[1].chosen.config_digest


def test_the_report_of_a_split_uses_no_validation_data_of_other_splits(
    three_splits: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration that is very good, or bad, on the first one changes what is bundled, and
    nothing that is reported of the others."""
    monkeypatch.setattr(portfolio, "KEPT", 1)
    candidates = [karate.config_of(**{"train.lr": lr}) for lr in (1e-4, 0.01, 0.1)]

    def scored(offset: float) -> Any:

        def train(members: Any, *arguments: Any) -> Any:
            fit = NODE.train(members, *arguments)
            for place, member in enumerate(members):
                if member.split == 0 and member.config.train.lr == 1e-4:
                    fit.metrics["valid/accuracy"][place] = offset
            return fit

        return changed(NODE, train=train)

    found = []
    for place, offset in enumerate((0.0, 100.0)):
        how = {"data": three_splits, "combine": True}
        job = train_in_folder(scored(offset), candidates, tmp_path / str(place), **how)
        found.append(job)
    assert found[0].chosen.config_digest != found[1].chosen.config_digest
    assert found[0].selection[0] != found[1].selection[0]
    assert found[0].selection[1:] == found[1].selection[1:]


def test_a_pause_bundles_finished_configurations_and_says_so(
    three_splits: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = [karate.config_of(**{"model.hidden_quats": width}) for width in (1, 2)]
    task, folder = in_pieces(NODE), tmp_path / "model"
    how: dict[str, Any] = {"data": three_splits, "combine": True}

    def pause(place: str, **more: bool) -> None:
        def stop(title: str, done: int, total: int) -> None:
            if place in title:
                monkeypatch.setattr(Deadline, "passed", lambda self: True)

        more |= {"progress": stop, "deadline": Deadline(None)}
        with pytest.raises(Paused):
            train_in_folder(task, candidates, folder, **how, **more)
        monkeypatch.undo()

    pause("3 of 6")
    assert not (folder / "card.json").exists()  # no configuration has a run for every split
    pause("3 of 4", resume=True)  # the second run of the second configuration
    card = load_bundle(folder).card
    assert len(card["selection"]) == 3
    assert {member["config"]["model"]["hidden_quats"] for member in card["members"]} == {1}
    assert card["unfinished"] == {"configurations": 1, "of": 2}
    resumed = train_in_folder(task, candidates, folder, resume=True, **how)
    whole = train_in_folder(task, candidates, tmp_path / "whole", **how)
    assert "unfinished" not in load_bundle(folder).card
    assert load_bundle(folder).card["sha256"] == load_bundle(whole.folder).card["sha256"]
    assert resumed.selection == whole.selection


def test_where_nothing_can_be_combined_the_best_configuration_is_bundled(tmp_path: Path) -> None:
    """Every configuration diverges on a fold."""
    candidates, data = graph(tmp_path)

    def train(members: Any, *arguments: Any) -> Any:
        fit = GRAPH.train(members, *arguments)
        for place, member in enumerate(members):
            if member.split == 1:
                fit.loss[place] = torch.nan
        return fit

    task = changed(GRAPH, train=train)
    job = train_in_folder(task, candidates, tmp_path / "m", data=data, combine=True)
    card = load_bundle(job.folder).card
    assert [member["split"] for member in card["members"]] == [0, 2]
    assert not {"selection", "unfinished"} & card.keys()
    assert {path.name for path in job.folder.iterdir()} == {
        *("records.jsonl", "card.json", "model.safetensors")
    }


@pytest.mark.parametrize(
    ("name", "bagged"), [("node", True), ("graph", True), ("text", True), ("link", False)]
)
def test_the_selection_of_classifiers_is_bagged(
    name: str, bagged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates, data = MAKERS[name](tmp_path)
    calls: list[tuple[int, int]] = []

    def watch(score: Callable[[Weights], Score], count: int, num_valid: int) -> Weights:
        calls.append((count, num_valid))
        return select_bagged(score, count, num_valid)

    monkeypatch.setattr(portfolio, "select_bagged", watch)
    job = train_in_folder(TASKS[name], candidates, tmp_path / "m", data=data, combine=True)
    if not bagged:
        assert not calls
        return
    (count, whole), *splits = calls  # the bundle is selected on the validation data of all splits
    assert count == len(candidates)
    assert len(splits) == len(job.selection)
    assert whole == sum(num_valid for _, num_valid in splits) > 0


def test_folds_in_several_ensembles_are_one_bundle(tmp_path: Path) -> None:
    (config, _), data = graph(tmp_path)
    one = train_in_folder(GRAPH, [config], tmp_path / "one", data=data)
    pieces = train_in_folder(in_pieces(GRAPH, 2), [config], tmp_path / "pieces", data=data)
    assert [member["split"] for member in pieces.members] == [0, 1, 2]
    assert pieces.metrics == pytest.approx(one.metrics)


def test_folders_of_ones_own_are_left_alone(tmp_path: Path) -> None:
    candidates, data = node(tmp_path)
    for name in ("runs", "refit"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("mine")
    train_in_folder(NODE, candidates[:1], tmp_path, data=data, combine=True)
    refit(NODE, tmp_path, Context(CPU), data)
    assert all((tmp_path / name / "mine").exists() for name in ("runs", "refit"))


def test_a_configuration_that_diverged_on_a_split_is_not_combined(tmp_path: Path) -> None:
    candidates, data = graph(tmp_path)
    wild = rings.config_of(**{"train.lr": 1e9, "model.hidden_quats": 3})
    job = train_in_folder(GRAPH, [wild, *candidates], tmp_path / "m", data=data, combine=True)
    quats = {m["config"]["model"]["hidden_quats"] for m in job.members}
    assert quats <= {1, 2}


def test_a_finished_training_is_not_extended_by_other_models(tmp_path: Path) -> None:
    candidates, data = node(tmp_path)
    train_in_folder(NODE, candidates[:2], tmp_path / "m", data=data, combine=True)
    before = load_bundle(tmp_path / "m").card
    with pytest.raises(UserError, match="a finished training of fewer models or seeds"):
        train_in_folder(NODE, candidates, tmp_path / "m", data=data, combine=True, resume=True)
    assert load_bundle(tmp_path / "m").card == before


def test_a_setting_that_the_chosen_model_does_not_read_is_an_error() -> None:
    with pytest.raises(UserError, match=r"unknown key 'model\.dropout'; the model 'linear' reads"):
        default_candidates(NODE, {"model": {"dropout": 0.3}}, only=["linear"])
