"""Chooses between Triton kernels and plain torch."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.ops.transforms import grad_depth, is_batched

Backend = Literal["auto", "torch", "triton"]
KERNEL_TYPES = torch.float32, torch.float64
"""The types of kernels that accumulate in the type of their inputs."""
TRITON_INSTALLED = find_spec("triton") is not None
# Not a context variable: a GPU's backward pass runs in another thread, which would not see it.
_forced: list[Backend] = ["auto"]


def chosen_backend() -> str:
    """The backend set by :func:`backend` or by the variable ``QUATGRAPH_BACKEND``."""
    forced = _forced[-1]
    choice = os.environ.get("QUATGRAPH_BACKEND", "auto") if forced == "auto" else forced
    if choice not in ("auto", "torch", "triton"):
        raise UserError(f"QUATGRAPH_BACKEND must be auto, torch or triton, got {choice!r}")
    return choice


def use_triton(*tensors: Tensor) -> bool:
    """Whether to use kernels: the tensors are on a CUDA device and Triton is installed. Derivatives
    by ``torch.func`` and batched gradients need the torch forms."""
    choice = chosen_backend()
    available = all(t.is_cuda and not is_batched(t) for t in tensors)
    available = available and TRITON_INSTALLED and not grad_depth()
    if choice == "triton" and not available:
        raise UserError("the backend 'triton' needs Triton and CUDA tensors; use 'auto' or 'torch'")
    return available and choice != "torch"


@contextmanager
def backend(name: Backend) -> Iterator[None]:
    """Forces a backend within a block."""
    _forced.append(name)
    try:
        yield
    finally:
        _forced.pop()
