"""The ranks that a model of triples gives the right answers, as a histogram."""

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quatgraph.errors import Mistake, printable
from quatgraph.plot.style import BLUE, INK, ORANGE, plain_numbers, sheet
from quatgraph.predictors import LinkPredictor
from quatgraph.reproduce.render import printed
from quatgraph.tasks.link.evaluation import SIDES, summarize_ranks
from quatgraph.training.bundle import load_bundle
from quatgraph.training.runtime import resolve_device

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PER_DECADE = 5
"""Bins from one power of ten to the next, where whole numbers let there be so many."""
HITS = 10


@dataclass(frozen=True, slots=True)
class RankBars:
    """Ranks are expected ones, so there are halves; a bin is at least its lower bound and less than
    its upper one."""

    title: str
    part: str
    bounds: list[float]
    shares: dict[str, list[float]]
    """Of the questions of each side, those in each bin."""
    questions: int
    """Of each side."""
    mrr: float
    hits: float

    def draw(self) -> "Figure":
        figure = sheet(3.1)
        axes = figure.subplots()
        tails, heads = ([100 * share for share in self.shares[side]] for side in SIDES)
        axes.stairs(tails, self.bounds, fill=True, color=BLUE, label=SIDES[0])
        axes.stairs(heads, self.bounds, color=ORANGE, linewidth=1.8, label=SIDES[1])
        axes.set_xscale("log")
        axes.set_xlim(self.bounds[0], self.bounds[-1])
        plain_numbers(axes)
        top = 1.4 * max(*tails, *heads)
        axes.set_ylim(0, top)
        mrr, hits = printed(self.mrr, "test/mrr"), printed(self.hits, "test/hits@10")
        marks = (
            (1 / self.mrr, f"MRR {mrr}: one over\na rank of {1 / self.mrr:.3g}"),
            (HITS + 0.5, f"Hits@10 {hits} %:\nleft of this line"),
        )
        for height, (place, said) in zip((0.84, 0.99), marks, strict=True):
            axes.axvline(place, color=INK, linewidth=1, linestyle=(0, (4, 2)))
            axes.annotate(said, (place, height * top), (4, 0), textcoords="offset points", va="top")
        axes.set_xlabel("filtered rank of the right answer (logarithmic)")
        axes.set_ylabel(f"questions of {self.part} (%)")
        axes.set_title(printable(self.title), fontweight="bold")
        said = f"{self.questions:,} questions for"
        axes.legend(loc="center right", title=said, alignment="left")
        return figure


def rank_bars(bundle: Path, part: str = "test", device: str = "auto") -> RankBars:
    """The ranks of a bundle's triples of a part, both sides.

    Args:
        part: ``valid`` or ``test``.
    """
    if part not in ("valid", "test"):
        raise Mistake(f"there are questions of valid and of test, not of {part!r}")
    model = LinkPredictor(load_bundle(bundle, task="link"), resolve_device(device))
    if not len(getattr(model.triples, part)):
        raise Mistake(f"{bundle} holds no triples of {part}, so there is nothing to rank")
    ranks = model.ranks(part)
    metrics = summarize_ranks(ranks, part)
    bounds = bin_bounds(model.triples.num_entities)
    shares = {}
    for side, values in zip(SIDES, ranks.realistic.cpu().view(2, -1).tolist(), strict=True):
        counts = [0] * (len(bounds) - 1)
        for rank in values:
            counts[bisect_right(bounds, rank) - 1] += 1
        shares[side] = [count / len(values) for count in counts]
    return RankBars(
        title=f"{model.config.model.name} on {model.triples.name}",
        part=part,
        bounds=bounds,
        shares=shares,
        questions=len(getattr(model.triples, part)),
        mrr=metrics[f"{part}/mrr"],
        hits=metrics[f"{part}/hits@{HITS}"],
    )


def bin_bounds(entities: int) -> list[float]:
    """Halves between whole ranks, about evenly spaced by their logarithms, 10 the last of a bin.

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
