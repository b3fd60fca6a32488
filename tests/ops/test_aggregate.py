"""The sparse product against dense matrices, loops and float64, on every way it can be called."""

from bisect import bisect_left
from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from quatgraph.errors import Mistake
from quatgraph.ops import aggregate, backend

R, C, F = 5, 7, 3
ROUNDED = torch.bfloat16
either_product = pytest.mark.parametrize("product_dtype", [None, ROUNDED])


class Structure(NamedTuple):
    """The places of a matrix's entries, as the operation takes them."""

    row: Tensor
    rowptr: Tensor
    col: Tensor
    t_rowptr: Tensor
    t_col: Tensor
    t_perm: Tensor

    @classmethod
    def of(cls, entries: list[tuple[int, int]], rows: int, cols: int) -> "Structure":
        entries = sorted(entries, key=lambda entry: entry[0])
        perm = sorted(range(len(entries)), key=lambda e: entries[e][1])
        row, col = [r for r, _ in entries], [c for _, c in entries]
        rowptr = [bisect_left(row, v) for v in range(rows + 1)]
        t_rowptr = [bisect_left(sorted(col), u) for u in range(cols + 1)]
        lists = row, rowptr, col, t_rowptr, [row[e] for e in perm], perm
        return cls(*(torch.tensor(values, dtype=torch.int32) for values in lists))

    def times(self, weight: Tensor, x: Tensor, product_dtype: torch.dtype | None = None) -> Tensor:
        transpose = self.t_rowptr, self.t_col, self.t_perm
        return aggregate(self.rowptr, self.col, weight, x, *transpose, product_dtype=product_dtype)

    def dense(self, weight: Tensor) -> Tensor:
        shape = self.rowptr.numel() - 1, self.t_rowptr.numel() - 1
        matrix = torch.zeros(shape, dtype=torch.float64)
        return matrix.index_put((self.row, self.col), weight.double(), accumulate=True)

    def to(self, device: str) -> "Structure":
        return Structure(*(part.to(device) for part in self))


def random_structure(entries: int = 12, rows: int = R, cols: int = C) -> Structure:
    pairs = zip(torch.randint(rows, (entries,)), torch.randint(cols, (entries,)), strict=True)
    return Structure.of([(int(r), int(c)) for r, c in pairs], rows, cols)


