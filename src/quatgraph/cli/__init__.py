"""The command line. Each command parses its arguments, calls one function and prints the result.

Commands import heavy modules in their bodies, so ``--help`` responds at once.
"""

import sys

import typer

from quatgraph.cli import compare, data, demo, embed, plot, predict, search, serve, train
from quatgraph.cli.common import app, open_standard_streams, report_errors

__all__ = [
    "app",
    "compare",
    "data",
    "demo",
    "embed",
    "main",
    "plot",
    "predict",
    "search",
    "serve",
    "train",
]


def main() -> None:
    open_standard_streams()
    try:
        with report_errors():  # outside of commands too, for example while printing --help
            app(prog_name="quatgraph")
    except typer.Exit as end:
        sys.exit(end.exit_code)
