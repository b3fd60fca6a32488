"""The queries to trained models and their options, by task: one table, read without torch.

The command line and services read it, and ``tests/test_query_options.py`` compares it with the
signatures of the predictors.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_origin

from quatgraph.errors import UserError, did_you_mean


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword of a query, such as ``predictor.predict(top=3)``."""

    name: str
    type: Any
    help: str
    default: Any = None
    flag: str = ""
    """Its name on the command line, if that differs."""
    flag_value: Any = None
    """The value that the flag stands for, if the flag takes none."""
    single: Any = None
    """Its default on the command line for a single text, if that differs."""

    @property
    def spelling(self) -> str:
        """The option on the command line."""
        return "--" + (self.flag or self.name)

    @property
    def repeats(self) -> bool:
        return get_origin(self.type) is list

    def matches(self, name: str) -> bool:
        return name in (self.name, self.spelling)


@dataclass(frozen=True, slots=True)
class Query:
    """A method of a predictor that answers, and its options."""

    method: str = "predict"
    options: tuple[Option, ...] = ()
    flag: str = ""
    """What selects it on the command line."""
    help: str = ""
    command: str = "predict"
    """The command that runs it."""
    data: Literal["path", "texts", "none"] = "path"
    """What the command line passes first: a path, texts or a path, or nothing."""
    shows_progress: bool = False
    """Whether it takes ``progress=True``, which shows a progress bar."""

    def matches(self, name: str) -> bool:
        """Whether it takes an option, or is selected by it."""
        return name == f"--{self.flag}" or any(option.matches(name) for option in self.options)


def _explain(text: str, **values: Any) -> Option:
    return Option("explain", bool, text, default=False, flag_value=True, **values)


_EXPLAIN_LINKS = _explain("Name the known triples that support each prediction.")

QUERIES: dict[str, tuple[Query, ...]] = {
    "node": (
        Query(
            options=(
                Option("nodes", list[str], "ID of a node to classify. Repeatable.", flag="node"),
            )
        ),
    ),
    "graph": (
        Query(
            options=(
                Option("ids", list[str], "ID of a graph to classify. Repeatable.", flag="graph"),
                Option("smiles", list[str], "SMILES of a molecule to classify. Repeatable."),
                _explain("Compute what each node contributes; slower."),
            )
        ),
    ),
    "link": (
        Query(
            options=(
                Option("head", str, "The head; tails are predicted."),
                Option("relation", str, "The relation."),
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
                _EXPLAIN_LINKS,
            )
        ),
        Query(
            "predict_missing",
            (
                Option("relation", list[str], "A relation to rank, all by default. Repeatable."),
                Option("top", int, "Number of triples, 1000 by default.", default=1000),
                _EXPLAIN_LINKS,
            ),
            flag="missing",
            help="Rank all triples that are not known, by probability.",
            data="none",
            shows_progress=True,
        ),
        Query(
            "by_relation",
            (Option("part", Literal["valid", "test"], "The triples to evaluate.", default="test"),),
            flag="by-relation",
            help="Show metrics by relation.",
            command="evaluate",
            data="none",
        ),
    ),
    "text": (
        Query(
            options=(
                Option(
                    "ids", list[str], "ID of a document to classify. Repeatable.", flag="document"
                ),
                Option("vectors", Path, "Vectors for new words: the file that training read."),
                _explain("Compute the support of each word; slower.", single=True),
            ),
            data="texts",
        ),
    ),
}


def queries_of(task: str, command: str = "predict") -> list[Query]:
    """The queries of a task that a command runs, the default one first."""
    return [query for query in QUERIES.get(task, (Query(),)) if query.command == command]


def find_query(task: str, method: str = "predict") -> Query:
    """The query of a task by its method; a task without it is refused."""
    for query in QUERIES.get(task, (Query(),)):
        if query.method == method:
            return query
    named = {query.method: f"--{query.flag}" for own in QUERIES.values() for query in own}
    raise UserError(_name_owners(named.get(method, method), task) or f"no query {method!r}")


def check_options(task: str, given: Iterable[str], method: str = "predict") -> None:
    """Refuses options that a query does not take.

    Args:
        given: Names of options, or with dashes their spellings on the command line.
    """
    query = find_query(task, method)
    for name in given:
        if query.matches(name):
            continue
        siblings = any(other.matches(name) for other in queries_of(task, query.command))
        if siblings and query.flag and name.startswith("--"):
            taken = ", ".join(option.spelling for option in query.options)
            raise UserError(f"--{query.flag} does not go with {name}; it takes {taken}")
        if not siblings and (owners := _name_owners(name, task)):
            raise UserError(owners)
        names = [option.name for option in query.options]
        hint = did_you_mean(name, names) or f"; choose from {', '.join(names)}"
        raise UserError(f"unknown option {name!r}{hint}")


def parse_flags(task: str, flags: Mapping[str, Any]) -> tuple[Query, dict[str, Any]]:
    """The query that flags of ``predict`` make to a model of a task, and its keywords.

    Args:
        flags: The values of those that were given, by their spellings.

    Example:
        >>> query, keywords = parse_flags("link", {"--missing": True, "--top": 5})
        >>> query.method, keywords
        ('predict_missing', {'top': 5})
    """
    queries = queries_of(task)
    query = next((one for one in queries if f"--{one.flag}" in flags), queries[0])
    check_options(task, flags, query.method)
    keywords = {}
    for option in query.options:
        if option.spelling in flags:
            value = flags[option.spelling] if option.flag_value is None else option.flag_value
            if isinstance(value, list) and not option.repeats:
                if len(value) > 1:
                    raise UserError(_explain_repeated(option.spelling, queries))
                value = value[0]
            keywords[option.name] = value
    return query, keywords


def _explain_repeated(spelling: str, queries: Iterable[Query]) -> str:
    flags = [
        f"--{query.flag}"
        for query in queries
        if any(option.spelling == spelling and option.repeats for option in query.options)
    ]
    return f"give {spelling} once; several are for {' and '.join(flags)}"


def _name_owners(name: str, task: str) -> str:
    """Says which tasks have an option; empty if none has."""
    owners = [
        owner
        for owner, queries in QUERIES.items()
        if owner != task and any(query.matches(name) for query in queries)
    ]
    if not owners:
        return ""
    why = f"but the model is for the task {task!r}"
    *first, last = owners
    tasks = f"{', '.join(first)} and {last}" if first else last
    return f"{name} is an option for {tasks} models, {why}"
