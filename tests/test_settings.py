"""Settings as TOML files and as documentation: nothing is lost, and every field has a meaning."""

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.settings import (
    describe_settings,
    field_docs,
    read_settings,
    to_toml,
    toml_value,
)
from quatgraph.tasks import TASKS

NODE = TASKS["node"].config
MODELS = [(name, model) for name, task in TASKS.items() for model in task.models]


@dataclass
class Base:
    width: int = 1
    """How
    wide."""
    depth: int = 2
    """How deep."""
    plain: int = 3

    @property
    def patience(self) -> int:
        """How long to wait."""
        return 0


@dataclass
class Derived(Base):
    depth: int = 4
    width: int = 5
    """How wide it is here."""
    patience: int = 6  # type: ignore[assignment]


def test_the_doc_string_after_a_field_is_its_meaning_and_is_inherited() -> None:
    assert field_docs(Base) == {"width": "How wide.", "depth": "How deep.", "plain": ""}
    assert field_docs(Derived) == {
        "width": "How wide it is here.",
        "depth": "How deep.",
        "plain": "",
        "patience": "How long to wait.",
    }


@pytest.mark.parametrize(("task", "model"), MODELS)
def test_every_setting_of_every_task_and_model_is_documented(task: str, model: str) -> None:
    config = TASKS[task].config
    assert all(field_docs(config).values())
    settings = describe_settings(config, model)
    assert [setting.key for setting in settings if not setting.meaning] == []
    example = configs.build(config, {"model": {"name": model}})
    defaults = configs.flatten(configs.to_dict(example))
    assert {setting.key for setting in settings} == defaults.keys() - {"train.labels"}
    for setting in settings:
        value = tomllib.loads(f"value = {setting.default}")["value"]
        assert value == (defaults[setting.key] if defaults[setting.key] is not None else "none")


def test_bounds_are_those_that_a_config_checks() -> None:
    found = {s.key: s.bounds for s in describe_settings(TASKS["graph"].config)}
    assert found["train.lr"] == "positive"
    assert found["train.weight_decay"] == "not negative"
    assert found["model.dropout"] == "in [0, 1)"
    assert found["model.num_layers"] == "at least 1"
    assert found["data.num_folds"] == "at least 2"
    assert found["data.fold_seed"] == found["data.features"] == ""


def test_the_name_of_a_model_may_be_any_of_the_task() -> None:
    (name,) = (s for s in describe_settings(NODE, "gat") if s.key == "model.name")
    assert name.type == "one of " + ", ".join(f"{model!r}" for model in TASKS["node"].models)
    assert name.default == '"gat"'


@pytest.mark.parametrize(("task", "model"), MODELS)
def test_a_config_survives_its_file_but_for_data_seeds_and_protocol(
    task: str, model: str, tmp_path: Path
) -> None:
    config = TASKS[task].config
    values = {"model": {"name": model, "dropout": 0.25}, "train": {"lr": 3e-5, "clip": "none"}}
    if "dropout" not in {
        field.name for field in dataclasses.fields(TASKS[task].models[model].Options)
    }:
        del values["model"]["dropout"]
    made = configs.build(config, values | {"data": {"path": "mine"}, "seeds": 3})
    file = tmp_path / "best.toml"
    file.write_text("# A comment.\n" + to_toml(made))
    read = read_settings(file, config)
    assert read.keys() == {"data", "model", "train"}
    again = configs.build(config, read)
    assert again == dataclasses.replace(made, seeds=1, data=dataclasses.replace(made.data, path=""))


@given(st.one_of(st.text(), st.integers(-(2**60), 2**60), st.booleans(), st.floats(-1e9, 1e9)))
def test_every_plain_value_survives_toml(value: Any) -> None:
    read = tomllib.loads(f"value = {toml_value(value)}")["value"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[train]\nlrr = 0.1\n", "unknown key 'train.lrr'; did you mean 'train.lr'?"),
        ("[train]\nlr = 'fast'\n", "train.lr must be a number, got 'fast'"),
        ("[train]\nlr = -1\n", "train.lr must be positive, got -1"),
        ("[model]\nname = 'gnc'\n", "model.name must be one of "),
        ("[model]\nheads = 8\n", "unknown key 'model.heads'"),
        ("[trian]\nlr = 0.1\n", "unknown section 'trian'; did you mean 'train'?"),
        ("seeds = 3\n", "unknown section 'seeds'; known sections are data, model, train"),
        ("train = 3\n", "train must be a section, [train], with keys below it"),
        ("[data]\npath = 'x'\n", "remove data.path; name the data with --data"),
        ("[train\n", "is not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_names_the_file_and_the_key(
    content: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(content)
    with pytest.raises(UserError) as caught:
        read_settings(file, NODE)
    assert str(caught.value).startswith(str(file))
    assert words in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*none\.toml"):
        read_settings(tmp_path / "none.toml", NODE)
