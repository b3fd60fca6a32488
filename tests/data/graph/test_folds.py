"""Folds, against scikit-learn's."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from quatgraph.data.graph.folds import fixed_folds, stratified_folds
from quatgraph.data.io import store
from quatgraph.errors import UserError


def assert_scikit_learns(y: torch.Tensor, num_folds: int, seed: int) -> None:
    peer = StratifiedKFold(num_folds, shuffle=True, random_state=seed)
    folds = stratified_folds(y, num_folds, seed)
    expected = list(peer.split(np.zeros(len(y)), y.numpy()))
    assert len(folds) == len(expected)
    for (train, test), (their_train, their_test) in zip(folds, expected, strict=True):
        assert train.tolist() == their_train.tolist()
        assert test.tolist() == their_test.tolist()


@given(
    st.lists(st.integers(0, 4), max_size=80),
    st.integers(2, 10),
    st.integers(0, 2**32 - 1),
)
def test_folds_are_those_of_scikit_learn(labels, num_folds, seed):
    # Every class once more for each fold, at the end: enough members, in any order before.
    labels = labels + sorted(set(labels) | {1, 3}, reverse=True) * num_folds
    assert_scikit_learns(torch.tensor(labels), num_folds, seed)


def test_graphs_without_a_label_are_in_no_fold():
    y = torch.tensor([0, -1, 1, 0, 1, -1, 0, 1])
    known = (y >= 0).nonzero().flatten()
    inside = stratified_folds(y[known], 3, 5)
    for (train, test), (alone, apart) in zip(stratified_folds(y, 3, 5), inside, strict=True):
        assert torch.equal(train, known[alone])
        assert torch.equal(test, known[apart])


@pytest.mark.parametrize(
    ("labels", "num_folds", "seed", "words"),
    [
        ([0] * 10 + [1] * 9, 10, 0, "the class 1 has 9 graphs, too few for 10 folds: take"),
        ([0, 1], 2, 0, "too few"),
        ([-1, -1], 2, 0, "no graph has a label"),
        ([0, 0, 1, 1], 1, 0, "at least 2 folds"),
        ([0, 0, 1, 1], 2, -1, "seed"),
    ],
)
def test_folds_that_cannot_be_are_refused(labels, num_folds, seed, words):
    with pytest.raises(UserError, match=words):
        stratified_folds(torch.tensor(labels), num_folds, seed)


def list_toy(monkeypatch, tmp_path, texts: dict[str, bytes]) -> None:
    """Makes ``toy``, six graphs with these lists of folds, the whole catalog."""
    for path, content in texts.items():
        place = tmp_path / "graph/toy" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    files = tuple(
        store.File(path, "", hashlib.sha256(text).hexdigest()) for path, text in texts.items()
    )
    sizes = {"graphs": 6}
    toy = store.Entry("toy", "graph", "Toy", "", "", "", "graph/toy", False, sizes, files)
    monkeypatch.setattr(store, "catalog", lambda: {"toy": toy})
    monkeypatch.setenv("QUATGRAPH_DATA", str(tmp_path))


def lists(test: bytes = b"5\n2\n") -> dict[str, bytes]:
    texts = {f"10fold_idx/train_idx-{k}.txt": b"0\n1\n3\n4\n" for k in range(1, 11)}
    return texts | {f"10fold_idx/test_idx-{k}.txt": test for k in range(1, 11)}


def test_published_folds_are_read_in_their_order(monkeypatch, tmp_path):
    list_toy(monkeypatch, tmp_path, lists())
    folds = fixed_folds("toy")
    assert [(train.tolist(), test.tolist()) for train, test in folds] == [
        ([0, 1, 3, 4], [5, 2])
    ] * 10


@pytest.mark.parametrize(
    ("test", "wrong"),
    [
        (b"5\n", "graph 2 is missing"),
        (b"5\n3\n", "graph 3 comes twice"),
        (b"5\n2\n2\n", "graph 2 comes twice"),
        (b"5\n6\n", "there is no graph 6"),
        (b"5\n-1\n", "there is no graph -1"),
    ],
)
def test_folds_that_do_not_share_out_the_graphs_are_refused(test, wrong, monkeypatch, tmp_path):
    list_toy(monkeypatch, tmp_path, lists(test))
    with pytest.raises(UserError, match=f"do not share out its 6 graphs: {wrong}; run"):
        fixed_folds("toy")


def test_a_dataset_without_published_folds_says_so():
    with pytest.raises(UserError, match="cycles has no published folds"):
        fixed_folds("cycles")
