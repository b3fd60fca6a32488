"""Every kernel is compiled for GPUs, down to machine code: the interpreter accepts more than the
compiler does.

No GPU is needed. The operations take CPU tensors, or tensors without memory where they must be
large; a launch compiles its kernel for the arguments at hand, as on a GPU, and does not run it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import pytest
import torch
from kernels import test_interpreted as interpreted
from launches import INTERPRETED, KERNEL_NAMES
from matrices import random_structure
from torch import Tensor

from quatgraph.ops import Positives, one_vs_all_bce, one_vs_all_cross_entropy
from quatgraph.ops.activation import ACTIVATIONS

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.slow,
    pytest.mark.skipif(INTERPRETED, reason="nothing is interpreted"),
]
SHARED_MEMORY = {80: 163 << 10, 90: 227 << 10}
"""Bytes that a program can have, by compute capability."""
FLAGS = False, True


@dataclass
class Launches:
    """What stands for a GPU: the kernels that were compiled for it, and those that were not."""

    capability: int
    compiled: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)

    def get_current_target(self) -> object:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability  # a number of its own: Triton keeps what it compiled by device

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def compiling(capability: int) -> Iterator[Launches]:
    """Compiles kernels where they would be launched."""
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    launches, run = Launches(capability), JITFunction.run

    def compile_only(kernel: Any, *args: Any, grid: object, warmup: bool, **options: Any) -> None:
        name = kernel.fn.__name__
        try:
            binary = run(kernel, *args, grid=grid, warmup=True, **options)
        except Exception as error:  # of the compiler or the assembler; other kernels follow
            launches.failed[name] = f"{type(error).__name__}: {error}"
            return
        assert binary.asm["cubin"]
        assert binary.metadata.shared <= SHARED_MEMORY[capability]
        launches.compiled.add(name)

    def compare(dispatch: str, _: set[str], call: Callable[..., object], *given: Tensor) -> Any:
        """Stands for the comparison of the interpreted tests."""
        with_torch = interpreted.values_and_gradients(call, *given)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(import_module(f"quatgraph.{dispatch}"), "use_triton", lambda *_: True)
            interpreted.values_and_gradients(call, *given)
        return with_torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_active", launches)
        patch.setattr(JITFunction, "run", compile_only)
        patch.setattr(torch.cuda, "device", lambda _: nullcontext())
        patch.setattr(interpreted, "compare", compare)
        yield launches


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def round_products() -> None:
    """Numbers that are rounded to bfloat16 within an operation."""
    graph = random_structure()
    weight, x = torch.randn(graph.col.numel()), torch.randn(2, 7, 40)
    times = partial(graph.times, weight, product_dtype=torch.bfloat16)
    interpreted.compare("ops.csr", set(), torch.vmap(times), x)
    positives = Positives(*(torch.tensor(v).int() for v in ([0, 1, 3], [4, 0, 9], [1, 0, 1])))
    for loss in (one_vs_all_bce, one_vs_all_cross_entropy):
        rounded = partial(loss, positives=positives, product_dtype=torch.bfloat16)
        interpreted.compare(
            "ops.one_vs_all", set(), rounded, torch.randn(2, 3, 8), torch.randn(2, 23, 8)
        )


OF_ANY_TYPE: list[Callable[[], object]] = [
    *(partial(interpreted.test_dropout, (7,), 1, 0, keyed) for keyed in FLAGS),
    *(partial(interpreted.test_dropout, (33, 128), 4, 1, keyed) for keyed in FLAGS),
    interpreted.test_dropout_of_numbers_in_memory_once,
    partial(interpreted.test_hamilton_matrix, (4, 1, 1)),
    partial(interpreted.test_hamilton_matrix, (2, 4, 3, 5)),
    *(partial(interpreted.test_lookup, width, (3,)) for width in (1, 130)),
    interpreted.test_lookup_products,
    *(partial(interpreted.test_split, sizes) for sizes in ([1], [3, 0, 70, 5] * 9)),
    *(
        partial(interpreted.test_cross_entropy, shape, smoothing)
        for shape, smoothing in product([(1, 1), (2, 7, 33)], [0.0, 0.1])
    ),
    *(partial(interpreted.test_aggregate, width, (2,)) for width in (1, 40)),
    interpreted.test_aggregate_of_long_rows,
    *(partial(interpreted.test_aggregate_of_chosen_rows, transposed) for transposed in FLAGS),
    partial(interpreted.test_grouped_product, (3,)),
    *(
        partial(interpreted.test_one_vs_all, name, 150, 64, (2,))
        for name in ("bce", "softmax", "kvsall", "kvsall smoothed")
    ),
]
OF_WIDE_TYPES: list[Callable[[], object]] = [
    *(
        partial(interpreted.test_lookup_gradient, 20, count, rows)
        for count, rows in product([1, 40], [7, 1050])
    ),
    *(
        partial(interpreted.test_masked_norm, shape, padded, activation)
        for shape, padded, activation in product([(37, 5), (2, 520, 33)], FLAGS, ACTIVATIONS)
    ),
    *(partial(interpreted.test_gated_step, (3,), activation) for activation in ACTIVATIONS),
    *(partial(interpreted.test_attention_pool, (2,), activation) for activation in ACTIVATIONS),
]
OF_FLOAT32: list[Callable[[], object]] = [
    interpreted.test_take_step,
    *(partial(interpreted.test_random_bits, *sizes) for sizes in ((1, 1, 0), (40, 9, 1))),
    *(partial(interpreted.test_batch_rows, 300, coded) for coded in FLAGS),
    *(
        partial(interpreted.test_optimizers, name, clip, decay)
        for name, clip, decay in product(interpreted.STEPS, [None, 0.5], interpreted.DECAYS)
    ),
    round_products,
]
CALLS = {
    torch.float32: [*OF_ANY_TYPE, *OF_WIDE_TYPES, *OF_FLOAT32],
    torch.float64: [*OF_ANY_TYPE, *OF_WIDE_TYPES],
    torch.bfloat16: OF_ANY_TYPE,
}


@pytest.mark.parametrize(
    ("dtype", "capability"), [*((dtype, 90) for dtype in CALLS), (torch.float32, 80)], ids=str
)
def test_every_kernel_compiles(dtype: torch.dtype, capability: int) -> None:
    with compiling(capability) as launches, default_dtype(dtype):
        for call in CALLS[dtype]:
            call()
    assert not launches.failed
    if dtype == torch.float32:
        assert launches.compiled == KERNEL_NAMES


def large(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def launch_large() -> None:
    """Sizes and strides that do not fit into 32 bits."""
    from quatgraph.ops.kernels import (
        aggregate,
        attention_pool,
        cross_entropy,
        dropout,
        gated_step,
        hamilton_matrix,
        lookup,
        masked_norm,
        one_vs_all,
        optim,
        split,
    )

    members, rows, width = 2, 1 << 20, 1 << 12
    x, of_members = large(members, rows, width), large(members)
    features = large(members, width)

    for keys, tiles in ((None, 1), (large(members, rows, dtype=torch.int32), 4)):
        draws = large(members, 2, dtype=torch.int64)
        dropout.dropout(x, draws, of_members, keys, 1, tiles)
    rowptr, col = large(rows + 1, dtype=torch.int32), large(1 << 25, dtype=torch.int32)
    for entries in (col, col[:9]):  # many, and few
        weight = large(members, len(entries))
        aggregate.sum_rows(rowptr, entries, entries, weight, x)
        aggregate.entry_products(rowptr, entries, x, x)
    some = large(members, rows, dtype=torch.int32)
    aggregate.sum_rows(rowptr, col, None, large(len(col)), x, selected=(some, some))
    attention_pool.pool(x[..., :256], large(members, rows), rowptr.expand(members, -1), "tanh")
    cross_entropy.losses_and_grads(x, large(members, rows, dtype=torch.int64), 0.9, 0.1)
    gates, preact = large(members, rows, 2 * width), large(members, rows, 3 * width)
    gated_step.open_gates_(gates, preact, x)
    gated_step.update_(x, preact, gates, x, "tanh")
    gated_step.update_backward(x, x, gates, x, "elu")
    gated_step.open_gates_backward_(preact, x, x, gates, x)
    hamilton_matrix.gather(hamilton_matrix.spread(large(members, 4, width, 4 * width)))
    lookup.gather_rows(x, large(members, 40, dtype=torch.int64))
    for is_large, table in product(FLAGS, (x, None)):
        code, grad = large(members, 40, dtype=torch.int64), large(members, 40, width)
        lookup.lookup_backward(grad, code, table, grad, rows=rows, large=is_large)
    norm = {"eps": 1e-5, "activation": "relu"}
    mask = large(members, rows)
    masked_norm.normalize(x, mask, *[features] * 4, momentum=0.1, **norm)
    masked_norm.normalize_backward(x, x, mask, *[features] * 4, **norm)
    one_vs_all.scaled(x, of_members, of_members)
    one_vs_all.padded(x, rows + 8, torch.bfloat16)
    positives = Positives(rowptr, col, large(members, rows, dtype=torch.int32))
    shift = large(members, rows)
    for softmax, shares in ((None, None), (shift, None), (shift, shift)):
        one_vs_all.score_grads(x, positives, softmax, shares, 1 << 32, width - 1, (0.9, 0.1))
    one_vs_all.log_sum_exp(x, width - 1)
    given = {"lr": of_members.double(), "weight_decay": of_members.double(), "clip": 1.0}
    squares = optim.square_sums([x, features])
    moments = {"steps": large(), "betas": (0.9, 0.999), "eps": 1e-8}
    optim.adam_step_(x, x, x, x, squares=squares, **moments, **given)
    optim.adagrad_step_(x, x, x, squares=squares, eps=1e-10, **given)
    split.concat_columns([(0, x.flatten(1)), (rows * width + 5, features)], rows * width + 9000)


def test_kernels_compile_for_sizes_beyond_32_bits() -> None:
    with compiling(90) as launches:
        launch_large()
    assert not launches.failed
