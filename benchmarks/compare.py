"""``python -m benchmarks.compare BASE``: times this checkout against another one.

Each checkout runs in a process of its own. They take turns case by case, so drift of the machine
affects both alike; ``GCNConv`` of PyG, the same code in both, shows how much noise is left.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import typer

ROOT = Path(__file__).parents[1]
LONGER = {"cpu": 1, "cuda": 5}
"""How many times the epochs of ``steps`` a training has; on a GPU its warm-up counts here too."""

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(help="The checkout to compare with.")],
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    rounds: Annotated[int, typer.Option(min=2, help="Measurements of each case.")] = 8,
    only: Annotated[str, typer.Option(help="Only the presets with this in their name.")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder to append records to.")] = None,
) -> None:
    """Time trainings and layers of this checkout and of another one, by turns."""
    import torch

    from quatgraph.training.record import append_lines
    from quatgraph.training.runtime import environment

    machine = environment(torch.device(device))
    for row in rows(base, device, rounds, only):
        typer.echo(
            f"{row['case']}, {row['variant']}: {row['base_ms']:.4g} -> {row['ms']:.4g} ms, "
            f"ratio {row['ratio']:.3f} ({row['ratio_20']:.3f} to {row['ratio_80']:.3f})"
        )
        if out is not None:
            record = {"bench": "compare", **row, "environment": machine}
            append_lines(out / "compare.jsonl", [record])


def rows(base: Path, device: str, rounds: int, only: str = "") -> Iterator[dict[str, Any]]:
    """Median milliseconds of both checkouts for each case, and the ratio of paired measurements."""
    from benchmarks import conv, steps

    cases: list[dict[str, Any]] = [
        {"preset": name, "seeds": seeds, "epochs": LONGER[device] * epochs}
        for name, seeds, epochs in steps.CASES[device]
        if only in name
    ]
    cases += [{"conv": size} for size in conv.SIZES[device] if not only]
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(_start_worker(tree, device))
            for name, tree in (("base", base), ("this", ROOT))
        }
        for case in cases:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
            for turn in range(rounds + 1):  # the first is a warm-up
                for name in sorted(workers, reverse=bool(turn % 2)):
                    found[name].append(_ask(workers[name], case))
            for variant in found["this"][0]:
                old, new = ([one[variant] for one in found[name][1:]] for name in workers)
                ratios = [b / a for a, b in zip(old, new, strict=True)]
                low, *_, high = quantiles(ratios, n=5)
                yield {
                    "case": case.get("preset") or conv.describe_size(*case["conv"]),
                    "work": "training" if "preset" in case else "forward and backward",
                    "variant": variant,
                    "ms": round(median(new), 4),
                    "base_ms": round(median(old), 4),
                    "ratio": round(median(ratios), 4),
                    "ratio_20": round(low, 4),
                    "ratio_80": round(high, 4),
                }


def _start_worker(tree: Path, device: str) -> "subprocess.Popen[str]":
    tree = tree.resolve()
    command = [sys.executable, "-P", __file__, "--worker", device]
    path = os.pathsep.join(map(str, (tree / "src", tree)))
    pipe = subprocess.PIPE
    env = os.environ | {"PYTHONPATH": path}
    return subprocess.Popen(command, cwd=tree, env=env, stdin=pipe, stdout=pipe, text=True)


def _ask(worker: "subprocess.Popen[str]", case: dict[str, Any]) -> dict[str, float]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(json.dumps(case) + "\n")
    worker.stdin.flush()
    if not (line := worker.stdout.readline()):
        raise SystemExit(f"the worker ended with exit code {worker.wait()}")
    return json.loads(line)


def work(device: str) -> None:
    """Measures each case on standard input; runs with the modules of either checkout."""
    import torch

    # Before benchmarks left the package they were part of it.
    package = "benchmarks" if find_spec("benchmarks") else "quatgraph.bench"
    steps, conv = (import_module(f"{package}.{name}") for name in ("steps", "conv"))
    trainings: dict[str, Any] = {}
    for line in sys.stdin:
        case = json.loads(line)
        if "preset" in case:
            name, seeds, epochs = case["preset"], case["seeds"], case["epochs"]
            if name not in trainings:
                trainings = {name: steps._Training(name, seeds, torch.device(device))}
            found = {"an epoch": 1e3 * trainings[name].seconds(epochs) / epochs}
        else:
            timed = conv._rows_of(*case["conv"], torch.device(device))
            found = {row["variant"]: row["ms"] for row in timed}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2])
    else:
        app(prog_name="python -m benchmarks.compare")
