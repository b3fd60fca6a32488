"""The records of this repository, read once by each process."""

from functools import cache
from pathlib import Path

from quatgraph.reproduce.run import read_results
from quatgraph.training.record import RunRecord


@cache
def recorded() -> list[RunRecord]:
    return read_results(Path(__file__).parents[1] / "results")
