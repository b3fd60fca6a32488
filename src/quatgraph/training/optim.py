r"""Adam for an ensemble: each member with its own learning rate, weight decay and norm.

.. math::
    \mathbf{g} \leftarrow \mathbf{g} + \lambda_m \boldsymbol\theta, \quad
    \mathbf{m} \leftarrow \beta_1 \mathbf{m} + (1 - \beta_1) \mathbf{g}, \quad
    \mathbf{v} \leftarrow \beta_2 \mathbf{v} + (1 - \beta_2) \mathbf{g}^2, \quad
    \boldsymbol\theta \leftarrow \boldsymbol\theta - \eta_m
    \frac{\mathbf{m} / (1 - \beta_1^t)}{\sqrt{\mathbf{v} / (1 - \beta_2^t)} + \epsilon}

This is the fused :class:`torch.optim.Adam` member by member, on a GPU one kernel for all members;
everything, the step counter too, lives on the device, so that a captured step never asks the host.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from quatgraph.ops.backend import use_triton


class MemberAdam:
    """Adam over stacked parameters ``(M, ...)``, with a learning rate and an L2 factor per member.
    ``clip`` is the largest gradient norm of a member."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: Sequence[float],
        weight_decay: Sequence[float],
        clip: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.params = list(params)
        like = self.params[0]
        self.lr = torch.tensor(lr, device=like.device, dtype=like.dtype)
        self.weight_decay = torch.tensor(weight_decay, device=like.device, dtype=like.dtype)
        self.clip, self.betas, self.eps = clip, betas, eps
        # torch's fused step takes one learning rate and weight decay a call.
        self.groups: dict[tuple[float, float], list[int]] = {}
        for member, settings in enumerate(zip(lr, weight_decay, strict=True)):
            self.groups.setdefault(settings, []).append(member)
        self.steps = torch.zeros((), device=like.device)
        self.mean = [torch.zeros_like(p) for p in self.params]
        self.square = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self) -> None:
        for param in self.params:
            param.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        if self.steps.dtype == self.lr.dtype and use_triton(self.lr, *self.params):
            self._step_by_kernel()
            return
        if self.clip is not None:
            grads = [param.grad for param in self.params if param.grad is not None]
            clip_member_gradients_(grads, self.clip)
        first, second = self.betas
        for param, mean, square in zip(self.params, self.mean, self.square, strict=True):
            if param.grad is None:
                continue
            rows = [tensor.unbind() for tensor in (param, param.grad, mean, square)]
            for (lr, weight_decay), members in self.groups.items():
                params, grads, means, squares = ([part[m] for m in members] for part in rows)
                torch._fused_adam_(
                    params,
                    grads,
                    means,
                    squares,
                    [],
                    [self.steps] * len(members),
                    lr=lr,
                    beta1=first,
                    beta2=second,
                    weight_decay=weight_decay,
                    eps=self.eps,
                    amsgrad=False,
                    maximize=False,
                )

    def _step_by_kernel(self) -> None:
        """On a GPU: all members at once, whatever their settings, the clipping along with it."""
        from quatgraph.ops.kernels.adam import adam_step_, square_sums

        grads = [param.grad for param in self.params if param.grad is not None]
        squares = None if self.clip is None else square_sums(grads)
        for param, mean, square in zip(self.params, self.mean, self.square, strict=True):
            if param.grad is not None:
                adam_step_(
                    param,
                    param.grad,
                    mean,
                    square,
                    steps=self.steps,
                    lr=self.lr,
                    weight_decay=self.weight_decay,
                    squares=squares,
                    clip=self.clip,
                    betas=self.betas,
                    eps=self.eps,
                )

    def tensors(self) -> dict[str, Tensor]:
        """The whole state by name; writing into these tensors restores it."""
        state = {"steps": self.steps}
        for index, (mean, square) in enumerate(zip(self.mean, self.square, strict=True)):
            state |= {f"mean.{index}": mean, f"square.{index}": square}
        return state


@torch.no_grad()
def clip_member_gradients_(grads: Sequence[Tensor], max_norm: float) -> None:
    """Scales each member's gradient down to ``max_norm``, as if it were clipped alone."""
    norms = [torch.linalg.vector_norm(grad.reshape(len(grad), -1), dim=1) for grad in grads]
    norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), dim=0)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))
