"""Progress of a training from Python: an event per interval, a bar, and adapters for loggers.

A callback gets two kinds of events. While an ensemble trains, it is called whenever the host waits
for the device anyway, after every epoch on a CPU and every 25 epochs on a GPU, without metrics.
When the training has ended, it is called with the metrics of every run at every evaluation.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from quatgraph.errors import printable
from quatgraph.signals import cleanup_pending


@dataclass(frozen=True, slots=True)
class Event:
    """How far a training is."""

    title: str
    """What is trained: an ensemble, or with ``metrics`` a run of it."""
    epoch: int
    total: int
    """The most epochs that it takes."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Metrics after this epoch, such as ``valid/accuracy``; empty while training."""


Callback = Callable[[Event], None]


class Writer(Protocol):
    """TensorBoard's ``SummaryWriter``."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


class Run(Protocol):
    """A run of Weights & Biases, as ``wandb.init`` returns it."""

    def log(self, data: dict[str, Any]) -> Any: ...


def tensorboard(writer: Writer) -> Callback:
    """A callback that writes the curves of each run, under the title of the run.

    Example:
        With TensorBoard installed::

            from torch.utils.tensorboard import SummaryWriter

            writer = SummaryWriter("logs")
            quatgraph.train_nodes(data, "model", callback=quatgraph.callbacks.tensorboard(writer))
    """

    def write(event: Event) -> None:
        for name, value in event.metrics.items():
            writer.add_scalar(f"{event.title}/{name}", value, event.epoch)

    return write


def wandb(run: Run) -> Callback:
    """A callback that logs the curves of each run, with the epoch beside them.

    The epoch is a value, not the step: runs that trained together all start at epoch 1, and steps
    must increase.
    """

    def log(event: Event) -> None:
        if event.metrics:
            named = {f"{event.title}/{name}": value for name, value in event.metrics.items()}
            run.log(named | {"epoch": event.epoch})

    return log


@contextmanager
def progress_bar(unit: str = "epochs") -> Iterator[Callable[[str, int, int], None]]:
    """Shows a bar on standard error if that is a terminal, or in a notebook.

    Yields the function that updates it, with what is trained, the epochs (or whatever the unit is)
    done and the total.
    """
    in_notebook = "IPython" in sys.modules  # rich is loaded only where it may draw
    if not (sys.stderr.isatty() or in_notebook):
        yield lambda title, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(f"{{task.completed}}/{{task.total}} {unit}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (console.is_jupyter or console.is_terminal),
    )
    tasks: dict[str, Any] = {}

    def update(title: str, done: int, total: int) -> None:
        if title not in tasks or done < bar.tasks[tasks[title]].completed:
            tasks[title] = bar.add_task(printable(title), total=total)
        bar.update(tasks[title], completed=done, visible=done < total)

    with cleanup_pending(), bar:
        yield update
