"""Many models of one shape as one module, each trained as if it were alone."""

import copy
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from quatgraph.errors import UserError
from quatgraph.ops.random import take_step
from quatgraph.ops.split import split_columns
from quatgraph.training.ranks import ONE_PROCESS, OneProcess

_ALIGNED = 4
"""Offsets that are multiples of it are read fast. Parameters of other sizes come last, padded with
zeros, so that every member's parameters are aligned."""


class _Template(threading.local):
    """A module without weights, one copy per thread: ``functional_call`` swaps weights in while it
    runs, so threads must not share a module.

    A submodule with an attribute ``calls`` makes random draws, keyed by its buffer ``draws`` and by
    the next of its ``calls``, which count the draws of a forward pass.
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
    """``M`` models of one shape as one set of stacked parameters ``(M, ...)``.

    Members may differ in their seed and, through their buffers, in their dropout rate; the
    optimiser gives each its own learning rate and weight decay. A member's weights and its dropout
    masks depend on its own seed, never on the other members. Members run under vmap. A model with
    ``supports_members = True`` takes parameters and inputs with a leading dimension of members
    instead, which saves a CPU the cost of vmap.

    Args:
        builds: Builds the members, one call each; they must have the same shapes.
        seeds: One seed per member, for its parameters and dropout masks.
    """

    draws: Tensor
    """Seed and step of each member, ``(M, 2)``: the key of its dropout masks."""
    ranks: OneProcess = ONE_PROCESS
    """Over which ranks the flat parameters are spread."""

    def __init__(self, builds: Sequence[Callable[[], nn.Module]], seeds: Sequence[int]) -> None:
        super().__init__()
        members = [_seeded(b, s) for b, s in zip(builds, seeds, strict=True)]
        params, buffers = stack_module_state(members)
        # One flat parameter: the optimiser needs one operation instead of one per parameter.
        rows = {name: value.detach().reshape(len(members), -1) for name, value in params.items()}
        order = sorted(rows, key=lambda name: rows[name].size(1) % _ALIGNED > 0)
        self._shapes = {name: params[name].shape[1:] for name in order}
        padding = -sum(row.size(1) for row in rows.values()) % _ALIGNED
        parts = [rows[name] for name in order] + [torch.zeros(len(members), padding)]
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
            inputs: Tensors or pytrees of tensors, shared by all members by default.
            in_dims: The dimension of members of each input, as in :func:`torch.vmap`.
            last: Whether this call ends the training step; the next call then draws new masks.
        """
        template = self._template.module.train(self.training)
        self._template.restart_calls()
        dims = tuple(in_dims) if in_dims is not None else (None,) * len(inputs)

        def call(state: dict[str, Tensor], *inputs: Any) -> Tensor:
            return functional_call(template, state, inputs)

        state = self.stacked()
        if self.training:
            # A copy: the backward pass needs the current values.
            draws = take_step(self.draws) if last else self.draws.clone()
            state |= dict.fromkeys(self._template.drawing, draws)
        if getattr(template, "supports_members", False):
            return functional_call(template, state, inputs)
        try:
            return torch.vmap(call, in_dims=(0, *dims))(state, *inputs)
        except RuntimeError as error:
            if "randomness" not in str(error):
                raise
            raise UserError(
                "a model of an Ensemble cannot use torch's random operations, such as nn.Dropout: "
                "use quatgraph.QuaternionDropout, whose masks depend on the member's seed"
            ) from error

    def raw_state(self) -> dict[str, Tensor]:
        """All tensors that training changes, each ``(M, ...)``: the flat parameters and buffers."""
        buffers = {name: getattr(self, key) for name, key in self._buffer_names.items()}
        return {"flat": self.flat, **buffers}

    def stacked(self, state: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """All parameters and buffers by the model's own names, each ``(M, ...)``.

        Args:
            state: Values in the form of :meth:`raw_state`; the ensemble's own by default.
        """
        state = self.raw_state() if state is None else state
        parts = split_columns(state["flat"], self._sizes)[: len(self._shapes)]
        params = {
            name: part.unflatten(1, shape) if shape else part.squeeze(1)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }
        return params | {name: state[name] for name in self._buffer_names}

    def flat_mask(self, prefix: str) -> Tensor:
        """Which of a member's flat parameters have names that begin with ``prefix``, ``(P,)``."""
        named = [name.startswith(prefix) for name in self._shapes] + [False]  # and the padding
        sizes = torch.tensor(self._sizes)
        return torch.tensor(named).repeat_interleave(sizes).to(self.flat.device)

    def member(self, index: int) -> dict[str, Tensor]:
        """One member's parameters and buffers, detached copies."""
        return {name: value[index].detach().clone() for name, value in self.stacked().items()}


def _seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the GPUs too
        return build()
