"""Drawn splits and their checks."""

import networkx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quatgraph.data import graph, node, text
from quatgraph.data.graph.folds import stratified_folds
from quatgraph.data.splits import (
    MANY,
    check_classes,
    check_split,
    inner_validation,
    stratified_split,
)
from quatgraph.errors import UserError


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.integers(-1, 3), min_size=1, max_size=60),
    st.integers(0, 100),
    st.sampled_from([(0.6, 0.2, 0.2), (0.02, 0.49, 0.49), (0.9, 0.05, 0.05)]),
)
def test_every_labelled_node_has_one_part_and_every_class_is_trained(labels, seed, fractions):
    y = torch.tensor(labels)
    train, valid, test = stratified_split(y, seed, fractions)
    assert torch.equal(train.int() + valid.int() + test.int(), (y >= 0).int())
    for label in set(labels) - {-1}:
        sizes = [int(mask[y == label].sum()) for mask in (train, valid, test)]
        assert sizes[0] >= 1
        assert sum(sizes) < 3 or min(sizes) >= 1


def test_a_large_class_is_divided_by_the_fractions():
    masks = stratified_split(torch.zeros(100, dtype=torch.long), 0)
    assert [int(mask.sum()) for mask in masks] == [60, 20, 20]


def test_a_seed_decides_the_split():
    y = torch.arange(200) % 4
    first, again, other = (stratified_split(y, seed) for seed in (1, 1, 2))
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])


def test_a_split_refuses_odd_fractions_and_seeds():
    y = torch.zeros(5, dtype=torch.long)
    with pytest.raises(UserError, match="sum to 1"):
        stratified_split(y, 0, (0.5, 0.2, 0.2))
    with pytest.raises(UserError, match="0 or more"):
        stratified_split(y, -1)


def masks_of(*parts: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    train, valid, test = (
        torch.tensor([letter in part for part in parts]).unsqueeze(1) for letter in "rvt"
    )
    return train, valid, test


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("r", "r", "v", "t"), None),
        (("r", "v", "v", "t"), "all training nodes in here have one class; mark nodes of"),
        (("r", "r", "t", "t"), "no labelled node for the valid part"),
        (("r", "rv", "v", "t"), "two parts"),
    ],
)
def test_a_split_that_cannot_be_used_is_refused(parts, words):
    y = torch.tensor([0, 1, 0, 1])
    if words is None:
        check_split(y, masks_of(*parts), ["a", "b"], where="here")
        return
    with pytest.raises(UserError, match=words):
        check_split(y, masks_of(*parts), ["a", "b"], where="here")


def test_a_class_without_a_training_node_is_reported_with_its_share_of_the_test_nodes():
    y = torch.tensor([0, 1, 0, 0, 1, 2, 2, -1])
    parts = ("r", "r", "v", "t", "t", "t", "t", "")
    (note,) = check_split(y, masks_of(*parts), ["a", "b", "c"], where="here")
    assert note == (
        "class 'c' has no training node in here: its nodes count as errors, among them 50.0 % of "
        "the test nodes"
    )
    trained = masks_of("r", "r", "v", "t", "t", "r", "t", "")
    several = tuple(torch.cat(pair, dim=1) for pair in zip(masks_of(*parts), trained, strict=True))
    (note,) = check_split(y, several, ["a", "b", "c"], where="here")
    assert "no training node in here in 1 of 2 splits: its nodes count as errors, among" in note
    (note,) = check_split(y, trained, ["a", "b", "c", "d"], where="here")
    assert note == "no node has the class 'd'"


def test_a_single_class_is_refused():
    masks = tuple(torch.eye(3, dtype=torch.bool)[:, [part]] for part in range(3))
    with pytest.raises(UserError, match="have one class"):
        check_split(torch.zeros(3, dtype=torch.long), masks, ["a"], where="the split")


@given(
    st.lists(st.integers(-1, 3), min_size=2, max_size=60),
    st.integers(0, 20),
    st.sampled_from([0.1, 0.5, 0.95]),
)
def test_validation_takes_its_share_of_every_class(labels, seed, fraction):
    y = torch.tensor([0, 0, *labels])
    fold = torch.arange(len(y)).flip(0)[: len(y) - 1]
    fold = torch.cat((fold, torch.tensor([0])))
    train, valid = inner_validation(y, fold, seed, fraction)
    assert torch.cat((train, valid)).sort().values.tolist() == (y >= 0).nonzero().flatten().tolist()
    assert train.tolist() == sorted(train.tolist())
    for label in set(y.tolist()) - {-1}:
        count, taken = int((y == label).sum()), int((y[valid] == label).sum())
        assert abs(taken - count * fraction) <= 1
        assert taken < count
        assert taken >= 1 or count == 1


def test_validation_stays_within_the_training_fold_and_follows_the_seed():
    y = torch.arange(200) % 2
    fold = torch.arange(0, 180)
    (train, valid), again, other = (inner_validation(y, fold, seed) for seed in (1, 1, 2))
    assert (train.numel(), valid.numel()) == (162, 18)
    assert int(valid.max()) < 180
    assert torch.equal(valid, again[1])
    assert not torch.equal(valid, other[1])


def test_validation_refuses_what_cannot_be():
    with pytest.raises(UserError, match="between 0 and 1"):
        inner_validation(torch.tensor([0, 0]), torch.tensor([0, 1]), 0, 1.0)
    with pytest.raises(UserError, match="no class has two items to train on"):
        inner_validation(torch.tensor([0, 1]), torch.tensor([0, 1]), 0)
    with pytest.raises(UserError, match="seed"):
        inner_validation(torch.tensor([0, 0]), torch.tensor([0, 1]), -1)


def test_labels_that_nearly_all_differ_are_refused():
    names = [str(number / 7) for number in range(30)]
    y = torch.arange(30).repeat(2)
    with pytest.raises(UserError, match=r"60 labelled nodes have 30 different labels, such as '0"):
        check_classes(torch.cat((y, torch.tensor([-1]))), names, "nodes")
    check_classes(torch.cat((y, torch.tensor([0]))), names, "nodes")  # more than two each
    check_classes(torch.arange(MANY), names[:MANY], "nodes")  # few classes may be rare


@pytest.mark.parametrize("task", ["nodes", "graphs", "documents"])
def test_every_task_refuses_numbers_as_classes(task):
    labels = [number / 7 for number in range(40)]
    graphs = [networkx.path_graph(3 + number % 5) for number in range(40)]
    read = {
        "nodes": lambda: node.from_any(
            (networkx.to_numpy_array(networkx.cycle_graph(40)), None, labels)
        ),
        "graphs": lambda: stratified_folds(
            graph.from_any(graphs, labels=labels).y, names=list(map(str, labels))
        ),
        "documents": lambda: text.from_list([f"word{n} film" for n in range(40)], labels),
    }
    with pytest.raises(UserError, match=f"40 labelled {task} have 40 different labels, such as '0"):
        read[task]()
