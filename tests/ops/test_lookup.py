"""Rows of a table by their number against plain indexing and the one-hot product."""

from importlib import import_module

import pytest
import torch
from torch import Tensor

from quatgraph.ops import backend, lookup, table_and_rows

T, N, F = 4, 9, 3
Pair = tuple[Tensor, Tensor]
# The operation of the GPU is plain torch too, and runs anywhere.
both_forms = pytest.mark.parametrize("form", [lookup, torch.ops.quatgraph.lookup])


def as_on_a_gpu(table: Tensor, code: Tensor, times: Pair | None = None) -> Pair:
    function = import_module("quatgraph.ops.lookup")._TableAndRows
    return function.apply(table, code, *(times or (None, None)))[:2]


both_pairs = pytest.mark.parametrize("pair", [table_and_rows, as_on_a_gpu])


def random_codes(*lead: int) -> Tensor:
    return torch.randint(T - 1, (*lead, N), dtype=torch.int32)  # the last row is never asked for


def values_and_gradient(call, table: Tensor) -> tuple[Tensor, Tensor]:
    table = table.detach().requires_grad_()
    y = call(table)
    probe = (torch.arange(y.numel(), device=y.device) % 7 - 3).view(y.shape)
    return y.detach(), *torch.autograd.grad(y, table, probe.to(y))


def assert_same(ours: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    for mine, expected in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine, expected)


@both_forms
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_is_indexing_and_the_product_of_the_one_hot_matrix(form, dtype):
    table, code = torch.randn(T, F, dtype=torch.float64), random_codes().to(dtype)
    ours = values_and_gradient(lambda table: form(table, code), table)
    assert_same(ours, values_and_gradient(lambda table: table[code.long()], table))
    one_hot = torch.nn.functional.one_hot(code.long(), T).double()
    assert_same(ours, values_and_gradient(lambda table: one_hot @ table, table))
    assert not ours[1][-1].any()


@both_forms
def test_gradients_are_the_numerical_ones(form):
    table, code = torch.randn(T, F, dtype=torch.float64, requires_grad=True), random_codes()
    assert torch.autograd.gradcheck(lambda table: form(table, code), (table,))


@both_forms
def test_no_rows_may_be_asked_for(form):
    table, code = torch.randn(T, F), torch.zeros(0, dtype=torch.int32)
    y, grad = values_and_gradient(lambda table: form(table, code), table)
    assert y.shape == (0, F)
    assert torch.equal(grad, torch.zeros(T, F))


@both_forms
def test_table_and_gradient_need_not_be_contiguous(form):
    table, code = torch.randn(F, T).mT, random_codes()
    assert_same(
        values_and_gradient(lambda table: form(table, code).mT, table),
        values_and_gradient(lambda table: table[code.long()].mT, table),
    )


of_members = pytest.mark.parametrize(
    ("own_table", "own_code"), [(True, True), (True, False), (False, True)]
)


def assert_vmap_equals_a_loop(form, loop, *, own_table: bool, own_code: bool) -> None:
    """That three members under vmap give what a form of plain torch gives of each."""
    table = torch.randn(*[3] * own_table, T, F, dtype=torch.float64)
    code = random_codes(*[3] * own_code)
    dims = 0 if own_table else None, 0 if own_code else None

    def looped(table: Tensor) -> Tensor:
        tables = table if own_table else table.expand(3, T, F)
        codes = code if own_code else code.expand(3, N)
        return torch.stack([loop(t, c.long()) for t, c in zip(tables, codes, strict=True)])

    assert_same(
        values_and_gradient(lambda table: torch.vmap(form, dims)(table, code), table),
        values_and_gradient(looped, table),
    )


@both_forms
@of_members
def test_members_under_vmap_equal_a_loop_in_values_and_gradients(form, own_table, own_code):
    assert_vmap_equals_a_loop(form, lambda t, c: t[c], own_table=own_table, own_code=own_code)


@both_forms
def test_members_may_lie_in_any_dimension(form):
    table, code = torch.randn(T, F, 3), random_codes(3).mT
    y = torch.vmap(form, in_dims=(2, 1), out_dims=1)(table, code)
    for m in range(3):
        torch.testing.assert_close(y[:, m], table[code[:, m].long(), :, m])


@pytest.mark.parametrize("lead", [(), (2,)])
def test_torch_accepts_the_registrations(lead):
    table, code = torch.randn(*lead, T, F, requires_grad=True), random_codes(*lead)
    torch.library.opcheck(torch.ops.quatgraph.lookup, (table, code))
    grad = torch.randn(*lead, N, F)
    torch.library.opcheck(torch.ops.quatgraph.lookup_gradient, (grad, code, T))
    base = torch.randn(*lead, T, F)
    torch.library.opcheck(torch.ops.quatgraph.lookup_gradient, (grad, code, T, base))
    torch.library.opcheck(torch.ops.quatgraph.lookup_gradient, (grad, code, T, base, grad + 1))


