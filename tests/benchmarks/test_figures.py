"""Benchmark records as figures: ratios to ours, and growth by size."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import growth, speed_bars
from benchmarks.limits import REACHED
from quatgraph.errors import UserError
from quatgraph.plot.style import render_figure, style

CPU = {"device": "cpu", "cpu": "chip", "cpus": "2"}


def row(variant: str, ms: float, **more: Any) -> dict[str, Any]:
    about = {"environment": CPU, "case": "c", "work": "forward", "variant": variant, "ms": ms}
    return about | more


def grown(size: int, ms: float, **more: Any) -> dict[str, Any]:
    case = f"{size} nodes"
    series = {"case": case, "series": "layer", "size": size, "grows": "nodes"}
    return row("ours", ms, **series | more)


def write(folder: Path, *rows: dict[str, Any], bench: str = "conv") -> None:
    (folder / f"{bench}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows))


def test_other_variants_are_bars_relative_to_the_first(tmp_path: Path) -> None:
    gpu = {"device": "gpu"}
    write(
        tmp_path,
        row("ours", 9.0),
        row("theirs", 6.0),
        row("slow", 1.0),
        row("ours", 2.0),  # newer
        row("theirs", 6.0, environment=gpu),
        row("ours", 2.0, work="backward"),
        row("theirs", 1.0, work="backward"),
        row("copy", 1.0, case=REACHED),
        row("add", 2.0, case=REACHED),
        grown(10, 1.0),
        grown(20, 2.0),
    )
    made = speed_bars(tmp_path, "conv")
    assert [(one.work, one.ours, one.time, one.others) for one in made.comparisons] == [
        ("forward", "ours", 2.0, {"theirs": 3.0, "slow": 0.5}),
        ("backward", "ours", 2.0, {"theirs": 0.5}),
    ]
    with style():
        (axes,) = made.draw().axes
    ends = [(box.get_x(), box.get_x() + box.get_width()) for box in axes.patches]
    assert ends == [(1, 3), (1, 0.5), (1, 0.5)]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["theirs", "slow", "theirs"]
    said = [text.get_text() for text in axes.texts]
    assert said[0] == "c, forward: ours 2 ms"
    assert said[1].startswith("3")
    assert axes.get_xscale() == "log"
    assert axes.get_title(loc="left") == "chip, 2 cores"


def test_long_names_and_headings_take_several_lines_and_a_taller_figure(tmp_path: Path) -> None:
    long = "a variant with a name that is far too long to stand in one line beside its bar"
    case = "a case that has so much to say about itself that no figure is wide enough to say it"
    write(tmp_path, row("ours", 1.0), row("theirs", 2.0))
    write(tmp_path, row("ours", 1.0, case=case), row(long, 50.0, case=case), bench="long")
    with style():
        short, tall = (speed_bars(tmp_path, bench).draw() for bench in ("conv", "long"))
        tall.draw_without_rendering()
    assert tall.get_figheight() > short.get_figheight()
    (axes,) = tall.axes
    (name,) = axes.get_yticklabels()
    heading, _ = axes.texts
    for text, whole in ((name, long), (heading, f"{case}, forward: ours 1 ms")):
        lines = text.get_text().split("\n")
        assert len(lines) > 1
        assert " ".join(lines) == whole
    edge, boxes = tall.bbox, [text.get_window_extent() for text in (name, *axes.texts)]
    assert all(edge.x0 <= box.x0 and box.x1 <= edge.x1 for box in boxes)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_trainings_and_prepared_graphs_are_compared_with_their_like(tmp_path: Path) -> None:
    write(
        tmp_path,
        row("a", 1.0, graph="raw"),
        row("b", 2.0, graph="raw"),
        row("a, prepared", 4.0, graph="prepared"),
        row("b, prepared", 12.0, graph="prepared"),
    )
    others = [one.others for one in speed_bars(tmp_path, "conv").comparisons]
    assert others == [{"b": 2.0}, {"b, prepared": 3.0}]
    trained = [row(v, 0, seconds=s) for v, s in (("a", 2.0), ("b", 5.0))]
    write(tmp_path, *({k: v for k, v in one.items() if k != "ms"} for one in trained), bench="node")
    (one,) = speed_bars(tmp_path, "node").comparisons
    assert (one.unit, one.others) == ("s", {"b": 2.5})


def test_growth_is_drawn_log_by_log_with_its_exponent(tmp_path: Path) -> None:
    sizes = (10, 100, 1000)
    write(tmp_path, row("a", 1.0), *(grown(n, 0.5 * n**1.5) for n in reversed(sizes)))
    seconds = [grown(n, 0, seconds=n / 1000, grows="edges") for n in sizes]
    write(tmp_path, *({k: v for k, v in r.items() if k != "ms"} for r in seconds), bench="more")
    made = growth(tmp_path)
    nodes, edges = made.panels
    (line,) = nodes.lines
    assert (line.sizes, line.times) == ([10, 100, 1000], [0.5 * n**1.5 for n in sizes])
    assert line.exponent == pytest.approx(1.5)
    assert edges.lines[0].times == [10, 100, 1000]
    with style():
        axes = made.draw().axes[0]
    (drawn,) = axes.get_lines()
    assert (list(drawn.get_xdata()), list(drawn.get_ydata())) == (line.sizes, line.times)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "nodes^1.50" in drawn.get_label().replace("\n", " ")
    assert [panel.grows for panel in growth(tmp_path, ["edges"]).panels] == ["edges"]
    with pytest.raises(UserError, match=r"'node' grow; did you mean 'nodes'\?"):
        growth(tmp_path, ["node"])


def test_times_near_their_floor_have_no_exponent(tmp_path: Path) -> None:
    write(tmp_path, *(grown(n, 1.0 + n / 1e6, floor_ms=1.0) for n in (10, 100, 1000)))
    made = growth(tmp_path)
    assert made.panels[0].lines[0].exponent is None
    with style():
        (drawn,) = made.draw().axes[0].get_lines()
    assert "^" not in drawn.get_label()


def test_an_svg_is_the_same_each_time(tmp_path: Path) -> None:
    write(tmp_path, row("a", 1.0), row("b", 2.0), *(grown(n, n) for n in (10, 20, 40)))
    for make in (lambda: speed_bars(tmp_path, "conv"), lambda: growth(tmp_path)):
        assert render_figure(make(), ".svg") == render_figure(make(), ".svg")


def test_what_cannot_be_compared_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no records of a benchmark 'conv'; record them with"):
        speed_bars(tmp_path, "conv")
    with pytest.raises(UserError, match=r"no benchmark in .* has a series of sizes"):
        growth(tmp_path)
    write(tmp_path, row("a", 1.0))
    for bench, said in [
        ("conv", "no case with the times of several variants"),
        ("con", r"'con'; did you mean 'conv'\?"),
    ]:
        with pytest.raises(UserError, match=said):
            speed_bars(tmp_path, bench)
    odd = [json.dumps(row("a", ms, size=size)) for ms, size in ((0.0, 1), (1.0, "large"))]
    for content in ("text\n", "[1]\n", '{"case": 1}\n', "3\n", *odd):
        (tmp_path / "bad.jsonl").write_text(content)
        with pytest.raises(UserError, match=r"bad\.jsonl is not a file of benchmark rows"):
            speed_bars(tmp_path, "bad")
