"""Checkpoints: bit for bit, tensors and state together."""

import math
import os
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from quatgraph.errors import UserError
from quatgraph.training import checkpoint
from quatgraph.training.checkpoint import load_checkpoint, remove_checkpoint, save_checkpoint

FILE = "checkpoint.safetensors"
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64]


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.uint8, torch.bool])
def test_every_kind_of_tensor_comes_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    bits = torch.randint(0, 256, (6, 8), dtype=torch.uint8)
    # Any bits at all, NaNs and denormals included; a bool is 0 or 1.
    tensor = bits > 127 if dtype is torch.bool else bits.view(dtype)
    save_checkpoint(tmp_path, {"x": tensor, "empty": tensor[:0], "scalar": tensor[0, 0]}, {})
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    for name, expected in (("x", tensor), ("empty", tensor[:0]), ("scalar", tensor[0, 0])):
        back = loaded[0][name]
        assert (back.dtype, back.shape) == (dtype, expected.shape)
        assert torch.equal(as_bytes(back), as_bytes(expected))


def test_large_tensors_are_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "PIECE", 64)
    wrote: list[int] = []
    write = checkpoint.write_all
    monkeypatch.setattr(checkpoint, "write_all", lambda f, d: (wrote.append(len(d)), write(f, d)))
    tensors = {"x": torch.randn(3, 100), "steps": torch.tensor(7), "y": torch.randn(5).double()}
    save_checkpoint(tmp_path, tensors, {"epoch": 3})
    assert len(wrote) > 300 * 4 / 128
    assert max(wrote[1:]) <= 2 * 64
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert all(torch.equal(loaded[0][name], value) for name, value in tensors.items())


def test_the_state_comes_back_exactly(tmp_path: Path) -> None:
    state = {
        "epoch": 3,
        "best": -math.inf,
        "loss": 0.1 + 0.2,
        "names": ["é", 'quote " and \\'],
        "nested": {"on": True, "none": None, "big": 2**70},
    }
    save_checkpoint(tmp_path / "made" / "here", {}, state)
    assert load_checkpoint(tmp_path / "made" / "here") == ({}, state)


def test_a_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    save_checkpoint(tmp_path, {"rng": generator.get_state()}, {})
    expected = torch.rand(5, generator=generator)
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    resumed = torch.Generator()
    resumed.set_state(loaded[0]["rng"])
    assert torch.equal(torch.rand(5, generator=resumed), expected)


def test_loaded_tensors_are_independent_of_the_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"x": torch.ones(4)}, {})
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    loaded[0]["x"].zero_()
    again = load_checkpoint(tmp_path)
    assert again is not None
    assert torch.equal(again[0]["x"], torch.ones(4))


def test_without_a_checkpoint_there_is_nothing_to_load(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    assert load_checkpoint(tmp_path / "absent") is None
    remove_checkpoint(tmp_path)


def test_a_removed_checkpoint_is_gone(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"x": torch.ones(1)}, {})
    remove_checkpoint(tmp_path)
    assert load_checkpoint(tmp_path) is None
    assert not any(tmp_path.iterdir())


def test_a_kill_while_saving_keeps_the_last_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    save_checkpoint(tmp_path, {"x": torch.ones(3)}, {"epoch": 1})
    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, {"x": torch.zeros(3)}, {"epoch": 2})
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded[1] == {"epoch": 1}
    assert torch.equal(loaded[0]["x"], torch.ones(3))
    assert list(tmp_path.iterdir()) == [tmp_path / FILE]


def test_a_corrupt_checkpoint_is_a_mistake(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"x": torch.ones(3)}, {"epoch": 1})
    whole = (tmp_path / FILE).read_bytes()
    for broken in (b"", whole[:5], whole[:40], whole[:-1], b"x" * 100, whole + b"more"):
        (tmp_path / FILE).write_bytes(broken)
        with pytest.raises(UserError, match=f"{FILE} is damaged, .* remove the file to train"):
            load_checkpoint(tmp_path)


def test_tensors_without_their_state_are_a_mistake(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"x": torch.ones(3)}, tmp_path / FILE)
    with pytest.raises(UserError, match=f"{FILE} is damaged, or no checkpoint of quatgraph"):
        load_checkpoint(tmp_path)


def test_a_checkpoint_of_another_version_is_refused_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setattr(checkpoint, "_FORMAT", "1")
        save_checkpoint(tmp_path, {"x": torch.ones(3)}, {"epoch": 1})
    with pytest.raises(UserError, match="of another version of quatgraph"):
        load_checkpoint(tmp_path)
    assert (tmp_path / FILE).is_file()


def test_a_place_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        save_checkpoint(tmp_path / "file" / "run", {}, {})
