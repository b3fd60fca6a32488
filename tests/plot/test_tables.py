"""Tables as bars: what is drawn is what the cells say."""

import dataclasses
from typing import Any

import pytest
from crossvalidated import TABLE, honest, published
from matplotlib.container import BarContainer, ErrorbarContainer

from quatgraph import config as configs
from quatgraph.errors import Mistake
from quatgraph.plot.style import digest, rendered, style
from quatgraph.plot.tables import Bar, table_bars
from quatgraph.presets import Protocol, preset
from quatgraph.reproduce.table import load_table
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.training.record import RunRecord

RECORDS = published([[0.5, 0.75], [0.75, 0.25]]) + honest([(0.5, 0.5), (0.5, 1.0)])


def linked(protocol: Protocol, seed: int, mrr: float, hits: float) -> RunRecord:
    """A run of SimQGNN on CoDEx-S."""
    config = configs.build(LinkConfig, preset("link/codex-s-simqgnn", protocol)).identity()
    metrics = {"test/mrr": mrr, "test/hits@10": hits, "valid/merit": mrr}
    others: dict[str, Any] = {
        "task": "link",
        "dataset": "codex-s",
        "method": "simqgnn",
        "seed": seed,
        "config": config,
        "config_digest": configs.digest(config),
    }
    return dataclasses.replace(RECORDS[0], metrics=metrics, protocol=protocol, **others)


def bars_of(axes: Any) -> dict[str, list[float]]:
    return {
        str(group.get_label()): [box.get_width() for box in group]
        for group in axes.containers
        if isinstance(group, BarContainer)
    }


def test_every_rule_is_a_bar_with_its_spread_and_the_paper_is_a_mark() -> None:
    made = table_bars(TABLE, RECORDS)
    (panel,) = made.panels
    assert (panel.dataset, panel.metric) == ("mutag", "test/accuracy")
    (method,) = panel.methods
    spread = pytest.approx(0.125 * 2**0.5)
    assert (method.name, method.paper) == ("QGNN", 0.9259)
    assert method.bars["best-per-fold"] == Bar(0.75, 0.0)
    assert (method.bars["gin"].mean, method.bars["gin"].std) == (0.625, spread)
    assert method.bars["validation"].mean == 0.75
    with style():
        (axes,) = made.draw().axes
    assert bars_of(axes) == {"best-per-fold": [75], "gin": [62.5], "validation": [75]}
    spreads = [
        group.lines[2][0] for group in axes.containers if isinstance(group, ErrorbarContainer)
    ]
    ends = spreads[1].get_segments()[0][:, 0].tolist()
    assert ends == pytest.approx([62.5 - 12.5 * 2**0.5, 62.5 + 12.5 * 2**0.5])
    (mark,) = [one for one in axes.collections if one.get_label() == "the paper"]
    assert mark.get_segments()[0][:, 0].tolist() == pytest.approx([92.59, 92.59])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["QGNN"]
    assert axes.get_xlim()[0] == 0
    said = [text.get_text() for text in axes.texts]
    assert said == ["75.00 ± 0.00", "62.50 ± 17.68", "75.00 ± 35.36"]


def test_a_table_of_two_metrics_has_two_columns_and_a_single_run_no_spread() -> None:
    records = [linked("paper", 0, 0.5, 0.25)]
    made = table_bars(load_table("link"), records)
    assert [panel.metric for panel in made.panels] == ["test/mrr", "test/hits@10"]
    assert made.panels[0].methods[0].bars == {
        "paper": Bar(0.5, None),
        "honest": Bar(0.5, None),  # chosen among the same runs
    }
    with style():
        left, right = made.draw().axes
    assert bars_of(left) == {"paper": [0.5], "honest": [0.5]}
    assert bars_of(right) == {"paper": [25], "honest": [25]}
    assert left.get_xlabel().startswith("test MRR,")
    assert right.get_xlabel().startswith("test Hits@10 (%)")
    assert [text.get_text() for text in right.texts] == ["25.0", "25.0"]


def test_what_was_not_run_is_left_out_and_may_be_chosen() -> None:
    made = table_bars(TABLE, RECORDS, ["qgnn"])
    assert [method.name for panel in made.panels for method in panel.methods] == ["QGNN"]
    with pytest.raises(Mistake, match="no run of table 'tiny' is on record"):
        table_bars(TABLE, RECORDS, ["ptc"])
    with pytest.raises(Mistake, match="has no 'qgn'; did you mean 'qgnn'"):
        table_bars(TABLE, RECORDS, ["qgn"])


def test_an_svg_is_the_same_each_time_and_another_for_other_numbers() -> None:
    made, other = table_bars(TABLE, RECORDS), table_bars(TABLE, RECORDS[:2])
    assert rendered(made, ".svg") == rendered(table_bars(TABLE, RECORDS), ".svg")
    assert digest(made) != digest(other)
