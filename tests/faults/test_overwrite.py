"""What a folder holds is replaced when that is asked for, and by nothing else."""

import json
import shutil
from pathlib import Path
from typing import Any

import karate
import pytest
import rings
import settings
from commands import assert_user_error, call
from on_cpu import train_in_folder

import quatgraph
from quatgraph.errors import UserError
from quatgraph.tasks.job import FILES, Job
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.node import NODE
from quatgraph.training.bundle import load_bundle
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline

NOTES = "notes.txt"


def trained(folder: Path, *, lr: float = 0.05, **how: Any) -> Job:
    config = karate.config_of(**{"train.epochs": 2, "train.lr": lr})
    return train_in_folder(NODE, [config], folder, **how)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("old") / "m").folder


@pytest.fixture
def old(finished: Path, tmp_path: Path) -> Path:
    """A folder with a training, and a file of the person's own."""
    folder = shutil.copytree(finished, tmp_path / "m")
    (folder / NOTES).write_text("mine")
    return folder


@pytest.mark.parametrize("lost", [(), ("records.jsonl",), ("card.json", "records.jsonl")])
@pytest.mark.parametrize("how", [{}, {"resume": True}])
def test_a_model_is_not_replaced_unasked(old: Path, lost: tuple[str, ...], how: Any) -> None:
    for name in lost:
        (old / name).unlink()
    before = content(old)
    with pytest.raises(UserError, match="--overwrite"):
        trained(old, lr=0.1, **how)
    assert content(old) == before


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", [{}, {"resume": True}])
def test_a_file_of_somebody_else_is_not_replaced_unasked(
    tmp_path: Path, name: str, how: Any
) -> None:
    for text in ("mine", '{"mine": 1}', '{"mine": 1}\n'):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=name if not how else "choose another|restore"):
            trained(tmp_path, **how)
        assert content(tmp_path) == {name: text.encode()}


@pytest.mark.parametrize("name", FILES)
def test_a_link_that_leads_nowhere_is_not_written_through_unasked(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"already holds {name}: "):
        trained(tmp_path / "m")
    assert not (tmp_path / "elsewhere").exists()


def test_overwriting_replaces_the_training_and_leaves_all_else(old: Path, tmp_path: Path) -> None:
    job = trained(old, lr=0.1, overwrite=True)
    new = trained(tmp_path / "new", lr=0.1)
    assert {path.name for path in old.iterdir()} == {*content(new.folder), NOTES}
    assert (old / NOTES).read_text() == "mine"
    assert load_bundle(old).card["sha256"] == load_bundle(new.folder).card["sha256"]
    assert [r.config for r in job.records] == [r.config for r in new.records]


def test_a_paused_training_keeps_the_model_that_it_replaces(old: Path, tmp_path: Path) -> None:
    before = content(old)
    with pytest.raises(Paused):
        trained(old, lr=0.1, overwrite=True, deadline=Deadline(0))
    paused = content(old)
    assert paused.keys() == before.keys() - {"records.jsonl"} | {"checkpoint.safetensors"}
    assert all(paused[name] == before[name] for name in before.keys() & paused.keys())
    resumed = shutil.copytree(old, tmp_path / "resumed")
    for job in (trained(old, lr=0.2, overwrite=True), trained(resumed, lr=0.1, resume=True)):
        assert content(job.folder).keys() == before.keys()
        assert load_bundle(job.folder).card["metrics"] == job.metrics == job.chosen.metrics
        assert (job.folder / "model.safetensors").read_bytes() != before["model.safetensors"]
    with pytest.raises(UserError, match="--overwrite"):
        trained(resumed, lr=0.2, resume=True)


def test_a_training_that_diverges_keeps_the_model_that_it_should_replace(old: Path) -> None:
    before = content(old)
    with pytest.raises(UserError, match="every run diverged"):
        trained(old, lr=1e30, overwrite=True)
    del before["records.jsonl"]
    assert content(old) == before
    load_bundle(old)