def values_and_gradients(call, weight: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    weight, x = weight.detach().requires_grad_(), x.detach().requires_grad_()
    y = call(weight, x)
    probe = (torch.arange(y.numel(), device=y.device) % 7 - 3).view(y.shape)  # exact in any type
    return y.detach(), *torch.autograd.grad(y, (weight, x), probe.to(y))


GRAPHS = {
    "a rectangle with empty rows and columns": ([(0, 2), (0, 5), (3, 2), (3, 0)], R, C),
    "repeated entries": ([(1, 1), (1, 1), (0, 1), (1, 1)], 2, 3),
    "no entries": ([], R, C),
    "one node": ([(0, 0)], 1, 1),
    "a full row": ([(2, c) for c in range(C)], R, C),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_equals_the_dense_product_and_its_gradients(name):
    graph = Structure.of(*GRAPHS[name])
    weight = torch.randn(graph.col.numel(), dtype=torch.float64)
    x = torch.randn(GRAPHS[name][2], F, dtype=torch.float64)
    ours = values_and_gradients(graph.times, weight, x)
    dense = values_and_gradients(lambda weight, x: graph.dense(weight) @ x, weight, x)
    for mine, wanted in zip(ours, dense, strict=True):
        torch.testing.assert_close(mine, wanted)


@pytest.mark.parametrize("width", [0, 1, 300])
def test_any_width_is_taken(width):
    graph, weight, x = random_structure(), torch.randn(12), torch.randn(C, width)
    y = graph.times(weight, x)
    torch.testing.assert_close(y, (graph.dense(weight) @ x.double()).float())


def test_gradients_are_the_numerical_ones():
    graph = random_structure()
    weight = torch.randn(12, dtype=torch.float64, requires_grad=True)
    x = torch.randn(C, F, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(graph.times, (weight, x))


def test_input_and_gradient_need_not_be_contiguous():
    graph, weight = random_structure(), torch.randn(12)
    x = torch.randn(F, C).mT
    ours = values_and_gradients(lambda w, x: graph.times(w, x).mT, weight, x)
    plain = values_and_gradients(lambda w, x: graph.times(w, x.contiguous()).mT, weight, x)
    for mine, wanted in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, wanted)


def test_x_is_kept_only_for_the_weights_gradient():
    graph, weight, x = random_structure(), torch.randn(12), torch.randn(C, F, requires_grad=True)

    def keeps_x(weight: Tensor) -> bool:
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda packed: packed):
            graph.times(weight, x)
        return x.data_ptr() in [saved.data_ptr() for saved in kept]

    assert not keeps_x(weight)
    assert keeps_x(weight.requires_grad_())


# Which of (the graph, weight, x) have one value per member.
CASES = {
    "a shared graph": (False, False, True),
    "a graph per member": (True, True, True),
    "a graph per member, one x": (True, True, False),
    "a graph per member, one set of weights": (True, False, True),
    "weights per member": (False, True, True),
    "weights per member, one x": (False, True, False),
}


@either_product
@pytest.mark.parametrize("case", CASES)
def test_members_under_vmap_equal_a_loop_in_values_and_gradients(case, product_dtype):
    own_graph, own_weight, own_x = CASES[case]
    members = 3
    # As many entries each, so that they stack: the last graphs end in entries of value zero.
    graphs = [random_structure() for _ in range(members)] if own_graph else [random_structure()]
    shared = graphs[0]
    weight = torch.randn((members, 12) if own_weight else 12, dtype=torch.float64)
    if own_graph and own_weight:
        weight[1, -4:] = 0
    x = torch.randn((members, C, F) if own_x else (C, F), dtype=torch.float64)
    stacked = Structure(*map(torch.stack, zip(*graphs, strict=True))) if own_graph else shared

    def looped(weight: Tensor, x: Tensor) -> Tensor:
        return torch.stack(
            [
                (graphs[m] if own_graph else shared).times(
                    weight[m] if own_weight else weight, x[m] if own_x else x, product_dtype
                )
                for m in range(members)
            ]
        )

    dims = tuple(0 if own else None for own in (own_graph, own_weight, own_x))
    times = partial(Structure.times, product_dtype=product_dtype)
    together = torch.vmap(times, in_dims=dims)
    ours = values_and_gradients(lambda weight, x: together(stacked, weight, x), weight, x)
    loop = values_and_gradients(looped, weight, x)
    for mine, wanted in zip(ours, loop, strict=True):
        torch.testing.assert_close(mine, wanted)


def test_padding_entries_of_value_zero_change_nothing():
    entries = [(0, 1), (2, 2), (4, 0)]
    graph, padded = Structure.of(entries, R, C), Structure.of([*entries, *[(4, 6)] * 5], R, C)
    weight, x = torch.randn(3), torch.randn(C, F)
    plain = values_and_gradients(graph.times, weight, x)
    ours = values_and_gradients(padded.times, torch.cat((weight, torch.zeros(5))), x)
    torch.testing.assert_close(ours[0], plain[0])
    torch.testing.assert_close(ours[1][:3], plain[1])
    torch.testing.assert_close(ours[2], plain[2])


def test_members_may_lie_in_any_dimension():
    graph, weight = random_structure(), torch.randn(3, 12)
    x = torch.randn(C, F, 3)
    y = torch.vmap(graph.times, in_dims=(None, 2), out_dims=1)(weight[0], x)
    z = torch.vmap(graph.times, in_dims=(1, 2), out_dims=1)(weight.mT, x)
    for m in range(3):
        torch.testing.assert_close(y[:, m], graph.times(weight[0], x[..., m]))
        torch.testing.assert_close(z[:, m], graph.times(weight[m], x[..., m]))


LEVELS = [(0, 0), (None, 0), (0, None)]


@pytest.mark.parametrize("inner", LEVELS)
@pytest.mark.parametrize("outer", LEVELS)
def test_heads_within_members_equal_two_loops_in_values_and_gradients(outer, inner):
    members, heads, graph = 3, 2, random_structure()

    def sizes(argument: int) -> list[int]:
        levels = (outer[argument], members), (inner[argument], heads)
        return [size for dim, size in levels if dim is not None]

    def pick(value: Tensor, argument: int, m: int, h: int) -> Tensor:
        value = value if outer[argument] is None else value[m]
        return value if inner[argument] is None else value[h]

    weight = torch.randn(*sizes(0), 12, dtype=torch.float64)
    x = torch.randn(*sizes(1), C, F, dtype=torch.float64)
    nested = torch.vmap(torch.vmap(graph.times, in_dims=inner), in_dims=outer)
    ours = values_and_gradients(nested, weight, x)
    loops = values_and_gradients(
        lambda weight, x: torch.stack(
            [
                graph.times(pick(weight, 0, m, h), pick(x, 1, m, h))
                for m in range(members)
                for h in range(heads)
            ]
        ).unflatten(0, (members, heads)),
        weight,
        x,
    )
    for mine, wanted in zip(ours, loops, strict=True):
        torch.testing.assert_close(mine, wanted)


@pytest.mark.parametrize("inner", LEVELS)
def test_heads_within_members_that_have_graphs_of_their_own_equal_two_loops(inner):
    members, heads = 3, 2
    graphs = [random_structure() for _ in range(members)]
    stacked = Structure(*map(torch.stack, zip(*graphs, strict=True)))
    weight = torch.randn(members, *[heads][: inner[0] is not None], 12, dtype=torch.float64)
    x = torch.randn(members, *[heads][: inner[1] is not None], C, F, dtype=torch.float64)

    def nested(weight: Tensor, x: Tensor) -> Tensor:
        return torch.vmap(lambda graph, *values: torch.vmap(graph.times, in_dims=inner)(*values))(
            stacked, weight, x
        )

    def looped(weight: Tensor, x: Tensor) -> Tensor:
        weight = weight if inner[0] is not None else weight[:, None].expand(-1, heads, -1)
        x = x if inner[1] is not None else x[:, None].expand(-1, heads, -1, -1)
        rows = [
            graph.times(w, one)
            for graph, ws, xs in zip(graphs, weight, x, strict=True)
            for w, one in zip(ws, xs, strict=True)
        ]
        return torch.stack(rows).unflatten(0, (members, heads))

    ours = values_and_gradients(nested, weight, x)
    loops = values_and_gradients(looped, weight, x)
    for mine, wanted in zip(ours, loops, strict=True):
        torch.testing.assert_close(mine, wanted)


def test_graphs_too_many_for_int32_are_refused():
    pointers, many = torch.zeros(2, 2, dtype=torch.int32), torch.zeros(1).expand(2, 1 << 30)
    index = torch.zeros(1, dtype=torch.int32).expand(2, 1 << 30)
    graphs = Structure(index, pointers, index, pointers, index, index)
    with pytest.raises(Mistake, match="2 graphs of 1073741824 edges"):
        torch.vmap(Structure.times)(graphs, many, torch.zeros(2, 1, 1))


def test_bfloat16_is_float64_rounded_once():
    graph = random_structure(entries=60)
    weight, x = torch.randn(60), torch.randn(C, 16, dtype=torch.bfloat16)
    ours = values_and_gradients(graph.times, weight, x)
    assert [part.dtype for part in ours] == [torch.bfloat16, torch.float32, torch.bfloat16]
    exact = values_and_gradients(
        lambda weight, x: graph.dense(weight) @ x, weight.bfloat16().double(), x.double()
    )
    for mine, wanted in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine.double(), wanted, rtol=2**-8, atol=1e-5)


