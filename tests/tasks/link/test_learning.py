"""What models of triples learn, by every loss and with every decoder."""

from statistics import fmean

import pytest
import torch
from cities import cities, config_of, outcome_of

from quatgraph.data.link import load
from quatgraph.layers.decoder import DECODERS
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.evaluation import rank_part, summarize_ranks
from quatgraph.tasks.link.problem import Problem
from quatgraph.tasks.task import Member


@pytest.mark.parametrize("loss", ["bce", "softmax", "kvsall"])
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("reciprocal", [True, False])
def test_every_loss_trains_every_decoder(loss: str, decoder: str, reciprocal: bool) -> None:
    config = config_of(
        **{
            "train.loss": loss,
            "train.n3": 0.01,
            "train.epochs": 1,
            "train.precision": "bfloat16",
            "model.name": "embeddings",
            "model.decoder": decoder,
            "data.reciprocal": reciprocal,
        }
    )
    outcome = outcome_of([Member(config, 0, 0)], cities())
    torch.manual_seed(0)
    before = LINK.build(config, outcome.problem)
    for name, start in before.named_parameters():
        learned = outcome.fit.weights[name][0]
        assert learned.isfinite().all()
        assert not torch.equal(learned, start)
    metrics = outcome.records[0].metrics
    assert all(0 < metrics[f"{part}/mrr"] <= 1 for part in ("valid", "test-tails", "test-heads"))


def untrained_mrr(member: Member, problem: Problem) -> float:
    torch.manual_seed(member.seed)
    model = LINK.build(member.config, problem).eval()
    return summarize_ranks(rank_part(model, problem, "test"), "test")["test/mrr"]


@pytest.mark.parametrize(
    ("decoder", "reciprocal"),
    [("distmult", True), ("complex", True), ("quate", True), ("transe", True), ("complex", False)],
)
def test_where_people_work_follows_from_where_they_live(decoder: str, reciprocal: bool) -> None:
    plain = {"model.name": "embeddings", "model.decoder": decoder, "model.norm": False}
    learn = {"train.epochs": 20, "train.loss": "softmax", "model.dim_quats": 8, "seeds": 3}
    config = config_of(**plain, **learn, **{"data.reciprocal": reciprocal, "train.monitor": "mrr"})
    data = cities()
    outcome = outcome_of(LINK.members(config, data), data)
    before = [untrained_mrr(member, outcome.problem) for member in outcome.members]
    # Of 30 entities a guess has a reciprocal rank of about 0.13.
    assert fmean(before) < 0.25
    for side in ("test", "test-tails", "test-heads"):
        assert fmean(r.metrics[f"{side}/mrr"] for r in outcome.records) > 0.5


@pytest.mark.parametrize("name", ["simqgnn", "simrgcn"])
def test_models_of_the_graph_learn_the_countries(name: str) -> None:
    here = {"data.name": "countries", "data.path": "", "model.name": name, "train.epochs": 3}
    learn = {"train.loss": "softmax", "model.dim_quats": 8, "train.batch_size": 256}
    data = load("countries")
    member = Member(config_of(**here, **learn), 0, 0)
    outcome = outcome_of([member], data).with_curves()
    (record,) = outcome.records
    # Of 1536 entities a guess has a reciprocal rank of about 0.005.
    assert untrained_mrr(member, outcome.problem) < 0.03
    assert record.metrics["test/mrr"] > 0.15
    assert record.curves["valid/mrr"] == sorted(record.curves["valid/mrr"])


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "decoder"), [("simqgnn", "distmult"), ("embeddings", "complex")])
def test_codex_s_is_learned_in_a_few_epochs(name: str, decoder: str) -> None:
    here = {"data.name": "codex-s", "data.path": "", "train.epochs": 4, "train.evaluate_every": 4}
    learn = {"train.loss": "softmax", "model.dim_quats": 8, "train.batch_size": 512}
    config = config_of(**here, **learn, **{"model.name": name, "model.decoder": decoder})
    (record,) = outcome_of([Member(config, 0, 0)], load("codex-s")).records
    assert record.metrics["test/mrr"] > 0.28
    assert record.metrics["test/hits@10"] > 0.5
