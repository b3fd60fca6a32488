"""Masked metrics of all members against one member and one node at a time."""

import statistics

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from quatgraph.metrics.classification import accuracy, by_class, cross_entropy, macro_f1, mean_std

M, N, C = 3, 11, 4


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(M, N, C, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.randint(C, (N,), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def mask() -> torch.Tensor:
    mask = torch.rand(M, N, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[:, 0] = True
    return mask


def test_accuracy_counts_the_masked_nodes_of_each_member(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> None:
    for m, found in enumerate(accuracy(logits, labels, mask).tolist()):
        nodes = [v for v in range(N) if mask[m, v]]
        right = sum(int(logits[m, v].argmax()) == int(labels[v]) for v in nodes)
        assert found == right / len(nodes)


def test_cross_entropy_and_its_gradient_are_those_of_each_member_alone(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> None:
    logits.requires_grad_()
    ours = cross_entropy(logits, labels, mask)
    theirs = torch.stack([F.cross_entropy(logits[m][mask[m]], labels[mask[m]]) for m in range(M)])
    torch.testing.assert_close(ours, theirs)
    weights = torch.arange(1.0, M + 1, dtype=torch.float64)
    (our_grad,) = torch.autograd.grad(ours @ weights, logits)
    (their_grad,) = torch.autograd.grad(theirs @ weights, logits)
    torch.testing.assert_close(our_grad, their_grad)


@pytest.mark.parametrize("function", [accuracy, cross_entropy])
def test_masks_may_be_numbers_and_members_may_be_absent_or_many(
    function: object, logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> None:
    assert callable(function)
    expected = function(logits, labels, mask)
    assert expected.shape == (M,)
    torch.testing.assert_close(function(logits, labels, mask.float()), expected)
    torch.testing.assert_close(function(logits[0], labels, mask[0]), expected[0])
    grid = function(logits.expand(2, M, N, C), labels, mask.expand(2, M, N))
    torch.testing.assert_close(grid, expected.expand(2, M))
    shared = function(logits, labels, mask[0])
    torch.testing.assert_close(shared, function(logits, labels, mask[:1].expand(M, N)))


def test_unknown_labels_do_not_matter_outside_the_mask(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> None:
    mask = mask[:1].expand(M, N)
    unknown = labels.where(mask[0], -1)
    assert (unknown == -1).any()
    for function in (accuracy, cross_entropy):
        assert torch.equal(function(logits, unknown, mask), function(logits, labels, mask))


def test_an_empty_mask_gives_nan_for_that_member_alone(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> None:
    mask[1] = False
    for function in (accuracy, cross_entropy):
        assert function(logits, labels, mask).isnan().tolist() == [False, True, False]


def macro_f1_of(logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    pair = by_class(logits.argmax(dim=-1), labels, C)
    return macro_f1(*(torch.where(mask[..., None], one, 0).sum(dim=-2) for one in pair))


MEASURES = accuracy, cross_entropy, macro_f1_of


def test_macro_f1_is_that_of_scikit_learn_for_each_member(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> None:
    guesses = logits.argmax(dim=-1)
    mask[2] &= (guesses[2] != 1) & (labels != 1)  # a class that takes no part
    for m, found in enumerate(macro_f1_of(logits, labels, mask).tolist()):
        own = mask[m]
        expected = f1_score(labels[own], guesses[m, own], average="macro")
        assert found == pytest.approx(expected)


def test_macro_f1_of_nothing_is_nan_and_of_no_right_guess_0(labels: torch.Tensor) -> None:
    right, none = F.one_hot(labels, C), torch.zeros(N, dtype=torch.bool)
    assert macro_f1_of(right, labels, none).isnan()
    assert macro_f1_of(right.roll(1, dims=1), labels, ~none) == 0
    assert macro_f1_of(right, labels, ~none) == 1


def test_half_precision_logits_are_counted_exactly() -> None:
    logits = torch.zeros(1, 1001, 2, dtype=torch.bfloat16)
    logits[0, :601, 0] = 1
    logits[0, 601:, 1] = 1
    labels, mask = torch.zeros(1001, dtype=torch.long), torch.ones(1, 1001)
    assert accuracy(logits, labels, mask).item() == pytest.approx(601 / 1001, rel=1e-6)
    assert cross_entropy(logits, labels, mask).dtype == torch.float32


def test_all_trace_without_looking_at_a_value(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> None:
    meta = [tensor.to("meta") for tensor in (logits, labels, mask)]  # a meta tensor has no values
    for function in MEASURES:
        assert function(*meta).shape == (M,)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_all_can_be_captured_in_a_cuda_graph(
    logits: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
) -> None:
    args = [tensor.cuda() for tensor in (logits, labels, mask)]
    _ = [function(*args) for function in MEASURES]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [function(*args) for function in MEASURES]
    graph.replay()
    for function, found in zip(MEASURES, captured, strict=True):
        torch.testing.assert_close(found.cpu(), function(logits, labels, mask))


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20))
def test_mean_and_std_are_those_of_a_sample(values: list[float]) -> None:
    mean, std = mean_std(values)
    assert mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert std == pytest.approx(statistics.stdev(values), abs=1e-9)


def test_one_run_has_no_spread_and_none_has_no_mean() -> None:
    assert mean_std([0.7]) == (0.7, 0.0)
    with pytest.raises(ValueError, match="no values"):
        mean_std([])