def test_bfloat16_sums_are_taken_in_float32():
    ones, grad = torch.ones(4096), torch.ones(1, 1, dtype=torch.bfloat16)
    row = Structure.of([(0, c) for c in range(4096)], 1, 4096)
    y = row.times(ones, ones[:, None].bfloat16())
    assert y.item() == 4096  # a bfloat16 sum stops growing at 256
    column = Structure.of([(c, 0) for c in range(4096)], 4096, 1)
    x = grad.clone().requires_grad_()
    column.times(ones, x).backward(grad.expand(4096, 1))
    assert x.grad.item() == 4096


def rounded(value: Tensor) -> Tensor:
    return value.to(ROUNDED).to(value.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_summed_may_be_rounded_to_bfloat16_in_both_directions(dtype):
    graph, weight = random_structure(entries=60), torch.randn(60, dtype=dtype)
    x, grad = torch.randn(C, 16, dtype=dtype, requires_grad=True), torch.randn(R, 16, dtype=dtype)
    y = graph.times(weight, x, ROUNDED)
    assert y.dtype == dtype
    assert torch.equal(y, graph.times(weight, rounded(x)))
    assert not torch.equal(y, graph.times(weight, x))
    (by_x,) = torch.autograd.grad(y, x, grad)
    (wanted,) = torch.autograd.grad(graph.times(weight, x), x, rounded(grad))
    assert torch.equal(by_x, wanted)


def test_weights_learn_through_rounded_sums():
    graph, weight, x = random_structure(), torch.randn(12), torch.randn(C, F)
    _, plain, _ = values_and_gradients(graph.times, weight, x)
    times = partial(graph.times, product_dtype=ROUNDED)
    torch.testing.assert_close(
        values_and_gradients(times, weight, x)[1], plain, rtol=2**-6, atol=2**-6
    )


@either_product
@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("gradients", [True, False])
def test_torch_accepts_the_registrations(lead, gradients, product_dtype):
    graph = random_structure()
    weight = torch.randn(*lead, 12, requires_grad=gradients)
    x = torch.randn(*lead, C, F, requires_grad=gradients)
    transpose = graph.t_rowptr, graph.t_col, graph.t_perm
    arguments = graph.rowptr, graph.col, weight, x, *transpose, product_dtype
    torch.library.opcheck(torch.ops.quatgraph.aggregate, arguments)
    weight, x, y = weight.detach(), x.detach(), torch.randn(*lead, R, F)
    transposed = *transpose, weight, y, product_dtype, product_dtype or y.dtype
    torch.library.opcheck(torch.ops.quatgraph.sum_rows, transposed)
    torch.library.opcheck(torch.ops.quatgraph.entry_products, (graph.rowptr, graph.col, y, x))


@either_product
def test_compiles_whole_and_keeps_values_and_gradients(product_dtype):
    graph, weight, x = random_structure(), torch.randn(12), torch.randn(C, F)
    times = partial(graph.times, product_dtype=product_dtype)
    ours = values_and_gradients(
        torch.compile(times, fullgraph=True, backend="aot_eager"), weight, x
    )
    plain = values_and_gradients(times, weight, x)
    for mine, wanted in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, wanted)


