"""Operations on rows that ranks share out, against one process that has all of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from ranks import on_ranks
from torch import Tensor

from quatgraph.ops import (
    Positives,
    Ranks,
    Shards,
    filtered_rank,
    k_vs_all_cross_entropy,
    one_vs_all_bce,
    one_vs_all_cross_entropy,
)
from quatgraph.training.launch import Launch

B, E, D, M = 6, 23, 4, 2
LOSSES: dict[str, Any] = {
    "bce": one_vs_all_bce,
    "bce smoothed": lambda *a, **k: one_vs_all_bce(*a, smoothing=0.1, floor=1 / E, **k),
    "softmax": one_vs_all_cross_entropy,
    "kvsall": k_vs_all_cross_entropy,
    "kvsall smoothed": lambda *a, **k: k_vs_all_cross_entropy(*a, smoothing=0.1, floor=1 / E, **k),
}
every_size = pytest.mark.parametrize("size", [1, 2, 3])


def made(*shape: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(shape, generator=draw, dtype=torch.float64)


def positives() -> Positives:
    """No answer, one, all, and a few, that of the last query in the last rank."""
    answers = [[], [3], [*range(E)], [1, 11, 22], [E - 1]]
    ptr = torch.tensor([0, *map(len, answers)]).cumsum(0)
    tails = torch.tensor([tail for one in answers for tail in one])
    return Positives(ptr, tails, torch.tensor([[0, 1, 2, 3, 4, 1], [4, 4, 3, 2, 1, 0]]))


def with_gradients(name: str, shards: Shards | None, tile: int | None) -> list[Tensor]:
    query, whole = made(M, B, D).requires_grad_(), made(M, E, D, seed=1)
    own = whole if shards is None else whole[:, shards.first : shards.last]
    own = own.clone().requires_grad_()
    loss = LOSSES[name](query, own, positives(), tile=tile, shards=shards)
    probe = torch.tensor([1.0, -3.0], dtype=torch.float64)
    return [loss.detach(), *torch.autograd.grad(loss, (query, own), probe)]


@every_size
def test_losses_and_their_gradients_are_those_of_one_process(size: int, tmp_path: Path) -> None:
    cases = [(name, tile) for name in LOSSES for tile in (None, 5)]

    def work(launch: Launch) -> list[list[Tensor]]:
        shards = Shards(E, launch.rank, size)
        return [with_gradients(name, shards, tile) for name, tile in cases]

    found = on_ranks(size, tmp_path / "ranks", work)
    for number, (name, tile) in enumerate(cases):
        loss, by_query, by_candidates = with_gradients(name, None, tile)
        for rank in found:
            torch.testing.assert_close(rank[number][0], loss, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(rank[number][1], by_query, rtol=1e-12, atol=1e-12)
        together = torch.cat([rank[number][2] for rank in found], dim=1)
        torch.testing.assert_close(together, by_candidates, rtol=1e-12, atol=1e-12)


@every_size
def test_ranks_are_those_of_one_process_with_ties_and_nan(size: int, tmp_path: Path) -> None:
    q = made(M, B, D).round()
    x = made(M, E, D, seed=1).round()
    q[0, 1, 0], x[1, 4, 2] = torch.nan, torch.nan
    truth = torch.tensor([0, 4, 22, 7, 11, 12])
    known = [[0, 5], [4], [22, 1, 2, 30, -1], [7, 7, 8], [11], [*range(E)]]
    ptr = torch.tensor([0, *map(len, known)]).cumsum(0)
    given = truth, ptr, torch.tensor([one for some in known for one in some])

    def work(launch: Launch) -> list[Tensor]:
        shards = Shards(E, launch.rank, size)
        own = x[:, shards.first : shards.last]
        found = []
        for limit in (None, 1, 30):
            found += filtered_rank(q, own, *given, max_numbers=limit, shards=shards)
        return found

    wanted: list[Tensor] = []
    for limit in (None, 1, 30):
        wanted += filtered_rank(q, x, *given, max_numbers=limit)
    for found in on_ranks(size, tmp_path / "ranks", work):
        assert all(map(torch.equal, found, wanted))
    assert isinstance(filtered_rank(q, x, *given), Ranks)


@every_size
def test_rows_of_other_ranks_arrive_and_gradients_return_to_their_owner(
    size: int, tmp_path: Path
) -> None:
    whole, index = made(M, E, D), torch.tensor([[0, 22, 7, 7], [3, 12, 11, 0]])
    factor = made(M, 4, D, seed=2)

    def by(shards: Shards | None) -> list[Tensor]:
        own = whole if shards is None else whole[:, shards.first : shards.last]
        own = own.clone().requires_grad_()

        def rows_of(table: Tensor, index: Tensor) -> Tensor:
            return table[index] if shards is None else shards.rows(table, index)[1]

        rows = torch.vmap(rows_of)(own, index)
        (gradient,) = torch.autograd.grad((rows.square() * factor).sum(), own)
        return [rows.detach(), gradient]

    found = on_ranks(size, tmp_path / "ranks", lambda one: by(Shards(E, one.rank, size)))
    rows, gradient = by(None)
    for one in found:
        assert torch.equal(one[0], rows)
    together = torch.cat([one[1] for one in found], dim=1)
    torch.testing.assert_close(together, gradient, rtol=1e-12, atol=1e-12)


@every_size
def test_the_log_sum_exp_neither_overflows_nor_hides_nan(size: int, tmp_path: Path) -> None:
    values = torch.tensor([[1e4, -1e4, 3.0, torch.nan], [0.0, 5.0, 3.0, 1.0], [-9.0, 2.0, 3.0, 0]])

    def work(launch: Launch) -> Tensor:
        return Shards(E, launch.rank, size).log_sum_exp(values[launch.rank])

    wanted = values[:size].logsumexp(0)
    for found in on_ranks(size, tmp_path / "ranks", work):
        torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("rows", [3, 10, 23])
def test_every_row_has_one_owner_and_no_rank_has_two_more_than_another(rows: int) -> None:
    for size in range(1, rows + 1):
        each = [Shards(rows, rank, size) for rank in range(size)]
        assert [row for one in each for row in one.keys(torch.device("cpu")).tolist()] == [
            *range(rows)
        ]
        assert {one.size for one in each} <= {each[0].largest, each[0].largest - 1}
