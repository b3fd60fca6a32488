"""The counters of outcomes, on small trees."""

from pathlib import Path

import pytest

from tools.outcomes import (
    Module,
    Outcome,
    baseline_files,
    long_modules,
    long_signatures,
    measure,
    mentions,
    name_comparisons,
    render,
    uses_of_any,
)


def module(text: str, path: str = "tasks/node/run.py") -> Module:
    return Module(Path(path), text)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("a = config.model.name == 'gat'", 1),
        ("a = 'gat' != model.name", 1),
        ("a = model.name in ('gat', 'gcn') or options.name not in NAMES", 2),
        ("if self.config.model.name == 'gat': pass", 1),
        ("match model.name:\n    case 'gat': pass", 1),
        ("a = MODELS[config.model.name]", 0),
        ("a = dataset.name == 'cora'", 0),
        ("a = 'model.name == 1'  # model.name == 1", 0),
    ],
)
def test_comparisons_of_a_models_name_are_counted(line: str, number: int) -> None:
    assert len(list(name_comparisons([module(line)]))) == number
    assert not list(name_comparisons([module(line, "models/node/gat.py")]))


def test_a_place_is_a_path_and_a_line() -> None:
    assert list(name_comparisons([module("\na = model.name == 1")])) == ["tasks/node/run.py:2"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("from typing import Any", 0),
        ("from typing import Any\ndef f(x: Any, *y: Any) -> dict[str, Any]: ...", 3),
        ("import typing\nx: typing.Any = 1\nHook = Callable[..., typing.Any]", 2),
        ("x = any(y)\n'''Any'''  # Any", 0),
    ],
)
def test_uses_of_any_are_counted_in_tasks_alone(text: str, number: int) -> None:
    assert len(list(uses_of_any([module(text)]))) == number
    assert not list(uses_of_any([module(text, "training/loop.py")]))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(a, b, c, d, e, g): ...", False),
        ("def f(a, b, c, d, e, g, h): ...", True),
        ("def f(a, /, b, c, d, *, e, g, h=1): ...", True),
        ("async def f(a, b, c, d, e, *args, **options): ...", True),
        ("def f(a, b, c, d, *args, **options): ...", False),
        ("class A:\n    def f(self, a, b, c, d, e, g): ...", False),
        ("class A:\n    @classmethod\n    def f(cls, a, b, c, d, e, g, h): ...", True),
        ("class A:\n    def __init__(self, a, b, c, d, e, g, h): ...", False),
        ("@command(app)\ndef f(a, b, c, d, e, g, h): ...", False),
        ("@app.command('list')\ndef f(a, b, c, d, e, g, h): ...", False),
        ("@app.command\ndef f(a, b, c, d, e, g, h): ...", False),
        ("@cache\ndef f(a, b, c, d, e, g, h): ...", True),
    ],
)
def test_functions_with_more_than_six_parameters_are_found(text: str, found: bool) -> None:
    assert bool(list(long_signatures([module(text)]))) == found
    assert not list(long_signatures([module(text, "ops/aggregate.py")]))


def test_modules_with_more_than_four_hundred_lines_are_found() -> None:
    modules = [module("\n" * 400, "short.py"), module("\n" * 401, "long.py")]
    assert list(long_modules(modules)) == ["long.py 401"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MODELS = {'gin': 1}", True),
        ("class GraphGIN: ...", True),
        ("from models import GINConv", True),
        ("from models.gin import Model", True),
        ("x = models.graph_gin", True),
        ("def gin(): ...", True),
        ("def f(gin): ...", True),
        ("begin = margin = GINGER = 'begin'", False),
        ("'''The rule of gin, as GIN has it.'''  # gin", False),
    ],
)
def test_a_baseline_is_found_by_its_name_in_code(text: str, found: bool) -> None:
    assert mentions(module(text), "gin") == found


def test_a_file_is_named_after_its_baseline() -> None:
    assert mentions(module("", "models/graph/gin.py"), "gin")


def test_the_baseline_that_most_files_name_counts() -> None:
    modules = [
        module("class GIN: ...", "models/graph/gin.py"),
        module("class GFN: ...", "models/graph/gfn.py"),
        module("MODELS = {'gin': GIN, 'gfn': GFN}", "models/graph/__init__.py"),
        module("a = name == 'gfn'", "tasks/graph/run.py"),
        module("RULES = {'gin': 1}", "reproduce/rules.py"),
    ]
    wanted = ["models/graph/gfn.py", "models/graph/__init__.py", "tasks/graph/run.py"]
    assert baseline_files(modules) == wanted


def test_a_checkout_is_measured(tmp_path: Path) -> None:
    package = tmp_path / "src" / "quatgraph"
    (package / "tasks").mkdir(parents=True)
    (package / "__init__.py").write_text("x = 1\n" * 3)
    (package / "tasks" / "run.py").write_text("def f(x: Any) -> Any:\n    return x\n")
    (tmp_path / "README.md").write_text("# Title\n" * 151)
    values = {outcome.name: outcome.value for outcome in measure(tmp_path)}
    assert values["lines of Python in the wheel"] == 5
    assert values["uses of Any in tasks/"] == 2
    assert values["lines of README.md"] == 151
    assert sum(values.values()) == 158


def test_a_table_shows_what_is_missed_and_on_demand_where() -> None:
    outcomes = [Outcome("lines", 1200, 1000), Outcome("places", 1, 0, ("a.py:3",))]
    assert render(outcomes).splitlines() == [
        "outcome      now    target",
        "lines     1,200  <= 1,000  missed",
        "places        1         0  missed",
    ]
    assert render(outcomes, places=True).splitlines()[-1] == "    a.py:3"
    assert not render([Outcome("lines", 1000, 1000)]).endswith("missed")
