"""What the steps of an epoch see, and which of them a GPU does as one."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from typing import Protocol


class Batches(Protocol):
    """Where an epoch is many steps: the parts of the data that each step sees."""

    at_once: int
    """How many batches of one shape can be loaded together, so that a GPU replays their steps as
    one, with no gap between them."""

    def draw(self, epoch: int) -> Sequence[Hashable]:
        """Draws the batches of an epoch, counted from 0, and gives the shape of each; steps of one
        shape are replayed as one. Called between epochs, so it may wait for the device. What a
        member draws depends on its own seed and the epoch alone."""

    def load(self, step: int, count: int) -> None:
        """Makes so many of the drawn batches the current ones, which ``loss`` takes, one at each
        call, and again from the first."""


class WholeData:
    """An epoch of one step, which sees all data."""

    at_once = 1

    def draw(self, epoch: int) -> Sequence[Hashable]:
        return ("all",)

    def load(self, step: int, count: int) -> None:
        pass


def together(shapes: Sequence[Hashable], most: int) -> Iterator[tuple[int, int]]:
    """The steps of an epoch, by the first and the number of those that are done as one: so many of
    one shape, and singly what is left of it."""
    step = 0
    for _, same in groupby(shapes):
        left = len(list(same))
        while left:
            some = most if left >= most else 1
            yield step, some
            step, left = step + some, left - some
