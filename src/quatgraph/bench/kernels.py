"""The kernels of an ensemble's step against the plain form of each, on a GPU, captured as steps
are."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from quatgraph.bench.measure import captured, measure
from quatgraph.ops import backend, hamilton_matrix
from quatgraph.ops.dropout import dropped
from quatgraph.ops.masked_norm import masked_norm

MEMBERS = 80
SIZES = {"32 quaternions": (96, 128), "128 quaternions": (96, 512)}
"""Nodes a member and reals a node, as in a batch of four molecules."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    """Nothing on a CPU: there the plain form is all there is."""
    if device.type != "cuda":
        return
    for case, (nodes, width) in SIZES.items():
        for work, (run, inputs) in _works(nodes, width, device).items():
            probe = torch.randn_like(run(*inputs))
            for variant in ("triton", "torch"):
                with backend(variant):
                    timed = measure(captured(partial(_both, run, inputs, probe)), device)
                    timed.pop("peak_mib")  # a replay takes what its capture took
                row = {"case": f"{MEMBERS} members, {case}", "work": work, "variant": variant}
                yield row | timed


def _works(
    nodes: int, width: int, device: torch.device
) -> dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]]:
    """Each kernel's work for all members, forward and backward, and what it takes."""
    x = torch.randn(MEMBERS, nodes, width, device=device, requires_grad=True)
    quats = width // 4
    weight = torch.randn(MEMBERS, 4, quats, quats, device=device, requires_grad=True)
    random = torch.rand(MEMBERS, nodes, width, device=device)
    rate = torch.full((MEMBERS,), 0.5, device=device)
    present = torch.ones(MEMBERS, nodes, device=device)
    scale = torch.ones(MEMBERS, width, device=device, requires_grad=True)
    shift = torch.zeros(MEMBERS, width, device=device, requires_grad=True)
    running = torch.zeros(MEMBERS, width, device=device), torch.ones(MEMBERS, width, device=device)
    norm = partial(masked_norm, eps=1e-5, momentum=0.1)
    return {
        "matrix of quaternions": (torch.vmap(hamilton_matrix), (weight,)),
        "dropout": (torch.vmap(dropped), (x, random, rate)),
        "masked norm": (torch.vmap(norm), (x, present, scale, shift, *running)),
    }


def _both(run: Callable[..., Tensor], inputs: tuple[Tensor, ...], probe: Tensor) -> None:
    for value in inputs:
        value.grad = None
    run(*inputs).backward(probe)
