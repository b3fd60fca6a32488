"""Correct and smooth: against its formulas as loops and against PyG."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.models import CorrectAndSmooth

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.tasks.node.smoothing import Smoothing, correct_and_smooth, smoothing_matrix

N, CLASSES = 12, 3
LONELY = N - 1
SETTINGS = [
    Smoothing(),
    Smoothing(correct_alpha=0.95, correct_steps=3, smooth_alpha=0.3, smooth_steps=7),
    Smoothing(scale=1.5, correct_steps=4, smooth_steps=2),
    Smoothing(scale=0.0, smooth_alpha=0.99),
]
Table = list[list[float]]
Case = tuple[Tensor, Tensor, Tensor, Adjacency]


@pytest.fixture(scope="module")
def data() -> Data:
    """A random graph with a node that has no neighbours."""
    draw = torch.Generator().manual_seed(5)
    ends = torch.randint(LONELY, (2, 20), generator=draw)
    return Data(edge_index=torch.cat((ends, ends.flip(0)), dim=1), num_nodes=N)


@pytest.fixture(scope="module")
def case(data: Data) -> Case:
    draw = torch.Generator().manual_seed(6)
    found = torch.randn(N, CLASSES, generator=draw, dtype=torch.float64).softmax(dim=1)
    labels = torch.randint(CLASSES, (N,), generator=draw)
    matrix = smoothing_matrix(data)
    return found, labels, torch.arange(N) % 3 == 0, matrix.with_weight(matrix.weight.double())


def by_loops(
    found: Table, labels: list[int], train: list[bool], rows: Table, settings: Smoothing
) -> Table:
    nodes, classes = range(len(found)), range(len(found[0]))
    one_hot = [[float(label == c) for c in classes] for label in labels]

    def spread(now: Table, start: Table, alpha: float) -> Table:
        return [
            [
                alpha * sum(rows[v][u] * now[u][c] for u in nodes) + (1 - alpha) * start[v][c]
                for c in classes
            ]
            for v in nodes
        ]

    error = [[(one_hot[v][c] - found[v][c]) * train[v] for c in classes] for v in nodes]
    current = error
    for _ in range(settings.correct_steps):
        current = spread(current, error, settings.correct_alpha)
        if settings.scale is None:
            current = [[min(1.0, max(-1.0, e)) for e in row] for row in current]
        else:
            current = [error[v] if train[v] else current[v] for v in nodes]
    mean = sum(abs(e) for row in error for e in row) / sum(train)
    corrected = []
    for v in nodes:
        size = sum(map(abs, current[v]))
        factor = settings.scale
        if factor is None:
            factor = 1.0 if size == 0 or mean / size > 1000 else mean / size
        corrected.append([found[v][c] + factor * current[v][c] for c in classes])
    start = [one_hot[v] if train[v] else corrected[v] for v in nodes]
    current = start
    for _ in range(settings.smooth_steps):
        current = spread(current, start, settings.smooth_alpha)
        current = [[min(1.0, max(0.0, x)) for x in row] for row in current]
    return [[x / sum(row) for x in row] for row in current]


@pytest.mark.parametrize("settings", SETTINGS)
def test_computes_the_formulas(case: Case, settings: Smoothing) -> None:
    found, labels, train, matrix = case
    expected = by_loops(
        found.tolist(), labels.tolist(), train.tolist(), matrix.to_dense().tolist(), settings
    )
    smoothed = correct_and_smooth(found, labels, train, matrix, settings=settings)
    torch.testing.assert_close(smoothed, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("settings", SETTINGS)
def test_agrees_with_pyg(case: Case, settings: Smoothing) -> None:
    found, labels, train, matrix = case
    theirs = CorrectAndSmooth(
        settings.correct_steps,
        settings.correct_alpha,
        settings.smooth_steps,
        settings.smooth_alpha,
        autoscale=settings.scale is None,
        scale=settings.scale or 0.0,
    )
    edges = torch.stack((matrix.col, matrix.receiver)).long()
    expected = theirs(found.clone(), labels[train], train, edges, matrix.weight)
    smoothed = correct_and_smooth(found, labels, train, matrix, settings=settings)
    torch.testing.assert_close(smoothed, expected / expected.sum(dim=1, keepdim=True))


def test_probabilities_stay_positive_and_sum_to_one(case: Case) -> None:
    found, labels, train, matrix = case
    certain = torch.nn.functional.one_hot(found.argmax(dim=1), CLASSES).double()
    smoothed = correct_and_smooth(certain, labels, train, matrix, settings=Smoothing())
    assert smoothed.dtype == torch.float64
    assert bool((smoothed > 0).all())
    torch.testing.assert_close(smoothed.sum(dim=1), torch.ones(N, dtype=torch.float64))


def test_only_labels_of_training_nodes_are_read(case: Case) -> None:
    found, labels, train, matrix = case
    hidden = torch.where(train, labels, -1)
    smoothed = [
        correct_and_smooth(found, known, train, matrix, settings=Smoothing())
        for known in (labels, hidden, torch.where(train, (labels + 1) % CLASSES, labels))
    ]
    assert torch.equal(smoothed[0], smoothed[1])
    assert not torch.equal(smoothed[0], smoothed[2])


def test_a_node_without_neighbours_keeps_its_prediction(case: Case) -> None:
    found, labels, train, matrix = case
    assert not train[LONELY]
    smoothed = correct_and_smooth(found, labels, train, matrix, settings=Smoothing())
    torch.testing.assert_close(smoothed[LONELY], found[LONELY])
    assert (smoothed[0] - found[0]).abs().max() > 0.01


def test_without_steps_nothing_changes(case: Case) -> None:
    settings = Smoothing(correct_steps=0, smooth_steps=0)
    torch.testing.assert_close(correct_and_smooth(*case, settings=settings), case[0])


def test_weights_of_edges_count(data: Data) -> None:
    heavy = data.clone()
    heavy.edge_weight = torch.arange(1.0, data.num_edges + 1)
    expected = Adjacency.of(data.edge_index, N, heavy.edge_weight)
    torch.testing.assert_close(smoothing_matrix(heavy).to_dense(), expected.to_dense())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"correct_alpha": 1.0}, r"smoothing\.correct_alpha must be in \[0, 1\), got 1.0"),
        ({"smooth_steps": -1}, r"smoothing\.smooth_steps must not be negative, got -1"),
        ({"alpha": 0.5}, r"unknown key 'smoothing\.alpha'"),
    ],
)
def test_a_wrong_setting_is_a_mistake(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        configs.build(Smoothing, values, "smoothing.")
