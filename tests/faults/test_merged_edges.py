"""Edges that are left out or put together are reported; sums that overflow are refused."""

import warnings
from pathlib import Path

import pytest
from commands import assert_user_error, call

from quatgraph.data.node import read as read_folder
from quatgraph.errors import UserError

NODES = "id,label,split,size\n" + "".join(
    f"n{k},{'xy'[k % 2]},{('train', 'train', 'valid', 'test')[k % 4]},{k}\n" for k in range(12)
)
RING = "".join(f"n{k},n{(k + 1) % 12},1\n" for k in range(12))


def folder(path: Path, edges: str, *, weights: bool = True) -> Path:
    lines = [line if weights else line.rpartition(",")[0] for line in edges.splitlines()]
    names = "source,target,weight" if weights else "source,target"
    (path / "nodes.csv").write_text(NODES)
    (path / "edges.csv").write_text("\n".join([names, *lines]) + "\n")
    return path


def notes_of(path: Path, *, directed: bool = False) -> list[str]:
    start = f"{path / 'edges.csv'}: "
    notes = read_folder(path, directed=directed).notes
    return [note.removeprefix(start) for note in notes if note.startswith(start)]


LOOPS = "3 self-loops left out: every node gets one of its own"


def test_self_loops_and_repeated_edges_are_reported(tmp_path: Path) -> None:
    edges = RING + "n1,n1,1\nn1,n1,1\nn2,n2,1\n" + "n0,n1,1\n" * 2
    counted = "2 repeated edges merged: each edge counts once"
    summed = "2 repeated edges merged: weights are summed"
    for directed in (False, True):
        path = folder(tmp_path, edges, weights=False)
        assert notes_of(path, directed=directed) == [LOOPS, counted]
        path = folder(tmp_path, edges)
        assert notes_of(path, directed=directed) == [LOOPS, summed]
    data = read_folder(path, directed=True)
    assert (data.num_edges, float(data.edge_weight[0])) == (12, 3.0)


def test_one_of_each_is_reported_in_the_singular(tmp_path: Path) -> None:
    assert notes_of(folder(tmp_path, RING + "n1,n1,1\nn0,n1,1\n")) == [
        "1 self-loop left out: every node gets one of its own",
        "1 repeated edge merged: weights are summed",
    ]


def test_listing_both_directions_is_nothing_to_report(tmp_path: Path) -> None:
    back = "".join(f"n{(k + 1) % 12},n{k},1\n" for k in range(12))
    for weights in (False, True):
        assert notes_of(folder(tmp_path, RING + back, weights=weights)) == []


def test_directions_of_different_weights_are_reported(tmp_path: Path) -> None:
    path = folder(tmp_path, RING + "n1,n0,5\nn2,n1,1\n")
    assert notes_of(path) == [
        "1 edge with a different weight in each direction: both directions get the larger one"
    ]
    assert notes_of(path, directed=True) == []
    assert read_folder(path).edge_weight.max() == 5


def test_no_edges_at_all_are_nothing_to_report(tmp_path: Path) -> None:
    assert notes_of(folder(tmp_path, "")) == []


def test_stats_and_training_show_it(tmp_path: Path) -> None:
    path = folder(tmp_path, RING + "n1,n1,1\n" * 3)
    small = ["--set", "train.epochs=1", "--set", "train.lr=0.1", "--device", "cpu"]
    out = ["--out", str(tmp_path / "model")]
    for command in (["data", "stats"], ["train", "node", *small, *out, "--data"]):
        done = call(*command, str(path))
        assert (done.exit_code, done.stderr.count(LOOPS)) == (0, 1)


@pytest.mark.parametrize("weight", ["3e38", "1.7e308"])
@pytest.mark.parametrize("directed", [False, True])
def test_a_sum_of_weights_beyond_float32_is_refused_by_its_edge(
    weight: str, directed: bool, tmp_path: Path
) -> None:
    path = folder(tmp_path, RING + f"n4,n7,{weight}\n" * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError) as refused:
            read_folder(path, directed=directed)
    assert "\n" not in str(refused.value)


def test_the_command_line_refuses_such_a_sum_without_a_warning(tmp_path: Path) -> None:
    path = folder(tmp_path, RING + "n4,n7,3e38\n" * 2)
    words = (
        "the weights of the repeated edge from 'n4' to 'n7' sum to more than a float32 holds: "
        "divide all weights of the graph by the same large number"
    )
    out = str(tmp_path / "model")
    assert_user_error(call("data", "stats", str(path)), words)
    assert_user_error(call("train", "node", "--data", str(path), "--out", out), words)
