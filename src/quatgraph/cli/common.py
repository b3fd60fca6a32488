"""What all commands share: the app, errors told in one sentence, progress, output."""

import ctypes
import functools
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any, ParamSpec

import typer
from typer.core import TyperGroup

from quatgraph import __version__
from quatgraph.errors import Mistake, printable
from quatgraph.signals import cleaned_up, exit_code, interruptible

P = ParamSpec("P")

UsageError: Any = typer.BadParameter.__base__
"""What is raised of an option or argument that there is not, that lacks, or that is of no use."""


class _Root(TyperGroup):
    """All commands; what is wrong with how one is called is told in one sentence."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _usage_told():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _usage_told():
            return super().invoke(ctx)


@contextmanager
def _usage_told() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        said = error.format_message().rstrip(".")
        said = said.replace(". Did", "; did").replace("(Possible", "(possible")
        if "\n" in said:  # the help of a group that was called without a command
            raise
        more = f"; see `{error.ctx.command_path} --help`" if error.ctx and said[-1] != "?" else ""
        tell(f"{said[0].lower()}{said[1:]}{more}")
        raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Root,
    help="Quaternion graph neural networks: train, ask, reproduce.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line, for programs.")]
MaxMinutes = Annotated[
    float | None, typer.Option(help="Stop at a checkpoint after so many minutes; exit 0.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Change a setting: train.lr=0.01; may repeat.")
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    keep_memory()


def keep_memory() -> None:
    """Lets this process keep the memory it frees, up to 2 GiB beyond the last it uses: otherwise
    every large tensor is made of new pages, which on a CPU can take as long as filling them."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # Linux
        largest, trim_threshold, mmap_max = 2**31 - 1, -1, -4
        libc.mallopt(trim_threshold, largest)
        libc.mallopt(mmap_max, 0)


def command(home: typer.Typer, name: str | None = None) -> Callable[[Callable[P, None]], Any]:
    """Adds a command whose mistakes are told in one sentence, with the right exit code."""

    def add(body: Callable[P, None]) -> Any:
        @functools.wraps(body)
        def told(*args: P.args, **kwargs: P.kwargs) -> None:
            # Dependencies' deprecations are ours to follow, not a user's to read.
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=FutureWarning)
            warnings.filterwarnings("ignore", message="Sparse CS[RC] tensor support")
            with reported(), interruptible():
                body(*args, **kwargs)
                sys.stdout.flush()

        return home.command(name)(told)

    return add


@contextmanager
def reported() -> Iterator[None]:
    """Reports what ends a command in one sentence, and exits with the right code."""
    try:
        yield
    except Mistake as mistake:
        tell(str(mistake))
        raise typer.Exit(2) from None
    except KeyboardInterrupt as interrupt:
        tell("interrupted; what had been saved, if anything, is kept")
        raise typer.Exit(exit_code(interrupt)) from None
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _discard_output()
        raise typer.Exit(0) from None
    except OSError as error:  # a path too long, no permission, a full disk
        if error.filename == _OUTPUT:
            _discard_output()
        tell(f"{error.filename or 'a file'}: {error.strerror or error}")
        raise typer.Exit(2) from None
    except (MemoryError, RuntimeError) as error:
        sentence = _out_of_memory(error)
        if not sentence:
            raise
        tell(sentence)
        raise typer.Exit(1) from None


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Output(io.FileIO):
    """Standard output, which an error names."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = _OUTPUT
            raise


class _Errors(io.FileIO):
    """Standard error: what it does not take, as after its terminal was closed, is lost."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(data)


_OUTPUT = "standard output"


def open_streams() -> None:
    """Opens closed standard streams on nothing, lest a file gets a descriptor that is printed to,
    and lets standard error never fail."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Errors(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, like: Any) -> io.TextIOWrapper:
    """A stream of text in place of one, or of none."""
    encoding, errors = (like.encoding, like.errors) if like else (None, "backslashreplace")
    by_line = raw.isatty() or isinstance(raw, _Errors)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=by_line)


def _out_of_memory(error: Exception) -> str:
    """What to say of memory that did not suffice; nothing of any other error."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # torch, on a CPU
        return f"out of memory; lower {WIDTHS} or the number of seeds"
    if "out of memory" in str(error):
        return f"the device is out of memory; lower {WIDTHS} or use --device cpu"
    return ""


WIDTHS = "model.hidden_quats (link: model.dim_quats)"
"""What decides how wide a model is."""


def emit(value: Mapping[str, Any]) -> None:
    """One JSON object on one line; numbers that JSON lacks become null."""
    from quatgraph.training.runtime import json_text

    typer.echo(json_text(value))


def emit_light(value: Mapping[str, Any]) -> None:
    """As :func:`emit`, for commands that need no torch."""
    typer.echo(json.dumps(value, sort_keys=True))


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar with rate and time left on standard error; silent where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda title, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} epochs"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, Any] = {}

    def show(title: str, done: int, total: int) -> None:
        if title not in tasks or done < bar.tasks[tasks[title]].completed:
            tasks[title] = bar.add_task(printable(title), total=total)
        bar.update(tasks[title], completed=done, visible=done < total)

    with cleaned_up(), bar:
        yield show


def tell(sentence: str) -> None:
    """One sentence on standard error."""
    typer.echo(f"quatgraph: {printable(sentence)}", err=True)


def say(sentence: str) -> None:
    """One line for people on standard output."""
    typer.echo(printable(sentence))
