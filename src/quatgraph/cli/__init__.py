"""The command line. Each command reads its arguments, calls one function and prints the result.

Heavy imports stand inside the commands, so that ``--help`` answers at once.
"""

from quatgraph.cli import ask, demo, draw, learn, look
from quatgraph.cli.shell import app

__all__ = ["app", "ask", "demo", "draw", "learn", "look", "main"]


def main() -> None:
    app(prog_name="quatgraph")
