"""Losses against all candidates, against torch's on scores and labels that exist."""

import math
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from quatgraph.errors import UserError
from quatgraph.ops import (
    Positives,
    backend,
    k_vs_all_cross_entropy,
    one_vs_all_bce,
    one_vs_all_cross_entropy,
)
from quatgraph.ops.one_vs_all import tile_size

Q, B, E, D = 12, 5, 23, 4
# Answers of each query: none, one, all, and some.
ANSWERS = [[], [3], [*range(E)], *[[*range(q, E, q)] for q in range(3, Q)]]
ROWS = {
    "a batch": [2, 0, 7, 1, 11],
    "no answers": [0, 0, 0, 0, 0],
    "one query twice": [2, 5, 5, 9, 1],
}
LOSSES = {
    "bce": one_vs_all_bce,
    "smoothed": lambda *a, **k: one_vs_all_bce(*a, smoothing=0.1, floor=0.02, **k),
    "softmax": one_vs_all_cross_entropy,
    "kvsall": k_vs_all_cross_entropy,
    "kvsall smoothed": lambda *a, **k: k_vs_all_cross_entropy(*a, smoothing=0.1, floor=0.02, **k),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def answers_of(row: list, dtype: torch.dtype = torch.int32) -> Positives:
    sizes = torch.tensor([0, *map(len, ANSWERS)])
    tails = torch.tensor([tail for tails in ANSWERS for tail in tails])
    return Positives(
        sizes.cumsum(0).to(dtype), tails.to(dtype), torch.tensor(row, dtype=torch.int32)
    )


def inputs(*lead: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    return tuple(2 * torch.randn(*lead, size, D, dtype=dtype) for size in (B, E))


def dense(name: str, query: Tensor, candidates: Tensor, row: list[int]) -> Tensor:
    """The loss by torch, of all scores and labels."""
    scores = query @ candidates.mT
    labels = torch.zeros_like(scores)
    for b, one in enumerate(row):
        labels[b, ANSWERS[one]] = 1
    if name == "softmax":
        right, tail = labels.nonzero(as_tuple=True)
        return F.cross_entropy(scores[right], tail, reduction="sum") / max(1, len(tail))
    targets = 0.9 * labels + 0.02 if "smoothed" in name else labels
    if "kvsall" in name:
        mass = targets.sum(1, keepdim=True)
        each = -(targets / mass.clamp(min=1e-9) * scores.log_softmax(1)).sum(1)
        return each.sum() / max(1, int((mass > 0).sum()))
    return F.binary_cross_entropy_with_logits(scores, targets)


def results(call, *given: Tensor) -> tuple[Tensor, ...]:
    """The loss and its gradients, scaled by numbers that are exact in any type."""
    given = [value.detach().requires_grad_() for value in given]
    loss = call(*given)
    probe = (torch.arange(loss.numel(), device=loss.device) - 2.0).view(loss.shape).to(loss.dtype)
    return loss.detach(), *torch.autograd.grad(loss, given, probe)


def assert_same(mine: tuple[Tensor, ...], wanted: tuple[Tensor, ...], **tolerance) -> None:
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@every_loss
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("tile", [1, 7, E, None])
def test_equals_torchs_loss_and_its_gradients_in_tiles_of_any_size(name, row, tile):
    given, positives = inputs(), answers_of(ROWS[row])
    ours = results(lambda q, x: LOSSES[name](q, x, positives, tile=tile), *given)
    wanted = results(lambda q, x: dense(name, q, x, ROWS[row]), *given)
    assert_same(ours, wanted, atol=1e-12, rtol=1e-12)


def test_in_k_vs_all_the_smoothed_targets_of_each_query_sum_to_one():
    smoothing, row, (query, candidates) = 0.208, [1, 5, 9, 3, 4], inputs()
    total = 0.0
    for scores, one in zip((query @ candidates.mT).tolist(), row, strict=True):
        normalizer, mass = math.log(sum(map(math.exp, scores))), (1 - smoothing) * len(ANSWERS[one])
        for e, score in enumerate(scores):
            target = ((1 - smoothing) * (e in ANSWERS[one]) + 1 / E) / (mass + 1)
            total += target * (normalizer - score)
    how = {"smoothing": smoothing, "floor": 1 / E, "tile": 7}
    found = k_vs_all_cross_entropy(query, candidates, answers_of(row), **how)
    assert found.item() == pytest.approx(total / B, rel=1e-12)


@every_loss
def test_takes_any_whole_numbers(name):
    given = inputs()

    def found(dtype: torch.dtype) -> tuple[Tensor, ...]:
        positives = answers_of(ROWS["a batch"], dtype)
        return results(lambda q, x: LOSSES[name](q, x, positives, tile=5), *given)

    assert_same(found(torch.int64), found(torch.int32), atol=0, rtol=0)


@every_loss
def test_gradients_are_the_numerical_ones(name):
    positives = answers_of(ROWS["a batch"])
    given = tuple(value.requires_grad_() for value in inputs())
    assert torch.autograd.gradcheck(lambda q, x: LOSSES[name](q, x, positives, tile=7), given)


@every_loss
def test_a_second_gradient_is_refused(name):
    query, candidates = (value.requires_grad_() for value in inputs())
    loss = LOSSES[name](query, candidates, answers_of(ROWS["a batch"]))
    with pytest.raises(UserError, match="double backward is not supported"):
        torch.autograd.grad(loss.sum(), query, create_graph=True)


@every_loss
@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_far_from_zero_give_finite_numbers(name, sign):
    query, candidates = inputs(dtype=torch.float32)
    positives = answers_of(ROWS["a batch"])
    given = query * 1e3, candidates * 1e3 * sign
    found = results(lambda q, x: LOSSES[name](q, x, positives, tile=7), *given)
    assert all(value.isfinite().all() for value in found)


@every_loss
def test_input_need_not_be_contiguous(name):
    given, positives = inputs(), answers_of(ROWS["a batch"])

    def ours(query: Tensor, candidates: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, positives, tile=7)

    apart = (value.mT.contiguous().mT for value in given)
    assert_same(results(ours, *apart), results(ours, *given))


@every_loss
@pytest.mark.parametrize("shared", [False, True])
def test_members_equal_a_loop_in_values_and_gradients(name, shared):
    own = [ROWS["a batch"], ROWS["one query twice"], ROWS["no answers"]]
    rows = own[:1] * 3 if shared else own
    given, batched = inputs(3), answers_of(own[0] if shared else own)

    def looped(query: Tensor, candidates: Tensor) -> Tensor:
        parts = zip(query, candidates, rows, strict=True)
        return torch.stack([LOSSES[name](q, x, answers_of(row), tile=7) for q, x, row in parts])

    ours = results(lambda q, x: LOSSES[name](q, x, batched, tile=7), *given)
    assert_same(ours, results(looped, *given), atol=1e-12, rtol=1e-12)


@every_loss
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_numbers_of_lower_precision_are_summed_in_float32(name, kind):
    given, positives = inputs(), answers_of(ROWS["a batch"])
    exact = results(lambda q, x: LOSSES[name](q, x, positives), *given)
    low = [value.to(kind) for value in given]
    found = results(lambda q, x: LOSSES[name](q, x, positives), *low)
    assert [value.dtype for value in found] == [torch.float32, kind, kind]
    tolerance = 1e-5 if kind == torch.float32 else 3e-2
    close = [value.double() for value in found]
    assert_same(close, exact, atol=tolerance, rtol=tolerance)


@every_loss
def test_products_may_take_bfloat16_and_their_sums_stay_float32(name):
    given, positives = inputs(dtype=torch.float32), answers_of(ROWS["a batch"])
    kinds = {"product_dtype": torch.bfloat16, "tile": 7}
    found = results(lambda q, x: LOSSES[name](q, x, positives, **kinds), *given)
    assert {value.dtype for value in found} == {torch.float32}
    rounded = [value.bfloat16().double() for value in given]
    wanted = results(lambda q, x: LOSSES[name](q, x, positives), *rounded)
    for mine, exact in zip(found, wanted, strict=True):
        assert (mine.double() - exact).abs().max() < 1e-2 * exact.abs().max()


def test_the_slope_of_a_positive_that_is_right_is_rounded_as_such():
    # Its score's sigmoid is about 1 - 2**-13, which bfloat16 would round to 1.
    positives = Positives(*(torch.tensor(values) for values in ([0, 1], [0], [0])))
    query, candidates = torch.full((1, 1), 9.0, requires_grad=True), torch.ones(1, 1)
    one_vs_all_bce(query, candidates, positives, product_dtype=torch.bfloat16).backward()
    wanted = -torch.tensor(-9.0).sigmoid().item()
    torch.testing.assert_close(query.grad.item(), wanted, rtol=1e-2, atol=0)


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor that any operation gave has."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor):
            self.numbers = max(self.numbers, out.numel())
        return out


@every_loss
@pytest.mark.parametrize("kind", [None, torch.bfloat16])
def test_no_tensor_is_larger_than_a_tile(name, kind):
    rows, width, tile = 64, 1000, 50
    query, candidates = torch.randn(rows, D, requires_grad=True), torch.randn(width, D)
    ptr = 20 * torch.arange(rows + 1)
    positives = Positives(ptr, torch.randint(width, (20 * rows,)), torch.arange(rows))
    with Largest() as largest:
        LOSSES[name](
            query, candidates.requires_grad_(), positives, tile=tile, product_dtype=kind
        ).backward()
    assert largest.numbers == max(rows * tile, width * D)
    with Largest() as largest:
        dense_scores = query @ candidates.mT
    assert largest.numbers == dense_scores.numel()


@every_loss
def test_a_large_gradient_is_there_only_once(name, monkeypatch):
    query, candidates = inputs()
    positives = answers_of(ROWS["a batch"])

    def scaled(query: Tensor, candidates: Tensor) -> Tensor:
        return 3 * LOSSES[name](query, candidates, positives, tile=7)

    plain = results(scaled, query, candidates)
    monkeypatch.setattr(import_module("quatgraph.ops.one_vs_all"), "_LARGE_GRADIENT", 0)
    assert_same(results(scaled, query, candidates), plain)
    loss = scaled(query.requires_grad_(), candidates.requires_grad_())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize(("device", "bound"), [("cpu", 1 << 19), ("cuda", 1 << 26)])
@pytest.mark.parametrize("candidates", [1, 64, 17_050, 77_951, 4_600_000])
@pytest.mark.parametrize("rows", [1, 1000, 1024, 10_240])
def test_tiles_are_about_equally_large_and_stay_below_the_bound(rows, candidates, device, bound):
    size = tile_size(rows, candidates, torch.device(device))
    assert size % 64 == 0
    assert size == 64 or size * rows <= bound
    tiles = -(-candidates // size)
    assert size * tiles - candidates < 64 * tiles
    assert tiles == 1 or (size + 128) * rows > bound / 2


def on_gpu(positives: Positives) -> Positives:
    numbers = positives.ptr, positives.tails, positives.row
    return Positives(*(value.cuda() for value in numbers))


def large(
    lead: tuple[int, ...] = (), dtype: torch.dtype = torch.float64
) -> tuple[Positives, list[Tensor]]:
    """More candidates and more answers than a kernel takes at a time, on a GPU."""
    queries, rows, width = 50, 33, 2500
    sizes = [0, 1, 1500, *torch.randint(100, (queries - 3,)).tolist()]
    tails = torch.cat([torch.randperm(width)[:size] for size in sizes]).int()
    ptr = torch.tensor([0, *sizes]).cumsum(0).int()
    row = torch.randint(3, queries, (*lead, rows), dtype=torch.int32)
    row[..., :3] = torch.tensor([2, 0, 1])
    given = [torch.randn(*lead, size, 16, dtype=dtype).cuda() for size in (rows, width)]
    return on_gpu(Positives(ptr, tails, row)), given


@pytest.mark.gpu
@every_loss
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("tile", [1, 7, None])
def test_the_kernel_equals_the_torch_form(name, row, tile):
    positives, given = answers_of(ROWS[row]), inputs()
    ptr, tails, rows = vars(on_gpu(positives)).values()
    moved = Positives(ptr.repeat_interleave(3)[::3], tails.repeat_interleave(3)[::3], rows)
    with backend("triton"):
        ours = results(
            lambda q, x: LOSSES[name](q, x, moved, tile=tile), *(value.cuda() for value in given)
        )
    wanted = results(lambda q, x: LOSSES[name](q, x, positives, tile=tile), *given)
    assert_same([value.cpu() for value in ours], wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.gpu
@every_loss
@pytest.mark.parametrize("tile", [1000, None])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_the_kernel_takes_many_candidates_and_answers_and_members(name, tile, lead):
    positives, given = large(lead)

    def ours(query: Tensor, candidates: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, positives, tile=tile)

    with backend("triton"):
        found = results(ours, *given)
    with backend("torch"):
        wanted = results(ours, *given)
    assert_same(found, wanted, atol=1e-10, rtol=1e-10)
    single = [value.float() for value in given]
    with backend("triton"):
        found = results(ours, *single)
    assert_same([value.double() for value in found], wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
@every_loss
def test_a_gpus_bfloat16_products_are_those_of_rounded_numbers(name):
    positives, given = large(dtype=torch.float32)
    given = [value.bfloat16().float() for value in given]
    kinds = {"product_dtype": torch.bfloat16, "tile": 1000}
    found = results(lambda q, x: LOSSES[name](q, x, positives, **kinds), *given)
    assert {value.dtype for value in found} == {torch.float32}
    wanted = results(lambda q, x: LOSSES[name](q, x, positives), *given)
    torch.testing.assert_close(found[0], wanted[0], rtol=5e-3, atol=5e-3)
    for mine, exact in zip(found[1:], wanted[1:], strict=True):
        assert (mine - exact).abs().max() < 2e-2 * exact.abs().max()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [None, torch.bfloat16])
@every_loss
def test_a_gpus_numbers_repeat_bit_for_bit(name, kind):
    positives, given = large((3,), torch.float32)

    def ours(query: Tensor, candidates: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, positives, tile=999, product_dtype=kind)

    first = results(ours, *given)
    for _ in range(20):
        again = results(ours, *given)
        assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [None, torch.bfloat16])
@every_loss
def test_a_step_can_be_captured_and_replayed_on_another_batch(name, kind):
    positives, given = large(dtype=torch.float32)

    def step() -> tuple[Tensor, ...]:
        return results(
            lambda q, x: LOSSES[name](q, x, positives, tile=999, product_dtype=kind), *given
        )

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()  # compiles the kernels
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        found = step()
    given[0].copy_(torch.randn_like(given[0]))
    positives.row.copy_(positives.row.roll(7))
    captured.replay()
    assert_same(found, step(), atol=1e-6, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [None, torch.bfloat16])
@every_loss
def test_a_gpu_holds_two_tiles_and_the_gradients_at_most(name, kind):
    rows, width, tile = 1024, 40_000, 2000
    given = [torch.randn(size, D, device="cuda", requires_grad=True) for size in (rows, width)]
    positives = on_gpu(
        Positives(torch.arange(rows + 1), torch.randint(width, (rows,)), torch.arange(rows))
    )
    LOSSES[name](*given, positives, tile=tile, product_dtype=kind)  # what the products keep
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    LOSSES[name](*given, positives, tile=tile, product_dtype=kind).backward()
    used = torch.cuda.max_memory_allocated() - before
    assert used < 4 * (2.2 * rows * tile + 4 * (rows + width) * D)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("count", "width"), [(1, 1), (50, 3), (700, 128), (0, 4)])
def test_the_kernel_rounds_and_pads_candidates_wherever_they_lie(count, width, dtype):
    from quatgraph.ops.kernels.one_vs_all import padded

    every = torch.randn(3, count + 7, width, device="cuda")
    turned = torch.randn(3, width, count, device="cuda").mT
    for some in (every[:, :count], every[:1, 7:].expand(3, -1, -1), turned):
        ours = padded(some, count + 14, dtype)
        assert torch.equal(ours[:, :count], some.to(dtype))
        assert torch.equal(ours[:, count:], torch.zeros_like(ours[:, count:]))
