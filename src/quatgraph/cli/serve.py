"""Commands that serve: serve, board."""

import logging
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from quatgraph.cli.common import Device, app, command, echo, log
from quatgraph.errors import UserError

Host = Annotated[str, typer.Option(help="Address to listen on; other than loopback needs --token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")]
Token = Annotated[str, typer.Option(help="Token that clients must send.", envvar="QUATGRAPH_TOKEN")]
NoAuth = Annotated[bool, typer.Option("--no-auth", help="Let everyone who reaches it ask.")]
Origin = Annotated[
    list[str] | None,
    typer.Option("--cors", help="Origin of another site whose pages may ask. Repeatable."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Log no requests.")]


@command(app)
def serve(
    models: Annotated[list[Path], typer.Argument(help="Folders that `train` wrote.")],
    board: Annotated[
        Path | None, typer.Option(help="Also show the run records below this folder.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = "",
    no_auth: NoAuth = False,
    cors: Origin = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Serve trained models: a page for people, HTTP for programs.

    quatgraph serve my-model

    quatgraph serve model-a model-b --port 9000

    quatgraph serve my-model --host 0.0.0.0 --token SECRET
    """
    _serve(models, board, (host, port, token, no_auth, cors or []), device, quiet)


@command(app)
def board(
    folder: Annotated[Path, typer.Argument(help="A folder with run records, at any depth.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = "",
    no_auth: NoAuth = False,
    cors: Origin = None,
    quiet: Quiet = False,
) -> None:
    """Serve the results board: runs as a table, learning curves, methods compared.

    Running trainings appear as they write records.

    quatgraph board quatgraph-runs
    """
    _serve([], folder, (host, port, token, no_auth, cors or []), "cpu", quiet)


def _serve(
    models: list[Path],
    folder: Path | None,
    where: tuple[str, int, str, bool, list[str]],
    device: str,
    quiet: bool,
) -> None:
    try:
        from quatgraph.serve.board import Board
        from quatgraph.serve.gate import Limits
        from quatgraph.serve.registry import Registry
        from quatgraph.serve.run import Address, serve
    except ImportError as error:
        if error.name not in ("fastapi", "uvicorn", "pydantic", "starlette"):
            raise
        raise UserError(
            "the service needs FastAPI and uvicorn; install them with pip install "
            "'quatgraph[serve]'"
        ) from None
    if device not in ("auto", "cpu"):  # a mistake is told before anything is served
        from quatgraph.training.runtime import resolve_device

        resolve_device(device)
    host, port, token, no_auth, origins = where
    address = Address(host, port, token, no_auth, frozenset(origins))
    registry = Registry.open(models, device)
    shown = None if folder is None else Board(folder)
    if no_auth and not token:
        log(f"--no-auth: everyone who reaches {host} may use this service")
    if not quiet:
        logging.basicConfig(level=logging.INFO, format="%(message)s")

    def ready(url: str) -> None:
        # A log that is kept must not hold the token.
        shows_token = token and sys.stdout.isatty()
        echo(f"{url}#{urlencode({'token': token})}" if shows_token else url)
        sys.stdout.flush()

    serve(registry, shown, address, Limits(), ready)
