"""The histogram of ranks: all questions of both sides are in it, as the evaluator ranks them."""

from pathlib import Path

import pytest
import torch
from cities import cities, config_of

from quatgraph.errors import UserError
from quatgraph.plot.ranks import bin_bounds, rank_bars
from quatgraph.plot.style import render_figure, style
from quatgraph.predictors import LinkPredictor, train_triples
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.evaluation import SIDES, rank_part
from quatgraph.training.bundle import load_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cities")
    train_triples(cities(), folder, config=config_of(), device="cpu")
    return folder


def test_every_question_is_in_a_bin(bundle: Path) -> None:
    made = rank_bars(bundle, device="cpu")
    model = LinkPredictor(load_bundle(bundle), torch.device("cpu"))
    problem = LINK.prepare(model.triples, model.config, model.device)
    ranks = rank_part(model.model, problem, "test").realistic.view(2, -1)
    assert made.queries == ranks.size(1) == len(model.triples.test)
    bounds = torch.tensor(made.bounds, dtype=torch.float64)
    for side, own in zip(SIDES, ranks.double(), strict=True):
        counts, _ = torch.histogram(own, bounds)
        assert made.shares[side] == pytest.approx((counts / len(own)).tolist())
        assert sum(made.shares[side]) == pytest.approx(1)
    assert made.mrr == pytest.approx(model.card["metrics"]["test/mrr"], abs=1e-5)
    assert made.hits == pytest.approx(model.card["metrics"]["test/hits@10"], abs=1e-5)


def test_shares_and_marks_are_drawn(bundle: Path) -> None:
    made = rank_bars(bundle, device="cpu")
    with style():
        (axes,) = made.draw().axes
    steps = {patch.get_label(): patch.get_data() for patch in axes.patches}
    for side in SIDES:
        assert steps[side].values.tolist() == pytest.approx([100 * v for v in made.shares[side]])
        assert steps[side].edges.tolist() == made.bounds
    mrr, hits = (line.get_xdata()[0] for line in axes.get_lines())
    assert (mrr, hits) == (1 / made.mrr, 10.5)
    said = " ".join(text.get_text() for text in axes.texts)
    assert f"Hits@10 {100 * made.hits:.1f} %" in said
    assert axes.get_xscale() == "log"


def test_valid_triples_may_be_asked_for(bundle: Path) -> None:
    made = rank_bars(bundle, "valid", "cpu")
    assert (made.part, made.queries) == ("valid", len(cities().valid))
    with pytest.raises(UserError, match="got 'train'"):
        rank_bars(bundle, "train")


def test_an_svg_is_the_same_each_time(bundle: Path) -> None:
    first, second = (render_figure(rank_bars(bundle, device="cpu"), ".svg") for _ in range(2))
    assert first == second


@pytest.mark.parametrize("entities", [1, 10, 11, 4_600_000])
def test_bounds_hold_every_rank_and_end_a_bin_at_ten(entities: int) -> None:
    bounds = bin_bounds(entities)
    assert bounds[0] < 1
    assert bounds[-1] > entities
    assert bounds == sorted(set(bounds))
    assert entities < 10 or 10.5 in bounds
