"""Filtered ranks against loops over queries and entities, with many equal scores."""

from importlib import import_module
from itertools import pairwise
from math import inf, isnan, nan
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from quatgraph.ops import Ranks, filtered_rank

MODULE = import_module("quatgraph.ops.filtered_rank")


class Problem(NamedTuple):
    """What is asked, in the order of the function's arguments."""

    q: Tensor
    x: Tensor
    truth: Tensor
    ptr: Tensor
    known: Tensor


def csr(lists: list[list[int]]) -> tuple[Tensor, Tensor]:
    ptr = torch.tensor([0, *(len(one) for one in lists)]).cumsum(0)
    return ptr, torch.tensor([e for one in lists for e in one], dtype=torch.int64)


def problem(
    queries: int,
    entities: int,
    *lead: int,
    seed: int = 0,
    share: float = 0.3,
    width: int = 3,
    whole: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Problem:
    """A random model, of small whole numbers where wanted, and a share of all entities known."""
    generator = torch.Generator().manual_seed(seed)

    def vectors(rows: int) -> Tensor:
        if whole:
            return torch.randint(-2, 3, (*lead, rows, width), generator=generator).to(dtype)
        return torch.randn(*lead, rows, width, generator=generator, dtype=torch.float64).to(dtype)

    truth = torch.randint(entities, (queries,), generator=generator)
    flags = torch.rand(queries, entities, generator=generator) < share
    flags[torch.arange(queries), truth] = True
    ptr, known = csr([one.nonzero().flatten().tolist() for one in flags])
    return Problem(vectors(queries), vectors(entities), truth, ptr, known)


def oracle(scores: Tensor, truth: Tensor, ptr: Tensor, known: Tensor) -> Ranks:
    """Counts the rivals of each query one by one."""
    greater, equal = [], []
    for row, true, (begin, end) in zip(
        scores.tolist(), truth.tolist(), pairwise(ptr.tolist()), strict=True
    ):
        out = {true, *known[begin:end].tolist()}
        rivals = [score for e, score in enumerate(row) if e not in out]
        lost = isnan(row[true])
        greater.append(sum(lost or isnan(score) or score > row[true] for score in rivals))
        equal.append(sum(score == row[true] for score in rivals))
    return Ranks(torch.tensor(greater), torch.tensor(equal))


def scores_of(given: Problem) -> Tensor:
    return given.q.double() @ given.x.double().mT


def assert_same(ours: Ranks, wanted: Ranks) -> None:
    for mine, expected in zip(ours, wanted, strict=True):
        assert mine.dtype == torch.int64
        assert mine.tolist() == expected.tolist()


def assert_right(given: Problem, max_numbers: int | None = None) -> None:
    wanted = oracle(scores_of(given), *given[2:])
    assert_same(filtered_rank(*given, max_numbers=max_numbers), wanted)


def one_query(
    scores: list[float], true: int, known: list[int], max_numbers: int | None = None
) -> Ranks:
    """The ranks of one entity with these very scores."""
    q, x = torch.ones(1, 1), torch.tensor(scores)[:, None]
    return filtered_rank(q, x, torch.tensor([true]), *csr([known]), max_numbers=max_numbers)


def test_ranks_are_one_more_than_those_ahead_with_none_half_or_all_of_the_equals():
    ranks = one_query([5, 4, 4, 9, 4, 1], true=1, known=[])
    assert ranks.optimistic.tolist() == [3]
    assert ranks.realistic.tolist() == [4]
    assert ranks.pessimistic.tolist() == [5]
    assert one_query([5, 4, 4, 9, 4, 1], true=1, known=[0, 1, 2]).realistic.tolist() == [2.5]


@given(
    queries=st.integers(1, 7),
    entities=st.integers(1, 12),
    seed=st.integers(0, 1 << 20),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    max_numbers=st.integers(1, 100),
    as_on_a_gpu=st.booleans(),
)
def test_counts_are_those_of_a_loop_whatever_the_tile(
    queries, entities, seed, share, max_numbers, as_on_a_gpu
):
    given = problem(queries, entities, seed=seed, share=share)
    with pytest.MonkeyPatch.context() as patch:
        if as_on_a_gpu:  # each tile looks through all known positives
            patch.setattr(MODULE, "_windows", lambda _, starts: [slice(None)] * len(starts))
        assert_right(given, max_numbers)


def test_a_larger_problem_has_many_equals_and_is_right():
    given = problem(60, 150, share=0.2)
    assert filtered_rank(*given).equal.sum() > 600
    for max_numbers in (None, 1, 1000, 4567):
        assert_right(given, max_numbers=max_numbers)


@pytest.mark.parametrize("max_numbers", [1, 700, 1 << 20])
def test_any_type_of_number_will_do(max_numbers):
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        assert_right(problem(9, 20, dtype=dtype), max_numbers=max_numbers)
    given = problem(23, 101, whole=False, width=37, dtype=torch.float64)
    assert_right(given, max_numbers=max_numbers)


@pytest.mark.parametrize("max_numbers", [1, 101, 700, 1 << 20])
def test_no_score_is_rounded_in_two_ways(max_numbers):
    # Half of all candidates are as good as the truth but for rounding. Were scores of the truth or
    # of known positives computed by themselves, the rivals would not be counted down to none.
    given = problem(23, 101, whole=False, width=37, share=1.0)
    given = given._replace(x=given.x[:2].repeat(51, 1)[:101])
    ranks = filtered_rank(*given, max_numbers=max_numbers)
    assert_same(ranks, Ranks(*torch.zeros(2, 23, dtype=torch.int64)))


@pytest.mark.parametrize("max_numbers", [1, 30, None])
def test_queries_without_known_positives_have_all_others_as_rivals(max_numbers):
    given = problem(5, 12)
    nothing = Problem(*given[:3], *csr([[]] * 5))
    assert_right(nothing, max_numbers=max_numbers)
    mixed = Problem(*given[:3], *csr([[], [3, 4], [], [], [0, 11]]))
    assert_right(mixed, max_numbers=max_numbers)


def test_the_truth_may_be_known_or_not_or_twice_and_others_may_be_repeated():
    scores, wanted = [2.0, 3.0, 2.0, 2.0, 4.0], Ranks(torch.tensor([1]), torch.tensor([1]))
    for known in ([1], [1, 2], [2, 1], [1, 2, 2], [2, 2, 1], [1, 1, 2, 2, 2]):
        ranks = one_query(scores, true=2, known=known)
        assert_same(ranks, Ranks(wanted.greater, wanted.equal + (0 if 0 in known else 1)))
    assert_same(one_query(scores, true=2, known=[0, 0, 1, 2, 2]), wanted)
    assert_same(one_query(scores, true=2, known=[0, 1]), wanted)


def test_the_same_entity_at_the_end_of_one_query_and_the_start_of_the_next_counts_for_both():
    q, x = torch.ones(2, 1), torch.tensor([[1.0], [1.0], [3.0]])
    ranks = filtered_rank(q, x, torch.tensor([0, 0]), *csr([[2], [2]]))
    assert_same(ranks, Ranks(torch.tensor([0, 0]), torch.tensor([1, 1])))


@pytest.mark.parametrize("max_numbers", [1, 30, None])
def test_padding_is_what_stands_behind_the_last_pointer_or_names_no_entity(max_numbers):
    given = problem(5, 12)
    wanted = filtered_rank(*given)
    behind = torch.cat((given.known, torch.arange(12)))
    assert_same(filtered_rank(*given[:4], behind, max_numbers=max_numbers), wanted)
    lists = [given.known[a:b].tolist() for a, b in pairwise(given.ptr.tolist())]
    between = csr([[*one, -1, -1, 12, 99] for one in lists])
    assert_same(filtered_rank(*given[:3], *between, max_numbers=max_numbers), wanted)


@pytest.mark.parametrize("max_numbers", [1, None])
def test_nan_never_looks_good(max_numbers):
    def counts(scores: list[float], true: int, known: list[int]) -> tuple[int, int]:
        ranks = one_query(scores, true, known, max_numbers)
        assert_same(ranks, oracle(torch.tensor([scores]), torch.tensor([true]), *csr([known])))
        return ranks.greater.item(), ranks.equal.item()

    assert counts([nan, 1, 2, -inf], true=0, known=[]) == (3, 0)
    assert counts([nan, nan, nan, nan], true=0, known=[]) == (3, 0)
    assert counts([nan, nan, nan, nan], true=0, known=[0, 2]) == (2, 0)
    assert counts([5, nan, 2, nan], true=0, known=[]) == (2, 0)
    assert counts([5, nan, 2, nan], true=0, known=[0, 3]) == (1, 0)
    assert counts([inf, nan, inf, 3], true=0, known=[]) == (1, 1)
    assert counts([-inf, -inf, -inf, 3], true=0, known=[1]) == (1, 1)
    assert counts([-inf, nan, inf, 3], true=2, known=[]) == (1, 0)


def test_a_model_of_nan_alone_gets_the_worst_ranks():
    given = problem(6, 20)
    rivals = filtered_rank(given.q * 0, *given[1:]).equal  # all scores are 0
    ranks = filtered_rank(given.q * nan, *given[1:])
    assert_same(ranks, Ranks(rivals, torch.zeros(6, dtype=torch.int64)))


def test_no_queries_have_no_ranks():
    ranks = filtered_rank(torch.randn(0, 3), torch.randn(5, 3), torch.arange(0), *csr([]))
    assert [count.shape for count in ranks] == [(0,), (0,)]


def test_numbers_may_be_of_32_bits_and_vectors_need_no_contiguous_memory():
    given = problem(7, 15)
    narrow = (given.truth.int(), given.ptr.int(), given.known.int())
    apart = given.q.mT.contiguous().mT, given.x.mT.contiguous().mT
    assert_same(filtered_rank(*apart, *narrow, max_numbers=40), filtered_rank(*given))


def test_counts_stay_exact_where_float32_could_not_hold_them(monkeypatch):
    monkeypatch.setattr(MODULE, "_LARGEST_COUNT", 10)
    assert_right(problem(7, 15), max_numbers=40)


@pytest.mark.parametrize("max_numbers", [1, 40, 150, 400, None])
def test_members_equal_a_loop(max_numbers):
    given = problem(7, 15, 4)
    alone = [filtered_rank(*own, *given[2:]) for own in zip(given.q, given.x, strict=True)]
    wanted = Ranks(*(torch.stack(counts) for counts in zip(*alone, strict=True)))
    assert_same(filtered_rank(*given, max_numbers=max_numbers), wanted)


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("max_numbers", [15, 40, 105, 106, 300, 1 << 20])
def test_a_tile_keeps_to_its_bound_and_each_score_is_computed_once(
    members, max_numbers, monkeypatch
):
    made, count = [], MODULE._count_tile
    monkeypatch.setattr(MODULE, "_count_tile", lambda *args: made.append(args[0]) or count(*args))
    filtered_rank(*problem(7, 15, members), max_numbers=max_numbers)
    assert max(tile.numel() for tile in made) <= max_numbers
    assert sum(tile.numel() for tile in made) == members * 7 * 15
    if max_numbers >= members * 7 * 15:
        assert len(made) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_of_vectors_of_half_precision_are_not_rounded(dtype):
    given = problem(23, 101, whole=False, width=37, dtype=dtype)
    assert_right(given)
    assert not filtered_rank(*given).equal.any()


def test_autocast_does_not_round_the_scores():
    given = problem(23, 101, whole=False, width=37)
    with torch.autocast("cpu", torch.bfloat16):
        ranks = filtered_rank(*given)
    assert_same(ranks, filtered_rank(*given))


def test_vectors_may_ask_for_gradients_which_counts_have_not():
    given = problem(7, 15)
    ranks = filtered_rank(given.q.requires_grad_(), given.x.requires_grad_(), *given[2:])
    assert not ranks.realistic.requires_grad


def test_pykeens_ranks_agree():
    theirs = pytest.importorskip("pykeen.evaluation.ranks")
    given = problem(23, 101)
    scores = given.q @ given.x.mT
    true = scores.gather(1, given.truth[:, None])
    for b, (begin, end) in enumerate(pairwise(given.ptr.tolist())):
        scores[b, given.known[begin:end]] = nan  # as PyKEEN marks what it leaves out
    ranks = theirs.Ranks.from_scores(true, scores.scatter(1, given.truth[:, None], true))
    ours = filtered_rank(*given)
    for kind in ("optimistic", "realistic", "pessimistic"):
        assert getattr(ours, kind).tolist() == getattr(ranks, kind).tolist()


def on_gpu(given: Problem) -> Problem:
    return Problem(*(value.cuda() for value in given))


def on_cpu(ranks: Ranks) -> Ranks:
    return Ranks(*(count.cpu() for count in ranks))


@pytest.mark.gpu
@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("max_numbers", [1, 1000, 5000, None])
def test_the_gpu_counts_as_the_cpu(lead, max_numbers):
    given = problem(60, 150, *lead, width=16)
    ours = filtered_rank(*on_gpu(given), max_numbers=max_numbers)
    assert_same(on_cpu(ours), filtered_rank(*given))
    given = problem(60, 150, *lead, whole=False, width=37, share=1.0)
    given = given._replace(x=given.x[..., :2, :].repeat(*[1] * len(lead), 75, 1))
    assert not torch.stack(filtered_rank(*on_gpu(given), max_numbers=max_numbers)).any()


@pytest.mark.gpu
@pytest.mark.parametrize("max_numbers", [1000, None])
def test_the_gpu_captures_it_as_a_graph_whose_inputs_may_change(max_numbers):
    given = on_gpu(problem(60, 150, 3))
    filtered_rank(*given, max_numbers=max_numbers)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ranks = filtered_rank(*given, max_numbers=max_numbers)
    other = problem(60, 150, 3, seed=1, share=0.1)
    for value, new in zip(given[:4], other[:4], strict=True):
        value.copy_(new)
    given.known[: len(other.known)] = other.known.cuda()  # what is left of the old is padding
    graph.replay()
    assert_same(on_cpu(ranks), filtered_rank(*other))
