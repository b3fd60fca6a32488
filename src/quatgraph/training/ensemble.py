"""Trains many models of one shape at once, each as if it were alone."""

import copy
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from quatgraph.ops.split import split_columns

_ALIGNED = 4
"""Numbers from whose multiples matrices are read fast. Parameters of other sizes come last, and
zeros after them, so that the matrices of every member begin at one."""


class _Template(threading.local):
    """A module without weights, a copy for each thread: ``functional_call`` puts weights into it
    while it runs, so no two threads may share one.

    A submodule with an attribute ``calls`` makes random draws, keyed by its buffer ``draws`` and by
    the next of its ``calls``, which number the draws of a forward pass.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module)
        self.drawing = {
            f"{name}.draws" if name else "draws": part
            for name, part in self.module.named_modules()
            if hasattr(part, "calls")
        }

    def restart_calls(self) -> None:
        calls = itertools.count()
        for part in self.drawing.values():
            part.calls = calls

    def __reduce__(self) -> tuple[type["_Template"], tuple[nn.Module]]:
        return _Template, (self.module,)


class Ensemble(nn.Module):
    """``M`` models of one shape held as one set of stacked parameters ``(M, ...)``.

    Members may differ in their seed and, through their buffers, in their dropout rate; the
    optimiser gives each its own learning rate and weight decay. A member's weights and its dropout
    masks depend on its own seed, never on the other members. They run as one call by vmap; a
    model that says ``takes_members = True`` takes parameters and inputs with a leading dimension of
    members as they are, which spares a CPU the cost of vmap.

    Args:
        builds: Makes the members, one call each; they must have the same shapes.
        seeds: One seed per member, from which its parameters and dropout masks are drawn.
    """

    draws: Tensor
    """Seed and step of each member, ``(M, 2)``: what its dropout masks are keyed by."""

    def __init__(self, builds: Sequence[Callable[[], nn.Module]], seeds: Sequence[int]) -> None:
        super().__init__()
        members = [_seeded(b, s) for b, s in zip(builds, seeds, strict=True)]
        params, buffers = stack_module_state(members)
        # All parameters side by side, so that the optimiser's work is one operation, not one each.
        rows = {name: value.detach().reshape(len(members), -1) for name, value in params.items()}
        order = sorted(rows, key=lambda name: rows[name].size(1) % _ALIGNED > 0)
        self._shapes = {name: params[name].shape[1:] for name in order}
        rest = -sum(row.size(1) for row in rows.values()) % _ALIGNED
        parts = [rows[name] for name in order] + [torch.zeros(len(members), rest)]
        self._sizes = [part.size(1) for part in parts]
        self.flat = nn.Parameter(torch.cat(parts, dim=1))
        self._template = _Template(members[0].to("meta"))
        names = [name for name in buffers if name not in self._template.drawing]
        self._buffer_names = {name: name.replace(".", "/") for name in names}
        for name in names:
            self.register_buffer(self._buffer_names[name], buffers[name])
        self.register_buffer("draws", torch.tensor([[seed, 0] for seed in seeds]))
        self.num_members = len(members)

    def forward(
        self, *inputs: Any, in_dims: Sequence[Any] | None = None, last: bool = True
    ) -> Tensor:
        """Runs every member, giving ``(M, ...)``.

        Args:
            inputs: Tensors or pytrees of tensors, the same for all members unless ``in_dims``
                says which dimension of an input counts the members; a pytree of dimensions does
                so for each tensor of an input.
            last: Whether the training step ends with this call; the next call has new masks.
        """
        template = self._template.module.train(self.training)
        self._template.restart_calls()
        dims = tuple(in_dims) if in_dims is not None else (None,) * len(inputs)

        def call(state: dict[str, Tensor], *inputs: Any) -> Tensor:
            return functional_call(template, state, inputs)

        state = self.stacked()
        if self.training:
            draws = self.draws.clone()  # as they are now: the gradient needs them later
            state |= dict.fromkeys(self._template.drawing, draws)
            if last:
                self.draws[:, 1] += 1
        if getattr(template, "takes_members", False):
            return functional_call(template, state, inputs)
        return torch.vmap(call, in_dims=(0, *dims))(state, *inputs)

    def held(self) -> dict[str, Tensor]:
        """The tensors that hold everything, each ``(M, ...)``: all that training changes."""
        buffers = {name: getattr(self, key) for name, key in self._buffer_names.items()}
        return {"flat": self.flat, **buffers}

    def stacked(self, held: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """All parameters and buffers by the model's own names, each ``(M, ...)``.

        Args:
            held: A set of values like :meth:`held`; the ensemble's own unless given.
        """
        held = self.held() if held is None else held
        parts = split_columns(held["flat"], self._sizes)[: len(self._shapes)]
        params = {
            name: part.unflatten(1, shape) if shape else part.squeeze(1)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }
        return params | {name: held[name] for name in self._buffer_names}

    def member(self, index: int) -> dict[str, Tensor]:
        """One member's parameters and buffers, detached copies."""
        return {name: value[index].detach().clone() for name, value in self.stacked().items()}


def _seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the GPUs too
        return build()
