"""Runs the command line as a program of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import quatgraph

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": str(Path(quatgraph.__file__).parents[1]),
    "OMP_NUM_THREADS": "1",
    "ONEDNN_MAX_CPU_ISA": os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
}
"""Without a home."""
SHORT = ["train", "node/karate-qgnn", "--set", "train.epochs=2", "--device", "cpu"]


def started(*arguments: str, code: str = "", **how: Any) -> subprocess.Popen[str]:
    """``quatgraph ARGUMENTS`` as a process; ``code`` is run in its place."""
    program = ["-c", code] if code else ["-m", "quatgraph"]
    how = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    return subprocess.Popen([sys.executable, *program, *arguments], text=True, **how)


def ended(*arguments: str, **how: Any) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    process = started(*arguments, **how)
    printed, result = process.communicate(timeout=120)
    return process.returncode, printed, result


def shell(line: str, **how: Any) -> tuple[int, str, str]:
    """The same of a line for the shell, where ``quatgraph`` is our program."""
    line = line.replace("quatgraph", f"{sys.executable} -m quatgraph", 1)
    how = {"env": ENVIRONMENT} | how
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120, **how)
    return done.returncode, done.stdout, done.stderr
