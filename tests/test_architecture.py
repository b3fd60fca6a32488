"""The package graph of ARCHITECTURE.md and the promises of `import quatgraph`, held by tests."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import quatgraph

ROOT = Path(quatgraph.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
LAYERS = [
    {"suggestions", "signals"},
    {"errors"},
    {"algebra", "callbacks", "config", "files", "poincare"},
    {"ops", "presets", "query_options", "settings"},
    {"entries"},
    {"adjacency"},
    {"blocks", "codes", "relational", "sampling"},
    {"hops"},
    {"metrics"},
    {"layers", "data", "training"},
    {"models"},
    {"tasks"},
    {"reproduce", "predictors"},
    {"client", "estimators"},
    {"plot", "comparison"},
    {"serve"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
every_module = pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))


def home_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Everything a tree imports, ``from a import b`` as ``a.b``, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are written out in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_packages(tree: ast.AST) -> set[str]:
    """The parts of quatgraph that a tree imports; a public name counts as its home."""
    found = set()
    for module in imported_modules(tree):
        root, _, rest = module.partition(".")
        if root == "quatgraph" and rest:
            first = rest.split(".")[0]
            found.add(quatgraph._MODULE_OF.get(first, first).split(".")[0])
    return found - {"__version__"}


def at_module_level(tree: ast.Module) -> ast.Module:
    """The tree without the bodies of its functions."""

    class WithoutFunctions(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

    return ast.fix_missing_locations(WithoutFunctions().visit(tree))


@pytest.mark.parametrize(
    ("line", "packages"),
    [
        ("from quatgraph.ops.backend import backend", {"ops"}),
        ("from quatgraph import config as configs", {"config"}),
        ("import quatgraph.data.node", {"data"}),
        ("from quatgraph import QGNN", {"models"}),
        ("def f():\n    from quatgraph.cli import app", {"cli"}),
        ("from quatgraph import __version__\nimport torch", set()),
    ],
)
def test_every_way_of_importing_is_seen(line: str, packages: set[str]) -> None:
    assert imported_packages(ast.parse(line)) == packages


@every_module
def test_imports_only_point_down(path: Path) -> None:
    home = home_of(path)
    if home == "__init__":
        return
    for package in imported_packages(ast.parse(path.read_text())) - {home}:
        assert LEVEL[package] < LEVEL[home], f"{home} must not import {package}"


def test_shared_data_modules_import_no_task() -> None:
    tasks = tuple(f"quatgraph.data.{task}." for task in ("node", "graph", "link", "text"))
    for path in (*(ROOT / "data" / "io").glob("*.py"), *(ROOT / "data").glob("*.py")):
        found = [m for m in imported_modules(ast.parse(path.read_text())) if m.startswith(tasks)]
        assert not found, f"{path} imports {found}"


def test_the_layers_name_every_part_of_the_package() -> None:
    assert {home_of(path) for path in MODULES} - {"__init__"} == set(LEVEL)


def test_no_module_and_no_test_is_longer_than_four_hundred_lines() -> None:
    folders = (
        Path(__file__).parent,
        *(Path(__file__).parents[1] / n for n in ("benchmarks", "tools")),
    )
    others = [path for folder in folders for path in folder.rglob("*.py")]
    assert not [p for p in (*MODULES, *others) if len(p.read_text().splitlines()) > 400]


@every_module
def test_pyg_is_imported_only_where_a_graph_comes_in(path: Path) -> None:
    tree = at_module_level(ast.parse(path.read_text()))
    uses = [m for m in imported_modules(tree) if m.split(".")[0] == "torch_geometric"]
    assert not uses or home_of(path) in {"data", "tasks", "predictors", "estimators"}


@every_module
def test_matplotlib_is_imported_only_while_drawing(path: Path) -> None:
    uses = {m for m in imported_modules(ast.parse(path.read_text())) if m.startswith("matplotlib")}
    assert not uses or home_of(path) == "plot"
    assert not any(module.startswith("matplotlib.pyplot") for module in uses)


@every_module
def test_nothing_unpickles_but_the_restricted_reader_of_planetoid(path: Path) -> None:
    tree = ast.parse(path.read_text())
    pickles = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    imported = {module.split(".")[0] for module in imported_modules(tree)} & pickles
    assert imported <= ({"pickle"} if path == ROOT / "data" / "node" / "planetoid.py" else set())
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        assert (node.value.id, node.attr) != ("torch", "load")
        assert node.value.id != "pickle" or node.attr == "Unpickler"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.load":
            assert "allow_pickle=False" in ast.unparse(node)


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT.parent)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAVY = "print(sorted({'torch', 'torch_geometric', 'numpy', 'rich'} & set(sys.modules)))"


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert python(f"import sys, quatgraph; dir(quatgraph); {HEAVY}") == "[]\n"


def test_what_draws_loads_matplotlib_only_when_it_draws() -> None:
    modules = ", ".join(f"quatgraph.plot.{path.stem}" for path in (ROOT / "plot").glob("[a-z]*.py"))
    assert python(f"import sys, {modules}; print('matplotlib' in sys.modules)") == "False\n"


def test_pyg_is_loaded_only_with_a_graph_of_its_own() -> None:
    code = (
        "import sys, quatgraph.tasks, quatgraph.predictors; print('torch_geometric' in sys.modules)"
    )
    assert python(code) == "False\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["train", "--help"], 0),
        (["list"], 0),
        (["train", "node", "--frobnicate"], 2),
        (["train", "nodes"], 2),
        (["train", "node/coraa-qgnn"], 2),
        (["reproduce", "nodes"], 2),
    ],
)
def test_asking_the_command_line_for_help_or_in_vain_loads_no_torch(
    arguments: list[str], code: int
) -> None:
    program = f"""
import runpy, sys
sys.argv = ["quatgraph", *{arguments!r}]
sys.stderr = sys.stdout
try:
    runpy.run_module("quatgraph", run_name="__main__")
except SystemExit as end:
    assert (end.code or 0) == {code}, end.code
print(sorted({{'torch', 'torch_geometric'}} & set(sys.modules)))
"""
    printed = python(program).splitlines()
    assert printed[-1] == "[]"
    assert len(printed) > 1


def test_every_public_name_resolves_and_is_listed() -> None:
    assert set(quatgraph.__all__) == set(quatgraph._MODULE_OF)
    assert set(quatgraph.__all__) <= set(dir(quatgraph))
    for name in quatgraph.__all__:
        assert getattr(quatgraph, name).__name__.removeprefix("quatgraph.") == name
    with pytest.raises(AttributeError, match="has no attribute 'QGCN'"):
        _ = quatgraph.QGCN


def test_what_dir_lists_beyond_the_public_names_resolves_before_anything_is_used() -> None:
    others = "[n for n in dir(quatgraph) if n not in quatgraph.__all__]"
    lacking = f"[n for n in {others} if not hasattr(quatgraph, n)]"
    assert python(f"import quatgraph; print({lacking})") == "[]\n"
