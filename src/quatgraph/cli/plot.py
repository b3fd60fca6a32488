"""Commands that draw: plot curves, plot table, plot ranks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from quatgraph.cli.common import Device, app, command, say
from quatgraph.cli.train import Results
from quatgraph.errors import did_you_mean

if TYPE_CHECKING:
    from quatgraph.plot.style import Drawing


class _Drawn(TyperGroup):
    """A path in place of a command: the curves of what lies there."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            if not Path(args[0]).exists():
                hint = did_you_mean(args[0], self.commands)
                ctx.fail(f"there is no figure, file or folder {args[0]!r}{hint}")
            args = ["curves", *args]
        return super().resolve_command(ctx, args)


plot_app = typer.Typer(cls=_Drawn, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(
    plot_app,
    name="plot",
    help="Draw the curves of a model (`plot my-model`), tables or ranks; needs matplotlib.",
)

Out = Annotated[
    Path | None, typer.Option(help="A .png, .svg or .pdf file; a PNG in this folder if none.")
]
Only = Annotated[list[str] | None, typer.Option(help="A dataset or a method; may repeat.")]


@command(plot_app)
def curves(
    path: Annotated[
        Path, typer.Argument(help="A folder that `train` wrote, or a file of run records.")
    ],
    metric: Annotated[
        list[str] | None, typer.Option(help="As accuracy or loss; may repeat.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A dataset, method or protocol; may repeat.")
    ] = None,
    out: Out = None,
) -> None:
    """Draw how metrics changed by epoch: of a model the mean and spread of the runs with the kept
    settings, the selected epoch, and in grey the other candidates.

    quatgraph plot my-model --metric loss
    """
    place = _place(out, f"curves-{_called(path)}")
    from quatgraph.plot.curves import curves

    _save(curves(path, metrics=metric or [], only=only or []), place)


@command(plot_app)
def table(
    name: Annotated[str, typer.Argument(help="A table: node, graph, link or text.")],
    only: Only = None,
    results: Results = Path("results"),
    out: Out = None,
) -> None:
    """Draw a table of the paper as dots: ours under both protocols, and the paper's numbers.

    quatgraph plot table node --only cora
    """
    place = _place(out, f"table-{Path(name).name}")
    from quatgraph.plot.tables import table_dots
    from quatgraph.reproduce.run import read_results
    from quatgraph.reproduce.table import load_table

    spec = load_table(name)
    _save(table_dots(spec, read_results(results), only or []), place)


@command(plot_app)
def ranks(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train link` wrote.")],
    part: Annotated[str, typer.Option(help="valid or test.")] = "test",
    device: Device = "auto",
    out: Out = None,
) -> None:
    """Draw at which ranks a model of triples puts the right answers.

    quatgraph plot ranks my-model
    """
    place = _place(out, f"ranks-{_called(bundle)}")
    from quatgraph.plot.ranks import rank_bars

    _save(rank_bars(bundle, part, device), place)


def _called(path: Path) -> str:
    """The name of a file or folder without its endings."""
    return path.resolve().name.partition(".")[0]


def _place(out: Path | None, name: str) -> Path:
    """Where the figure goes; a place that cannot be is told before any work."""
    from quatgraph.files import check_writable
    from quatgraph.plot.style import check_place

    place = out or Path(f"{name}.png")
    check_place(place)
    check_writable(place)
    return place


def _save(drawing: "Drawing", place: Path) -> None:
    from quatgraph.plot.style import save

    save(drawing, place)
    say(f"drawn in {place}")
