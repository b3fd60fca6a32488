r"""Adam and Adagrad for an ensemble: each member with its own learning rate, weight decay and norm.

Both step by :math:`\mathbf{g} \leftarrow \mathbf{g} + \lambda_m \boldsymbol\theta`, Adam with

.. math::
    \mathbf{m} \leftarrow \beta_1 \mathbf{m} + (1 - \beta_1) \mathbf{g}, \quad
    \mathbf{v} \leftarrow \beta_2 \mathbf{v} + (1 - \beta_2) \mathbf{g}^2, \quad
    \boldsymbol\theta \leftarrow \boldsymbol\theta - \eta_m
    \frac{\mathbf{m} / (1 - \beta_1^t)}{\sqrt{\mathbf{v} / (1 - \beta_2^t)} + \epsilon}

and Adagrad with

.. math::
    \mathbf{v} \leftarrow \mathbf{v} + \mathbf{g}^2, \quad
    \boldsymbol\theta \leftarrow \boldsymbol\theta - \eta_m
    \frac{\mathbf{g}}{\sqrt{\mathbf{v}} + \epsilon}

These are :class:`torch.optim.Adam` and :class:`torch.optim.Adagrad` member by member, on a GPU one
kernel for all members; everything, the step counter and the learning rates too, lives on the
device, so that a captured step never asks the host, and a schedule can change the rates.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.ops.backend import use_triton


class MemberOptimizer(ABC):
    """An optimizer of stacked parameters ``(M, ...)``, with a learning rate and an L2 factor per
    member, or of a single parameter ``(M, P)`` with an L2 factor for each of its numbers. ``clip``
    is the largest gradient norm of a member."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: Sequence[float],
        weight_decay: Sequence[float] | Tensor,
        clip: float | None = None,
    ) -> None:
        self.params = list(params)
        like = self.params[0]
        # In float64: the fused step of a CPU takes a rate as the settings have it.
        self.lr = torch.tensor(lr, device=like.device, dtype=torch.float64)
        decay = torch.as_tensor(weight_decay, device=like.device, dtype=torch.float64)
        self.weight_decay = decay if decay.dim() == 1 else decay.to(like.dtype)
        self.clip = clip

    def zero_grad(self) -> None:
        for param in self.params:
            param.grad = None

    @torch.no_grad()
    def step(self) -> None:
        grads = {i: param.grad for i, param in enumerate(self.params) if param.grad is not None}
        given = list(grads.values())
        if self.params[0].dtype == torch.float32 and use_triton(self.lr, *self.params):
            from quatgraph.ops.kernels.optim import square_sums

            self.update_by_kernel(grads, None if self.clip is None else square_sums(given))
            return
        if self.clip is not None:
            clip_member_gradients_(given, self.clip)
        self.update(grads)

    @abstractmethod
    def update(self, grads: Mapping[int, Tensor]) -> None:
        """Updates parameters, by their place, of all members."""

    @abstractmethod
    def update_by_kernel(self, grads: Mapping[int, Tensor], squares: Tensor | None) -> None:
        """The same on a GPU, one kernel for each; the squares clip the gradients."""

    @staticmethod
    def of_members(values: Tensor, param: Tensor) -> Tensor:
        """Values of each member ``(M,)``, or of each number, that broadcast against a parameter."""
        each = (-1, *[1] * (param.dim() - 1))
        return values.to(param.dtype).view(each if values.dim() == 1 else param.shape)

    def tensors(self) -> dict[str, Tensor]:
        """The whole state by name; writing into these tensors restores it."""
        return {"lr": self.lr}


