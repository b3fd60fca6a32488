"""Combinations of models of triples, against loops over queries and candidates."""

from math import fsum

import cities
import pytest
import torch
from on_cpu import run

from quatgraph.data.link import known
from quatgraph.tasks.combination import TrainedRun
from quatgraph.tasks.link import LINK, pool
from quatgraph.tasks.link.pool import RankingPool
from quatgraph.tasks.task import Member

CPU = torch.device("cpu")
WEIGHTS = (2, 0, 1)


@pytest.fixture(scope="module")
def pooled() -> RankingPool:
    triples, runs = cities.cities(), []
    for size in (1, 2, 3):
        shape = {"model.dim_quats": size, "train.epochs": 3, "train.monitor": "mrr"}
        config = cities.config_of(**shape)
        (outcome,) = run(LINK, [Member(config, 0, 0)], triples)
        names = LINK.build(config, outcome.problem).state_dict()
        state = {name: outcome.fit.weights[name][0] for name in names}
        runs.append(TrainedRun(config, state, {}))
    return LINK.pool(runs, triples, CPU)


def reciprocal_ranks(pooled: RankingPool, part: str) -> list[float]:
    """1 / rank of the truth of each query by the weighted mean of log-softmax scores."""
    problem = pooled.models[0][1]
    queries, answers = problem.parts[part], known(problem.triples)
    found = []
    for head, relation, truth in zip(queries.head, queries.relation, queries.truth, strict=True):
        total = torch.zeros(problem.num_entities, dtype=torch.float64)
        for weight, (model, own) in zip(WEIGHTS, pooled.models, strict=True):
            with torch.no_grad():
                query, candidates = model(own.graph, head[None], relation[None])
            total += weight * (query @ candidates.mT)[0].double().log_softmax(dim=0)
        others = set(answers.select(torch.stack((head, relation))[None]).tails.tolist())
        rivals = [e for e in range(problem.num_entities) if e not in others or e == int(truth)]
        better = sum(float(total[e]) > float(total[truth]) + 1e-6 for e in rivals)
        found.append(1 / (1 + better))
    return found


def test_combinations_are_scored_by_filtered_ranks(pooled: RankingPool) -> None:
    ranks = reciprocal_ranks(pooled, "valid")
    assert pooled.score(WEIGHTS)[0] == pytest.approx(fsum(ranks) / len(ranks))


@pytest.mark.parametrize("part", ["valid", "test"])
def test_metrics_are_those_of_the_combined_scores(pooled: RankingPool, part: str) -> None:
    ranks = reciprocal_ranks(pooled, part)
    metrics = pooled.metrics(WEIGHTS, temperature=1.0)
    assert metrics[f"{part}/mrr"] == pytest.approx(fsum(ranks) / len(ranks))


def test_many_queries_are_sampled_evenly(
    pooled: RankingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = pooled.models[0][1]
    monkeypatch.setattr(pool, "NUMBERS", 5 * 3 * problem.num_entities)
    few = RankingPool(pooled.models, "mrr")
    assert len(few.truth) == 5
    count = len(problem.parts["valid"].truth)
    rows = [5 * 0, *(i * count // 5 for i in range(1, 5))]
    assert few.truth.flatten().tolist() == problem.parts["valid"].truth[rows].tolist()


def test_there_are_no_classes_to_calibrate(pooled: RankingPool) -> None:
    assert pooled.log_probabilities(WEIGHTS) is None
