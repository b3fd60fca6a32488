"""Trains many models of one shape at once, each as if it were alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state


class Ensemble(nn.Module):
    """``M`` models of one shape held as one set of stacked parameters ``(M, ...)``.

    Members may differ in their seed and, through their buffers, in their dropout rate; the
    optimiser gives each its own learning rate and weight decay.

    Args:
        builds: Makes the members, one call each; they must have the same shapes.
        seeds: One seed per member, from which its parameters are drawn.
        vmap: Whether to run all members as one batched call. A model that vmap cannot take runs
            as a plain loop behind the same interface.
    """

    def __init__(
        self, builds: Sequence[Callable[[], nn.Module]], seeds: Sequence[int], *, vmap: bool = True
    ) -> None:
        super().__init__()
        members = [_seeded(b, s) for b, s in zip(builds, seeds, strict=True)]
        params, buffers = stack_module_state(members)
        self._names = {name: name.replace(".", "/") for name in (*params, *buffers)}
        for name, value in params.items():
            self.register_parameter(self._names[name], nn.Parameter(value.detach()))
        for name, value in buffers.items():
            self.register_buffer(self._names[name], value)
        self._template = [members[0].to("meta")]  # in a list: not a submodule
        self.num_members = len(members)
        self.vmap = vmap

    def forward(self, *inputs: Any, in_dims: Sequence[int | None] | None = None) -> Tensor:
        """Runs every member, giving ``(M, ...)``.

        Args:
            inputs: Tensors or pytrees of tensors, the same for all members unless ``in_dims``
                says which dimension of an input counts the members.
        """
        template = self._template[0].train(self.training)
        dims = tuple(in_dims) if in_dims is not None else (None,) * len(inputs)

        def call(state: dict[str, Tensor], *inputs: Any) -> Tensor:
            return functional_call(template, state, inputs)

        state = self.stacked()
        if self.vmap:
            return torch.vmap(call, in_dims=(0, *dims), randomness="different")(state, *inputs)
        return torch.stack(
            [
                call({name: value[m] for name, value in state.items()}, *_pick(inputs, dims, m))
                for m in range(self.num_members)
            ]
        )

    def stacked(self) -> dict[str, Tensor]:
        """All parameters and buffers by the model's own names, each ``(M, ...)``."""
        return {name: getattr(self, key) for name, key in self._names.items()}

    def load_stacked_(self, state: Mapping[str, Tensor]) -> None:
        """Copies values in, in place."""
        with torch.no_grad():
            for name, value in state.items():
                getattr(self, self._names[name]).copy_(value)

    def member(self, index: int) -> dict[str, Tensor]:
        """One member's parameters and buffers, detached copies."""
        return {name: value[index].detach().clone() for name, value in self.stacked().items()}


def _pick(inputs: Sequence[Any], dims: Sequence[int | None], member: int) -> list[Any]:
    def pick(value: Any, dim: int | None) -> Any:
        if dim is None:
            return value
        return torch.utils._pytree.tree_map(lambda t: t.select(dim, member), value)

    return [pick(value, dim) for value, dim in zip(inputs, dims, strict=True)]


def _seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the GPUs too
        return build()
