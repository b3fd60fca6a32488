"""Measures time and peak memory."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.presets import parts, preset
from quatgraph.tasks import TASKS
from quatgraph.tasks.runs import run
from quatgraph.tasks.task import AnyTask, Member
from quatgraph.training.context import Context


def measure(
    work: Callable[[], object], device: torch.device, *, repeats: int = 20
) -> dict[str, Any]:
    """Median and quintiles of the wall time in milliseconds, after three warm-ups.

    On a GPU, times are between CUDA events, and ``peak_mib`` is the memory above what was
    allocated before.
    """
    for _ in range(3):
        work()
    times = []
    if device.type != "cuda":
        for _ in range(repeats):
            began = time.perf_counter()
            work()
            times.append(1e3 * (time.perf_counter() - began))
        return _summary(times)
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(repeats):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        work()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last))
    peak = (torch.cuda.max_memory_allocated() - held) / 2**20
    return _summary(times) | {"peak_mib": round(peak, 1)}


def held(device: torch.device) -> int:
    """Bytes allocated on a GPU; resets the counter of :func:`peak`."""
    gc.collect()  # what is only waiting to be freed would hide as much of the peak
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def peak(device: torch.device, before: int) -> dict[str, float]:
    """The peak memory above ``before``."""
    if device.type != "cuda":
        return {}
    return {"peak_mib": round((torch.cuda.max_memory_allocated(device) - before) / 2**20, 1)}


_PROCESS = Path("/proc/self")


def reset_resident() -> bool:
    """Resets the peak memory of the process; False if the system cannot, as outside of Linux."""
    with suppress(OSError):
        return bool((_PROCESS / "clear_refs").write_text("5"))
    return False


def resident_peak() -> dict[str, float]:
    """The peak memory of the process since the reset, where the system counts it."""
    status = _PROCESS / "status"
    if not status.is_file():
        return {}
    lines = status.read_text().splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return {"peak_mib": round(int(kib) / 2**10, 1)}


def shortened(name: str, epochs: int, *settings: str, seeds: int = 1) -> Any:
    """A preset with the given number of epochs and without validation during training; ``settings``
    are further changes ``key=value``."""
    short = [f"train.epochs={epochs}", "train.select=last", *settings]
    values = configs.override(preset(name), short) | {"seeds": seeds}
    return configs.build(TASKS[parts(name)[0]].config, values)


def training_seconds(
    task: AnyTask, members: Sequence[Member], data: Any, device: torch.device
) -> float:
    """The training time of runs, summed over ensembles if memory requires several."""
    return sum(outcome.fit.seconds for outcome in run(task, members, data, Context(device)))


def captured(work: Callable[[], object]) -> Callable[[], None]:
    """Captures the work as a CUDA graph, without launch overhead."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def measure_captured(
    work: Callable[[], object], device: torch.device, *, repeats: int = 20
) -> dict[str, Any]:
    """As :func:`measure`, but captured as a CUDA graph on a GPU; without memory, which is allocated
    during the capture."""
    timed = measure(captured(work), device, repeats=repeats)
    timed.pop("peak_mib")
    return timed


def passes(
    run: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    device: torch.device,
    *,
    repeats: int = 10,
    capture: bool = False,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Times the forward pass, the backward pass and both, for the inputs that require gradients.

    Args:
        capture: Whether to time both also as a captured CUDA graph on a GPU.
    """
    wanted = [value for value in inputs if value.requires_grad]
    made = run(*inputs)
    probe = torch.randn_like(made)

    def both() -> None:
        torch.autograd.grad(run(*inputs), wanted, probe)

    yield "forward", measure(partial(run, *inputs), device, repeats=repeats)
    back = partial(torch.autograd.grad, made, wanted, probe, retain_graph=True)
    yield "backward", measure(back, device, repeats=repeats)
    del made, back
    yield "forward and backward", measure(both, device, repeats=repeats)
    if capture and device.type == "cuda":
        yield "forward and backward, captured", measure_captured(both, device, repeats=repeats)


def _summary(times: list[float]) -> dict[str, Any]:
    low, *_, high = statistics.quantiles(times, n=5)
    return {
        "ms": round(statistics.median(times), 4),
        "ms_20": round(low, 4),
        "ms_80": round(high, 4),
    }
