"""``python -m tools.outcomes``: measures the source tree against its limits.

Counts come from the syntax trees; nothing is imported. ``--places`` lists where each count comes
from. Tests check targets on behaviour, such as the independence of seeds.
"""

import argparse
import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_LINES, MOST_PARAMETERS = 400, 6
BASELINES = "gin", "gfn"
"""Graph-classification baselines that no other task has."""
ELSEWHERE = "data", "layers", "plot", "presets", "reproduce"
"""Packages where the name of a baseline also names a file format, a layer, a rule or a row."""


@dataclass(frozen=True)
class Outcome:
    """A measured number, its upper bound, and the places it comes from."""

    name: str
    value: int
    most: int
    places: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.value <= self.most


@dataclass(frozen=True)
class Module:
    """A Python file, with its path relative to the package."""

    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def package(self) -> str:
        return self.path.parts[0]

    @property
    def num_lines(self) -> int:
        return len(self.text.splitlines())

    def place(self, node: ast.expr | ast.stmt) -> str:
        return f"{self.path}:{node.lineno}"


def read_modules(package: Path) -> list[Module]:
    paths = sorted(package.rglob("*.py"))
    return [Module(path.relative_to(package), path.read_text()) for path in paths]


def measure(root: Path) -> list[Outcome]:
    """Measures the outcomes of a checkout."""
    modules = read_modules(root / "src" / "quatgraph")
    readme = len((root / "README.md").read_text().splitlines())

    def count(name: str, most: int, find: Callable[[list[Module]], Iterable[str]]) -> Outcome:
        places = tuple(find(modules))
        return Outcome(name, len(places), most, places)

    return [
        count("files that name a graph baseline (those to touch, at least)", 2, baseline_files),
        count("comparisons of model.name outside models/", 0, name_comparisons),
        count("uses of Any in tasks/", 9, uses_of_any),
        count(f"functions with more than {MOST_PARAMETERS} parameters", 0, long_signatures),
        Outcome("lines of Python in the wheel", sum(m.num_lines for m in modules), 22_999),
        count(f"modules with more than {MOST_LINES} lines", 0, long_modules),
        Outcome("lines of README.md", readme, 150),
    ]


def name_comparisons(modules: Iterable[Module]) -> Iterator[str]:
    """Comparisons of ``model.name`` or ``options.name`` with ``==``, ``!=``, ``in`` or ``match``
    outside of ``models``."""
    for module in modules:
        if module.package == "models":
            continue
        for node in ast.walk(module.tree):
            match node:
                case ast.Compare(left, _, others) if any(map(_is_model_name, (left, *others))):
                    yield module.place(node)
                case ast.Match(subject) if _is_model_name(subject):
                    yield module.place(node)


def _is_model_name(node: ast.expr) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    return ast.unparse(node.value).rpartition(".")[2] in ("model", "options")


def uses_of_any(modules: Iterable[Module]) -> Iterator[str]:
    """Uses of ``Any`` in ``tasks``, except imports."""
    for module in modules:
        for node in ast.walk(module.tree) if module.package == "tasks" else ():
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            if ast.unparse(node) in ("Any", "typing.Any"):
                yield module.place(node)


def long_signatures(modules: Iterable[Module]) -> Iterator[str]:
    """Functions with too many parameters, except in ``ops``, constructors and commands."""
    for module in modules:
        for node in ast.walk(module.tree) if module.package != "ops" else ():
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            exempt = node.name in ("__init__", "__new__") or _is_command(node)
            if not exempt and _num_parameters(node.args) > MOST_PARAMETERS:
                yield f"{module.place(node)} {node.name}"


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator is ``@command``, ``@app.command`` or a call of either."""
    called = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(ast.unparse(d).rpartition(".")[2] == "command" for d in called)


def _num_parameters(arguments: ast.arguments) -> int:
    """Parameters without ``self`` and ``cls``; ``*args`` and ``**kwargs`` count as one each."""
    named = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    bound = named[:1] in (["self"], ["cls"])
    more = arguments.vararg, arguments.kwarg, *arguments.kwonlyargs
    return len(named) - bound + sum(one is not None for one in more)


def long_modules(modules: Iterable[Module]) -> Iterator[str]:
    return (f"{m.path} {m.num_lines}" for m in modules if m.num_lines > MOST_LINES)


def baseline_files(modules: Iterable[Module]) -> list[str]:
    """The files that name a baseline; the longest list of all baselines.

    A new baseline touches as many files, and perhaps others that do not name it, which a syntax
    tree does not show.
    """
    known = [module for module in modules if module.package not in ELSEWHERE]
    named = ([str(m.path) for m in known if mentions(m, name)] for name in BASELINES)
    return max(named, key=len)


def mentions(module: Module, word: str) -> bool:
    """Whether the code has the word as a string, in a name (``gin`` in ``GraphGIN``), or as the
    name of the file. Comments and docstrings do not count."""
    found = [module.path.stem]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and node.value == word:
            return True
        for field in ("id", "attr", "name", "arg", "module"):
            found.append(str(getattr(node, field, None) or ""))
    return any(word in _words(name) for name in found)


def _words(name: str) -> list[str]:
    """The words of an identifier: ``GraphGIN`` and ``graph_gin`` are graph and gin."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def render(outcomes: Sequence[Outcome], *, places: bool = False) -> str:
    width = max(len(outcome.name) for outcome in outcomes)
    lines = [f"{'outcome':{width}}  {'now':>7}  {'target':>8}"]
    for outcome in outcomes:
        target = f"<= {outcome.most:,}" if outcome.most else "0"
        verdict = "" if outcome.holds else "  missed"
        lines.append(f"{outcome.name:{width}}  {outcome.value:>7,}  {target:>8}{verdict}")
        lines += [f"    {place}" for place in outcome.places if places]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.outcomes", description=__doc__)
    parser.add_argument("--places", action="store_true", help="list where each count comes from")
    print(render(measure(ROOT), places=parser.parse_args().places))


if __name__ == "__main__":
    main()
