"""Optimizers and clipping over stacked parameters against torch's own, one member at a time."""

import pytest
import torch
from torch import nn

from quatgraph.ops import backend
from quatgraph.training.optim import (
    OPTIMIZERS,
    MemberAdam,
    MemberNesterov,
    clip_member_gradients_,
)

SHAPES = [(3, 2), (4,), ()]
LR, DECAY = [0.1, 0.01, 1.0], [0.0, 0.5, 0.01]
TORCHS = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad, "captured": torch.optim.Adam}


class CapturedAdam(MemberAdam):
    """Adam as a GPU without the kernel steps."""

    def update(self, grads):
        self.steps += 1
        self._update_by_formula(grads)


KINDS = OPTIMIZERS | {"captured": CapturedAdam}
every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def stacked() -> list[nn.Parameter]:
    return [nn.Parameter(torch.randn(3, *s, dtype=torch.float64)) for s in SHAPES]


def give_gradients(params: list[nn.Parameter]) -> None:
    for param in params:
        param.grad = 3 * torch.randn_like(param)


@pytest.mark.parametrize("clip", [None, 2.0])
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("adam", {}),
        ("adam", {"betas": (0.5, 0.8)}),
        ("captured", {}),
        ("captured", {"betas": (0.5, 0.8)}),
        ("adagrad", {}),
        ("adagrad", {"eps": 0.1}),
    ],
)
def test_each_member_steps_as_under_torchs_optimizer_at_rates_that_change(name, how, clip):
    params = stacked()
    alone = [[nn.Parameter(p[m].detach().clone()) for p in params] for m in range(3)]
    ours = KINDS[name](params, lr=LR, weight_decay=DECAY, clip=clip, **how)
    theirs = [
        TORCHS[name](member, lr=lr, weight_decay=decay, **how)
        for member, lr, decay in zip(alone, LR, DECAY, strict=True)
    ]
    for step in range(10):
        if step == 5:
            ours.lr.mul_(torch.tensor([0.5, 1.0, 0.25]))
            for optimizer, factor in zip(theirs, [0.5, 1.0, 0.25], strict=True):
                optimizer.param_groups[0]["lr"] *= factor
        give_gradients(params)
        for m, (member, optimizer) in enumerate(zip(alone, theirs, strict=True)):
            for one, all_members in zip(member, params, strict=True):
                one.grad = all_members.grad[m].clone()
            if clip is not None:
                nn.utils.clip_grad_norm_(member, clip)
            optimizer.step()
        ours.step()
    for m, member in enumerate(alone):
        for one, all_members in zip(member, params, strict=True):
            torch.testing.assert_close(all_members[m], one, rtol=1e-9, atol=1e-9)