@both_forms
def test_compiles_whole_and_keeps_values_and_gradients(form):
    table, code = torch.randn(T, F), random_codes()
    compiled = torch.compile(form, fullgraph=True, backend="aot_eager")
    assert_same(
        values_and_gradient(lambda table: compiled(table, code), table),
        values_and_gradient(lambda table: form(table, code), table),
    )


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("block", [1, 50, 1 << 25])
def test_the_gradient_is_taken_in_blocks_of_any_size(block, lead, monkeypatch):
    monkeypatch.setattr(import_module("quatgraph.ops.lookup"), "_ONE_HOT_BLOCK", block)
    code, grad = random_codes(*lead), torch.randn(*lead, N, F)
    ours = torch.ops.quatgraph.lookup_gradient(grad, code, T)
    one_hot = torch.nn.functional.one_hot(code.long(), T).float()
    torch.testing.assert_close(ours, one_hot.mT @ grad)


def one_by_one(table: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
    return table * 1, lookup(table, code)


def scored(pair):
    """A query of the rows against the whole table, as link models have it."""

    def call(table: Tensor, code: Tensor) -> Tensor:
        whole, rows = pair(table, code)
        return torch.tanh(rows) @ whole.mT

    return call


@both_pairs
@pytest.mark.parametrize("rows", [T, 1500])
def test_a_table_and_its_rows_have_the_gradient_of_both(pair, rows):
    table, code = torch.randn(rows, F, dtype=torch.float64), random_codes()
    assert_same(
        values_and_gradient(lambda table: scored(pair)(table, code), table),
        values_and_gradient(lambda table: scored(one_by_one)(table, code), table),
    )


@both_pairs
@pytest.mark.parametrize("taken", [0, 1])
def test_of_a_table_and_its_rows_one_may_be_all_that_is_used(pair, taken):
    table, code = torch.randn(T, F), random_codes()
    assert_same(
        values_and_gradient(lambda table: pair(table, code)[taken] * 2, table),
        values_and_gradient(lambda table: one_by_one(table, code)[taken] * 2, table),
    )


@both_pairs
def test_a_gradient_that_others_share_is_left_as_it_is(pair):
    table, code = torch.randn(T, F, requires_grad=True), random_codes()
    whole, rows = pair(table, code)
    given = torch.ones(T, F), torch.ones(N, F)
    torch.autograd.grad((whole, rows), table, given)
    assert all(torch.equal(g, torch.ones_like(g)) for g in given)


@both_pairs
@of_members
def test_a_table_and_its_rows_under_vmap_equal_a_loop(pair, own_table, own_code):
    def loop(table: Tensor, code: Tensor) -> Tensor:
        return torch.tanh(table[code]) @ table.mT

    assert_vmap_equals_a_loop(scored(pair), loop, own_table=own_table, own_code=own_code)


def of_products(pair, tables: Pair, codes: Pair) -> tuple[Tensor, ...]:
    """The products of the rows of two tables, of which one is used as it is too, and the gradients
    by both; of each member where there are several."""

    def call(table: Tensor, code: Tensor, times: Tensor, times_code: Tensor) -> Tensor:
        whole, rows = pair(table, code, (times, times_code))
        return torch.cat((whole.square(), rows.sin()), dim=-2)

    given = [table.detach().requires_grad_() for table in tables]
    inputs = given[0], codes[0], given[1], codes[1]
    y = call(*inputs) if codes[0].dim() == 1 else torch.vmap(call)(*inputs)
    probe = (torch.arange(y.numel(), device=y.device) % 7 - 3).view(y.shape)
    return y.detach(), *torch.autograd.grad(y, given, probe.to(y))


def multiplied(table: Tensor, code: Tensor, times: Pair) -> Pair:
    return table * 1, lookup(table, code) * lookup(*times)


@both_pairs
@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("rows", [T, 1500])
def test_rows_are_multiplied_by_those_of_another_table(pair, rows, lead):
    tables = [torch.randn(*lead, size, F, dtype=torch.float64) for size in (rows, 2 * T)]
    codes = random_codes(*lead), random_codes(*lead) + T
    assert_same(of_products(pair, tables, codes), of_products(multiplied, tables, codes))


@pytest.mark.gpu
@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("rows", [40, 1500])
@pytest.mark.parametrize(("count", "width"), [(1, 1), (33, 5), (1024, 128), (4096, 40), (5000, 9)])
def test_the_gpu_multiplies_rows_by_those_of_another_table_and_repeats_it(count, width, rows, lead):
    tables = [torch.randn(*lead, size, width, dtype=torch.float64) for size in (rows, 30)]
    pairs = torch.randint(30, (*lead, count, 2))
    pairs[..., : count // 3, :] = 7
    wanted = of_products(table_and_rows, tables, pairs.unbind(-1))
    on_gpu = [table.cuda() for table in tables], pairs.cuda().unbind(-1)
    first = of_products(table_and_rows, *on_gpu)
    assert_same(tuple(part.cpu() for part in first), wanted)
    for _ in range(10):
        again = of_products(table_and_rows, *on_gpu)
        assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("members", [None, 3])
def test_the_gpu_gives_the_cpus_values_and_gradients(members):
    lead = [] if members is None else [members]
    table, code = torch.randn(*lead, T, F, dtype=torch.float64), random_codes(*lead)
    call = lookup if members is None else torch.vmap(lookup)
    ours = values_and_gradient(lambda table: call(table, code.cuda()), table.cuda())
    wanted = values_and_gradient(lambda table: call(table, code), table)
    assert_same(tuple(part.cpu() for part in ours), wanted)


@pytest.mark.gpu
def test_the_gpus_gradient_repeats_bit_for_bit():
    table, code = torch.randn(40, 64, device="cuda"), torch.randint(40, (20_000,), device="cuda")
    first = values_and_gradient(lambda table: lookup(table, code), table)
    for _ in range(20):
        again = values_and_gradient(lambda table: lookup(table, code), table)
        assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))


