"""Batches: the data of each training step."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Batches(Protocol[T_co]):
    """The batches of an epoch, one for each training step."""

    max_loaded: int
    """How many batches of one shape :meth:`load` can return; a GPU replays their steps as one."""
    draws_late: bool
    """Whether :meth:`load` draws the batch, which takes time, and sets its shape in the list that
    :meth:`draw` has returned."""

    def draw(self, epoch: int) -> Sequence[Hashable]:
        """Draws the batches of an epoch, counted from 0, and returns the shape of each.

        Called between epochs, so it may wait for the device. The batches of a member depend only on
        its own seed and the epoch.
        """

    def load(self, step: int, count: int) -> Sequence[T_co]:
        """Returns the batches of ``count`` steps of one shape, beginning with ``step``.

        Batches of one shape share their buffers: a captured step is replayed on whatever the last
        call wrote to them.
        """


class WholeData(Generic[T]):
    """One batch per epoch, always the same: all data."""

    max_loaded = 1
    draws_late = False

    def __init__(self, batch: T) -> None:
        self.batch = batch

    def draw(self, epoch: int) -> Sequence[Hashable]:
        return ("all",)

    def load(self, step: int, count: int) -> Sequence[T]:
        return (self.batch,)


def group_steps(shapes: Sequence[Hashable], max_steps: int) -> Iterator[tuple[int, int]]:
    """Groups the steps of an epoch that run as one; yields the first step and the count of each.

    A group has ``max_steps`` consecutive steps of one shape; what remains runs step by step.
    """
    step = 0
    for _, same in groupby(shapes):
        remaining = len(list(same))
        while remaining:
            count = max_steps if remaining >= max_steps else 1
            yield step, count
            step, remaining = step + count, remaining - count
