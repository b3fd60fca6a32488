"""The confusion matrix: its counts are those of the report, and all are drawn."""

from pathlib import Path

import pytest
import reviews
from on_cpu import train_in_folder

from quatgraph.plot.confusion import COUNTED, ConfusionMatrix, confusion_matrix
from quatgraph.plot.style import render_figure, style
from quatgraph.predictors import load
from quatgraph.tasks.text import TEXT


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reviews")
    path = reviews.written(folder / "reviews.csv")
    train_in_folder(TEXT, [reviews.config_of(**{"data.path": str(path)})], folder / "m")
    return folder / "m"


def test_the_counts_are_those_of_the_report(bundle: Path, tmp_path: Path) -> None:
    made, notes = confusion_matrix(bundle, device="cpu")
    assert made.counts == load(bundle, device="cpu").report().confusion
    assert (made.classes, notes) == (["blame", "praise"], [])
    assert made.title == "textqgnn on the test data of reviews"
    rows = [("a lovely film", "praise"), ("dull", "meh"), ("zyx", "")]
    new = reviews.written(tmp_path / "new.csv", rows)
    made, notes = confusion_matrix(bundle, new, "cpu")
    assert made.classes == ["blame", "praise", "meh"]
    assert sum(map(sum, made.counts)) == 2
    assert any("'meh'" in note for note in notes)


@pytest.mark.parametrize("size", [2, COUNTED + 1])
def test_shares_and_counts_are_drawn(size: int) -> None:
    names = [f"class {n}" for n in range(size)]
    counts = [[(row + 2 * column) % 7 for column in range(size)] for row in range(size)]
    counts[0] = [0] * size  # a class without items
    made = ConfusionMatrix("qgnn on cora", names, counts, 0.5, (0.4, 0.6))
    with style():
        figure = made.draw()
    axes = figure.axes[0]
    shares = axes.images[0].get_array()
    for row, own in enumerate(counts):
        expected = [count / max(1, sum(own)) for count in own]
        assert shares[row].tolist() == pytest.approx(expected)
    shown = [text.get_text() for text in axes.texts]
    assert shown == ([str(count) for row in counts for count in row] if size == 2 else [])
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    assert render_figure(made, ".png")[:4] == b"\x89PNG"
