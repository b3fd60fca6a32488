"""``train --data`` takes the name of a dataset."""

from pathlib import Path

import pytest
from commands import assert_user_error, call

SHORT = ["--set", "train.epochs=5", "--device", "cpu"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_data_may_be_the_name_of_a_dataset() -> None:
    trained = call("train", "node", "--data", "karate", *SHORT, "--out", "model")
    assert trained.exit_code == 0
    assert "--data is the dataset 'karate': Zachary's karate club" in trained.stderr
    assert call("predict", "model", "--node", "1").stdout.splitlines()[1].startswith("1,")
    other = call("train", "graph", "--data", "karate")
    assert_user_error(other, "'karate' is a dataset of the task 'node', not of 'graph'")


def test_a_folder_goes_before_a_dataset_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "karate").mkdir()
    assert_user_error(call("train", "node", "--data", "karate"), "nodes.csv")


def test_a_misspelt_dataset_gets_a_suggestion_and_options_of_files_are_refused() -> None:
    misspelt = call("train", "node", "--data", "karat")
    assert_user_error(misspelt, "no file, folder or dataset 'karat'; did you mean 'karate'?")
    directed = call("train", "node", "--data", "karate", "--directed")
    assert_user_error(directed, "--directed is for your own files, not for the dataset 'karate'")


def test_a_column_that_is_the_same_everywhere_can_be_trained_on(tmp_path: Path) -> None:
    folder = tmp_path / "ones"
    folder.mkdir()
    nodes = "".join(f"{node},{'ab'[node % 2]},1\n" for node in range(20))
    (folder / "nodes.csv").write_text("id,label,feature\n" + nodes)
    edges = "".join(f"{node},{(node + 2) % 20}\n" for node in range(20))
    (folder / "edges.csv").write_text("source,target\n" + edges)
    trained = call("train", "node", "--data", "ones", *SHORT, "--out", "model")
    assert trained.exit_code == 0, trained.stderr
