"""The options of queries to trained models, by task; the command line reads them without torch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from quatgraph.errors import UserError, did_you_mean


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword of a query, such as ``predictor.predict(top=3)``."""

    name: str
    type: Any
    help: str
    default: Any = None
    query: str = "predict"
    """The method of the predictor that takes it."""
    flag: str = ""
    """Its name on the command line, if that differs."""
    flag_value: Any = None
    """The value that the flag stands for, if the flag takes none."""

    @property
    def spelling(self) -> str:
        """The option on the command line."""
        return "--" + (self.flag or self.name)

    def matches(self, name: str) -> bool:
        return name in (self.name, self.spelling)


OPTIONS: dict[str, tuple[Option, ...]] = {
    "node": (Option("nodes", list[str], "ID of a node to classify. Repeatable.", flag="node"),),
    "graph": (Option("ids", list[str], "ID of a graph to classify. Repeatable.", flag="graph"),),
    "link": (
        Option("head", str, "The head; tails are predicted."),
        Option("relation", list[str], "The relation; with --missing repeatable."),
        Option("tail", str, "The tail; heads are predicted."),
        Option("top", int, "Number of predictions, 10 by default.", default=10),
        Option(
            "known",
            Literal["mark", "leave-out"],
            "Leave out known triples.",
            default="mark",
            flag="new",
            flag_value="leave-out",
        ),
        Option(
            "part",
            Literal["valid", "test"],
            "The triples to evaluate.",
            default="test",
            query="by_relation",
        ),
    ),
    "text": (
        Option("ids", list[str], "ID of a document to classify. Repeatable.", flag="document"),
        Option("vectors", str, "Vectors for new words: the file that training read."),
        Option(
            "explain",
            bool,
            "Compute the support of each word; slower.",
            default=False,
            flag_value=True,
        ),
    ),
}


def options_of(task: str, query: str = "predict") -> list[Option]:
    """The options that a query takes."""
    return [option for option in OPTIONS.get(task, ()) if option.query == query]


def check_options(task: str, given: Iterable[str], query: str = "predict") -> None:
    """Refuses options that a query does not take.

    Args:
        given: Names of options, or with dashes their spellings on the command line.
    """
    taken = options_of(task, query)
    for name in given:
        if any(option.matches(name) for option in taken):
            continue
        for owner in OPTIONS:
            if any(option.matches(name) for option in options_of(owner, query)):
                why = f"but the model is for the task {task!r}"
                raise UserError(f"{name} is an option for {owner} models, {why}")
        names = [option.name for option in taken]
        hint = did_you_mean(name, names) or f"; choose from {', '.join(names)}"
        raise UserError(f"unknown option {name!r}{hint}")
