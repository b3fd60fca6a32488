"""Confusion matrix of a classifier."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quatgraph.errors import UserError, printable
from quatgraph.plot.style import INK, WIDTH, new_figure
from quatgraph.predictors import load
from quatgraph.predictors.base import Classifier

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNTED = 20
"""The most classes for which each cell shows its count."""
LONGEST = 24
"""Characters of a class name on an axis."""


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """Counts of items by label (rows) and prediction (columns); colours are shares of a row."""

    title: str
    classes: list[str]
    counts: list[list[int]]
    accuracy: float
    interval: tuple[float, float]

    def draw(self) -> "Figure":
        size = len(self.classes)
        side = min(max(3.0, 1.2 + 0.42 * size), WIDTH)
        figure = new_figure(side, min(side + 1.6, WIDTH))
        axes = figure.subplots()
        shares = [[count / max(1, sum(row)) for count in row] for row in self.counts]
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        names = [_shorten(printable(name)) for name in self.classes]
        axes.set_xticks(range(size), names, rotation=90 if sum(map(len, names)) > 24 else 0)
        axes.set_yticks(range(size), names)
        axes.tick_params(length=0)
        axes.set_xlabel("prediction")
        axes.set_ylabel("label")
        for row, (counts, own) in enumerate(zip(self.counts, shares, strict=True)):
            for column, (count, share) in enumerate(zip(counts, own, strict=True)):
                if size <= COUNTED:
                    colour = "white" if share > 0.5 else INK
                    axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour)
        figure.colorbar(image, ax=axes, label="share of the label", shrink=0.8)
        low, high = (100 * bound for bound in self.interval)
        figure.suptitle(printable(self.title), x=0.02, ha="left", fontsize=8.5, fontweight="bold")
        figure.supxlabel(
            f"accuracy {100 * self.accuracy:.1f} %, 95 % interval {low:.1f} to {high:.1f} %",
            x=0.02,
            ha="left",
            fontsize=7.5,
        )
        return figure


def confusion_matrix(
    bundle: Path, data: Path | None = None, device: str = "auto"
) -> tuple[ConfusionMatrix, list[str]]:
    """The confusion matrix of a bundle on its test data or on new data, and notes on it."""
    predictor = load(bundle, device=device)
    if not isinstance(predictor, Classifier):
        raise UserError(f"{bundle} predicts triples, which have no classes to confuse")
    report = predictor.report(data)
    on = f"the test data of {predictor.card['data']['name']}" if data is None else data.name
    drawing = ConfusionMatrix(
        title=f"{predictor.model_names} on {on}",
        classes=[one.label for one in report.classes],
        counts=report.confusion,
        accuracy=report.accuracy,
        interval=report.interval,
    )
    return drawing, report.notes


def _shorten(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