@pytest.mark.parametrize("members", [None, 3])
def test_the_gradient_of_a_large_table_sums_the_codes_in_order(members):
    lead, rows = () if members is None else (members,), 1500
    code, grad = torch.randint(rows, (*lead, 400)), torch.randn(*lead, 400, 5)
    code[..., :50] = 7  # one row that many ask for, most that none does
    total = import_module("quatgraph.ops.lookup")._sum_sorted(grad, code, rows)
    for one, asked, given in zip(
        total.view(-1, rows, 5), code.view(-1, 400), grad.view(-1, 400, 5), strict=True
    ):
        torch.testing.assert_close(one, torch.zeros(rows, 5).index_add(0, asked, given))


@pytest.mark.gpu
@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("count", [1, 400, 1500, 5000])
def test_the_gpu_gives_the_gradient_of_a_large_table_and_repeats_it(count, members):
    lead, rows = () if members is None else (members,), 1500
    table, code = torch.randn(*lead, rows, 70), torch.randint(rows, (*lead, count))
    code[..., : count // 3] = 7  # one row that many ask for, many that none does
    call = lookup if members is None else torch.vmap(lookup)
    wanted = values_and_gradient(lambda table: call(table, code), table)
    first = values_and_gradient(lambda table: call(table, code.cuda()), table.cuda())
    assert_same(tuple(part.cpu() for part in first), wanted)
    for _ in range(10):
        again = values_and_gradient(lambda table: call(table, code.cuda()), table.cuda())
        assert torch.equal(again[1], first[1])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 5, 128, 300])
def test_the_kernel_gives_rows_wherever_they_lie(width, dtype):
    tables = torch.randn(3, 50, width, dtype=dtype, device="cuda")
    pairs = torch.randint(50, (3, 700, 2), device="cuda")
    turned = torch.randn(3, width, 50, dtype=dtype, device="cuda").mT
    for table in (tables, tables[:1].expand(3, -1, -1), turned):
        for code in (pairs[..., 1], pairs[:1, :, 0].expand(3, -1), pairs[..., 0].int()):
            with backend("torch"):
                wanted = torch.vmap(lookup)(table, code)
            assert torch.equal(torch.vmap(lookup)(table, code), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("rows", [40, 1500])
@pytest.mark.parametrize(("count", "width"), [(1, 1), (33, 5), (1024, 128), (4096, 40), (5000, 9)])
def test_the_gpu_adds_the_gradient_of_rows_to_that_of_the_table_and_repeats_it(
    count, width, rows, members
):
    lead = () if members is None else (members,)
    table = torch.randn(*lead, rows, width, dtype=torch.float64)
    pairs = torch.randint(rows, (*lead, count, 2))
    pairs[..., : count // 3, :] = 7
    code, on_gpu = pairs[..., 1], pairs.cuda()[..., 1]

    def total(table: Tensor, code: Tensor) -> Tensor:
        whole, asked = table_and_rows(table, code)
        return whole.square().sum(-2) + asked.sin().sum(-2)

    call = total if members is None else torch.vmap(total)
    wanted = values_and_gradient(lambda table: call(table, code), table)
    first = values_and_gradient(lambda table: call(table, on_gpu), table.cuda())
    assert_same(tuple(part.cpu() for part in first), wanted)
    for _ in range(10):
        again = values_and_gradient(lambda table: call(table, on_gpu), table.cuda())
        assert torch.equal(again[1], first[1])


@pytest.mark.gpu
def test_numbers_beyond_the_table_give_zeros_on_a_gpu_and_harm_nothing():
    for rows in (7, 2000):  # a small table and a large one
        table = torch.randn(rows, 5, device="cuda", requires_grad=True)
        code = torch.tensor([0, rows, -1, 3, rows + 100_000], device="cuda")
        found = lookup(table, code)
        assert torch.equal(found[[1, 2, 4]], torch.zeros(3, 5, device="cuda"))
        (gradient,) = torch.autograd.grad(found.sum(), table)
        wanted = torch.zeros_like(gradient)
        wanted[[0, 3]] = 1
        assert torch.equal(gradient, wanted)
