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

:class:`MemberNesterov` is for convex losses of all data at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.ops.backend import use_triton


class MemberOptimizer(ABC):
    """An optimizer of stacked parameters ``(M, ...)``, with a learning rate and an L2 factor per
    member, or of a single parameter ``(M, P)`` with an L2 factor for each of its numbers. ``clip``
    is the largest gradient norm of a member."""

    count_squares: Callable[[Sequence[Tensor]], Tensor] | None = None
    """Partial sums of the squares of gradients, ``(M, sums)``, where other ranks have some of the
    parameters."""

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

            count = self.count_squares or square_sums
            self.update_by_kernel(grads, None if self.clip is None else count(given))
            return
        if self.clip is not None:
            squares = self.count_squares(given) if self.count_squares else None
            clip_member_gradients_(given, self.clip, squares)
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


class MemberNesterov(MemberOptimizer):
    r"""Nesterov's accelerated gradient method for a smooth convex loss of all data at once.

    From the point :math:`\mathbf{z}`, where the gradient is taken,

    .. math::
        \mathbf{x}' = \mathbf{z} - \eta \mathbf{g}, \quad
        \mathbf{z}' = \mathbf{x}' + \frac{t - 1}{t'} (\mathbf{x}' - \mathbf{x}), \quad
        t' = \frac{1 + \sqrt{1 + 4 t^2}}{2}

    where :math:`\mathbf{g}` includes the L2 penalty. The momentum restarts from :math:`t = 1` where
    :math:`\mathbf{g} \cdot (\mathbf{x}' - \mathbf{x}) > 0`
    (`O'Donoghue and Candès, 2015 <https://arxiv.org/abs/1204.3982>`_). The step
    :math:`\eta = \min(\mathrm{lr}, 1 / L)` follows the largest curvature
    :math:`L = \Delta\mathbf{g} \cdot \Delta\mathbf{g} / \Delta\mathbf{z} \cdot \Delta\mathbf{g}`
    between consecutive points so far.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: Sequence[float],
        weight_decay: Sequence[float] | Tensor,
        clip: float | None = None,
    ) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay, clip=clip)
        self.momentum = torch.ones_like(self.lr)  # t
        self.curvature = torch.zeros_like(self.lr)  # L
        self.rate = torch.zeros_like(self.lr)  # of the last step
        self.last = [p.detach().clone() for p in self.params]  # x
        self.gradient = [torch.zeros_like(p) for p in self.params]  # of the last step

    def update(self, grads: Mapping[int, Tensor]) -> None:
        moves: dict[int, Tensor] = {}
        across, change, climb = (torch.zeros_like(self.lr) for _ in range(3))
        for i, grad in grads.items():
            param, last, before = self.params[i], self.last[i], self.gradient[i]
            grad.addcmul_(param, self.of_members(self.weight_decay, param))
            # The last point is where the last step began.
            moves[i] = (param - last).addcmul_(before, -self.of_members(self.rate, param))
            before.sub_(grad)
            across -= _dot(moves[i], before)
            change += _dot(before, before)
        known = (self.rate > 0) & (across > 0)  # before the first step there is no last point
        self.curvature.copy_(torch.where(known, change / across, 0).maximum(self.curvature))
        self.rate.copy_(torch.minimum(self.lr, 1 / self.curvature))
        for i, grad in grads.items():
            param, last, stepped = self.params[i], self.last[i], moves[i]
            self.gradient[i].copy_(grad)
            torch.addcmul(param, grad, -self.of_members(self.rate, param), out=stepped)
            climb += _dot(grad, last.neg_().add_(stepped))
        self.momentum.masked_fill_(climb > 0, 1)
        following = (1 + (1 + 4 * self.momentum.square()).sqrt()) / 2
        share = (self.momentum - 1) / following
        self.momentum.copy_(following)
        for i, stepped in moves.items():
            param, ahead = self.params[i], self.last[i]
            param.copy_(ahead.mul_(self.of_members(share, param)).add_(stepped))
            self.last[i].copy_(stepped)

    def update_by_kernel(self, grads: Mapping[int, Tensor], squares: Tensor | None) -> None:
        if self.clip is not None:
            clip_member_gradients_(list(grads.values()), self.clip)
        self.update(grads)

    def tensors(self) -> dict[str, Tensor]:
        state = super().tensors()
        state |= {"momentum": self.momentum, "curvature": self.curvature, "rate": self.rate}
        for index, (last, gradient) in enumerate(zip(self.last, self.gradient, strict=True)):
            state |= {f"last.{index}": last, f"gradient.{index}": gradient}
        return state


def _dot(left: Tensor, right: Tensor) -> Tensor:
    """The inner product of each member's tensors ``(M, ...)``, in float64, ``(M,)``."""
    pairs = zip(left.unbind(), right.unbind(), strict=True)
    products = [torch.dot(one.flatten(), other.flatten()) for one, other in pairs]
    return torch.stack(products).double()


Optimizer = Literal["adam", "adagrad", "nesterov"]
OPTIMIZERS: dict[Optimizer, type[MemberOptimizer]] = {
    "adam": MemberAdam,
    "adagrad": MemberAdagrad,
    "nesterov": MemberNesterov,
}


@torch.no_grad()
def clip_member_gradients_(
    grads: Sequence[Tensor], max_norm: float, squares: Tensor | None = None
) -> None:
    """Scales each member's gradient down to ``max_norm``, as if it were clipped alone.

    Args:
        squares: Partial sums of the squares of each member's gradient ``(M, sums)``, where these
            are not all of it.
    """
    if squares is None:
        norms = [torch.linalg.vector_norm(grad.reshape(len(grad), -1), dim=1) for grad in grads]
        norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), dim=0)
    else:
        norm = squares.sum(dim=1).sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))
