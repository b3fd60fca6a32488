"""The Python snippets of README and docs pass mypy as strictly as the package does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(quatgraph\.\w+\([^`]*\)[^`]*)`")
GIVEN = """
from typing import Any

from torch_geometric.data import Data

import quatgraph

data: Data = Data()
new_data: Data = Data()
graphs: list[Data] = []
new_graphs: list[Data] = []
texts: list[str] = []
labels: list[int] = []
writer: Any = None
run: Any = None
"""
"""What the snippets take as given."""


def snippets() -> dict[str, str]:
    found = {}
    for page in PAGES:
        blocks = BLOCK.findall(page.read_text())
        for number, code in enumerate([*blocks, *INLINE.findall(page.read_text())]):
            found[f"{page.stem.lower()}_{number}"] = f"{GIVEN}\n\n{code}\n"
    return found


def test_the_pages_have_snippets() -> None:
    names = snippets()
    assert "readme_0" in names
    assert sum(name.startswith("usage_") for name in names) > 4


def test_snippets_are_python() -> None:
    for name, code in snippets().items():
        compile(code, name, "exec")


@pytest.mark.slow
def test_mypy_passes_on_every_snippet(tmp_path: Path) -> None:
    for name, code in snippets().items():
        (tmp_path / f"{name}.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *tmp_path.glob("*.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
