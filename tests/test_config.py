"""Configuration: strict about keys and types, in words a person can act on."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quatgraph.config import (
    build,
    digest,
    expand_grid,
    flatten,
    grid_keys,
    grid_size,
    override,
    read_toml,
    restrict_grid,
    to_dict,
)
from quatgraph.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    epochs: int = 100
    lr: float = 0.05
    clip: float | None = 1.0
    nesterov: bool = False
    select: Literal["last", "best-valid"] = "last"
    note: str | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"train.epochs must be positive, got {self.epochs}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    warmup: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    dataset: str
    train: Train = field(default_factory=Train)
    schedule: Schedule | None = None
    folds: Literal[1, 10] = 10


def refusal(values: dict[str, Any]) -> str:
    with pytest.raises(UserError) as caught:
        build(Run, {"dataset": "cora"} | values)
    return str(caught.value)


def test_builds_nested_configs_and_keeps_defaults() -> None:
    run = build(Run, {"dataset": "cora", "train": {"epochs": 5}})
    assert run == Run(dataset="cora", train=Train(epochs=5))


def test_a_file_is_read_like_its_values(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('dataset = "cora"\n[train]\nlr = 1  # a comment\n')
    run = build(Run, read_toml(path))
    assert run == Run(dataset="cora", train=Train(lr=1.0))
    assert type(run.train.lr) is float


def test_a_whole_number_is_accepted_where_a_number_is_wanted() -> None:
    assert type(build(Train, {"lr": 1}).lr) is float
    assert type(build(Train, {"clip": 2}).clip) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 1.5}, "train.epochs must be a whole number, got 1.5"),
        ({"epochs": True}, "train.epochs must be a whole number, got true"),
        ({"lr": "fast"}, "train.lr must be a number, got 'fast'"),
        ({"lr": False}, "train.lr must be a number, got false"),
        ({"lr": float("nan")}, "train.lr must be a finite number, got nan"),
        ({"lr": float("-inf")}, "train.lr must be a finite number, got -inf"),
        ({"clip": float("inf")}, "train.clip must be a finite number, got inf"),
        ({"clip": "off"}, "train.clip must be a number or none, got 'off'"),
        ({"nesterov": 1}, "train.nesterov must be true or false, got 1"),
        ({"select": "best"}, "train.select must be one of 'last', 'best-valid', got 'best'"),
        ({"select": ["last"]}, "train.select must be one of 'last', 'best-valid', got ['last']"),
        (
            {"note": 3},
            "train.note must be text or none, got 3; put it in quotes: train.note='\"3\"'",
        ),
        ({"epochs": 0}, "train.epochs must be positive, got 0"),
    ],
)
def test_a_wrong_value_is_refused_by_key_kind_and_value(
    values: dict[str, Any], message: str
) -> None:
    assert refusal({"train": values}) == message


def test_a_number_too_large_for_a_float_is_refused() -> None:
    assert refusal({"train": {"lr": 10**400}}).startswith("train.lr must be a finite number")


def test_true_is_not_the_choice_one() -> None:
    assert build(Run, {"dataset": "cora", "folds": 1}).folds == 1
    assert refusal({"folds": True}) == "folds must be one of 1, 10, got true"


def test_a_value_in_place_of_a_table_is_refused() -> None:
    assert refusal({"train": 3}).startswith("train must be a table with the keys epochs, lr")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": {"epoch": 3}}, "unknown key 'train.epoch'; did you mean 'train.epochs'?"),
        ({"lr": 0.1}, "unknown key 'lr'; did you mean 'train.lr'?"),
        ({"schedule": {"lr": 3}}, "unknown key 'schedule.lr'; did you mean 'train.lr'?"),
        ({"qqq": 1}, "unknown key 'qqq'; known keys are dataset, train, schedule, folds"),
    ],
)
def test_an_unknown_key_is_refused_with_a_hint(values: dict[str, Any], message: str) -> None:
    assert refusal(values) == message


def test_that_two_keys_are_of_one_table_makes_them_no_more_alike() -> None:
    assert refusal({"train": {"qqq": 1}}).startswith("unknown key 'train.qqq'; known keys are ")


def test_a_missing_key_without_a_default_is_named() -> None:
    with pytest.raises(UserError, match="'dataset' is missing; set it to text"):
        build(Run, {})


def test_none_can_be_written_where_it_means_nothing_else() -> None:
    assert build(Train, {"clip": "none"}).clip is None
    assert build(Train, {"clip": None}).clip is None
    assert build(Train, {"note": "none"}).note == "none"


def test_an_optional_table_is_built_when_given() -> None:
    run = build(Run, {"dataset": "cora", "schedule": {"warmup": 3}})
    assert run.schedule == Schedule(warmup=3)
    assert "did you mean 'schedule.warmup'" in refusal({"schedule": {"warmpu": 3}})


def test_invalid_toml_is_refused_by_file_and_position(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("dataset = 'cora'\nlr = = 3\n")
    with pytest.raises(UserError, match=r"broken\.toml is not valid TOML.*line 2"):
        read_toml(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*absent\.toml"):
        read_toml(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with pytest.raises(UserError, match=r"latin\.toml is not UTF-8"):
        read_toml(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("a.b=3", 3),
        ("a.b = 3e-4", 3e-4),
        ("a.b=true", True),
        ("a.b=best-valid", "best-valid"),
        ("a.b='two words'", "two words"),
        ("a.b=two words", "two words"),
        ("a.b=price [EUR] = #1", "price [EUR] = #1"),
        ("a.b=what's new", "what's new"),
        ('a.b="x=y"', "x=y"),
        ("a.b=[1, 2]", [1, 2]),
        ("a.b=folder/file-2.csv", "folder/file-2.csv"),
        ("a.b=2020-01-01", "2020-01-01"),
    ],
)
def test_an_assignment_is_read_as_toml_or_as_plain_text(assignment: str, value: Any) -> None:
    assert override({}, [assignment]) == {"a": {"b": value}}


def test_overriding_leaves_the_given_values_alone_and_the_last_wins() -> None:
    values = {"train": {"lr": 0.1, "epochs": 5}}
    assert override(values, ["train.lr=1", "train.lr=2"]) == {"train": {"lr": 2, "epochs": 5}}
    assert values == {"train": {"lr": 0.1, "epochs": 5}}


@pytest.mark.parametrize(
    "assignment",
    ["lr", "=3", "a..b=3", "a b=3", "a=", "a=[1", "a='x", "a=1\nb=2", "a.=1"],
)
def test_a_malformed_assignment_is_refused(assignment: str) -> None:
    with pytest.raises(UserError, match="cannot read"):
        override({}, [assignment])


def test_a_key_below_a_single_value_is_refused() -> None:
    with pytest.raises(UserError, match=r"'train\.lr' is a single value"):
        override({"train": {"lr": 0.1}}, ["train.lr.x=1"])


def test_a_config_survives_json() -> None:
    run = Run(dataset="cora", train=Train(clip=None), schedule=Schedule())
    assert build(Run, json.loads(json.dumps(to_dict(run)))) == run


def test_equal_configs_share_a_digest_however_they_were_written() -> None:
    one = build(Run, {"dataset": "cora", "train": {"lr": 1, "epochs": 7}})
    other = build(Run, {"train": {"epochs": 7, "lr": 1.0}, "dataset": "cora", "folds": 10})
    assert digest(one) == digest(other) == digest(json.loads(json.dumps(to_dict(one))))
    assert len(digest(one)) >= 12


def test_configs_that_differ_anywhere_differ_in_digest() -> None:
    runs = [
        Run(dataset="cora"),
        Run(dataset="pubmed"),
        Run(dataset="cora", train=Train(lr=0.050000001)),
        Run(dataset="cora", schedule=Schedule()),
    ]
    assert len({digest(run) for run in runs}) == len(runs)


KEYS = st.text("abcxyz_", min_size=1, max_size=3)
LEAVES = st.integers() | st.booleans() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
NESTED = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)
)


@settings(deadline=None, derandomize=True)
@given(NESTED)
def test_a_grid_of_one_value_each_undoes_flatten(values: dict[str, Any]) -> None:
    assert expand_grid({}, {key: [value] for key, value in flatten(values).items()}) == [values]


def test_flat_keys_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UserError, match="'a' is a single value"):
        expand_grid({}, {"a": [1], "a.b": [2]})


def test_a_grid_is_every_combination_with_the_last_key_fastest() -> None:
    base = {"dataset": "cora", "train": {"lr": 0.0, "epochs": 5}}
    points = expand_grid(base, {"train.lr": [0.1, 0.2], "model": {"width": [4, 8]}})
    assert [(point["train"]["lr"], point["model"]["width"]) for point in points] == [
        (0.1, 4),
        (0.1, 8),
        (0.2, 4),
        (0.2, 8),
    ]
    assert all(point["train"]["epochs"] == 5 for point in points)
    assert base == {"dataset": "cora", "train": {"lr": 0.0, "epochs": 5}}


def test_keys_of_a_grid_may_vary_jointly() -> None:
    grid = {"train.lr": [1, 2], "train.batch train.patience": [[256, 20], [4096, "none"]]}
    points = [flatten(point) for point in expand_grid({}, grid)]
    assert [tuple(point.values()) for point in points] == [
        (1, 256, 20),
        (1, 4096, "none"),
        (2, 256, 20),
        (2, 4096, "none"),
    ]
    assert grid_keys(grid) == ["train.lr", "train.batch", "train.patience"]
    values = {"train": {"lr": 0, "batch": 0, "patience": 0}}
    assert restrict_grid(grid, values, fixed=["x"]) == grid
    assert restrict_grid(grid, values, fixed=["train.patience"]) == {"train.lr": [1, 2]}
    assert restrict_grid(grid, {"train": {"lr": 0, "batch": 0}}, fixed=[]) == {"train.lr": [1, 2]}


def test_points_of_a_grid_share_nothing() -> None:
    first, second = expand_grid({"train": {"x": 1}}, {"lr": [1, 2]})
    first["train"]["x"] = 5
    assert second["train"]["x"] == 1


def test_an_empty_grid_is_the_base_alone() -> None:
    assert expand_grid({"a": 1}, {}) == [{"a": 1}]


@pytest.mark.parametrize("choices", [3, [], "x"])
def test_a_grid_needs_lists_of_values(choices: Any) -> None:
    with pytest.raises(UserError, match=r"train\.lr must be a list of values to search"):
        expand_grid({}, {"train.lr": choices})


def test_importing_it_does_not_load_torch() -> None:
    code = "import sys, quatgraph.config; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[qgnn, gcn]", ["qgnn", "gcn"]),
        ("[0.1, none]", [0.1, "none"]),
        ("['a b', c-d]", ["a b", "c-d"]),
        ("[true, 2]", [True, 2]),
    ],
)
def test_words_in_a_list_need_no_quotes(text: str, value: list[Any]) -> None:
    assert override({}, [f"a.b={text}"]) == {"a": {"b": value}}


@pytest.mark.parametrize("text", ["[a,]", "[a b]", "[,]", "['a, b', c]"])
def test_a_list_that_cannot_be_read_is_a_mistake(text: str) -> None:
    with pytest.raises(UserError, match="put text in quotes"):
        override({}, [f"a.b={text}"])


def test_places_select_combinations_of_a_grid() -> None:
    grid = {"a": [1, 2, 3], "b c": [[1, 2], [3, 4]], "d": {"e": [5, 6]}}
    points = expand_grid({"f": 0}, grid)
    assert len(points) == grid_size(grid) == 12
    assert expand_grid({"f": 0}, grid, [7, 0, 11]) == [points[7], points[0], points[11]]
    assert expand_grid({"f": 0}, grid, []) == []
    assert grid_size({}) == 1
