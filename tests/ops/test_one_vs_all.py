"""Losses against all candidates, against torch's on scores and labels that exist."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from quatgraph.ops import Positives, backend, one_vs_all_bce, one_vs_all_cross_entropy
from quatgraph.ops.one_vs_all import tile_size

Q, B, E, D = 12, 5, 23, 4
# Answers of each query: none, one, all, and some.
ANSWERS = [[], [3], [*range(E)], *[[*range(q, E, q)] for q in range(3, Q)]]
ROWS = {
    "a batch": [2, 0, 7, 1, 11],
    "padding": [4, -1, 2, -1, 3],
    "no answers": [0, 0, 0, 0, 0],
    "nothing but padding": [-1] * B,
    "one query twice": [2, 5, 5, 9, 1],
}
LOSSES = {
    "bce": one_vs_all_bce,
    "smoothed": lambda *a, **k: one_vs_all_bce(*a, smoothing=0.1, floor=0.02, **k),
    "softmax": one_vs_all_cross_entropy,
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def answers_of(row: list, dtype: torch.dtype = torch.int32) -> Positives:
    sizes = torch.tensor([0, *map(len, ANSWERS)])
    tails = torch.tensor([tail for tails in ANSWERS for tail in tails])
    return Positives(
        sizes.cumsum(0).to(dtype), tails.to(dtype), torch.tensor(row, dtype=torch.int32)
    )


def inputs(*lead: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    shapes = (B, D), (E, D), (E,)
    return tuple(2 * torch.randn(*lead, *shape, dtype=dtype) for shape in shapes)


def dense(name: str, query: Tensor, candidates: Tensor, row: list[int], bias: Tensor) -> Tensor:
    """The loss by torch, of all scores and labels but those of padding."""
    real = [b for b, q in enumerate(row) if q >= 0]
    scores = query[real] @ candidates.mT + bias
    labels = torch.zeros_like(scores)
    for b, one in enumerate(real):
        labels[b, ANSWERS[row[one]]] = 1
    if name == "softmax":
        right, tail = labels.nonzero(as_tuple=True)
        return F.cross_entropy(scores[right], tail, reduction="sum") / max(1, len(tail))
    targets = 0.9 * labels + 0.02 if name == "smoothed" else labels
    terms = F.binary_cross_entropy_with_logits(scores, targets, reduction="sum")
    return terms / max(1, targets.numel())


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
    query, candidates, bias = inputs()
    positives = answers_of(ROWS[row])

    def ours(query: Tensor, candidates: Tensor, bias: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, positives, bias=bias, tile=tile)

    def wanted(query: Tensor, candidates: Tensor, bias: Tensor) -> Tensor:
        return dense(name, query, candidates, ROWS[row], bias)

    given = query, candidates, bias
    assert_same(results(ours, *given), results(wanted, *given), atol=1e-12, rtol=1e-12)


@every_loss
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_does_without_a_bias_and_takes_any_whole_numbers(name, dtype):
    query, candidates, bias = inputs()
    positives = answers_of(ROWS["padding"], dtype)
    ours = results(lambda q, x: LOSSES[name](q, x, positives, tile=5), query, candidates)
    wanted = results(
        lambda q, x: dense(name, q, x, ROWS["padding"], torch.zeros_like(bias)), query, candidates
    )
    assert_same(ours, wanted, atol=1e-12, rtol=1e-12)


@every_loss
def test_gradients_are_the_numerical_ones(name):
    positives = answers_of(ROWS["padding"])
    given = tuple(value.requires_grad_() for value in inputs())
    assert torch.autograd.gradcheck(
        lambda q, x, b: LOSSES[name](q, x, positives, bias=b, tile=7), given
    )


@every_loss
def test_a_second_gradient_is_refused(name):
    query, candidates, _ = (value.requires_grad_() for value in inputs())
    loss = LOSSES[name](query, candidates, answers_of(ROWS["a batch"]))
    (grad,) = torch.autograd.grad(loss.square(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@every_loss
def test_padding_may_hold_any_numbers(name):
    query, candidates, bias = inputs()
    real = torch.tensor(ROWS["padding"]) >= 0
    positives = answers_of(ROWS["padding"])
    query[~real] = torch.nan

    def ours(query: Tensor, candidates: Tensor, bias: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, positives, bias=bias, tile=7)

    found = results(ours, query, candidates, bias)
    wanted = results(ours, query.nan_to_num(5.0), candidates, bias)
    assert not wanted[1][~real].any()
    assert_same(found, wanted, atol=0, rtol=0)


@every_loss
@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_far_from_zero_give_finite_numbers(name, sign):
    query, candidates, bias = inputs(dtype=torch.float32)
    positives = answers_of(ROWS["a batch"])
    given = query * 1e3, candidates * 1e3 * sign, bias
    found = results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b, tile=7), *given)
    assert all(value.isfinite().all() for value in found)


@every_loss
def test_input_need_not_be_contiguous(name):
    query, candidates, bias = inputs()
    positives = answers_of(ROWS["padding"])

    def ours(query: Tensor, candidates: Tensor, bias: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, positives, bias=bias, tile=7)

    apart = query.mT.contiguous().mT, candidates.mT.contiguous().mT, bias
    assert_same(results(ours, *apart), results(ours, query, candidates, bias))


MEMBERS = [ROWS["a batch"], ROWS["padding"], ROWS["no answers"]]


def looped(name: str, rows: list[list[int]], *given: Tensor) -> Tensor:
    parts = zip(rows, *given, strict=True)
    return torch.stack(
        [LOSSES[name](q, x, answers_of(row), bias=b, tile=7) for row, q, x, b in parts]
    )


@every_loss
@pytest.mark.parametrize("form", ["within vmap", "stacked", "in another dimension"])
def test_members_equal_a_loop_in_values_and_gradients(name, form):
    given, together = inputs(3), answers_of(MEMBERS)

    def ours(query: Tensor, candidates: Tensor, bias: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, together, bias=bias, tile=7)

    def moved(query: Tensor, candidates: Tensor, bias: Tensor) -> Tensor:
        return torch.vmap(ours, (2, 1, 1))(query.movedim(0, 2), candidates.movedim(0, 1), bias.mT)

    calls = {"within vmap": torch.vmap(ours), "stacked": ours, "in another dimension": moved}
    wanted = results(lambda *given: looped(name, MEMBERS, *given), *given)
    assert_same(results(calls[form], *given), wanted, atol=1e-12, rtol=1e-12)


@every_loss
def test_members_may_share_candidates_and_a_batch(name):
    query, candidates, bias = inputs(3)
    shared = candidates[0], bias[0]
    row = ROWS["padding"]
    positives = answers_of(row)

    def ours(query: Tensor, *shared: Tensor) -> Tensor:
        def one(query: Tensor) -> Tensor:
            return LOSSES[name](query, shared[0], positives, bias=shared[1], tile=7)

        return torch.vmap(one)(query)

    def wanted(query: Tensor, *shared: Tensor) -> Tensor:
        return looped(name, [row] * 3, query, *(value.expand(3, *value.shape) for value in shared))

    assert_same(results(ours, query, *shared), results(wanted, query, *shared))


def test_members_within_members_are_refused():
    query, candidates, _ = inputs(2, 3)
    together = answers_of(MEMBERS)
    nested = torch.vmap(torch.vmap(lambda q, x: one_vs_all_bce(q, x, together)))
    with pytest.raises(NotImplementedError, match="members within members"):
        nested(query, candidates)


@every_loss
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_numbers_of_lower_precision_are_summed_in_float32(name, kind):
    given, positives = inputs(), answers_of(ROWS["padding"])
    exact = results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b), *given)
    low = [value.to(kind) for value in given]
    found = results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b), *low)
    assert [value.dtype for value in found] == [torch.float32, kind, kind, kind]
    tolerance = 1e-5 if kind == torch.float32 else 3e-2
    close = [value.double() for value in found]
    assert_same(close, exact, atol=tolerance, rtol=tolerance)


@every_loss
def test_products_may_take_bfloat16_and_their_sums_stay_float32(name):
    given, positives = inputs(dtype=torch.float32), answers_of(ROWS["padding"])
    kinds = {"product_dtype": torch.bfloat16, "tile": 7}
    found = results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b, **kinds), *given)
    assert {value.dtype for value in found} == {torch.float32}
    query, candidates, bias = (value.double() for value in given)
    rounded = [value.bfloat16().double() for value in (query, candidates)]
    wanted = results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b), *rounded, bias)
    close = [value.double() for value in found]
    assert_same(close, wanted, rtol=1e-2, atol=2e-3)


def test_the_slope_of_a_positive_that_is_right_is_rounded_as_such():
    # Its score's sigmoid is 1 - 2**-13, which bfloat16 would round to 1.
    score = torch.tensor(2.0**13 - 1).log()
    positives = Positives(*(torch.tensor(values) for values in ([0, 1], [0], [0])))
    query, candidates = torch.ones(1, 1, requires_grad=True), torch.ones(1, 1)
    loss = one_vs_all_bce(
        query, candidates, positives, bias=score[None] - 1, product_dtype=torch.bfloat16
    )
    loss.backward()
    torch.testing.assert_close(query.grad.item(), -(2.0**-13), rtol=1e-2, atol=0)


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
    pointers = 20 * torch.arange(rows + 1)
    positives = Positives(pointers, torch.randint(width, (20 * rows,)), torch.arange(rows))
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
    query, candidates, _ = inputs()
    positives = answers_of(ROWS["a batch"])

    def scaled(query: Tensor, candidates: Tensor) -> Tensor:
        return 3 * LOSSES[name](query, candidates, positives, tile=7)

    plain = results(scaled, query, candidates)
    monkeypatch.setattr(import_module("quatgraph.ops.one_vs_all"), "_LARGE", 0)
    assert_same(results(scaled, query, candidates), plain)
    loss = scaled(query.requires_grad_(), candidates.requires_grad_())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@every_loss
@pytest.mark.parametrize("members", [(), (2,)])
def test_rows_that_are_known_to_be_no_padding_need_no_care(name, members):
    query, candidates, bias = inputs()
    padded = answers_of(ROWS["a batch"])

    def call(positives: Positives) -> tuple[Tensor, ...]:
        given = [value.expand(*members, *value.shape) for value in (query, candidates, bias)]
        return results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b, tile=7), *given)

    assert_same(call(replace(padded, padded=False)), call(padded))


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
    numbers = positives.pointers, positives.tails, positives.row
    return Positives(*(value.cuda() for value in numbers))


def large(
    lead: tuple[int, ...] = (), dtype: torch.dtype = torch.float64
) -> tuple[Positives, list[Tensor]]:
    """More candidates and more answers than a kernel takes at a time, on a GPU."""
    queries, rows, width = 50, 33, 2500
    sizes = [0, 1, 1500, *torch.randint(100, (queries - 3,)).tolist()]
    tails = torch.cat([torch.randperm(width)[:size] for size in sizes]).int()
    pointers = torch.tensor([0, *sizes]).cumsum(0).int()
    row = torch.randint(3, queries, (*lead, rows), dtype=torch.int32)
    row[..., :5] = torch.tensor([2, 0, -1, 1, -1])
    shapes = (rows, 16), (width, 16), (width,)
    given = [torch.randn(*lead, *shape, dtype=dtype).cuda() for shape in shapes]
    return on_gpu(Positives(pointers, tails, row)), given


@pytest.mark.gpu
@every_loss
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("tile", [1, 7, None])
def test_the_kernel_equals_the_torch_form(name, row, tile):
    positives, given = answers_of(ROWS[row]), inputs()
    moved = on_gpu(positives)
    with backend("triton"):
        ours = results(
            lambda q, x, b: LOSSES[name](q, x, moved, bias=b, tile=tile),
            *(value.cuda() for value in given),
        )
    wanted = results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b, tile=tile), *given)
    assert_same([value.cpu() for value in ours], wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.gpu
@every_loss
@pytest.mark.parametrize("tile", [1000, None])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_the_kernel_takes_many_candidates_and_answers_and_members(name, tile, lead):
    positives, given = large(lead)

    def ours(query: Tensor, candidates: Tensor, bias: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, positives, bias=bias, tile=tile)

    call = torch.vmap(ours) if lead else ours
    with backend("triton"):
        found = results(call, *given)
    with backend("torch"):
        wanted = results(call, *given)
    assert_same(found, wanted, atol=1e-10, rtol=1e-10)
    single = [value.float() for value in given]
    with backend("triton"):
        found = results(call, *single)
    assert_same([value.double() for value in found], wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
@every_loss
def test_a_gpus_bfloat16_products_are_those_of_rounded_numbers(name):
    positives, (query, candidates, bias) = large(dtype=torch.float32)
    query, candidates = (value.bfloat16().float() for value in (query, candidates))
    given = query, candidates, bias
    kinds = {"product_dtype": torch.bfloat16, "tile": 1000}
    found = results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b, **kinds), *given)
    assert {value.dtype for value in found} == {torch.float32}
    wanted = results(lambda q, x, b: LOSSES[name](q, x, positives, bias=b), *given)
    torch.testing.assert_close(found[0], wanted[0], rtol=5e-3, atol=5e-3)
    for mine, exact in zip(found[1:], wanted[1:], strict=True):
        assert (mine - exact).abs().max() < 2e-2 * exact.abs().max()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [None, torch.bfloat16])
@every_loss
def test_a_gpus_numbers_repeat_bit_for_bit(name, kind):
    positives, given = large((3,), torch.float32)

    def ours(query: Tensor, candidates: Tensor, bias: Tensor) -> Tensor:
        return LOSSES[name](query, candidates, positives, bias=bias, tile=999, product_dtype=kind)

    first = results(torch.vmap(ours), *given)
    for _ in range(20):
        again = results(torch.vmap(ours), *given)
        assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [None, torch.bfloat16])
@every_loss
def test_a_step_can_be_captured_and_replayed_on_another_batch(name, kind):
    positives, given = large(dtype=torch.float32)

    def step() -> tuple[Tensor, ...]:
        return results(
            lambda q, x, b: LOSSES[name](q, x, positives, bias=b, tile=999, product_dtype=kind),
            *given,
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
