"""The report of a classifier against scikit-learn and SciPy."""

import json
import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
    roc_auc_score,
)

from quatgraph.metrics.report import RankingReport, classification_report, wilson_interval

NAMES = ["ham", "spam", "junk"]


def world(classes: int = 3, count: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(classes)
    scores = torch.randn(count, classes, generator=random).log_softmax(dim=1)
    return scores, torch.randint(classes, (count,), generator=random)


@pytest.mark.parametrize("classes", [2, 3])
def test_every_number_is_that_of_scikit_learn(classes: int) -> None:
    scores, labels = world(classes)
    found, guesses = classification_report(scores, labels, NAMES[:classes]), scores.argmax(dim=1)
    assert found.num_items == 50
    assert found.accuracy == pytest.approx(accuracy_score(labels, guesses))
    assert found.macro_f1 == pytest.approx(f1_score(labels, guesses, average="macro"))
    assert found.confusion == confusion_matrix(labels, guesses).tolist()
    theirs = precision_recall_fscore_support(labels, guesses)
    ours = [(one.precision, one.recall, one.f1, one.support) for one in found.classes]
    np.testing.assert_allclose(np.array(ours).T, theirs)
    shares = scores.exp().double()
    if classes == 2:
        assert found.roc_auc == pytest.approx(roc_auc_score(labels, shares[:, 1]))
        assert found.average_precision == pytest.approx(
            average_precision_score(labels, shares[:, 1])
        )
    constant = DummyClassifier(strategy="most_frequent").fit(scores, labels)
    assert found.baseline == pytest.approx(constant.score(scores, labels))


@pytest.mark.parametrize(("right", "count"), [(0, 5), (5, 5), (8, 10), (601, 1001)])
def test_the_interval_is_wilsons(right: int, count: int) -> None:
    theirs = binomtest(right, count).proportion_ci(method="wilson")
    assert wilson_interval(right, count) == pytest.approx(tuple(theirs), abs=1e-12)
    assert all(math.isnan(bound) for bound in wilson_interval(0, 0))


def test_a_label_without_a_column_counts_as_wrong() -> None:
    scores, labels = world(2)
    labels[:5] = 2
    found, guesses = classification_report(scores, labels, NAMES), scores.argmax(dim=1)
    assert found.accuracy == pytest.approx(accuracy_score(labels, guesses))
    assert found.macro_f1 == pytest.approx(f1_score(labels, guesses, average="macro"))
    assert found.confusion == confusion_matrix(labels, guesses).tolist()
    new = found.classes[2]
    assert (new.label, new.recall, new.support) == ("junk", 0.0, 5)
    assert math.isnan(new.precision)
    # It has probability 0 for all items.
    known = [roc_auc_score(labels == c, scores[:, c]) for c in (0, 1)]
    assert found.roc_auc == pytest.approx((sum(known) + 0.5) / 3)


def test_a_report_prints_as_a_table_and_is_plain_values() -> None:
    scores = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4]])
    report = classification_report(scores, torch.tensor([0, 1, 1]), ["no", "yes"], ["one note"])
    assert str(report).splitlines() == [
        "items                    3",
        "accuracy           66.67 %  95 % interval 20.8 to 93.9 %",
        "majority baseline  66.67 %  always 'yes'",
        "macro-F1           66.67 %",
        "ROC-AUC              1.000",
        "average precision    1.000",
        "",
        "                                          predicted as",
        "label  precision  recall     F1  support  no  yes",
        "no         0.500   1.000  0.667        1   1    0",
        "yes        1.000   0.500  0.667        2   1    1",
    ]
    values = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert values["classes"][1] == pytest.approx(
        {"label": "yes", "precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 2}
    )
    assert values["notes"] == ["one note"]


def test_nothing_is_printed_where_nothing_is_defined() -> None:
    report = classification_report(*world(3, 1), NAMES)
    assert math.isnan(report.roc_auc)
    assert report.to_dict()["roc_auc"] is None
    assert str(report).splitlines()[4] == "ROC-AUC                  -"


def test_many_classes_are_listed_without_their_confusion() -> None:
    scores, labels = world(13, 40)
    text = str(classification_report(scores, labels, [f"class {n}" for n in range(13)]))
    assert "predicted as" not in text
    assert len(text.splitlines()) == 6 + 1 + 1 + 13


def test_ranks_are_reported_with_the_usual_names() -> None:
    metrics = {"mrr": 0.5, "mr": 12.0, "hits@1": 0.25}
    report = RankingReport(1200, metrics, {})
    assert str(report).splitlines() == [
        "triples              1,200",
        "MRR                 0.5000",
        "mean rank          12.0000",
        "Hits@1              0.2500",
    ]
    assert report.to_dict()["metrics"] == metrics
