"""Every example runs as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_examples_for_each_task_and_for_a_pyg_model() -> None:
    names = {path.stem for path in EXAMPLES}
    assert {"node", "graph", "link", "text", "pyg_model"} <= names


SLOW = ("node", "graph", "link")
"""Train whole portfolios."""


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if p.stem in SLOW else ()) for p in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_the_example_runs(path: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_under_forty_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 40
