"""A training that is killed at any write, rename or sync ends, resumed, as if it never was."""

import dataclasses
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cities
import karate
import pytest
import reviews
import rings
import torch
from kills import Point, killed, points_of, steps_of
from on_cpu import train_in_folder

from quatgraph import config as configs
from quatgraph.data.text import from_list
from quatgraph.tasks import TASKS
from quatgraph.tasks.job import FILES, Job
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.refit import refit
from quatgraph.tasks.text.problem import corpus_of
from quatgraph.training.bundle import load_bundle
from quatgraph.training.checkpoint import CHECKPOINT
from quatgraph.training.context import Context
from quatgraph.training.loop import Plan
from quatgraph.training.record import RunRecord

CPU = torch.device("cpu")
SAMPLED = 5
"""Points of a task at which `make test` kills; `make test-all` kills at all of them."""


@dataclass
class Training:
    """A small training of a task: two ensembles of two epochs, a checkpoint after each."""

    task: str
    candidates: list[Any]
    data: Any
    whole: Job
    """What it gives when nothing stops it."""

    def run(self, folder: Path, **how: bool) -> Job:
        task = TASKS[self.task]
        how |= {"combine": True}
        return train_in_folder(task, self.candidates, folder, data=self.data, **how)

    def points(self, folder: Path, **how: bool) -> list[Point]:
        return points_of(steps_of(partial(self.run, folder, **how)))

    def assert_whole(self, job: Job) -> None:
        assert {path.name for path in job.folder.iterdir()} == set(FILES) - {CHECKPOINT}
        assert list(map(numbers, job.records)) == list(map(numbers, self.whole.records))
        one, other = load_bundle(job.folder), load_bundle(self.whole.folder)
        assert one.card["sha256"] == other.card["sha256"]
        assert one.card["metrics"] == other.card["metrics"]
        for name, tensor in one.tensors.items():
            assert torch.equal(tensor, other.tensors[name])


def numbers(record: RunRecord) -> tuple[Any, ...]:
    """What a run gave, without the clock."""
    return (
        *(record.config_digest, record.split, record.seed, record.best_epoch, record.metrics),
        *(record.curves, record.members, record.ensemble, record.epochs_run),
    )


def two(config_of: Callable[..., Any], width: str) -> list[Any]:
    """Configurations of two ensembles, of which the second is the better one."""
    ways = ((1, 1e-5), (2, 0.1))
    changes = [{width: size, "train.lr": lr} for size, lr in ways]
    return [config_of(**{"train.epochs": 2, "model.dropout": 0.3}, **more) for more in changes]


def node(folder: Path) -> tuple[list[Any], Any]:
    return two(karate.config_of, "model.hidden_quats"), NODE.load(
        NodeConfig(data=DataConfig(name="karate"))
    )


def graph(folder: Path) -> tuple[list[Any], Any]:
    return two(rings.config_of, "model.hidden_quats"), rings.collection(folder)


def link(folder: Path) -> tuple[list[Any], Any]:
    return two(cities.config_of, "model.dim_quats"), cities.cities()


def text(folder: Path) -> tuple[list[Any], Any]:
    candidates = two(reviews.config_of, "model.hidden_quats")
    return candidates, corpus_of(from_list(reviews.TEXTS, reviews.LABELS), candidates[0])


MAKERS: dict[str, Callable[[Path], tuple[list[Any], Any]]] = {
    maker.__name__: maker for maker in (node, graph, link, text)
}


@pytest.fixture(scope="module", params=MAKERS)
def training(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param)
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Plan.__init__.__kwdefaults__, "save_every", -1.0)
        made = Training(request.param, *MAKERS[request.param](folder), None)  # type: ignore[arg-type]
        made.whole = made.run(folder / "whole")
        yield made


def kill_and_resume(training: Training, folder: Path, points: list[Point]) -> None:
    for place, point in enumerate(points):
        there = folder / str(place)
        assert killed(partial(training.run, there), point)
        training.assert_whole(training.run(there, resume=True))


def test_a_killed_training_resumes_as_if_nothing_had_been(
    training: Training, tmp_path: Path
) -> None:
    points = training.points(tmp_path / "counted")
    offset = list(MAKERS).index(training.task)
    some = points[offset * len(points) // (4 * SAMPLED) :: len(points) // SAMPLED]
    kill_and_resume(training, tmp_path, some)


@pytest.mark.slow
def test_a_training_killed_at_any_step_resumes_as_if_nothing_had_been(
    training: Training, tmp_path: Path
) -> None:
    kill_and_resume(training, tmp_path, training.points(tmp_path / "counted"))


def test_a_training_killed_again_and_again_still_ends(training: Training, tmp_path: Path) -> None:
    runs = 0
    # One ensemble takes fewer steps, so that each try gets further than the last.
    while killed(partial(training.run, tmp_path / "m", resume=True), (36, True)):
        runs += 1
        assert runs < 20
    assert runs > 1
    training.assert_whole(training.run(tmp_path / "m", resume=True))


@pytest.mark.slow
def test_a_training_that_replaces_another_can_be_killed_at_any_step(
    training: Training, tmp_path: Path
) -> None:
    other = [configs.build(type(c), configs.to_dict(c) | {"seeds": 2}) for c in training.candidates]
    old = dataclasses.replace(training, candidates=other).run(tmp_path / "old").folder
    replace = partial(training.run, overwrite=True)
    counted = shutil.copytree(old, tmp_path / "counted")
    for number, point in enumerate(training.points(counted, overwrite=True)):
        there = shutil.copytree(old, tmp_path / str(number))
        assert killed(partial(replace, there), point)
        training.assert_whole(replace(there))


def refitted(training: Training, folder: Path, **how: bool) -> Path:
    """Trains if needed, then trains again on all labels, as the command does."""
    training.run(folder, resume=True)
    refit(TASKS[training.task], folder, Context(CPU, **how), training.data)
    return folder


def kill_and_resume_refits(training: Training, folder: Path, sampled: int | None) -> None:
    trained = training.whole.folder
    whole = load_bundle(refitted(training, shutil.copytree(trained, folder / "whole")))
    counted = shutil.copytree(trained, folder / "counted")
    points = points_of(steps_of(partial(refitted, training, counted)))
    every = 1 if sampled is None else len(points) // sampled
    for place, point in enumerate(points[1::every]):
        there = shutil.copytree(trained, folder / str(place))
        assert killed(partial(refitted, training, there), point)
        found = load_bundle(refitted(training, there, resume=True))
        assert {path.name for path in there.iterdir()} == set(FILES) - {CHECKPOINT}
        own = ("card_sha256", "environment", "finished")
        assert {k: v for k, v in found.card.items() if k not in own} == {
            k: v for k, v in whole.card.items() if k not in own
        }
        for name, tensor in found.tensors.items():
            assert torch.equal(tensor, whole.tensors[name])


def test_a_killed_refit_resumes_as_if_nothing_had_been(training: Training, tmp_path: Path) -> None:
    kill_and_resume_refits(training, tmp_path, SAMPLED)


@pytest.mark.slow
def test_a_refit_killed_at_any_step_resumes_as_if_nothing_had_been(
    training: Training, tmp_path: Path
) -> None:
    kill_and_resume_refits(training, tmp_path, None)
