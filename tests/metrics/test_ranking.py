"""Metrics of ranks against one query at a time, and against every order of the equals."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from quatgraph.metrics.ranking import ranking_metrics, ranking_values
from quatgraph.ops import Ranks, filtered_rank

NAMES = ["mrr", "mr", "hits@1", "hits@3", "hits@10"]
counts = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8)


def ranks_of(pairs: list[tuple[int, int]]) -> Ranks:
    return Ranks(*torch.tensor(pairs).unbind(1))


def random_ranks(*shape: int) -> Ranks:
    generator = torch.Generator().manual_seed(0)
    return Ranks(*(torch.randint(8, shape, generator=generator) for _ in range(2)))


def oracle(pairs: list[tuple[int, int]]) -> dict[str, float]:
    """Every place that a truth may have among its equals, with the same weight."""
    total = dict.fromkeys(NAMES, Fraction(0))
    for greater, equal in pairs:
        places = range(greater + 1, greater + equal + 2)
        rank = Fraction(sum(places), len(places))
        total["mr"] += rank
        total["mrr"] += 1 / rank
        for k in (1, 3, 10):
            total[f"hits@{k}"] += Fraction(sum(place <= k for place in places), len(places))
    return {name: float(value / len(pairs)) for name, value in total.items()}


def listed(metrics: dict[str, Tensor]) -> dict[str, float]:
    return {name: value.item() for name, value in metrics.items()}


def assert_close(ours: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert list(ours) == list(wanted) == NAMES
    for name, value in wanted.items():
        torch.testing.assert_close(ours[name], value, equal_nan=True)


@given(counts)
def test_metrics_are_means_over_all_orders_of_the_equals(pairs: list[tuple[int, int]]) -> None:
    ours = ranking_metrics(ranks_of(pairs))
    assert list(ours) == NAMES
    assert listed(ours) == pytest.approx(oracle(pairs), rel=1e-12)


@pytest.mark.parametrize("shape", [(20,), (3, 20)])
def test_values_are_what_each_query_adds_to_the_means(shape: tuple[int, ...]) -> None:
    ranks = random_ranks(*shape)
    values = ranking_values(ranks)
    assert list(values) == NAMES
    assert all(value.shape == shape for value in values.values())
    assert_close(
        {name: value.mean(dim=-1) for name, value in values.items()}, ranking_metrics(ranks)
    )
    pairs = torch.stack((ranks.greater, ranks.equal), dim=-1).view(-1, 2).tolist()
    for place, pair in enumerate(pairs):
        own = {name: value.flatten()[place].item() for name, value in values.items()}
        assert own == pytest.approx(oracle([tuple(pair)]), rel=1e-12)


def test_the_best_and_the_worst() -> None:
    best = ranking_metrics(ranks_of([(0, 0), (0, 0)]))
    assert listed(best) == dict.fromkeys(NAMES, 1.0)
    worst = listed(ranking_metrics(ranks_of([(99, 0)])))
    assert worst == {"mrr": 0.01, "mr": 100, "hits@1": 0, "hits@3": 0, "hits@10": 0}


def test_a_model_that_gives_all_the_same_score_is_as_good_as_a_guess() -> None:
    metrics = listed(ranking_metrics(ranks_of([(0, 99)] * 3)))
    hits = {"hits@1": 0.01, "hits@3": 0.03, "hits@10": 0.1}
    assert metrics == pytest.approx({"mrr": 1 / 50.5, "mr": 50.5} | hits)


def test_a_model_of_nan_alone_is_the_worst() -> None:
    q, x, truth = torch.full((4, 3), torch.nan), torch.randn(50, 3), torch.arange(4)
    ranks = filtered_rank(q, x, truth, torch.zeros(5, dtype=torch.int64), truth[:0])
    assert ranking_metrics(ranks)["mr"].item() == 50
    assert ranking_metrics(ranks)["hits@10"].item() == 0


@pytest.mark.parametrize("kind", [torch.bool, torch.float32, torch.int64])
def test_a_mask_selects_queries(kind: torch.dtype) -> None:
    ranks, mask = random_ranks(20), torch.arange(20) % 3 == 0
    chosen = ranking_metrics(Ranks(ranks.greater[mask], ranks.equal[mask]))
    assert_close(ranking_metrics(ranks, mask.to(kind)), chosen)


def test_every_member_and_every_relation_has_its_own_number() -> None:
    ranks = random_ranks(3, 20)
    relation = torch.arange(20) % 4
    masks = relation == torch.arange(5)[:, None]  # no query is of the last relation
    by_member = ranking_metrics(ranks)
    whole = Ranks(ranks.greater[:, None], ranks.equal[:, None])
    by_relation = ranking_metrics(whole, masks)
    for m in range(3):
        one = Ranks(ranks.greater[m], ranks.equal[m])
        assert_close({name: value[m] for name, value in by_member.items()}, ranking_metrics(one))
        assert_close(
            {name: value[m] for name, value in by_relation.items()}, ranking_metrics(one, masks)
        )
    assert all(value.shape == (3, 5) for value in by_relation.values())
    assert all(value[:, 4].isnan().all() for value in by_relation.values())
    assert not any(value[:, :4].isnan().any() for value in by_relation.values())


def test_sums_of_large_ranks_are_exact() -> None:
    many = torch.full((100_001,), 16_777_216)
    assert ranking_metrics(Ranks(many, many * 0 + 1))["mr"].item() == 16_777_217.5


def test_traces_without_looking_at_a_value() -> None:
    ranks = Ranks(*(count.to("meta") for count in random_ranks(3, 20)))  # which has no values
    for mask in (None, torch.ones(20, device="meta")):
        assert all(value.shape == (3,) for value in ranking_metrics(ranks, mask).values())


@pytest.mark.gpu
def test_can_be_captured_in_a_cuda_graph() -> None:
    ranks, mask = random_ranks(3, 20), torch.arange(20) % 3 == 0
    held = Ranks(*(count.cuda() for count in ranks)), mask.cuda()
    ranking_metrics(*held)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = ranking_metrics(*held), ranking_metrics(held[0])
    graph.replay()
    for found, wanted in zip(
        captured, (ranking_metrics(ranks, mask), ranking_metrics(ranks)), strict=True
    ):
        assert_close({name: value.cpu() for name, value in found.items()}, wanted)


@pytest.mark.parametrize("ties", [False, True])
def test_pykeens_evaluator_agrees(ties: bool) -> None:
    evaluation = pytest.importorskip("pykeen.evaluation")
    q, x = torch.randn(30, 4), torch.randn(60, 4)
    if ties:
        q, x = q.round(), x.round()
    triples = torch.stack((torch.arange(30), torch.zeros(30).long(), torch.arange(30)), dim=1)
    truth, pointers = triples[:, 2], torch.arange(0, 61, 2)
    known = torch.stack((truth, truth + 30), dim=1)
    ours = listed(ranking_metrics(filtered_rank(q, x, truth, pointers, known.flatten())))
    scores = q @ x.mT
    true = scores.gather(1, truth[:, None])
    scores[torch.arange(30), truth + 30] = torch.nan  # as PyKEEN marks what it leaves out
    evaluator = evaluation.RankBasedEvaluator()
    evaluator.process_scores_(hrt_batch=triples, target="tail", scores=scores, true_scores=true)
    result = evaluator.finalize()
    names = {"mrr": "inverse_harmonic_mean_rank", "mr": "arithmetic_mean_rank"}
    if not ties:  # PyKEEN's hits are of the expected rank, ours their expectation
        names |= {f"hits@{k}": f"hits_at_{k}" for k in (1, 3, 10)}
    for name, theirs in names.items():
        assert ours[name] == pytest.approx(result.get_metric(f"tail.realistic.{theirs}"))