class MemberAdam(MemberOptimizer):
    """:class:`torch.optim.Adam` of each member."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: Sequence[float],
        weight_decay: Sequence[float] | Tensor,
        clip: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay, clip=clip)
        self.betas, self.eps = betas, eps
        self.steps = torch.zeros((), device=self.lr.device)
        self.mean = [torch.zeros_like(p) for p in self.params]
        self.square = [torch.zeros_like(p) for p in self.params]

    def update(self, grads: Mapping[int, Tensor]) -> None:
        self.steps += 1
        if self.lr.is_cuda or self.weight_decay.dim() > 1:
            self._update_by_formula(grads)
            return
        groups = self._groups()
        for index, grad in grads.items():
            tensors = self.params[index], grad, self.mean[index], self.square[index]
            rows = [tensor.unbind() for tensor in tensors]
            for (lr, weight_decay), members in groups.items():
                params, own, means, squares = ([part[m] for m in members] for part in rows)
                torch._fused_adam_(
                    params,
                    own,
                    means,
                    squares,
                    [],
                    [self.steps] * len(members),
                    lr=lr,
                    beta1=self.betas[0],
                    beta2=self.betas[1],
                    weight_decay=weight_decay,
                    eps=self.eps,
                    amsgrad=False,
                    maximize=False,
                )

    def _update_by_formula(self, grads: Mapping[int, Tensor]) -> None:
        """For a captured step, which cannot read the learning rates, and for several L2 factors of
        a member, which torch's fused step does not take."""
        steps = self.steps.double()
        first, second = ((1 - beta**steps).to(self.params[0].dtype) for beta in self.betas)
        for index, grad in grads.items():
            param, mean, square = self.params[index], self.mean[index], self.square[index]
            lr = self.of_members(self.lr, param)
            grad = torch.addcmul(grad, param, self.of_members(self.weight_decay, param))
            mean.lerp_(grad, 1 - self.betas[0])
            square.mul_(self.betas[1]).addcmul_(grad, grad, value=1 - self.betas[1])
            size = (square / second).sqrt_().add_(self.eps)
            param.sub_((mean / first).div_(size).mul_(lr))

    def _groups(self) -> dict[tuple[float, float], list[int]]:
        """Members by their settings: torch's fused step takes one learning rate and weight decay a
        call."""
        groups: dict[tuple[float, float], list[int]] = {}
        settings = zip(self.lr.tolist(), self.weight_decay.tolist(), strict=True)
        for member, one in enumerate(settings):
            groups.setdefault(one, []).append(member)
        return groups

    def update_by_kernel(self, grads: Mapping[int, Tensor], squares: Tensor | None) -> None:
        from quatgraph.ops.kernels.optim import adam_step_

        self.steps += 1
        for index, grad in grads.items():
            adam_step_(
                self.params[index],
                grad,
                self.mean[index],
                self.square[index],
                steps=self.steps,
                lr=self.lr,
                weight_decay=self.weight_decay,
                squares=squares,
                clip=self.clip,
                betas=self.betas,
                eps=self.eps,
            )

    def tensors(self) -> dict[str, Tensor]:
        state = super().tensors() | {"steps": self.steps}
        for index, (mean, square) in enumerate(zip(self.mean, self.square, strict=True)):
            state |= {f"mean.{index}": mean, f"square.{index}": square}
        return state


class MemberAdagrad(MemberOptimizer):
    """:class:`torch.optim.Adagrad` of each member, without a decay of the learning rate."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: Sequence[float],
        weight_decay: Sequence[float] | Tensor,
        clip: float | None = None,
        eps: float = 1e-10,
    ) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay, clip=clip)
        self.eps = eps
        self.square = [torch.zeros_like(p) for p in self.params]

    def update(self, grads: Mapping[int, Tensor]) -> None:
        for index, grad in grads.items():
            param, square = self.params[index], self.square[index]
            lr = self.of_members(self.lr, param)
            grad = torch.addcmul(grad, param, self.of_members(self.weight_decay, param))
            square.addcmul_(grad, grad)
            param.sub_(torch.div(grad, square.sqrt().add_(self.eps)).mul_(lr))

    def update_by_kernel(self, grads: Mapping[int, Tensor], squares: Tensor | None) -> None:
        from quatgraph.ops.kernels.optim import adagrad_step_

        for index, grad in grads.items():
            adagrad_step_(
                self.params[index],
                grad,
                self.square[index],
                lr=self.lr,
                weight_decay=self.weight_decay,
                squares=squares,
                clip=self.clip,
                eps=self.eps,
            )

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {f"square.{i}": value for i, value in enumerate(self.square)}


Optimizer = Literal["adam", "adagrad"]
OPTIMIZERS: dict[Optimizer, type[MemberOptimizer]] = {"adam": MemberAdam, "adagrad": MemberAdagrad}


@torch.no_grad()
def clip_member_gradients_(grads: Sequence[Tensor], max_norm: float) -> None:
    """Scales each member's gradient down to ``max_norm``, as if it were clipped alone."""
    norms = [torch.linalg.vector_norm(grad.reshape(len(grad), -1), dim=1) for grad in grads]
    norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), dim=0)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))