@pytest.mark.parametrize("name", ["records.jsonl", "card.json", "model.safetensors"])
def test_overwriting_a_link_leaves_the_file_it_leads_to(
    old: Path, tmp_path: Path, name: str
) -> None:
    (old / name).rename(tmp_path / "mine")
    (old / name).symlink_to(tmp_path / "mine")
    before = (tmp_path / "mine").read_bytes()
    trained(old, lr=0.1, overwrite=True)
    assert (tmp_path / "mine").read_bytes() == before
    assert not (old / name).is_symlink()


def test_resuming_through_a_link_keeps_it_and_adds_to_its_file(old: Path, tmp_path: Path) -> None:
    (old / "records.jsonl").rename(tmp_path / "mine.jsonl")
    (old / "records.jsonl").symlink_to(tmp_path / "mine.jsonl")
    config = karate.config_of(**{"train.epochs": 2}, seeds=2)
    train_in_folder(NODE, [config], old, resume=True)
    assert (old / "records.jsonl").is_symlink()
    assert len((tmp_path / "mine.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.parametrize(
    "mistake",
    [
        ["node/karate-qgnn", "--set", "train.lrr=1"],
        ["node/karate-qgnn", "--set", "data.name=karat"],
        ["node/karate-qgnn", "--set", "model.name=gat", "--set", "model.hidden_quats=1"],
        ["node/karate-qgnn", "--device", "gpu"],
        ["node", "--data", "nowhere"],
        ["node/karate-qgnn", "--resume"],
    ],
)
def test_a_mistake_replaces_nothing(
    old: Path, mistake: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(old.parent)
    before = content(old)
    assert_user_error(call("train", *mistake, "--out", "m", "--overwrite"))
    assert content(old) == before


def test_an_interrupt_before_the_first_epoch_is_done_replaces_nothing(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = content(old)
    monkeypatch.setattr("quatgraph.training.loop._Run.train_epochs", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trained(old, lr=0.1, overwrite=True)
    assert content(old) == before


def test_the_data_itself_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rings.written(tmp_path / "records.jsonl", rings.lines())
    before = content(tmp_path)
    own = ["train", "graph", "--data", "records.jsonl", *rings.options(), "--out", "."]
    assert_user_error(call(*own), ". already holds records.jsonl: choose another folder")
    assert_user_error(call(*own, "--overwrite"), "records.jsonl is the data and would be replaced")
    assert content(tmp_path) == before


def test_the_command_says_what_to_do_and_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = ["train", "node/karate-qgnn", "--set", "train.epochs=2", "--device", "cpu"]
    first += ["--out", "m"]
    assert call(*first).exit_code == 0
    result = call(*first, "--seeds", "2")
    assert_user_error(
        result, "m already holds records.jsonl, card.json, model.safetensors: choose another"
    )
    both = "--resume continues a training and --overwrite replaces it: choose one"
    assert_user_error(call(*first, "--resume", "--overwrite"), both)
    stopped = call(*first, "--seeds", "2", "--overwrite", "--max-minutes", "0")
    assert "with --resume in place of --overwrite --out m" in stopped.stdout
    done = call(*first, "--seeds", "2", "--resume", "--json")
    assert json.loads(done.stdout)["runs"] == 2


def test_the_functions_overwrite_when_asked(tmp_path: Path) -> None:
    triples = [(f"person {k}", "lives in", f"city {k % 3}") for k in range(30)]
    small = {"model.dim_quats": 1, "train.epochs": 1, "train.select": "last"}
    made = settings.built(LinkConfig, small)
    quatgraph.train_triples(triples, tmp_path / "m", config=made, device="cpu")
    with pytest.raises(UserError, match="overwrite=True"):
        quatgraph.train_triples(triples[1:], tmp_path / "m", config=made, device="cpu")
    model = quatgraph.train_triples(
        triples[1:], tmp_path / "m", config=made, device="cpu", overwrite=True
    )
    assert "person 0" not in model.triples.entities


def test_what_replaces_a_private_file_is_private(old: Path) -> None:
    (old / "card.json").chmod(0o600)
    trained(old, lr=0.1, overwrite=True)
    assert (old / "card.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_the_place_of_a_file_is_refused_before_any_work(
    tmp_path: Path, name: str, how: dict[str, bool]
) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=f"{name} is not a file: move it away"):
        trained(tmp_path, **how)
    assert [path.name for path in tmp_path.iterdir()] == [name]
