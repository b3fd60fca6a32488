"""ROC-AUC and average precision of all members at once, against scikit-learn on one member."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from quatgraph.metrics.areas import average_precision, roc_auc
from quatgraph.metrics.classification import CLASSIFICATION_METRICS, MASKED_METRICS

M, N = 3, 60


def world(classes: int, values: int) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities with few distinct values, so that many tie, labels and masks."""
    random = torch.Generator().manual_seed(classes)
    scores = torch.randint(values, (M, N, classes), generator=random).double().softmax(dim=-1)
    scores = scores.round(decimals=7)  # so that logarithms do not make more of them equal
    labels = torch.randint(classes, (N,), generator=random)
    return scores, labels, torch.rand(M, N, generator=random) < 0.7


def theirs(scores: Tensor, labels: Tensor) -> tuple[float, float]:
    """The areas that scikit-learn finds."""
    if scores.size(1) == 2:
        given = labels.numpy(), scores[:, 1].numpy()
        return roc_auc_score(*given), average_precision_score(*given)
    auc = roc_auc_score(labels, scores, multi_class="ovr", average="macro")
    one_hot = F.one_hot(labels, scores.size(1))
    return auc, average_precision_score(one_hot, scores, average="macro")


@pytest.mark.parametrize("values", [3, 1000])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_areas_are_those_of_scikit_learn_for_each_member(classes: int, values: int) -> None:
    scores, labels, mask = world(classes, values)
    aucs, precisions = (area(scores, labels, mask) for area in (roc_auc, average_precision))
    for m in range(M):
        found = float(aucs[m]), float(precisions[m])
        assert found == pytest.approx(theirs(scores[m, mask[m]], labels[mask[m]]), abs=1e-12)
        # Logarithms have the same order, and masks may be numbers.
        logs = scores[m].log(), labels, mask[m].float()
        assert (float(roc_auc(*logs)), float(average_precision(*logs))) == pytest.approx(found)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=12))
def test_two_classes_are_counted_pair_by_pair(items: list[tuple[bool, int]]) -> None:
    labels = torch.tensor([int(label) for label, _ in items])
    score = torch.tensor([value / 4 for _, value in items])
    scores, everything = torch.stack((1 - score, score), dim=1), torch.ones(len(items))
    positives, negatives = ([v for y, v in items if y == label] for label in (True, False))
    pairs = [(p > n) + (p == n) / 2 for p in positives for n in negatives]
    auc = float(roc_auc(scores, labels, everything))
    assert auc == pytest.approx(sum(pairs) / len(pairs)) if pairs else auc != auc
    precision = float(average_precision(scores, labels, everything))
    if positives:
        each = [sum(v >= p for v in positives) / sum(v >= p for _, v in items) for p in positives]
        assert precision == pytest.approx(sum(each) / len(each))
    else:
        assert precision != precision


def test_a_class_that_is_absent_is_left_out_of_the_mean() -> None:
    scores, labels, _ = world(4, 10)
    mask = labels != 2
    own, rest = scores[0, mask], labels[mask]
    aucs = [roc_auc_score(rest == c, own[:, c]) for c in (0, 1, 3)]
    assert float(roc_auc(scores[0], labels, mask)) == pytest.approx(sum(aucs) / 3)
    precisions = [average_precision_score(rest == c, own[:, c]) for c in (0, 1, 3)]
    assert float(average_precision(scores[0], labels, mask)) == pytest.approx(sum(precisions) / 3)
    assert roc_auc(scores[0], labels, torch.zeros(N)).isnan()
    assert roc_auc(scores[0], labels, labels == 1).isnan()  # nothing to tell it from
    assert float(average_precision(scores[0], labels, labels == 1)) == 1


def test_what_is_masked_out_does_not_matter_even_if_it_is_not_a_number() -> None:
    scores, labels, mask = world(3, 10)
    hidden = torch.where(mask[..., None], scores, torch.nan)
    unknown = labels.where(mask[0], -1)
    for area in (roc_auc, average_precision):
        assert torch.equal(area(hidden, labels, mask), area(scores, labels, mask))
        assert torch.equal(area(scores[0], unknown, mask[0]), area(scores[0], labels, mask[0]))


def test_the_areas_trace_without_looking_at_a_value() -> None:
    meta = [tensor.to("meta") for tensor in world(3, 10)]
    for area in (roc_auc, average_precision):
        assert area(*meta).shape == (M,)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("classes", [2, 5])
def test_all_metrics_can_be_captured_in_a_cuda_graph(classes: int) -> None:
    world_ = world(classes, 7)
    args = [tensor.cuda() for tensor in world_]
    _ = [metric(*args) for metric in MASKED_METRICS.values()]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [metric(*args) for metric in MASKED_METRICS.values()]
    graph.replay()
    for metric, found in zip(MASKED_METRICS.values(), captured, strict=True):
        torch.testing.assert_close(found.cpu(), metric(*world_))


def test_named_metrics_take_whole_data() -> None:
    scores, labels, _ = world(3, 1000)
    found = {name: metric(scores[0], labels) for name, metric in CLASSIFICATION_METRICS.items()}
    assert list(found) == ["accuracy", "macro-f1", "roc-auc", "average-precision"]
    assert (found["roc-auc"], found["average-precision"]) == pytest.approx(
        theirs(scores[0], labels)
    )
    assert found["accuracy"] == float((scores[0].argmax(dim=1) == labels).double().mean())
    right = F.one_hot(labels, 3).float()
    assert {metric(right, labels) for metric in CLASSIFICATION_METRICS.values()} == {1.0}
