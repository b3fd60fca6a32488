"""How figures look, and how they are written: the same numbers give the same bytes.

Nothing here or beside imports matplotlib before something is drawn.
"""

import dataclasses
import io
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from quatgraph import config as configs
from quatgraph.errors import Mistake
from quatgraph.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
WIDTH = 7.2
"""Inches of a figure that is as wide as a page."""

BLUE, ORANGE, PALE, GREEN, PURPLE, SKY = (
    "#0072B2",
    "#E69F00",
    "#C4C4C4",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
)
"""Told apart by everybody (Okabe and Ito, 2008); the first three also by their greys alone."""
INK, SOFT, FAINT = "#222222", "#6B6B6B", "#E3E3E3"
MARKERS = "osD^vP"
"""With :data:`LINES` a second sign beside colour."""
LINES = (BLUE, ORANGE, GREEN, PURPLE, SKY, INK)

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
    """A dataclass of numbers that knows how to draw them."""

    def draw(self) -> "Figure":
        """The figure; within :func:`style`."""


def installed() -> bool:
    """Whether matplotlib is there, without importing it."""
    return find_spec("matplotlib") is not None


def check_format(path: Path) -> None:
    """Refuses a file of another kind, and a machine without matplotlib."""
    if path.suffix.lower() not in ENDINGS:
        ends = f"not {path.suffix}" if path.suffix else "and this name has no ending"
        raise Mistake(f"a figure is written as {', '.join(ENDINGS)}, {ends}: {path}")
    if not installed():
        raise Mistake("drawing needs matplotlib, which is not here: pip install quatgraph[plot]")


@contextmanager
def style() -> Iterator[None]:
    """The look of our figures, whatever a person's own settings are; these stay as they were."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def save(drawing: Drawing, path: Path) -> None:
    """Draws into a PNG, SVG or PDF, by the ending."""
    check_format(path)
    write_atomic(path, rendered(drawing, path.suffix.lower()))


def rendered(drawing: Drawing, ending: str) -> bytes:
    """The content of a file: without a date, and in an SVG with :func:`digest` of the numbers."""
    content, about = io.BytesIO(), dict[str, Any](_UNDATED[ending])
    if ending == ".svg":
        about["Identifier"] = digest(drawing)
    with style(), warnings.catch_warnings():
        # A name in letters that the font lacks is no reason for warnings in a person's terminal.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawing.draw().savefig(content, format=ending[1:], metadata=about)
    return content.getvalue()


def digest(drawing: Drawing) -> str:
    """Names the numbers, to six digits, and words that are drawn: not the bytes, in which two
    machines or two versions of matplotlib may differ."""
    return configs.digest(_short(dataclasses.asdict(drawing)))  # type: ignore[call-overload]


def digest_in(svg: str) -> str | None:
    """The digest that an SVG of ours says it was drawn from."""
    found = re.search(r"<dc:identifier>(\w+)</dc:identifier>", svg)
    return found.group(1) if found else None


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_short(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def sheet(height: float, width: float = WIDTH) -> "Figure":
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain_numbers(axes: "Axes", room: float = 3000) -> None:
    """Numbers on logarithmic axes as people write them: 1,000 and not a power of ten; also 2 and 5
    times that where an axis ends at less than ``room`` times its begin. Its limits must be set."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            begin, end = axis.get_view_interval()
            steps = (1, 2, 5) if end / begin < room else (1,)
            axis.set_major_locator(LogLocator(subs=steps))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
