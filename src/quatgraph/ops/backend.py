"""Chooses between the Triton kernels and plain torch: one rule, one switch."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

from quatgraph.errors import Mistake
from quatgraph.ops.transforms import grad_depth, is_batched

Backend = Literal["auto", "torch", "triton"]
KERNEL_TYPES = torch.float32, torch.float64
"""What kernels take that sum in the type they are given: others would lose too much."""
TRITON_INSTALLED = find_spec("triton") is not None
# Not a context variable: a GPU's backward pass runs in a thread of its own, which has none.
_forced: list[Backend] = ["auto"]


def chosen_backend() -> str:
    """What :func:`backend` or the variable ``QUATGRAPH_BACKEND`` asks for."""
    forced = _forced[-1]
    wanted = os.environ.get("QUATGRAPH_BACKEND", "auto") if forced == "auto" else forced
    if wanted not in ("auto", "torch", "triton"):
        raise Mistake(f"QUATGRAPH_BACKEND must be auto, torch or triton, got {wanted!r}")
    return wanted


def use_triton(*tensors: Tensor) -> bool:
    """Whether the kernels take these tensors: all of them on a CUDA device, Triton installed. Where
    ``torch.func`` asks for a derivative, or ``torch.autograd.grad`` for many at once, torch's own
    forms know it."""
    wanted = chosen_backend()
    able = all(t.is_cuda and not is_batched(t) for t in tensors)
    able = able and TRITON_INSTALLED and not grad_depth()
    if wanted == "triton" and not able:
        raise Mistake("the backend 'triton' needs Triton and CUDA tensors; use 'auto' or 'torch'")
    return able and wanted != "torch"


@contextmanager
def backend(name: Backend) -> Iterator[None]:
    """Forces a backend within a block, as the tests and benchmarks do."""
    _forced.append(name)
    try:
        yield
    finally:
        _forced.pop()
