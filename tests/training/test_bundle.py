"""Bundles: whole or refused, with a sentence that says why."""

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import commands
import pytest
import torch

from quatgraph.errors import UserError
from quatgraph.training.bundle import FORMAT_VERSION, Bundle, load_bundle, save_bundle


@pytest.fixture
def bundle() -> Bundle:
    return Bundle(
        card={"task": "link", "config": {"lr": 0.1}, "entities": ["é", "b"]},
        tensors={"weight": torch.randn(3, 4), "steps": torch.tensor(7)},
    )


@pytest.fixture
def folder(tmp_path: Path, bundle: Bundle) -> Path:
    save_bundle(tmp_path / "runs" / "demo", bundle)
    return tmp_path / "runs" / "demo"


def change_card(**changes: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        card = json.loads((folder / "card.json").read_text()) | changes
        (folder / "card.json").write_text(json.dumps(card))

    return change


def spoil_tensors_and_digest(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"not tensors at all")
    commands.change_card(folder, sha256=hashlib.sha256(b"not tensors at all").hexdigest())


def test_a_bundle_comes_back_equal(folder: Path, bundle: Bundle) -> None:
    back = load_bundle(folder, task="link")
    digests = {key: back.card[key] for key in ("sha256", "card_sha256")}
    assert back.card == bundle.card | {"format": FORMAT_VERSION} | digests
    assert back.tensors.keys() == bundle.tensors.keys()
    for name, tensor in bundle.tensors.items():
        assert torch.equal(back.tensors[name], tensor)
    assert {path.name for path in folder.iterdir()} == {"card.json", "model.safetensors"}


def test_a_card_without_a_digest_is_refused(folder: Path) -> None:
    card = json.loads((folder / "card.json").read_text())
    del card["card_sha256"]
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(UserError, match="was changed after the training"):
        load_bundle(folder)


def test_tensors_are_selected_by_their_prefix() -> None:
    names = ("members.1.weight", "members.10.weight", "members.1.norm.bias", "data.vectors")
    tensors = {name: torch.tensor(place) for place, name in enumerate(names)}
    found = Bundle({}, tensors).select_tensors("members.1")
    assert found == {"weight": tensors[names[0]], "norm.bias": tensors[names[2]]}


def test_saving_again_what_was_loaded_changes_nothing(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    save_bundle(folder, load_bundle(folder))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_parameters_views_and_shared_tensors_can_be_saved(tmp_path: Path) -> None:
    stack = torch.nn.Parameter(torch.randn(2, 3, 4))
    tensors = {"a": stack[0], "b": stack[1].mT, "tied": stack[0], "wide": torch.ones(1).expand(5)}
    save_bundle(tmp_path, Bundle({"task": "node"}, tensors))
    back = load_bundle(tmp_path).tensors
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor)


def test_a_metric_that_is_not_a_number_does_not_break_the_card(tmp_path: Path) -> None:
    save_bundle(tmp_path, Bundle({"task": "node", "metrics": {"test/accuracy": math.nan}}, {}))
    assert load_bundle(tmp_path).card["metrics"] == {"test/accuracy": None}


def test_a_card_must_name_its_task(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must name its task"):
        save_bundle(tmp_path, Bundle({}, {}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "card.json").unlink(), "it has no card.json"),
        (lambda folder: (folder / "card.json").write_text("{"), "card.json is corrupt .no valid"),
        (lambda folder: (folder / "card.json").write_bytes(b"\xff"), "card.json is corrupt .no"),
        (lambda folder: (folder / "card.json").write_text("[]"), "holds no JSON object"),
        (
            change_card(format=1),
            "made by an older version of quatgraph .format 1, this one reads 3",
        ),
        (
            change_card(format=9),
            "made by another version of quatgraph .format 9, this one reads 3",
        ),
        (change_card(format=None), "made by another version of quatgraph .format None"),
        (change_card(task="node"), "is for the task 'node', not 'link'"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot read .*model.safetensors"),
        (lambda folder: os.truncate(folder / "model.safetensors", 20), "only half written"),
        (change_card(sha256="0"), "only half written"),
        (change_card(config={"lr": 0.2}), "card.json was changed after the training"),
        (spoil_tensors_and_digest, "model.safetensors is corrupt"),
    ],
)
def test_a_damaged_bundle_is_refused(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    with pytest.raises(UserError, match=message):
        load_bundle(folder, task="link")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no bundle .*absent"):
        load_bundle(tmp_path / "absent")


def test_a_kill_between_the_two_files_is_noticed(
    folder: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def killed(source: Path, target: Path) -> None:
        if target.name == "card.json":
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save_bundle(folder, Bundle(bundle.card, {"weight": torch.zeros(2)}))
    with pytest.raises(UserError, match="only half written"):
        load_bundle(folder)


def test_a_kill_before_the_first_file_keeps_the_old_bundle(
    folder: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save_bundle(folder, Bundle(bundle.card, {}))
    assert torch.equal(load_bundle(folder).tensors["weight"], bundle.tensors["weight"])


def test_a_place_that_cannot_be_written_is_a_mistake(tmp_path: Path, bundle: Bundle) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        save_bundle(tmp_path / "file" / "bundle", bundle)
