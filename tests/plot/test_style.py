"""Figures as files: the same bytes twice, a digest of what is drawn, a person's settings left."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import pytest

from quatgraph.errors import UserError
from quatgraph.plot import style
from quatgraph.plot.style import (
    check_format,
    digest,
    format_log_axes,
    new_figure,
    render_figure,
    save,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Dots:
    values: list[float]

    def draw(self) -> "Figure":
        figure = new_figure(1.0, 2.0)
        figure.subplots().plot(self.values, label="a < b")
        return figure


@pytest.mark.parametrize("ending", style.SUFFIXES)
def test_the_same_numbers_give_the_same_bytes(ending: str) -> None:
    first, second = (render_figure(Dots([1.0, 2.0]), ending) for _ in range(2))
    assert first == second
    assert first != render_figure(Dots([1.0, 3.0]), ending)
    assert not any(word in first for word in (b"<dc:date>", b"CreationDate", b"Software"))


@pytest.mark.parametrize(
    ("name", "begin"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF")]
)
def test_the_ending_decides_the_format(name: str, begin: bytes, tmp_path: Path) -> None:
    save(Dots([1.0, 2.0]), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begin)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_svg_keeps_text_as_text_and_names_its_numbers() -> None:
    drawing = Dots([1.0, 2.0])
    svg = render_figure(drawing, ".svg").decode()
    assert "<text" in svg
    assert f"<dc:identifier>{digest(drawing)}</dc:identifier>" in svg


def test_a_digest_is_of_six_digits_and_knows_gaps() -> None:
    assert digest(Dots([1 / 3])) == digest(Dots([1 / 3 + 1e-9])) != digest(Dots([0.33334]))
    assert digest(Dots([math.nan])) != digest(Dots([0.0]))


def test_a_persons_own_settings_neither_matter_nor_change() -> None:
    plain = render_figure(Dots([1.0, 2.0]), ".svg")
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9}):
        assert render_figure(Dots([1.0, 2.0]), ".svg") == plain
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.svg.gz"])
def test_another_ending_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"use one of \.png, \.svg, \.pdf"):
        check_format(Path(name))


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install quatgraph\[plot\]$"):
        save(Dots([1.0]), Path("a.png"))


@pytest.mark.parametrize(
    ("end", "shown"),
    [(30, ["1", "2", "5", "10", "20"]), (2000, ["1", "10", "100", "1,000"])],
)
def test_logarithmic_axes_have_plain_numbers(end: float, shown: list[str]) -> None:
    axes = new_figure(1.0).subplots()
    axes.set_xscale("log")
    axes.set_xlim(0.9, end)
    format_log_axes(axes, max_ratio=100)
    ticks = [tick for tick in axes.get_xticks() if 0.9 <= tick <= end]
    assert [axes.xaxis.get_major_formatter()(tick) for tick in ticks] == shown
