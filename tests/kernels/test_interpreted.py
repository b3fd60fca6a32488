"""The Triton kernels, run on a CPU by Triton's interpreter, against the plain torch forms."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import astuple
from functools import partial
from importlib import import_module

import pytest
import torch
from launches import INTERPRETED, LAUNCHES, launch_of
from matrices import long_rows, random_structure
from torch import Tensor, nn

from quatgraph.ops import (
    Positives,
    grouped_product,
    k_vs_all_cross_entropy,
    one_vs_all_bce,
    one_vs_all_cross_entropy,
)
from quatgraph.ops.activation import ACTIVATIONS
from quatgraph.ops.aggregate_blocks import BlockRows
from quatgraph.ops.attention_pool import attention_pool
from quatgraph.ops.batch_rows import batch_rows
from quatgraph.ops.cross_entropy import smoothed_cross_entropy
from quatgraph.ops.dropout import keyed_dropout
from quatgraph.ops.gated_step import gated_step
from quatgraph.ops.hamilton import hamilton_matrix
from quatgraph.ops.lookup import _lookup, _lookup_gradient, _TableAndRows
from quatgraph.ops.masked_norm import masked_norm
from quatgraph.ops.random import random_bits, take_step
from quatgraph.ops.split import split_columns
from quatgraph.training.optim import OPTIMIZERS

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1"),
    # Lanes beyond the mask, and branches not taken, compute what is never stored.
    pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning"),
]
BCE = {"one_vs_all.score_grads", "one_vs_all.scaled", "one_vs_all.padded"}
SOFTMAX = {*BCE, "one_vs_all.log_sum_exp"}
DECAYS = [[0, 0.1, 0.01], torch.rand(3, 2050)]
STEPS = {"adam": "optim.adam_step_", "adagrad": "optim.adagrad_step_"}
every_activation = pytest.mark.parametrize("activation", sorted(ACTIVATIONS))


def compare(
    dispatch: str, launches: set[str], call: Callable[..., object], *given: Tensor
) -> tuple[Tensor, ...]:
    """Compares values and gradients of ``call`` with and without kernels; returns those with.

    Args:
        dispatch: The module that chooses between kernels and torch.
        launches: The functions that must launch kernels, of :data:`launches.LAUNCHES`.
        given: What gradients are taken by.
    """
    assert launches <= LAUNCHES
    wanted = values_and_gradients(call, *given)
    launched = set()

    def device(_: torch.device) -> nullcontext[None]:
        """Stands for ``torch.cuda.device``, which every function enters that launches a kernel."""
        caller = sys._getframe(1)
        launched.add(launch_of(caller.f_globals["__name__"], caller.f_code.co_name))
        return nullcontext()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "device", device)
        patch.setattr(import_module(f"quatgraph.{dispatch}"), "use_triton", lambda *_: True)
        found = values_and_gradients(call, *given)
    assert launched == launches
    for value, other in zip(found, wanted, strict=True):
        # Sums over many rows, in another order, differ by a share of the largest.
        largest = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(value, other, rtol=1e-5, atol=1e-5 * largest)
    return found


def values_and_gradients(call: Callable[..., object], *given: Tensor) -> tuple[Tensor, ...]:
    given = tuple(value.detach().clone().requires_grad_() for value in given)
    made = call(*given)
    values = (made,) if isinstance(made, Tensor) else tuple(made)
    if not given:
        return values
    probes = [(torch.arange(v.numel()) % 7 - 3.0).view(v.shape) for v in values]
    gradients = torch.autograd.grad(values, given, probes, materialize_grads=True)
    return *(value.detach() for value in values), *gradients


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    ("shape", "tiles", "call"), [((7,), 1, 0), ((33, 128), 4, 1), ((5, 3, 4), 1, 2), ((9, 6), 3, 7)]
)
def test_dropout(shape, tiles, call, keyed) -> None:
    draws = torch.tensor([[0, 0], [5, 2], [7 + (3 << 32), 9]])
    rate = torch.tensor([0.0, 0.5, 0.9])
    rows = torch.randint(-1, 1000, (3, shape[0]), dtype=torch.int32) if keyed else None
    given = torch.randn(3, *shape)
    y, _ = compare(
        "ops.dropout",
        {"dropout.dropout"},
        lambda x: keyed_dropout(x, draws, rate, call, tiles, rows),
        given,
    )
    keep = keyed_dropout(torch.ones_like(given), draws, rate, call, tiles, rows) != 0
    assert torch.equal(y != 0, keep)


@pytest.mark.parametrize(("rows", "columns", "call"), [(1, 1, 0), (40, 9, 1), (3000, 1, 1 << 30)])
def test_random_bits(rows, columns, call) -> None:
    draws = torch.tensor([[0, 0], [5, 2], [7 + (3 << 32), 9]])
    bits = partial(random_bits, draws, call, rows, columns)
    (found,) = compare("ops.random", {"random.random_bits"}, bits)
    assert torch.equal(found, bits())


def test_take_step() -> None:
    def call() -> tuple[Tensor, Tensor]:
        draws = torch.tensor([[0, 0], [7 + (3 << 32), 9]])
        return take_step(draws), draws

    current, following = compare("ops.random", {"random.take_step"}, call)
    assert torch.equal(following - current, torch.tensor([[0, 1], [0, 1]]))


def test_dropout_of_numbers_in_memory_once() -> None:
    draws, rate = torch.tensor([[5, 2]]), torch.tensor([0.5])
    compare(
        "ops.dropout",
        {"dropout.dropout"},
        lambda x: keyed_dropout(x.expand(1, 50, 4), draws, rate, 1),
        torch.randn(1, 50, 1),
    )


@pytest.mark.parametrize("shape", [(4, 1, 1), (2, 4, 3, 5), (3, 4, 1, 600)])
def test_hamilton_matrix(shape) -> None:
    launches = {"hamilton_matrix.spread", "hamilton_matrix.gather"}
    compare("ops.hamilton", launches, hamilton_matrix, torch.randn(shape))
    if len(shape) == 4:
        call = torch.vmap(torch.vmap(hamilton_matrix, in_dims=2), in_dims=1)
        weight = torch.randn(*shape[:3], 2, shape[3])
        compare("ops.hamilton", launches, call, weight.movedim(0, 1))


def test_derivatives_of_hamilton_matrix(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    module = import_module("quatgraph.ops.hamilton")
    monkeypatch.setattr(module, "use_triton", lambda *_: True)
    weight = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        hamilton_matrix, weight, check_forward_ad=True, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(hamilton_matrix, weight, check_fwd_over_rev=True)


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("width", [1, 5, 130])
def test_lookup(width, lead) -> None:
    code = torch.randint(6, (*lead, 11))
    found = compare(
        "ops.lookup",
        {"lookup._write_rows", "lookup.lookup_backward"},
        lambda table: _lookup(table, code),
        torch.randn(*lead, 6, width),
    )
    assert found[0].shape == (*lead, 11, width)


@pytest.mark.parametrize("rows", [7, 1050])
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("width", [3, 20])
def test_lookup_gradient(width, count, rows) -> None:
    # Some numbers twice, some never; more places apart than a tile has.
    code = torch.randint(rows, (2, count)) // 3 * 3
    base, times = torch.randn(2, rows, width), torch.randn(2, count, width)
    grad = torch.randn(2, count, width)
    for options in ((None, None), (base, None), (None, times), (base, times)):
        given = grad, code, rows, *options
        compare("ops.lookup", {"lookup.lookup_backward"}, partial(_lookup_gradient, *given))


def test_lookup_products() -> None:
    code, other = torch.randint(6, (2, 9)), torch.randint(4, (2, 9))
    compare(
        "ops.lookup",
        {"lookup._write_rows", "lookup.lookup_backward"},
        lambda table, times: _TableAndRows.apply(table, code, times, other)[:2],
        torch.randn(2, 6, 5),
        torch.randn(2, 4, 5),
    )


@pytest.mark.parametrize("sizes", [[1], [2100, 5, 1, 7], [3, 0, 70, 5] * 9, [0] * 20 + [3]])
def test_split(sizes) -> None:
    def some(flat: Tensor) -> list[Tensor]:  # the parts in between have no gradient
        return [part.sin() for part in split_columns(flat, sizes)[::2]]

    compare("ops.split", {"split.concat_columns"}, some, torch.randn(3, sum(sizes)))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (2, 7, 33), (3, 300)])
def test_cross_entropy(shape, smoothing) -> None:
    labels = torch.randint(shape[-1], shape[:-1])
    compare(
        "ops.cross_entropy",
        {"cross_entropy.losses_and_grads"},
        lambda logits: smoothed_cross_entropy(logits, labels, smoothing),
        3 * torch.randn(shape),
    )


@pytest.mark.parametrize("decay", DECAYS, ids=["each", "flat"])
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("name", STEPS)
def test_optimizers(name, clip, decay) -> None:
    shapes = [(3, 2050)] if isinstance(decay, Tensor) else [(3, 5), (3, 2050), (3, 2, 3)]
    begin = [torch.randn(shape) for shape in shapes]
    grads = [[torch.randn(shape) for shape in shapes] for _ in range(3)]

    def trained() -> list[Tensor]:
        params = [nn.Parameter(value.clone()) for value in begin]
        optimizer = OPTIMIZERS[name](params, lr=[0.1, 0.01, 0.1], weight_decay=decay, clip=clip)
        for step in grads:
            for param, grad in zip(params, step, strict=True):
                param.grad = grad.clone()
            optimizer.step()
        return [*(param.detach() for param in params), *optimizer.tensors().values()]

    clips = set() if clip is None else {"optim.square_sums"}
    compare("training.optim", {STEPS[name], *clips}, trained)


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("spare", [0, 300])
def test_batch_rows(spare, coded) -> None:
    sizes = torch.tensor([3, 0, 1, 40, 7, 260])
    node_ptr = torch.cat((torch.zeros(1), sizes.cumsum(0))).int()
    labels, nodes = torch.randint(5, (6,)), int(sizes.sum())
    graphs = torch.tensor([[4, 0, 3, -1, 2], [5, 1, 2, 0, 0], [-1, -1, -1, -1, -1]])
    capacity = 267 + spare
    codes = (torch.randint(9, (nodes,)), torch.randn(nodes)) if coded else ()

    def laid_out() -> list[Tensor]:
        node, node_shift, slot_shift, graph, graph_shift, label, more = astuple(
            batch_rows(node_ptr, graphs, capacity, labels, codes)
        )
        # Of padding, and of graphs that are none, the other numbers may be anything.
        return [
            node,
            graph,
            *(torch.where(node >= 0, value, 0) for value in (node_shift, slot_shift, *more)),
            *(torch.where(graph >= 0, value, 0) for value in (graph_shift, label)),
        ]

    compare("ops.batch_rows", {"batch_rows.concat_graphs"}, laid_out)


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("width", [1, 3, 40])
def test_aggregate(width, lead) -> None:
    graph = random_structure()
    compare(
        "ops.csr",
        {"aggregate.sum_rows", "aggregate.entry_products"},
        graph.times,
        torch.randn(*lead, graph.col.numel()),
        torch.randn(*lead, 7, width),
    )


def test_aggregate_of_long_rows() -> None:
    graph = long_rows()
    weight = torch.randn(graph.col.numel()) / 100  # or thousands of them would round visibly
    x = torch.randn(10, 5)
    compare("ops.csr", {"aggregate.sum_rows"}, lambda x: graph.times(weight, x), x)


@pytest.mark.parametrize("lead", [(), (3,)])
def test_grouped_product(lead) -> None:
    group = torch.randint(5, (*lead, 40)) * 2 % 7  # some groups are empty
    compare(
        "ops.csr",
        {"aggregate.sum_rows"},
        lambda x, matrices: grouped_product(x, matrices, group),
        torch.randn(*lead, 40, 6),
        torch.randn(*lead, 7, 6, 9),
    )


@pytest.mark.parametrize("transposed", [False, True])
def test_aggregate_of_chosen_rows(transposed) -> None:
    graph = random_structure(entries=20)
    weight, x = torch.randn(20), torch.randn(2, 15, 3)
    row = torch.tensor([[4, -1, 0, 2], [1, 1, -1, 3]], dtype=torch.int32)
    shift = torch.tensor([[0, 9, 3, 8], [1, 0, 0, 5]], dtype=torch.int32)
    matrix = (
        (graph.t_rowptr, graph.t_col, weight, graph.t_perm)
        if transposed
        else (graph.rowptr, graph.col, weight, None)
    )
    rows = BlockRows(*matrix, row=row, shift=shift, columns=15)
    compare("ops.aggregate_blocks", {"aggregate.sum_rows"}, lambda: [rows.matmul(x)])


@every_activation
@pytest.mark.parametrize("lead", [(), (3,)])
def test_gated_step(lead, activation) -> None:
    # Small numbers take the series of tanh and of the exponential, large ones do not.
    nodes, width = 19, 6
    vectors = [torch.randn(*lead, nodes, width) for _ in range(2)]
    matrices = [torch.randn(*lead, times * width, width) for times in (3, 2, 1)]
    compare(
        "ops.gated_step",
        {
            "gated_step.open_gates_",
            "gated_step.update_",
            "gated_step.update_backward",
            "gated_step.open_gates_backward_",
        },
        lambda *given: gated_step(*given, activation),
        *vectors,
        *matrices,
        torch.randn(*lead, 3 * width),
    )


@every_activation
@pytest.mark.parametrize("lead", [(), (2,)])
def test_attention_pool(lead, activation) -> None:
    ptr = torch.tensor([0, 3, 3, 4, 11], dtype=torch.int32)  # a graph without nodes, padding
    compare(
        "ops.attention_pool",
        {"attention_pool.pool", "attention_pool.pool_backward"},
        lambda x, weight: attention_pool(x, weight, ptr, activation),
        torch.randn(*lead, 13, 5),
        torch.rand(*lead, 13),
    )


@every_activation
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("shape", [(1, 3), (2, 37, 5), (300, 40), (2, 520, 33), (700, 1)])
def test_masked_norm(shape, padded, activation) -> None:
    present = (torch.rand(shape[:-1]) > 0.3).float() if padded else None
    each = *shape[:-2], shape[-1]

    def normalised(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        means, variances = torch.zeros(each), torch.ones(each)
        options = {"eps": 1e-5, "momentum": 0.1, "activation": activation}
        y = masked_norm(x, present, weight, bias, means, variances, **options)
        return torch.cat((y, y + means.unsqueeze(-2), y + variances.unsqueeze(-2)), dim=-2)

    compare(
        "ops.masked_norm",
        {"masked_norm.normalize", "masked_norm.normalize_backward"},
        normalised,
        torch.randn(shape) + 3,
        torch.randn(each),
        torch.randn(each),
    )


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize(("candidates", "tile"), [(23, None), (150, 64), (700, None)])
@pytest.mark.parametrize("name", ["bce", "softmax", "kvsall", "kvsall smoothed"])
def test_one_vs_all(name, candidates, tile, lead) -> None:
    answers = [[], [3], [*range(candidates)], [*range(0, candidates, 4)], [candidates - 1, 0]]
    sizes = torch.tensor([0, *map(len, answers)])
    tails = torch.tensor([tail for some in answers for tail in some])
    row = torch.tensor([2, 0, 4, 1, 3, 3])
    positives = Positives(sizes.cumsum(0).int(), tails.int(), row.int())

    def loss(query: Tensor, candidates: Tensor) -> Tensor:
        if name == "softmax":
            return one_vs_all_cross_entropy(query, candidates, positives, tile=tile)
        if name == "kvsall":
            return k_vs_all_cross_entropy(query, candidates, positives, tile=tile)
        options = {"smoothing": 0.1, "floor": 0.02, "tile": tile}
        smoothed = one_vs_all_bce if name == "bce" else k_vs_all_cross_entropy
        return smoothed(query, candidates, positives, **options)

    compare(
        "ops.one_vs_all",
        BCE if name == "bce" else SOFTMAX,
        loss,
        torch.randn(*lead, 6, 4),
        torch.randn(*lead, candidates, 4),
    )
