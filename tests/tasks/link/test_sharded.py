"""A model whose entities ranks share out is that of one process."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cities import CPU, cities, config_of, with_negatives
from on_cpu import train_in_folder
from ranks import codes_of, on_ranks
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.models.link import MODELS
from quatgraph.ops import Shards
from quatgraph.signals import exit_code
from quatgraph.tasks.ensembles import Problems
from quatgraph.tasks.job import Job
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.problem import Problem
from quatgraph.tasks.link.sharded import ShardedLinkTask
from quatgraph.tasks.link.task import LinkTask
from quatgraph.tasks.task import Member
from quatgraph.training import checkpoint, ranks
from quatgraph.training.bundle import load_bundle
from quatgraph.training.checkpoint import CHECKPOINT, load_checkpoint
from quatgraph.training.launch import Launch
from quatgraph.training.loop import Paused, Plan
from quatgraph.training.record import read_records
from quatgraph.training.runtime import Deadline

TRIPLES = with_negatives(cities())
CASES: dict[str, dict[str, Any]] = {
    "distmult": {"model.decoder": "distmult", "train.loss": "softmax"},
    "complex": {"model.decoder": "complex", "train.n3": 0.01, "train.relation_weight": 0.3},
    "quate": {"model.decoder": "quate", "train.loss": "kvsall", "model.norm": True},
    "hamilton": {"model.decoder": "hamilton", "data.reciprocal": False, "model.dropout": 0.3},
    "rotation4d": {
        "model.decoder": "rotation4d",
        "train.optimizer": "adagrad",
        "model.entity_dropout": 0.2,
        "model.relation_dropout": 0.1,
        "train.relation_weight": 0.5,
        "train.loss": "softmax",
    },
    "transe": {"model.decoder": "transe", "train.clip": None, "train.weight_decay": 0.01},
    "uniform": {"model.init": "uniform", "train.loss": "softmax", "data.reciprocal": False},
    "phm": {"model.name": "phm", "model.n": 4, "model.rules": "learned"},
    "rescal": {"model.name": "rescal", "model.dim_quats": 1, "model.entity_dropout": 0.1},
    "tucker": {"model.name": "tucker", "model.dim_quats": 1, "train.n3": 0.01},
}


def config(name: str, **more: Any) -> LinkConfig:
    return config_of(**{"model.name": "embeddings", "train.epochs": 3} | CASES[name] | more)


class InDouble(LinkTask):
    """The task in float64, where the order of sums hardly matters."""

    def prepare(self, *given: Any) -> Problem:
        problem = super().prepare(*given)
        shares = problem.entity_share.double(), problem.relation_share.double()
        return replace(problem, entity_share=shares[0], relation_share=shares[1])


class ShardedInDouble(InDouble, ShardedLinkTask):
    pass


def trained(task: Any, members: list[Member], plan: dict[str, Any] | None = None) -> Any:
    """Weights and metrics of members."""
    problem = Problems(task, TRIPLES, CPU).prepare(members[0].config)
    fit = task.train(members, problem, replace(task.plan(members), **(plan or {})))
    found = fit.metrics | {f"curve {name}": curve for name, curve in fit.curves.items()}
    return {f"weight {name}": value.clone() for name, value in fit.weights.items()} | found


def both_seeds(name: str) -> list[Member]:
    return [Member(config(name), 0, seed) for seed in (0, 7)]


@pytest.mark.parametrize(
    ("size", "cases"),
    [
        (1, ["rotation4d"]),
        (2, ["complex", "hamilton"]),
        (3, ["quate", "rotation4d"]),
        pytest.param(2, [*CASES], marks=pytest.mark.slow),
        pytest.param(3, [*CASES], marks=pytest.mark.slow),
    ],
)
def test_weights_metrics_and_curves_are_those_of_one_process(
    size: int, cases: list[str], tmp_path: Path
) -> None:
    def work(launch: Launch) -> dict[str, Any]:
        torch.set_default_dtype(torch.float64)
        task = ShardedInDouble(launch)
        if launch.rank:
            return {"exit": torch.tensor(task.follow(TRIPLES, CPU))}
        with task.leading():
            return {name: trained(task, both_seeds(name)) for name in cases}

    first, *others = on_ranks(size, tmp_path / "ranks", work)
    assert [int(one["exit"]) for one in others] == [0] * (size - 1)
    torch.set_default_dtype(torch.float64)
    try:
        for name in cases:
            wanted = trained(InDouble(), both_seeds(name))
            assert first[name].keys() == wanted.keys()
            for key, value in wanted.items():
                torch.testing.assert_close(
                    first[name][key], value, rtol=1e-7, atol=1e-9, msg=f"{name} {key}"
                )
    finally:
        torch.set_default_dtype(torch.float32)


def test_initial_weights_are_those_of_one_process_bit_for_bit() -> None:
    problem = Problems(LINK, TRIPLES, CPU).prepare(config("distmult"))
    for name in CASES:
        torch.manual_seed(3)
        whole = LINK.build(config(name), problem).state_dict()
        parts = []
        for rank in range(3):
            torch.manual_seed(3)
            shards = Shards(TRIPLES.num_entities, rank, 3)
            own = LINK.build(config(name), replace(problem, shards=shards)).state_dict()
            assert all(torch.equal(own[k], whole[k]) for k in whole if k != "entities")
            parts.append(own["entities"])
        assert torch.equal(torch.cat(parts), whole["entities"])


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"embeddings", "phm", "rescal", "tucker"}))
def test_a_model_whose_entities_cannot_be_shared_out_names_those_that_can(name: str) -> None:
    problem = Problems(LINK, TRIPLES, CPU).prepare(config("distmult"))
    own = config_of(**{"model.name": name})
    with pytest.raises(UserError, match=f"model {name} cannot .* embeddings, phm, rescal, tucker"):
        LINK.build(own, replace(problem, shards=Shards(30, 0, 2)))


def test_each_rank_holds_its_share_of_weights_gradients_and_moments(tmp_path: Path) -> None:
    def work(launch: Launch) -> dict[str, Tensor]:
        task = ShardedLinkTask(launch)
        problem = task.prepare(TRIPLES, config("distmult"), CPU)
        ensemble, optimizer = task.build_ensemble(both_seeds("distmult"), problem)
        sizes = {name: value.size(-1) for name, value in optimizer.tensors().items() if value.dim()}
        return {"flat": torch.tensor(ensemble.flat.size(1)), "mean": torch.tensor(sizes["mean.0"])}

    width, entities, relations, norm = 8, TRIPLES.num_entities // 3, 2 * 3, 2
    for found in on_ranks(3, tmp_path / "ranks", work):
        assert int(found["flat"]) == int(found["mean"]) == (entities + relations + norm) * width


def in_folder(task: Any, folder: Path, data: Any = TRIPLES, **how: Any) -> Job:
    long = config("complex", **{"train.epochs": 8, "model.entity_dropout": 0.2})
    return train_in_folder(task, [long], folder, data=data, **how)


def on_some(size: int, tmp_path: Path, folder: Path, **how: Any) -> list[Any]:
    """Trains in a folder on so many ranks; says whether the training paused."""

    def work(launch: Launch) -> Any:
        task = ShardedLinkTask(launch)
        if launch.rank:
            return task.follow(TRIPLES, CPU)
        try:
            with task.leading():
                in_folder(task, folder, **how)
        except Paused:
            return -1
        return 0

    return on_ranks(size, tmp_path / "ranks", work)


class Epochs(Deadline):
    """A deadline after so many epochs."""

    def __init__(self, count: int) -> None:
        super().__init__(None)
        self.count = count

    def passed(self) -> bool:
        self.count -= 1
        return self.count <= 0


def assert_same_training(folder: Path, other: Path) -> None:
    one, two = load_bundle(folder), load_bundle(other)
    assert one.tensors.keys() == two.tensors.keys()
    for name, value in one.tensors.items():
        torch.testing.assert_close(value, two.tensors[name], rtol=1e-4, atol=1e-5)
    records = read_records(folder / "records.jsonl"), read_records(other / "records.jsonl")
    for mine, wanted in zip(*records, strict=True):
        assert mine.metrics == pytest.approx(wanted.metrics, rel=1e-4)
        assert (mine.best_epoch, mine.config_digest) == (wanted.best_epoch, wanted.config_digest)
        assert mine.parameters == wanted.parameters


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training in one process, never stopped."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    in_folder(LINK, folder)
    return folder


def test_a_training_goes_on_with_another_number_of_ranks(tmp_path: Path, whole: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(Paused):
        in_folder(LINK, folder, deadline=Epochs(2))
    assert on_some(2, tmp_path, folder, resume=True, deadline=Epochs(2)) == [-1, 0]
    assert on_some(3, tmp_path, folder, resume=True, deadline=Epochs(2)) == [-1, 0, 0]
    with pytest.raises(Paused):
        in_folder(LINK, folder, resume=True, deadline=Epochs(1))
    assert on_some(1, tmp_path, folder, resume=True) == [0]
    assert_same_training(folder, whole)


@pytest.mark.parametrize("piece", [checkpoint.PIECE, 100])
def test_a_checkpoint_of_ranks_is_that_of_one_process(
    piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "PIECE", piece)
    monkeypatch.setattr(ranks, "PIECE", piece)
    with pytest.raises(Paused):
        in_folder(LINK, tmp_path / "one", deadline=Epochs(3))
    on_some(3, tmp_path, tmp_path / "three", deadline=Epochs(3))
    one, three = load_checkpoint(tmp_path / "one"), load_checkpoint(tmp_path / "three")
    assert one is not None
    assert three is not None
    assert one[0].keys() == three[0].keys()
    for name, value in one[0].items():
        assert three[0][name].dtype == value.dtype
        torch.testing.assert_close(three[0][name], value, rtol=1e-4, atol=1e-5)
    assert {**one[1], "seconds": 0} == {**three[1], "seconds": 0}
    on_some(2, tmp_path, tmp_path / "three", resume=True)
    in_folder(LINK, tmp_path / "one", resume=True)
    assert_same_training(tmp_path / "three", tmp_path / "one")


def send_in_training(number: int, victim: int, folder: Path) -> list[int]:
    """Trains on three ranks, of which one gets a signal after the fourth epoch; what they raise is
    their exit code."""

    def work(rank: int) -> None:
        def send(done: int, total: int) -> None:
            if rank == victim and done == 4:
                os.kill(os.getpid(), number)

        class Task(ShardedLinkTask):
            def plan(self, members: Any) -> Plan:
                return replace(super().plan(members), save_every=0.0, progress=send)

        launch = Launch.find()
        assert launch is not None
        task = Task(launch)
        try:
            with launch.joined():
                if rank:
                    task.follow(TRIPLES, CPU)
                with task.leading():
                    in_folder(task, folder, progress=lambda _, done, total: send(done, total))
        except UserError as error:
            assert "lost another rank" in str(error)  # noqa: PT017
            assert "--resume" in str(error)  # noqa: PT017
            os._exit(2)
        except KeyboardInterrupt as interrupt:
            os._exit(exit_code(interrupt))

    return codes_of(3, work)


@pytest.mark.parametrize(
    ("number", "victim"),
    [
        (signal.SIGKILL, 1),
        (signal.SIGTERM, 0),
        pytest.param(signal.SIGKILL, 0, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 1, marks=pytest.mark.slow),
    ],
)
def test_a_training_goes_on_after_a_signal_to_one_rank(
    number: signal.Signals, victim: int, tmp_path: Path, whole: Path
) -> None:
    folder = tmp_path / "out"
    codes = send_in_training(number, victim, folder)
    if number == signal.SIGTERM:
        assert codes == [143, 143, 143]
    else:
        assert codes == [-signal.SIGKILL if rank == victim else 2 for rank in range(3)]
    found = load_checkpoint(folder)
    assert found is not None
    assert found[1]["epoch"] == (4 if number == signal.SIGTERM else 3)
    assert on_some(2, tmp_path, folder, resume=True) == [0, 0]
    assert_same_training(folder, whole)


def test_every_rank_reports_a_checkpoint_of_another_training(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(Paused):
        in_folder(LINK, folder, deadline=Epochs(2))
    checkpoint = folder / CHECKPOINT
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1] + b"x")

    def work(launch: Launch) -> str:
        task = ShardedLinkTask(launch)
        members = [Member(config("complex"), 0, 0)]
        plan = replace(task.plan(members), checkpoint=folder, resume=True)
        problem = Problems(task, TRIPLES, CPU).prepare(members[0].config)
        task.launch = replace(launch, rank=1)  # says nothing to the others
        with pytest.raises(UserError) as error:
            task.train(members, problem, plan)
        return str(error.value)

    first, second = on_ranks(2, tmp_path / "ranks", work)
    assert first == second
    assert "is damaged" in first


def test_only_the_first_rank_reports_progress(tmp_path: Path) -> None:
    def work(launch: Launch) -> list[int]:
        task, seen = ShardedLinkTask(launch), []
        if launch.rank:
            task.follow(TRIPLES, CPU)
        else:
            with task.leading():
                in_folder(task, tmp_path / "out", progress=lambda _, done, total: seen.append(done))
        return seen

    assert on_ranks(2, tmp_path / "ranks", work) == [[1, 2, 3, 4, 5, 6, 7, 8], []]