def ridge(members: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Curvatures and gradients at zero of a quadratic loss for each member, ill-conditioned."""
    root = torch.randn(members, 6, 6, dtype=torch.float64)
    curvature = root @ root.mT + torch.diag(torch.logspace(-2, 1, 6, dtype=torch.float64))
    return curvature, torch.randn(members, 6, dtype=torch.float64)


def test_nesterov_steps_as_its_formula_says_and_never_beyond_the_learning_rate():
    curvature, slope = ridge(3)
    lr, decay = [1e-3, 0.5, 100.0], [0.0, 0.5, 0.01]
    param = nn.Parameter(torch.randn(3, 6, dtype=torch.float64))
    starts = param.detach().clone()
    ours = MemberNesterov([param], lr=lr, weight_decay=decay)
    for _ in range(25):
        param.grad = (curvature @ param.detach()[..., None])[..., 0] - slope
        ours.step()
    for m, z in enumerate(starts):
        x, t, largest, before = z.clone(), 1.0, 0.0, None
        for _ in range(25):
            g = curvature[m] @ z - slope[m] + decay[m] * z
            if before is not None:
                moved, changed = z - before[0], g - before[1]
                largest = max(largest, float(changed @ changed / (moved @ changed)))
            rate = min(lr[m], 1 / largest) if largest else lr[m]
            before = z, g
            following = z - rate * g
            t = 1.0 if g @ (following - x) > 0 else t
            later = (1 + (1 + 4 * t * t) ** 0.5) / 2
            z, x, t = following + (t - 1) / later * (following - x), following, later
        torch.testing.assert_close(param[m].detach(), z)


def test_nesterov_solves_a_ridge_regression():
    curvature, slope = ridge(2)
    decay = torch.tensor([0.1, 1.0], dtype=torch.float64)
    param = nn.Parameter(torch.zeros(2, 6, dtype=torch.float64))
    ours = MemberNesterov([param], lr=[100.0] * 2, weight_decay=decay.tolist())
    for _ in range(400):
        param.grad = (curvature @ param.detach()[..., None])[..., 0] - slope
        ours.step()
    penalised = curvature + decay[:, None, None] * torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(param.detach(), torch.linalg.solve(penalised, slope))


@pytest.mark.parametrize("name", ["adam", "adagrad"])
@pytest.mark.parametrize("clip", [None, 2.0])
def test_each_number_may_have_a_weight_decay_of_its_own(name, clip):
    param = nn.Parameter(torch.randn(3, 6, dtype=torch.float64))
    alone = [[nn.Parameter(row[:4].clone()), nn.Parameter(row[4:].clone())] for row in param.data]
    decay = torch.tensor(DECAY, dtype=torch.float64)[:, None].repeat(1, 6)
    decay[:, 4:] = 0.3
    ours = OPTIMIZERS[name]([param], lr=LR, weight_decay=decay, clip=clip)
    theirs = [
        TORCHS[name]([{"params": [a]}, {"params": [b], "weight_decay": 0.3}], lr=lr, weight_decay=w)
        for (a, b), lr, w in zip(alone, LR, DECAY, strict=True)
    ]
    for _ in range(10):
        give_gradients([param])
        for parts, grad, optimizer in zip(alone, param.grad, theirs, strict=True):
            for part, own in zip(parts, grad.clone().split((4, 2)), strict=True):
                part.grad = own
            if clip is not None:
                nn.utils.clip_grad_norm_(parts, clip)
            optimizer.step()
        ours.step()
    wanted = torch.stack([torch.cat(parts) for parts in alone])
    torch.testing.assert_close(param, wanted, rtol=1e-9, atol=1e-9)


def test_clipping_looks_at_each_members_norm_alone():
    grads = [torch.randn(3, *s, dtype=torch.float64) for s in SHAPES]
    for grad in grads:
        grad[0] *= 1e-3  # small enough to be left alone
        grad[1] *= 1e3
    expected = []
    for m in range(3):
        member = [nn.Parameter(torch.zeros(s, dtype=torch.float64)) for s in SHAPES]
        for one, grad in zip(member, grads, strict=True):
            one.grad = grad[m].clone()
        nn.utils.clip_grad_norm_(member, 1.0)
        expected.append([one.grad for one in member])
    untouched = [grad[0].clone() for grad in grads]
    clip_member_gradients_(grads, 1.0)
    for grad, *wanted in zip(grads, *expected, strict=True):
        torch.testing.assert_close(grad, torch.stack(wanted))
    assert all(torch.equal(g[0], was) for g, was in zip(grads, untouched, strict=True))


def test_zero_grad_forgets_the_gradients():
    params = stacked()
    give_gradients(params)
    MemberAdam(params, lr=LR, weight_decay=DECAY).zero_grad()
    assert all(param.grad is None for param in params)


@every_optimizer
def test_a_parameter_without_a_gradient_stays(name):
    params = stacked()
    give_gradients(params[:2])
    before = [param.detach().clone() for param in params]
    OPTIMIZERS[name](params, lr=LR, weight_decay=DECAY, clip=1.0).step()
    changed = [not torch.equal(mine, was) for mine, was in zip(params, before, strict=True)]
    assert changed == [True, True, False]


@every_optimizer
def test_writing_into_the_state_restores_it(name):
    params, other = stacked(), stacked()
    ours, restored = (OPTIMIZERS[name](p, lr=LR, weight_decay=DECAY) for p in (params, other))
    give_gradients(params)
    ours.step()
    ours.lr.mul_(0.5)
    for mine, wanted in zip(other, params, strict=True):
        mine.data.copy_(wanted)
    for name, tensor in restored.tensors().items():
        tensor.copy_(ours.tensors()[name])
    give_gradients(params)
    for mine, wanted in zip(other, params, strict=True):
        mine.grad = wanted.grad.clone()
    ours.step()
    restored.step()
    assert all(torch.equal(a, b) for a, b in zip(other, params, strict=True))


@pytest.mark.gpu
@every_optimizer
@pytest.mark.parametrize("clip", [None, 2.0])
@pytest.mark.parametrize("size", [1, 1000, 70_001])
def test_the_kernel_steps_as_the_torch_form(name, clip, size):
    ours, plain = (nn.Parameter(torch.randn(3, size).cuda()) for _ in range(2))
    plain.data.copy_(ours.data)
    how = {"lr": LR, "weight_decay": DECAY, "clip": clip}
    optimizers = [OPTIMIZERS[name]([p], **how) for p in (ours, plain)]
    for _ in range(10):
        grad = 3 * torch.randn(3, size).cuda()
        for param, optimizer, form in zip(
            (ours, plain), optimizers, ("triton", "torch"), strict=True
        ):
            param.grad = grad.clone()
            with backend(form):
                optimizer.step()
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-4)
    for key, mine in optimizers[0].tensors().items():
        torch.testing.assert_close(mine, optimizers[1].tensors()[key], rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_the_kernel_clips_by_the_norm_of_all_that_has_a_gradient():
    ours = [nn.Parameter(torch.randn(3, *shape).cuda()) for shape in [(5000,), *SHAPES]]
    plain = [nn.Parameter(param.detach().clone()) for param in ours]
    for mine, other in zip(ours[:-1], plain[:-1], strict=True):
        mine.grad = 3 * torch.randn_like(mine)
        other.grad = mine.grad.clone()
    for params, form in ((ours, "triton"), (plain, "torch")):
        with backend(form):
            MemberAdam(params, lr=LR, weight_decay=[0.0] * 3, clip=2.0, eps=1.0).step()
    for mine, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1, 70_001, 3_000_000])
def test_the_kernel_sums_the_squares_of_each_member_as_if_it_were_alone(size):
    from quatgraph.ops.kernels.optim import square_sums

    grad = torch.randn(3, size).cuda() * torch.tensor([[1e-3], [1.0], [1e3]]).cuda()
    sums = square_sums([grad])
    norms = sums.double().sum(dim=1).sqrt()
    wanted = torch.linalg.vector_norm(grad.double(), dim=1)
    torch.testing.assert_close(norms, wanted, rtol=1e-6, atol=0.0)
    for m in range(3):
        assert torch.equal(square_sums([grad[m : m + 1]])[0], sums[m])
