"""Style and output of figures; equal numbers give equal bytes.

matplotlib is imported only when something is drawn.
"""

import dataclasses
import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
WIDTH = 7.2
"""Width of a page, in inches."""

BLUE, ORANGE, PALE = "#0072B2", "#E69F00", "#C4C4C4"
"""Safe for colour-blind readers (Okabe and Ito, 2008), and distinct in grey."""
INK, SOFT, FAINT = "#222222", "#6B6B6B", "#E3E3E3"

_SETTINGS: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 8.5,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "pdf.fonttype": 42,
    "savefig.dpi": 180,
    "svg.fonttype": "none",
    "svg.hashsalt": "quatgraph",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": SOFT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.color": SOFT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 7.5,
}
_UNDATED: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


class Drawing(Protocol):
    """A dataclass of numbers that draws itself."""

    def draw(self) -> "Figure":
        """Draws the figure; called within :func:`style`."""


def check_format(path: Path) -> None:
    """Raises a UserError for an unsupported suffix or without matplotlib."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"cannot save a figure as {path}; use one of {', '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise UserError("plotting needs matplotlib; install it with pip install quatgraph[plot]")


@contextmanager
def style() -> Iterator[None]:
    """Applies our style; ignores and restores the user's matplotlib settings."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def save(drawing: Drawing, path: Path) -> None:
    """Saves a figure as PNG, SVG or PDF, by the suffix of the file."""
    check_format(path)
    write_atomic(path, render_figure(drawing, path.suffix.lower()))


def render_figure(drawing: Drawing, suffix: str) -> bytes:
    """The content of a file, without a date; an SVG holds the :func:`digest` of the numbers."""
    content, metadata = io.BytesIO(), dict[str, Any](_UNDATED[suffix])
    if suffix == ".svg":
        metadata["Identifier"] = digest(drawing)
    with style(), warnings.catch_warnings():
        # Missing glyphs in names are not worth a warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawing.draw().savefig(content, format=suffix[1:], metadata=metadata)
    return content.getvalue()


def digest(drawing: Drawing) -> str:
    """Identifies the numbers, to six digits, and words of a figure.

    Unlike the bytes, it does not depend on the machine or the version of matplotlib.
    """
    return configs.digest(_round_floats(dataclasses.asdict(drawing)))  # type: ignore[call-overload]


def _round_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round_floats(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_round_floats(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def new_figure(height: float, width: float = WIDTH) -> "Figure":
    """An empty figure; sizes are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def format_log_axes(axes: "Axes", max_ratio: float = 3000) -> None:
    """Labels logarithmic axes with plain numbers such as 1,000; call it after setting the limits.

    Axes that span less than ``max_ratio`` also get ticks at 2 and 5 times powers of 10.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            low, high = axis.get_view_interval()
            steps = (1, 2, 5) if high / low < max_ratio else (1,)
            axis.set_major_locator(LogLocator(subs=steps))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
