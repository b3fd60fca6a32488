"""Runs commands of the command line within a test."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from quatgraph.cli import app
from quatgraph.training import bundle


def call(*arguments: str) -> Any:
    """Runs a command in this process; what it raises beyond an exit is not swallowed."""
    return CliRunner().invoke(app, arguments, prog_name="quatgraph", catch_exceptions=False)


def assert_user_error(result: Any, *words: str, notes: bool = False) -> None:
    """One sentence on standard error, exit code 2, and nothing else.

    Args:
        notes: Whether notes on the data may come before the sentence.
    """
    assert result.exit_code == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("quatgraph: ")
    assert notes or result.stderr.count("\n") == 1
    assert all(line.startswith("quatgraph: ") for line in result.stderr.splitlines())
    for word in words:
        assert word in result.stderr.splitlines(keepends=True)[-1], result.stderr


def change_card(folder: Path, **changes: object) -> None:
    """Writes other values on a bundle's card, as if it had been saved with them."""
    card = json.loads((folder / "card.json").read_text()) | changes
    card |= {"card_sha256": bundle._digest(card)}
    (folder / "card.json").write_text(json.dumps(card))
