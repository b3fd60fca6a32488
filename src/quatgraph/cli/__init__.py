"""The command line. Each command reads its arguments, calls one function and prints the result.

Heavy imports stand inside the commands, so that ``--help`` answers at once.
"""

import sys

import typer

from quatgraph.cli import data, demo, plot, predict, train
from quatgraph.cli.common import app, open_streams, reported

__all__ = ["app", "data", "demo", "main", "plot", "predict", "train"]


def main() -> None:
    open_streams()
    try:
        with reported():  # of what is no command, as --help
            app(prog_name="quatgraph")
    except typer.Exit as end:
        sys.exit(end.exit_code)
