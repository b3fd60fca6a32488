"""Histogram of the ranks of the true entities."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from quatgraph.errors import UserError, printable
from quatgraph.plot.style import BLUE, INK, ORANGE, format_log_axes, new_figure
from quatgraph.predictors import LinkPredictor
from quatgraph.reproduce.render import format_metric
from quatgraph.tasks.link.evaluation import SIDES, summarize_ranks
from quatgraph.training.bundle import load_bundle
from quatgraph.training.runtime import resolve_device

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PER_DECADE = 5
"""Bins per power of ten; fewer for small ranks, which are whole numbers."""
HITS = 10


@dataclass(frozen=True, slots=True)
class RankBars:
    """A histogram of expected ranks, which may be half-integers; bins include the lower bound."""

    title: str
    part: str
    bounds: list[float]
    shares: dict[str, list[float]]
    """The share of queries in each bin, by side."""
    queries: int
    """Queries per side."""
    mrr: float
    hits: float

    def draw(self) -> "Figure":
        figure = new_figure(3.1)
        axes = figure.subplots()
        tails, heads = ([100 * share for share in self.shares[side]] for side in SIDES)
        axes.stairs(tails, self.bounds, fill=True, color=BLUE, label=SIDES[0])
        axes.stairs(heads, self.bounds, color=ORANGE, linewidth=1.8, label=SIDES[1])
        axes.set_xscale("log")
        axes.set_xlim(self.bounds[0], self.bounds[-1])
        format_log_axes(axes)
        top = 1.4 * max(*tails, *heads)
        axes.set_ylim(0, top)
        mrr, hits = format_metric(self.mrr, "test/mrr"), format_metric(self.hits, "test/hits@10")
        marks = (
            (1 / self.mrr, f"MRR {mrr}: inverse\nof rank {1 / self.mrr:.3g}"),
            (HITS + 0.5, f"Hits@10 {hits} %:\nleft of this line"),
        )
        for height, (place, text) in zip((0.84, 0.99), marks, strict=True):
            axes.axvline(place, color=INK, linewidth=1, linestyle=(0, (4, 2)))
            axes.annotate(text, (place, height * top), (4, 0), textcoords="offset points", va="top")
        axes.set_xlabel("filtered rank of the true entity (logarithmic)")
        axes.set_ylabel(f"{self.part} queries (%)")
        axes.set_title(printable(self.title), fontweight="bold")
        title = f"{self.queries:,} queries for"
        axes.legend(loc="center right", title=title, alignment="left")
        return figure


def rank_bars(bundle: Path, part: str = "test", device: str = "auto") -> RankBars:
    """Ranks the ``valid`` or ``test`` triples of a bundle from both sides."""
    if part not in ("valid", "test"):
        raise UserError(f"--part must be valid or test, got {part!r}")
    model = LinkPredictor(load_bundle(bundle, task="link"), resolve_device(device))
    if not len(getattr(model.triples, part)):
        raise UserError(f"{bundle} has no {part} triples to rank")
    ranks = model.ranks(part)
    metrics = summarize_ranks(ranks, part)
    bounds = bin_bounds(model.triples.num_entities)
    by_side = ranks.realistic.cpu().view(2, -1).numpy()
    shares = {
        side: (np.histogram(values, bounds)[0] / len(values)).tolist()
        for side, values in zip(SIDES, by_side, strict=True)
    }
    return RankBars(
        title=f"{model.config.model.name} on {model.triples.name}",
        part=part,
        bounds=bounds,
        shares=shares,
        queries=len(getattr(model.triples, part)),
        mrr=metrics[f"{part}/mrr"],
        hits=metrics[f"{part}/hits@{HITS}"],
    )


def bin_bounds(entities: int) -> list[float]:
    """Half-integers, about evenly spaced in logarithm; a bin ends after rank 10.

    Example:
        >>> bin_bounds(20)
        [0.5, 1.5, 2.5, 3.5, 4.5, 6.5, 10.5, 16.5, 25.5]
    """
    bounds, power = [0.5], 0
    while bounds[-1] <= entities:
        bound = round(10 ** (power / PER_DECADE)) + 0.5
        if bound > bounds[-1]:
            bounds.append(bound)
        power += 1
    return bounds
