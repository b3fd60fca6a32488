"""`train node` on sampled neighbours: what it says, and what it refuses."""

from pathlib import Path

import pytest
from commands import assert_user_error, call
from sampled import DATA

from quatgraph.data.node import from_data, write_packed

SMALL = ["--only", "gcn", "--set", "model.num_layers=1", "--set", "train.epochs=2"]
SMALL += ["--set", "train.lr=0.01", "--set", "train.weight_decay=0.0", "--set", "model.dropout=0.2"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    graph = DATA.clone()
    del graph.train_mask
    graph.x, graph.edge_weight = graph.x.float(), graph.edge_weight.float()
    write_packed(from_data(graph), tmp_path / "graph")
    return tmp_path / "graph"


def train(folder: Path, *more: str) -> list[str]:
    return ["train", "node", "--data", str(folder), "--device", "cpu", *SMALL, *more]


def test_the_command_says_that_it_samples_and_its_model_predicts(
    folder: Path, tmp_path: Path
) -> None:
    fan = ["--set", "train.num_neighbors=[3,2]", "--set", "train.batch_size=16"]
    out = str(tmp_path / "model")
    made = call(*train(folder, *fan, "--out", out))
    assert made.exit_code == 0, made.stderr
    assert "trained on sampled neighbours, as train.num_neighbors says" in made.stderr
    predicted = call("predict", out, "--node", "7")
    assert predicted.exit_code == 0, predicted.stderr
    assert predicted.stdout.splitlines()[1].startswith("7,")
    assert call("evaluate", out).exit_code == 0


@pytest.mark.parametrize(
    ("fan", "words"),
    [
        ("[3,2,2]", "train.num_neighbors has 3 numbers, but gcn with model.num_layers=1 sums"),
        ("[3,0]", "train.num_neighbors must be a number of neighbours for each hop"),
        ("few", "train.num_neighbors must be 'auto' or a whole number or a list of whole numbers"),
    ],
)
def test_a_wrong_list_is_refused_in_a_sentence(fan: str, words: str, folder: Path) -> None:
    result = call(*train(folder, "--set", f"train.num_neighbors={fan}", "--out", "unused"))
    assert_user_error(result, words, notes=True)


def test_an_array_that_was_cut_short_is_refused_in_a_sentence(folder: Path) -> None:
    file = folder / "x.npy"
    file.write_bytes(file.read_bytes()[:-8])
    assert_user_error(call(*train(folder, "--out", "unused")), "x.npy is not a .npy file", "cut")


def test_a_search_on_samples_needs_no_more_than_its_number(folder: Path, tmp_path: Path) -> None:
    given = ["--set", "train.num_neighbors=2", *SMALL[2:], "--set", "model.name=gcn"]
    place = ["--out", str(tmp_path / "search"), "--device", "cpu"]
    result = call(
        "search", "node", "--data", str(folder), *given, "--set", "model.skip=true", *place
    )
    assert result.exit_code == 0, result.stderr
