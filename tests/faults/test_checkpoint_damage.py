"""Files of a training of which a bit was flipped or a part is missing are not gone on with."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import karate
import pytest
import torch
from made_up import made_up
from on_cpu import train_in_folder

from quatgraph.errors import UserError
from quatgraph.tasks.job import Job
from quatgraph.tasks.node import NODE
from quatgraph.training.bundle import Bundle, load_bundle, save_bundle
from quatgraph.training.checkpoint import CHECKPOINT, load_checkpoint, save_checkpoint
from quatgraph.training.loop import Paused
from quatgraph.training.record import append_records, read_records
from quatgraph.training.runtime import Deadline


def flips(whole: bytes) -> Iterator[bytes]:
    """The content with each of its bits changed, one at a time."""
    for place in range(len(whole)):
        for bit in range(8):
            yield whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]


def trained(folder: Path, **how: bool | Deadline) -> Job:
    config = karate.config_of(**{"train.epochs": 3}, seeds=2)
    return train_in_folder(NODE, [config], folder, **how)  # type: ignore[arg-type]


def test_no_bit_of_a_checkpoint_can_change_unnoticed(tmp_path: Path) -> None:
    tensors = {"weight": torch.arange(3.0), "steps": torch.tensor(7)}
    save_checkpoint(tmp_path, tensors, {"epoch": 3, "key": "a"})
    path = tmp_path / CHECKPOINT
    whole = path.read_bytes()
    for changed in flips(whole):
        path.write_bytes(changed)
        with pytest.raises(UserError, match=f"{CHECKPOINT} is (damaged|of another version)"):
            load_checkpoint(tmp_path)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(UserError, match=f"{CHECKPOINT} is damaged"):
            load_checkpoint(tmp_path)


def test_weights_of_zeros_are_noticed(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"weight": torch.ones(1000)}, {})
    path = tmp_path / CHECKPOINT
    whole = path.read_bytes()
    path.write_bytes(whole[:-4000] + bytes(4000))
    with pytest.raises(UserError, match="is damaged"):
        load_checkpoint(tmp_path)


def test_a_checkpoint_remains_a_file_of_tensors(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    save_checkpoint(tmp_path, {"weight": torch.ones(3)}, {"zeros": 100 * "0"})
    assert torch.equal(load_file(tmp_path / CHECKPOINT)["weight"], torch.ones(3))
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded[1] == {"zeros": 100 * "0"}


def test_a_training_does_not_go_on_from_a_damaged_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(Paused):
        trained(tmp_path / "m", deadline=Deadline(0))
    path = tmp_path / "m" / CHECKPOINT
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"is damaged, .* remove the file to train from the beginn"):
        trained(tmp_path / "m", resume=True)
    assert path.read_bytes() == content
    assert [file.name for file in (tmp_path / "m").iterdir()] == [CHECKPOINT]
    path.unlink()
    assert len(trained(tmp_path / "m", resume=True).records) == 2


def test_no_bit_of_a_record_can_change_a_number_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    records = [made_up("node", "cora", "qgnn", seed=seed, ensemble=f"e{seed}") for seed in (0, 1)]
    append_records(path, records)
    taken = 0
    for changed in flips(path.read_bytes()):
        path.write_bytes(changed)
        with suppress(UserError):
            assert read_records(path) == records  # as of 1e-05 and 1E-05
            taken += 1
    assert taken <= path.read_bytes().count(b"e-")


def test_records_from_before_they_had_a_digest_are_read(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    record = made_up("node", "cora", "qgnn")
    append_records(path, [record])
    head, _, rest = path.read_text().partition(',"sha256":"')
    path.write_text(head.rstrip(",") + rest[65:])
    assert "sha256" not in path.read_text()
    assert read_records(path) == [record]


def test_a_resumed_training_notices_a_changed_record(tmp_path: Path) -> None:
    trained(tmp_path / "m")
    path = tmp_path / "m" / "records.jsonl"
    path.write_text(path.read_text().replace("0.", "1.", 1))
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"line 1 of .* not as it was written: restore the file"):
        trained(tmp_path / "m", resume=True)
    assert path.read_bytes() == before


def test_no_bit_of_a_bundle_can_change_what_is_read_unnoticed(tmp_path: Path) -> None:
    card = {"task": "node", "key": "a on b", "config": {"lr": 1e-05}, "labels": ["é", "b"]}
    save_bundle(tmp_path / "m", Bundle(card, {"weight": torch.arange(3.0)}))
    saved = load_bundle(tmp_path / "m").card
    for name in ("card.json", "model.safetensors"):
        path = shutil.copytree(tmp_path / "m", tmp_path / name) / name
        taken = 0
        for changed in flips(path.read_bytes()):
            path.write_bytes(changed)
            with suppress(UserError):
                assert load_bundle(path.parent).card == saved  # as of 1e-05 and 1E-05
                taken += 1
        assert taken <= 2 * (name == "card.json")
