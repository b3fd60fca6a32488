"""The sparse product against dense matrices, loops and float64, on every way it can be called."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.utils._pytree as pytree
from matrices import (
    ROUNDED,
    C,
    F,
    R,
    Structure,
    either_product,
    random_structure,
    values_and_gradients,
)
from torch import Tensor, func
from torch.autograd import forward_ad

from quatgraph.errors import UserError

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
        saved_tensors = []
        with torch.autograd.graph.saved_tensors_hooks(saved_tensors.append, lambda packed: packed):
            graph.times(weight, x)
        return x.data_ptr() in [saved.data_ptr() for saved in saved_tensors]

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
    batched = torch.vmap(times, in_dims=dims)
    ours = values_and_gradients(lambda weight, x: batched(stacked, weight, x), weight, x)
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
    ptr, many = torch.zeros(2, 2, dtype=torch.int32), torch.zeros(1).expand(2, 1 << 30)
    index = torch.zeros(1, dtype=torch.int32).expand(2, 1 << 30)
    graphs = Structure(index, ptr, index, ptr, index, index)
    with pytest.raises(UserError, match="2 graphs of 1073741824 edges"):
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


def dense_times(graph: Structure) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda weight, x: graph.dense(weight) @ x


def energy(times: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda weight, x: times(weight, x).pow(3).sum()


# What torch.func makes of a product, by weights and by x.
TRANSFORMS = {
    "grad": lambda f: func.grad(energy(f), argnums=(0, 1)),
    "jacrev": lambda f: func.jacrev(f, argnums=(0, 1)),
    "jacfwd": lambda f: func.jacfwd(f, argnums=(0, 1)),
    "forward along both": lambda f: lambda w, x: func.jvp(f, (w, x), (w.cos(), x.sin())),
    "hessian": lambda f: func.hessian(energy(f), argnums=(0, 1)),
    "reverse over reverse": lambda f: func.jacrev(func.grad(energy(f), (0, 1)), argnums=(0, 1)),
    "reverse over forward": lambda f: func.jacrev(func.jacfwd(energy(f), (0, 1)), argnums=(0, 1)),
    "three times": lambda f: func.jacrev(func.hessian(energy(f), argnums=1), argnums=0),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_torch_func_sees_what_it_sees_of_a_dense_product(transform):
    graph = random_structure()
    weight, x = torch.randn(12, dtype=torch.float64), torch.randn(C, F, dtype=torch.float64)
    ours = pytree.tree_leaves(transform(graph.times)(weight, x))
    dense = pytree.tree_leaves(transform(dense_times(graph))(weight, x))
    assert any(part.count_nonzero() for part in dense)
    for mine, wanted in zip(ours, dense, strict=True):
        torch.testing.assert_close(mine, wanted)


def test_two_forward_derivatives_are_refused():
    graph, weight, x = random_structure(), torch.randn(12), torch.randn(C, F)
    with pytest.raises(UserError, match="take one of them backward"):
        func.jacfwd(func.jacfwd(energy(graph.times), argnums=1), argnums=0)(weight, x)


@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_of_gradients_are_the_numerical_ones(name):
    graph = Structure.of(*GRAPHS[name])
    weight = torch.randn(graph.col.numel(), dtype=torch.float64, requires_grad=True)
    x = torch.randn(GRAPHS[name][2], F, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(graph.times, (weight, x))


@pytest.mark.parametrize("own_graph", [False, True])
@pytest.mark.parametrize("own_weight", [False, True])
def test_each_sample_has_its_gradient(own_weight, own_graph):
    members = 3
    graphs = [random_structure() for _ in range(members if own_graph else 1)]
    stacked = Structure(*map(torch.stack, zip(*graphs, strict=True))) if own_graph else graphs[0]
    weight = torch.randn((members, 12) if own_weight else 12, dtype=torch.float64)
    x = torch.randn(members, C, F, dtype=torch.float64)
    dims = 0 if own_graph else None, 0 if own_weight else None, 0

    def gradients(graph: Structure, weight: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return func.grad(energy(graph.times), argnums=(0, 1))(weight, x)

    for m, mine in enumerate(zip(*torch.vmap(gradients, dims)(stacked, weight, x), strict=True)):
        one = graphs[m] if own_graph else graphs[0]
        dense = func.grad(energy(dense_times(one)), argnums=(0, 1))
        wanted = dense(weight[m] if own_weight else weight, x[m])
        for got, right in zip(mine, wanted, strict=True):
            torch.testing.assert_close(got, right)


@pytest.mark.parametrize("gradients", [True, False])
def test_dual_numbers_go_through(gradients):
    graph, weight = random_structure(), torch.randn(12)
    x, along = torch.randn(C, F), torch.randn(C, F)
    with forward_ad.dual_level(), torch.set_grad_enabled(gradients):
        y = graph.times(weight, forward_ad.make_dual(x, along))
        torch.testing.assert_close(forward_ad.unpack_dual(y).tangent, graph.times(weight, along))


def test_many_gradients_are_had_at_once():
    graph, weight = random_structure(), torch.randn(12, requires_grad=True)
    x = torch.randn(C, F, requires_grad=True)
    probes = torch.randn(3, R, F)
    y = graph.times(weight, x)
    batched = torch.autograd.grad(y, (weight, x), probes, is_grads_batched=True, retain_graph=True)
    for m, probe in enumerate(probes):
        for ours, wanted in zip(
            batched, torch.autograd.grad(y, (weight, x), probe, retain_graph=True), strict=True
        ):
            torch.testing.assert_close(ours[m], wanted)


@either_product
@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("gradients", [True, False])
def test_torch_accepts_the_registrations(lead, gradients, product_dtype):
    graph = random_structure()
    weight = torch.randn(*lead, 12, requires_grad=gradients)
    x = torch.randn(*lead, C, F, requires_grad=gradients)
    matrix = graph.rowptr, graph.col, None
    transpose = graph.t_rowptr, graph.t_col, graph.t_perm
    y = torch.randn(*lead, R, F, requires_grad=gradients)
    out_dtype = product_dtype or x.dtype
    for left, value, right in ((matrix, x, transpose), (transpose, y, matrix)):
        arguments = *left, weight, value, *right, product_dtype, out_dtype
        torch.library.opcheck(torch.ops.quatgraph.aggregate, arguments)
    y, x = y.detach(), x.detach()
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


def test_a_forward_derivative_within_compile_is_refused():
    graph, weight, x = random_structure(), torch.randn(12), torch.randn(C, F)

    def ahead(x: Tensor) -> Tensor:
        return func.jvp(lambda x: graph.times(weight, x), (x,), (x,))[1]

    with pytest.raises(Exception, match="forward-mode derivatives are not supported within"):
        torch.compile(ahead, fullgraph=True, backend="eager")(x)
