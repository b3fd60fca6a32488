"""Shared by all commands: the app, common options, error reporting, progress bars, output."""

import ctypes
import functools
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec

import typer
from typer.core import TyperGroup

from quatgraph import __version__
from quatgraph.callbacks import progress_bar
from quatgraph.errors import UserError, printable
from quatgraph.signals import exit_code, interruptible

if TYPE_CHECKING:
    from quatgraph.training.context import Context

P = ParamSpec("P")

UsageError: Any = typer.BadParameter.__base__
"""Click's error for an unknown, missing or invalid option or argument."""


class _Root(TyperGroup):
    """The root group; reports usage errors in one sentence."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _report_usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _report_usage_errors():
            return super().invoke(ctx)


@contextmanager
def _report_usage_errors() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        message = error.format_message().rstrip(".")
        message = message.replace(". Did", "; did").replace("(Possible", "(possible")
        if "\n" in message:  # the help of a group that was called without a command
            raise
        has_help = error.ctx and not message.endswith("?")
        hint = f"; see `{error.ctx.command_path} --help`" if has_help else ""
        log(f"{message[0].lower()}{message[1:]}{hint}")
        raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Root,
    help="Quaternion graph neural networks: train, predict, reproduce.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Device = Annotated[str, typer.Option(help="Device to use: auto, cpu, cuda or cuda:N.")]
Directed = Annotated[
    bool, typer.Option(help="node: keep edges directed instead of adding both directions.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
MaxMinutes = Annotated[
    float | None, typer.Option(help="Save a checkpoint and stop after this many minutes.")
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Train on a Ray cluster: auto, HOST:PORT, or local to start one on this machine.",
    ),
]
Results = Annotated[Path, typer.Option(help="Folder with the run records.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set a config value, e.g. train.lr=0.01. Repeatable."),
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    retain_freed_memory()


def retain_freed_memory() -> None:
    """Stops glibc from returning freed memory to the system, up to 2 GiB.

    Otherwise every large tensor faults in new pages, which on a CPU can take as long as filling it.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # Linux
        trim_threshold, mmap_max = -1, -4
        libc.mallopt(trim_threshold, 2**31 - 1)
        libc.mallopt(mmap_max, 0)


def command(
    parent: typer.Typer, name: str | None = None, *, ranks: bool = False
) -> Callable[[Callable[P, None]], Any]:
    """Decorator: registers a command that reports its errors in one sentence; ``ranks`` says
    whether it can run on several of them."""

    def register(body: Callable[P, None]) -> Any:
        @functools.wraps(body)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            # Deprecations in dependencies concern us, not users.
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=FutureWarning)
            warnings.filterwarnings("ignore", message="Sparse CS[RC] tensor support")
            with report_errors(), interruptible():
                if not ranks and on_ranks():
                    _refuse_ranks()
                body(*args, **kwargs)
                sys.stdout.flush()

        return parent.command(name)(run)

    return register


@contextmanager
def report_errors() -> Iterator[None]:
    """Reports an error in one sentence and exits with the right code."""
    try:
        yield
    except UserError as mistake:
        log(str(mistake))
        raise typer.Exit(2) from None
    except KeyboardInterrupt as interrupt:
        log("interrupted; files that were already written are kept")
        raise typer.Exit(exit_code(interrupt)) from None
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        _discard_output()
        raise typer.Exit(0) from None
    except OSError as error:  # a path too long, no permission, a full disk
        if error.filename == _OUTPUT:
            _discard_output()
        log(f"{error.filename or 'a file'}: {error.strerror or error}")
        raise typer.Exit(2) from None
    except (MemoryError, RuntimeError) as error:
        message = _describe_out_of_memory(error)
        if not message:
            raise
        log(message)
        raise typer.Exit(1) from None


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Output(io.FileIO):
    """Standard output; names itself in its errors."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = _OUTPUT
            raise


class _Errors(io.FileIO):
    """Standard error; drops what it cannot write, for example to a closed terminal."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(data)


_OUTPUT = "standard output"


def open_standard_streams() -> None:
    """Opens closed standard streams on the null device and makes standard error never fail.

    Without this, a file could get the descriptor of a closed stream and receive its output.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrap_stream(_Output(1, "w", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _wrap_stream(_Errors(2, "w", closefd=False), sys.stderr)


def _wrap_stream(raw: io.FileIO, like: Any) -> io.TextIOWrapper:
    """A text stream with the encoding of ``like``, which may be None."""
    encoding, errors = (like.encoding, like.errors) if like else (None, "backslashreplace")
    line_buffering = raw.isatty() or isinstance(raw, _Errors)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=line_buffering)


def _describe_out_of_memory(error: Exception) -> str:
    """The message for an out-of-memory error; empty for any other error."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # torch, on a CPU
        return f"out of memory; lower {WIDTHS} or the number of seeds"
    if "out of memory" in str(error):
        return f"the device is out of memory; lower {WIDTHS} or use --device cpu"
    return ""


WIDTHS = "model.hidden_quats (link: model.dim_quats)"
"""The settings that determine the width of a model."""


def emit(value: Mapping[str, Any]) -> None:
    """Prints a JSON object on one line; NaN and infinity become null."""
    from quatgraph.training.runtime import json_text

    typer.echo(json_text(value))


@contextmanager
def training_context(
    device: str, max_minutes: float | None = None, ray: str | None = None
) -> Iterator["Context"]:
    """The context of a training whose progress is shown."""
    from quatgraph.training.context import Context
    from quatgraph.training.runtime import Deadline, resolve_device

    deadline = Deadline(max_minutes)
    with ExitStack() as stack:
        cluster = None
        if ray is not None:
            from quatgraph.tasks.cluster import connect

            cluster = stack.enter_context(connect(ray, device))
            device = "auto" if cluster["num_gpus"] else "cpu"  # this process may have no GPU
        update = stack.enter_context(progress_bar())
        yield Context(resolve_device(device), deadline, cluster=cluster, progress=update)


def _refuse_ranks() -> NoReturn:
    if os.environ["RANK"] != "0":
        raise typer.Exit(2)  # the first rank says why
    raise UserError(
        "torchrun shards the entities of a knowledge graph: only `quatgraph train link` runs on "
        "several ranks, so start this command without torchrun"
    )


def on_ranks() -> bool:
    """Whether this process is one of those that torchrun, or another launcher, has started."""
    alone = "TORCHELASTIC_RUN_ID" not in os.environ and os.environ.get("WORLD_SIZE", "1") == "1"
    return "RANK" in os.environ and not alone


def log(message: str) -> None:
    """Prints one line on standard error, with control characters escaped."""
    typer.echo(f"quatgraph: {printable(message)}", err=True)


def echo(message: str) -> None:
    """Prints one line on standard output, with control characters escaped."""
    typer.echo(printable(message))
