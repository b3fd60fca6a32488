"""Models compared on the command line."""

import json
from pathlib import Path

import pytest
from commands import assert_user_error, call
from karate import config_of
from on_cpu import train_in_folder

from quatgraph.tasks.node import NODE


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("models")
    for model in ("qgnn", "gcn", "mlp"):
        values = {"model.name": model, "train.epochs": 1 if model == "mlp" else 12, "seeds": 2}
        train_in_folder(NODE, [config_of(**values)], root / model)
    return [str(root / model) for model in ("qgnn", "gcn", "mlp")]


def test_two_models_are_compared_in_one_sentence(models: list[str]) -> None:
    result = call("compare", models[0], models[2], "--device", "cpu")
    assert (result.exit_code, result.stderr) == (0, "")
    numbers, sentence = result.stdout.splitlines()
    assert numbers.startswith("test accuracy over ")
    assert "95 % CI" in sentence
    assert "McNemar p " in sentence


def test_several_models_are_corrected_for(models: list[str]) -> None:
    lines = call("compare", *models, "--device", "cpu").stdout.splitlines()
    assert len(lines) == 2 * 2 + 1
    assert "the best on validation data; p-values are Holm-corrected" in lines[-1]


def test_a_comparison_is_objects_for_programs(models: list[str]) -> None:
    lines = call("compare", *models, "--json", "--device", "cpu").stdout.splitlines()
    for pair in map(json.loads, lines):
        assert pair["holm"] is True
        assert pair["low"] <= pair["difference"] <= pair["high"]
        assert pair["difference"] == pytest.approx(pair["first_mean"] - pair["second_mean"])
        assert 0 <= pair["p"] <= 1
    (single,) = call("compare", *models[:2], "--json", "--device", "cpu").stdout.splitlines()
    assert json.loads(single)["holm"] is False


def test_records_are_compared_by_seed(models: list[str]) -> None:
    files = [f"{model}/records.jsonl" for model in models[::2]]
    result = call("compare", *files)
    assert result.exit_code == 0, result.stderr
    assert "over 2 shared seeds of karate" in result.stdout
    assert "paired t test p " in result.stdout


def test_a_mistake_is_one_sentence(models: list[str], tmp_path: Path) -> None:
    assert_user_error(call("compare", models[0]), "give at least two models or record files")
    assert_user_error(call("compare", models[0], models[0]), "is given twice")
    assert_user_error(call("compare", models[0], str(tmp_path / "x")), "there is no model")