def awkward_structure() -> Structure:
    """Empty rows and columns, rows of up to 9,000 entries, many repeated."""
    rows, cols = 50, 50
    long = {7: 9000, 43: 300, 45: 700}
    entries = [(r, int(c)) for r, n in long.items() for c in torch.randint(cols, (n,))]
    spread = torch.randint(1, 20, (100, 2)) * 2
    return Structure.of(entries + [(int(r), int(c)) for r, c in spread], rows, cols)


@pytest.mark.gpu
@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("width", [1, 3, 16, 33, 256, 300])
def test_the_kernels_equal_the_torch_form_in_values_and_gradients(width, dtype, lead):
    graph = awkward_structure()
    weight = torch.randn(*lead, graph.col.numel()).to(dtype)
    x = torch.randn(*lead, 50, width).to(dtype)
    times = torch.ops.quatgraph.aggregate

    def on(device: str, kind: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        g = graph.to(device)
        return values_and_gradients(
            lambda w, x: times(g.rowptr, g.col, w, x, g.t_rowptr, g.t_col, g.t_perm, None),
            weight.to(device, kind),
            x.to(device, kind),
        )

    with backend("triton"):
        y, weight_grad, x_grad = on("cuda", dtype)
    exact = on("cpu", torch.float64)
    # The row of 9,000 rounds 9,000 times in the sum's type; bfloat16 rounds once more.
    rtol = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2**-8}[dtype]
    atol = 1e-10 if dtype == torch.float64 else 2e-3
    for mine, wanted in zip((y, weight_grad, x_grad), exact, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.cpu().double(), wanted, rtol=rtol, atol=atol)


P = 128  # entries of a piece
LENGTHS = {
    "as long as a piece": [P],
    "a little longer": [P + 1],
    "two cuts begin in it": [5, 2 * P, 9],
    "from cut to cut": [2 * P, 3 * P, 1],
    "from cut to beyond the next": [P, P + 1, 0, 2 * P],
    "both sides of a cut": [5, P - 6, P + 1, P + 2, P - 3],
    "the last entry before a cut": [P - 1, 3 * P, 2],
    "empty rows around": [0, 0, 3 * P + 5, 0, 0, P + 1, 7, 0, 4 * P, 0],
    "after many rows": [0, 1] * 600 + [9 * P + 1] + [2] * 40,
}


