"""The commands plot curves, plot table, plot ranks and plot confusion."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from quatgraph.cli.common import Device, Results, app, command, echo, log
from quatgraph.cli.train import Only
from quatgraph.errors import did_you_mean

if TYPE_CHECKING:
    from quatgraph.plot.style import Drawing


class _PlotGroup(TyperGroup):
    """Runs ``curves`` if the first argument is a path instead of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            if not Path(args[0]).exists():
                hint = did_you_mean(args[0], self.commands)
                ctx.fail(f"no figure, file or folder is named {args[0]!r}{hint}")
            args = ["curves", *args]
        return super().resolve_command(ctx, args)


plot_app = typer.Typer(cls=_PlotGroup, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(
    plot_app,
    name="plot",
    help="Plot training curves, tables, ranks or confusion matrices. `plot my-model` plots curves. "
    "Needs matplotlib.",
)

Out = Annotated[
    Path | None,
    typer.Option(help="Output file: .png, .svg or .pdf. Default: a PNG in the current folder."),
]


@command(plot_app)
def curves(
    path: Annotated[
        Path, typer.Argument(help="A folder that `train` wrote, or a file of run records.")
    ],
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric such as accuracy or loss. Repeatable.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this dataset, method or protocol. Repeatable.")
    ] = None,
    out: Out = None,
) -> None:
    """Plot metrics by epoch.

    For a bundle, shows mean and standard deviation over the runs of the selected configuration, the
    selected epoch, and the other candidates in grey.

    quatgraph plot my-model --metric loss
    """
    target = _check_target(out, f"curves-{_short_name(path)}")
    from quatgraph.plot.curves import curves

    _save(curves(path, metrics=metric or [], only=only or []), target)


@command(plot_app)
def table(
    name: Annotated[str, typer.Argument(help="The table: node, graph, link, text or fb15k-237.")],
    only: Only = None,
    results: Results = Path("results"),
    out: Out = None,
) -> None:
    """Plot a table of the paper: our results and the paper's numbers.

    quatgraph plot table node --only cora
    """
    target = _check_target(out, f"table-{Path(name).name}")
    from quatgraph.plot.tables import table_dots
    from quatgraph.reproduce.run import read_results
    from quatgraph.reproduce.table import load_table

    spec = load_table(name)
    _save(table_dots(spec, read_results(results), only or []), target)


@command(plot_app)
def ranks(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train link` wrote.")],
    part: Annotated[str, typer.Option(help="Split to rank: valid or test.")] = "test",
    device: Device = "auto",
    out: Out = None,
) -> None:
    """Plot the ranks of the true entities as a histogram.

    quatgraph plot ranks my-model
    """
    target = _check_target(out, f"ranks-{_short_name(bundle)}")
    from quatgraph.plot.ranks import rank_bars

    _save(rank_bars(bundle, part, device), target)


@command(plot_app)
def confusion(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote; not for triples.")],
    data: Annotated[
        Path | None, typer.Argument(help="New data with labels; the test data by default.")
    ] = None,
    device: Device = "auto",
    out: Out = None,
) -> None:
    """Plot a confusion matrix: how often each label gets each prediction.

    quatgraph plot confusion my-model
    """
    target = _check_target(out, f"confusion-{_short_name(bundle)}")
    from quatgraph.plot.confusion import confusion_matrix

    drawing, notes = confusion_matrix(bundle, data, device)
    for note in notes:
        log(note)
    _save(drawing, target)


def _short_name(path: Path) -> str:
    """The name of a file or folder without suffixes."""
    return path.resolve().name.partition(".")[0]


def _check_target(out: Path | None, name: str) -> Path:
    """The output file; rejects one that cannot be written before any work is done."""
    from quatgraph.files import check_writable
    from quatgraph.plot.style import check_format

    target = out or Path(f"{name}.png")
    check_format(target)
    check_writable(target)
    return target


def _save(drawing: "Drawing", target: Path) -> None:
    from quatgraph.plot.style import save

    save(drawing, target)
    echo(f"saved {target}")
