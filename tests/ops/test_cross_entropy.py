"""The loss of classes against torch's own, in values and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.ops.backend import backend
from quatgraph.ops.cross_entropy import smoothed_cross_entropy

SHAPES = [(1, 2), (10, 4, 2), (2, 33, 5), (3, 1, 1), (2, 3, 4, 70), (6, 1500), (3, 0, 2)]


def values_and_gradient(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    logits = logits.detach().requires_grad_()
    y = smoothed_cross_entropy(logits, labels, smoothing)
    assert y.shape == labels.shape
    probe = (torch.arange(y.numel(), device=y.device) % 7 - 3).view(y.shape)
    return y.detach(), *torch.autograd.grad(y, logits, probe.to(y))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_torchs_with_the_targets_as_probabilities(shape, smoothing):
    logits = torch.randn(shape, dtype=torch.float64)
    labels = torch.randint(shape[-1], shape[:-1])
    others = smoothing / max(1, shape[-1] - 1)
    targets = torch.full(shape, others, dtype=torch.float64)
    targets.scatter_(-1, labels[..., None], 1 - smoothing)
    ours = smoothed_cross_entropy(logits, labels, smoothing)
    rows = logits.reshape(-1, shape[-1]), targets.reshape(-1, shape[-1])
    wanted = F.cross_entropy(*rows, reduction="none").view(labels.shape)
    torch.testing.assert_close(ours, wanted)


def test_the_label_alone_counts_without_smoothing():
    logits = torch.tensor([[0.0, -torch.inf, 0.0]])
    found = smoothed_cross_entropy(logits, torch.tensor([2]), 0.0)
    torch.testing.assert_close(found, torch.tensor([2.0]).log())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_equals_the_torch_form_in_values_and_gradients(shape, smoothing, dtype):
    logits = (3 * torch.randn(shape, device="cuda")).to(dtype)
    if shape[-1] == 5 and not smoothing:
        logits[..., 0] = -torch.inf
    labels = torch.randint(int(shape[-1] > 1), shape[-1], shape[:-1], device="cuda")
    labels = labels[..., :1].expand(labels.shape)  # as labels that members share
    found = []
    for name in ("triton", "torch"):
        with backend(name):
            found.append(values_and_gradient(logits, labels, smoothing))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain)