@pytest.mark.gpu
@pytest.mark.parametrize(("width", "lead"), [(33, (3,)), (300, ())])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_long_rows_and_columns_may_be_cut_anywhere(lengths, swapped, width, lead, monkeypatch):
    from quatgraph.ops.kernels import aggregate as kernels

    assert kernels._PIECE == P
    monkeypatch.setattr(kernels, "_MANY_ENTRIES", 1)
    rows, cols = len(LENGTHS[lengths]), 11
    entries = [(r, (r + 5 * e) % cols) for r, n in enumerate(LENGTHS[lengths]) for e in range(n)]
    if swapped:
        rows, cols, entries = cols, rows, [(c, r) for r, c in entries]
    graph = Structure.of(entries, rows, cols)
    moved, product = graph.to("cuda"), torch.ops.quatgraph.aggregate
    weight = torch.randn(*lead, len(entries), dtype=torch.float64)
    x = torch.randn(*lead, cols, width, dtype=torch.float64)

    def times(g: Structure, w: Tensor, x: Tensor) -> Tensor:
        return product(g.rowptr, g.col, w, x, g.t_rowptr, g.t_col, g.t_perm, None)

    with backend("triton"):
        ours = values_and_gradients(partial(times, moved), weight.cuda(), x.cuda())
    forms = values_and_gradients(partial(times, graph), weight, x)
    for mine, wanted in zip(ours, forms, strict=True):
        torch.testing.assert_close(mine.cpu(), wanted, rtol=1e-12, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 33, 128, 300])
def test_the_kernels_sum_rounded_numbers_as_the_torch_form_does(width, dtype):
    graph = awkward_structure()
    weight, x = torch.randn(graph.col.numel()), torch.randn(3, 50, width)
    grad = torch.randn(3, 50, width)

    def on(device: str, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        times = partial(graph.to(device).times, product_dtype=ROUNDED)
        at = x.to(device, kind).requires_grad_()
        y = torch.vmap(times, in_dims=(None, 0))(weight.to(device, kind), at)
        return y.detach(), *torch.autograd.grad(y, at, grad.to(y))

    with backend("triton"):
        ours = on("cuda", dtype)
    tolerance = (
        {"rtol": 1e-12, "atol": 1e-10} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 2e-3}
    )
    for mine, wanted in zip(ours, on("cpu", torch.float64), strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.cpu().double(), wanted, **tolerance)


@pytest.mark.gpu
def test_the_kernels_sum_bfloat16_in_float32():
    graph = Structure.of([(0, c) for c in range(4096)], 1, 4096).to("cuda")
    ones = torch.ones(4096, 1, device="cuda", dtype=torch.bfloat16)
    with backend("triton"):
        assert graph.times(ones[:, 0], ones).item() == 4096


@pytest.mark.gpu
def test_a_graph_without_entries_runs_on_the_gpu():
    graph = Structure.of([], R, C).to("cuda")
    weight, x = torch.randn(0, device="cuda"), torch.randn(C, F, device="cuda")
    y, weight_grad, x_grad = values_and_gradients(graph.times, weight, x)
    assert weight_grad.shape == (0,)
    assert not y.any()
    assert not x_grad.any()


@pytest.mark.gpu
@either_product
def test_the_kernels_repeat_bit_for_bit(product_dtype):
    graph = awkward_structure().to("cuda")
    times = partial(graph.times, product_dtype=product_dtype)
    weight = torch.randn(graph.col.numel(), device="cuda")
    x = torch.randn(50, 64, device="cuda")
    first = values_and_gradients(times, weight, x)
    for _ in range(100):
        for mine, wanted in zip(values_and_gradients(times, weight, x), first, strict=True):
            assert torch.equal(mine, wanted)


@pytest.mark.gpu
@either_product
def test_the_kernels_can_be_captured_as_a_cuda_graph(product_dtype):
    graph = awkward_structure().to("cuda")
    times = partial(graph.times, product_dtype=product_dtype)
    weight = torch.randn(graph.col.numel(), device="cuda")
    x = torch.randn(50, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        values_and_gradients(times, weight, x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        results = values_and_gradients(times, weight, x)
    x.copy_(torch.randn(50, 64, device="cuda"))
    captured.replay()
    for mine, wanted in zip(results, values_and_gradients(times, weight, x), strict=True):
        assert torch.equal(mine, wanted)


@pytest.mark.gpu
def test_the_torch_form_runs_on_the_gpu_in_both_directions_when_asked(monkeypatch):
    from quatgraph.ops.kernels import aggregate as kernels

    def refuse(*_: object) -> Tensor:
        raise AssertionError("a kernel ran")

    monkeypatch.setattr(kernels, "sum_rows", refuse)
    monkeypatch.setattr(kernels, "entry_products", refuse)
    graph, weight, x = random_structure(), torch.randn(12), torch.randn(C, F)
    wanted = values_and_gradients(graph.times, weight, x)
    with backend("torch"):
        ours = values_and_gradients(graph.to("cuda").times, weight.cuda(), x.cuda())
    for mine, expected in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine.cpu(), expected)
