"""Hashed bits: the reference numbers, uniformity, and what they do not depend on."""

import itertools

import pytest
import torch

from quatgraph.ops.random import (
    MASK,
    draw_key,
    epoch_draws,
    mix,
    random_bits,
    random_order,
    take_step,
)

SEEDS = torch.tensor([[0, 0], [1, 0], [0, 1], [7 + (3 << 32), 12]])


def mixed(x: int) -> int:
    """The hash in Python's whole numbers."""
    x ^= x >> 16
    x = x * 0x7FEB352D & MASK
    x ^= x >> 15
    x = x * 0x846CA68B & MASK
    return x ^ x >> 16


def test_the_hash_is_that_of_whole_numbers_without_overflow():
    values = [0, 1, 2, 0x7FFFFFFF, 0x80000000, MASK, 123456789]
    assert mix(torch.tensor(values)).tolist() == [mixed(value) for value in values]


@pytest.mark.parametrize("draws", SEEDS.tolist())
def test_a_number_is_the_formula_of_its_seed_step_call_row_and_column(draws):
    seed, step = draws
    bits = random_bits(torch.tensor(draws), 5, torch.tensor([9, -1]), 3)
    key = mixed(mixed(mixed(mixed(seed & MASK) ^ seed >> 32) ^ step) ^ 5)
    assert draw_key(torch.tensor(draws), 5) == key
    for r, row in enumerate((9, -1)):
        for column in range(3):
            expected = mixed(mixed(key ^ (row & MASK)) ^ mixed((column + 0x9E3779B9) & MASK))
            assert bits[r, column] == expected


def test_members_and_more_rows_and_columns_change_nothing():
    whole = random_bits(SEEDS, 2, 40, 9)
    for place, draws in enumerate(SEEDS):
        assert torch.equal(random_bits(draws, 2, 7, 3), whole[place, :7, :3])
        rows = torch.tensor([5, 31, 0])
        assert torch.equal(random_bits(draws, 2, rows, 9), whole[place, rows])


def test_another_seed_step_or_call_draws_other_numbers():
    keys = [(draws, call) for draws in SEEDS for call in (0, 1, 1 << 30)]
    for (first, a), (second, b) in itertools.combinations(keys, 2):
        same = random_bits(first, a, 100, 4) == random_bits(second, b, 100, 4)
        assert not same.any()


def test_bits_are_uniform_and_neighbours_independent():
    bits = random_bits(torch.tensor([3, 4]), 0, 1000, 64).double() / 2**32
    counts = torch.histc(bits, 64, 0, 1)
    expected = bits.numel() / 64
    assert float(((counts - expected) ** 2 / expected).sum()) < 110  # 63 degrees: 1 in 4,000
    centred = bits - 0.5
    pairs = {
        "columns": (centred[:, :-1], centred[:, 1:]),
        "rows": (centred[:-1], centred[1:]),
        "steps": (centred, random_bits(torch.tensor([3, 5]), 0, 1000, 64) / 2**32 - 0.5),
        "calls": (centred, random_bits(torch.tensor([3, 4]), 1, 1000, 64) / 2**32 - 0.5),
        "seeds": (centred, random_bits(torch.tensor([4, 4]), 0, 1000, 64) / 2**32 - 0.5),
    }
    for name, (left, right) in pairs.items():
        correlation = 12 * float((left * right).mean())
        assert abs(correlation) < 4 / left.numel() ** 0.5, name


def test_an_order_is_a_permutation_of_each_members_own():
    orders = random_order(epoch_draws(torch.tensor([0, 1]), 3), 0, 50)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(50).expand(2, 50))
    assert not torch.equal(orders[0], orders[1])
    assert torch.equal(orders[1:], random_order(epoch_draws(torch.tensor([1]), 3), 0, 50))


@pytest.mark.gpu
def test_a_gpu_draws_what_a_cpu_draws():
    assert torch.equal(random_bits(SEEDS.cuda(), 2, 40, 9).cpu(), random_bits(SEEDS, 2, 40, 9))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_step_is_taken_in_place_and_its_own_draws_are_returned(device):
    draws = torch.tensor([[3, 0], [7 + (5 << 32), 41]], device=device)
    taken = take_step(draws)
    assert taken.tolist() == [[3, 0], [7 + (5 << 32), 41]]
    assert draws.tolist() == [[3, 1], [7 + (5 << 32), 42]]


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 1000, 5003])
def test_a_gpu_shuffles_as_a_cpu_does(count):
    assert torch.equal(random_order(SEEDS.cuda(), 3, count).cpu(), random_order(SEEDS, 3, count))
