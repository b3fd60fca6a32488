"""Triples that the graph lacks: the best of all, in any tiles, with probabilities that hold."""

import dataclasses
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor

import quatgraph
from quatgraph import LinkPredictor, UserError
from quatgraph.data import link as source
from quatgraph.data.link import Triples, load
from quatgraph.models.link import MODELS, Embeddings, LinkOptions
from quatgraph.predictors import missing, train_triples
from quatgraph.predictors.calibration import LabelledTriples, fit_calibration
from quatgraph.predictors.missing import MissingTriples
from quatgraph.predictors.support import compute_strengths, find_neighbours
from quatgraph.tasks.link.config import DataConfig, LinkConfig, TrainConfig

COMPLEX = Embeddings.Options(decoder="complex", dim_quats=8, norm=False, dropout=0.3)


def trained(
    triples: Triples, folder: Path, model: LinkOptions = COMPLEX, epochs: int = 30
) -> LinkPredictor:
    train = TrainConfig(epochs=epochs, lr=0.02, batch_size=1024, n3=1e-2, select="last")
    config = LinkConfig(data=DataConfig(), model=model, train=train)
    return train_triples(triples, folder, config=config, device="cpu")


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> LinkPredictor:
    return trained(load("countries"), tmp_path_factory.mktemp("countries"))


def features_by_hand(predictor: LinkPredictor, relation: int) -> Tensor:
    """The features of all triples of a relation, ``(E, E, 6)``, from whole score matrices."""
    graph = predictor.triples
    everyone = torch.arange(graph.num_entities)
    with torch.no_grad():
        tail, head = (
            predictor.model.log_probabilities(everyone, torch.full_like(everyone, number))
            for number in (relation, relation + graph.num_relations)
        )
    head = head.T
    counts = torch.zeros(graph.num_entities, graph.num_entities)
    for h, r, t in graph.train.tolist():
        if r == relation:
            counts[h, t] = 1
    tails, heads = counts.sum(1)[:, None].expand_as(tail), counts.sum(0).expand_as(tail)
    sums = (tail + (1 + tails).log()).clamp(max=0), (head + (1 + heads).log()).clamp(max=0)
    return torch.stack((tail, head, *sums, (tails > 0).float(), (heads > 0).float()), dim=2)


@pytest.mark.parametrize("tile", [pytest.param(1 << 20, marks=pytest.mark.slow), 2_500])
def test_the_best_triples_are_those_of_whole_matrices(
    predictor: LinkPredictor, monkeypatch: pytest.MonkeyPatch, tile: int
) -> None:
    graph = predictor.triples
    predictor.predict_missing(top=1)
    calibration = predictor._cache._values["missing"].calibration(lambda *_: None)
    names = ["borders", "capital"]
    expected = []
    known = {tuple(row) for row in torch.cat((graph.train, graph.valid, graph.test)).tolist()}
    for number in map(graph.relation, names):
        features = features_by_hand(predictor, number).double()
        odds = features @ calibration.coefficients + calibration.intercepts[number]
        for h, t in (odds > odds.flatten().topk(2_000).values[-1]).nonzero().tolist():
            if h != t and (h, number, t) not in known:  # training has no loops of the two
                expected.append((float(odds[h, t]), (h, number, t)))
    expected.sort(reverse=True)
    monkeypatch.setitem(missing.TILE, "cpu", tile)
    found = predictor.predict_missing(names, top=50)
    assert [tuple(row) for row in found.triples.tolist()] == [one for _, one in expected[:50]]
    torch.testing.assert_close(
        found.scores,
        torch.tensor([odds for odds, _ in expected[:50]], dtype=torch.float64),
        rtol=1e-5,
        atol=1e-5,
    )
    assert (found.probabilities.diff() <= 0).all()


def test_probabilities_hold_on_test_triples(predictor: LinkPredictor) -> None:
    """With test triples as candidates, the share of them is what the probabilities say."""
    graph = predictor.triples
    predictor.predict_missing(top=1)
    calibration = predictor._cache._values["missing"].calibration(lambda *_: None)
    open_ = MissingTriples(predictor.model, graph, torch.device("cpu"))
    trained_on = torch.cat((graph.train, graph.valid))
    open_.known = source.queries(trained_on, graph.num_entities, graph.num_relations)
    found, odds = open_.rank(calibration, range(graph.num_relations), 3_000, lambda *_: None)
    test = {tuple(row) for row in graph.test.tolist()}
    hits = torch.tensor([tuple(row) in test for row in found.tolist()]).double()
    stated = calibration.probability(odds)
    groups = [slice(0, 100), slice(100, 400), slice(400, 3_000)]
    observed = [float(hits[group].mean()) for group in groups]
    assert observed == sorted(observed, reverse=True)
    for group, rate in zip(groups, observed, strict=True):
        expected, size = float(stated[group].mean()), len(hits[group])
        # Three standard errors of the test's rate, and as many of validation's, which it is from.
        assert abs(rate - expected) < 6 * (expected * (1 - expected) / size) ** 0.5
    # Scores alone, which no calibration compares, find fewer.
    raw = dataclasses.replace(calibration, coefficients=torch.tensor([1.0, 1, 0, 0, 0, 0]).double())
    raw = dataclasses.replace(raw, intercepts=torch.zeros_like(calibration.intercepts))
    by_score, _ = open_.rank(raw, range(graph.num_relations), 100, lambda *_: None)
    assert sum(tuple(row) in test for row in by_score.tolist()) < hits[:100].sum() / 2


def test_a_probability_does_not_depend_on_the_relations_asked_for(predictor: LinkPredictor) -> None:
    whole = predictor.predict_missing(top=100)
    relation = int(whole.triples[0, 1])
    own = whole.triples[:, 1] == relation
    single = predictor.predict_missing(predictor.triples.relations[relation], top=int(own.sum()))
    assert single.triples.equal(whole.triples[own])
    torch.testing.assert_close(single.probabilities, whole.probabilities[own])


@pytest.mark.slow
def test_a_calibration_does_not_depend_on_the_size_of_tiles(
    predictor: LinkPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for tile in (1 << 20, 1 << 14):
        monkeypatch.setitem(missing.TILE, "cpu", tile)
        scorer = MissingTriples(predictor.model, predictor.triples, torch.device("cpu"))
        found.append(scorer.calibrate(lambda *_: None))
    whole, tiled = found
    torch.testing.assert_close(tiled.coefficients, whole.coefficients, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(tiled.intercepts, whole.intercepts, rtol=1e-4, atol=1e-4)
    odds = predictor.predict_missing(top=500).scores
    torch.testing.assert_close(
        tiled.probability(odds), whole.probability(odds), rtol=1e-3, atol=1e-3
    )


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["embeddings", "simqgnn", "relqgnn", "conve"])
def test_a_gpu_ranks_and_explains_as_a_cpu_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model = COMPLEX if name == "embeddings" else MODELS[name].Options(dim_quats=4)
    trained(load("countries"), tmp_path, model, epochs=5)
    monkeypatch.setitem(missing.TILE, "cpu", 1 << 15)  # several tiles, on the GPU one
    here, there, again = (
        cast(LinkPredictor, quatgraph.load(tmp_path, device=device))
        for device in ("cpu", "cuda", "cuda")
    )
    wanted, found = (one.predict_missing(top=200) for one in (here, there))
    repeated = again.predict_missing(top=200)
    assert repeated.triples.equal(found.triples)
    assert repeated.scores.equal(found.scores)
    ours, theirs = (
        dict(zip(map(tuple, links.triples.tolist()), links.scores.tolist(), strict=True))
        for links in (found, wanted)
    )
    assert len(ours) == len(theirs) == 200
    for triple in ours.keys() | theirs.keys():
        # A triple that only one of them has is level with the other's last.
        score = ours.get(triple, min(ours.values()))
        assert score == pytest.approx(theirs.get(triple, min(theirs.values())), abs=0.01)
    torch.testing.assert_close(found.probabilities, wanted.probabilities, rtol=0.01, atol=1e-3)

    some = here.predict(head="Peru", relation="borders", top=5)
    for links in (some, here.predict_missing(top=5)):
        for triple in links.triples:
            others = find_neighbours(triple, here.triples.train)
            strengths = [compute_strengths(one.model, triple, others) for one in (there, here)]
            torch.testing.assert_close(*strengths, rtol=1e-3, atol=1e-3)
        for pair in zip(*(one.explain(links).support or [] for one in (there, here)), strict=True):
            best = [[one.strength for one in own] or [0.0] for own in pair]
            assert best[0][0] == pytest.approx(best[1][0], rel=1e-3, abs=1e-3)


def test_rows_have_names_probability_and_score(predictor: LinkPredictor) -> None:
    found = predictor.predict_missing("capital", top=3)
    rows = list(found.rows())
    assert [list(row) for row in rows] == [["head", "relation", "tail", "probability", "score"]] * 3
    assert {row["relation"] for row in rows} == {"capital"}
    assert repr(found).startswith("MissingLinks(3 triples, the first ('")
    assert 0 < rows[2]["probability"] <= rows[0]["probability"] < 1


def test_a_loop_is_a_candidate_only_of_a_relation_with_loops(tmp_path: Path) -> None:
    rows = [(a, "likes", b) for a in range(8) for b in range(8) if (a + b) % 3 and a != b]
    loops = [(a, "knows", a) for a in range(6)] + [(a, "knows", a + 1) for a in range(6)]
    pairs = [(str(a), relation, str(b)) for a, relation, b in rows + loops]
    predictor = trained(source.from_names(pairs), tmp_path, epochs=2)
    found = predictor.predict_missing(top=1_000)
    graph = predictor.triples
    loops_of = {graph.relations[r] for h, r, t in found.triples.tolist() if h == t}
    assert loops_of == {"knows"}
    known = torch.cat((graph.train, graph.valid, graph.test)).unique(dim=0)
    has_loops = (
        graph.train[graph.train[:, 1] == graph.relation("knows")][:, ::2].diff() == 0
    ).any()
    assert has_loops
    assert len(found.triples) == 2 * 8 * 8 - 8 - len(known)  # all others, `likes` without loops
    assert len(found.triples.unique(dim=0)) == len(found.triples)


@pytest.mark.slow
def test_a_sample_of_heads_calibrates_a_large_graph(
    predictor: LinkPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = predictor.triples
    scorer = MissingTriples(predictor.model, graph, torch.device("cpu"))
    whole = scorer.calibrate(lambda *_: None)
    monkeypatch.setattr(missing, "SAMPLED_SCORES", graph.num_entities**2 * graph.num_relations // 2)
    half = scorer.calibrate(lambda *_: None)
    odds, _ = predictor.predict_missing(top=1000).scores.sort()
    assert not half.coefficients.equal(whole.coefficients)
    # The top thousand have about as many validation triples by either.
    assert half.probability(odds).mean() == pytest.approx(
        float(whole.probability(odds).mean()), rel=0.5
    )


def test_calibration_recovers_the_ratios_of_a_known_population() -> None:
    """Weighted negatives stand for as many: the ratios are those of the whole population."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(200_000, 2, generator=generator).double()
    relation = torch.randint(3, (200_000,), generator=generator)
    true = (
        features @ torch.tensor([1.0, -0.5]).double()
        + torch.tensor([-4.0, -3, -5]).double()[relation]
    )
    positive = torch.rand(200_000, generator=generator) < true.sigmoid()
    keep = positive | (torch.rand(200_000, generator=generator) < 0.1)
    weight = torch.where(positive, 1.0, 10.0)
    sample = LabelledTriples(features[keep], relation[keep], positive[keep], weight[keep])
    fitted = fit_calibration(sample, 3)
    torch.testing.assert_close(
        fitted.coefficients, torch.tensor([1.0, -0.5]).double(), atol=0.1, rtol=0
    )
    torch.testing.assert_close(
        fitted.intercepts, torch.tensor([-4.0, -3, -5]).double(), atol=0.2, rtol=0
    )
    odds = fitted.log_odds(features, relation)
    for low, high in ((-4, -3), (-3, -2), (-2, -1)):
        inside = (odds > low) & (odds < high)
        stated = fitted.probability(odds[inside]).mean()
        rate = float(positive[inside].double().mean())
        # Of those that are not positive, a second part of the same rate has so many.
        assert stated == pytest.approx(rate / (1 - rate), rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"top": 0}, "top must be at least 1, got 0"),
        ({"relation": "capitol"}, "did you mean 'capital'?"),
        ({"relation": ["borders", "z"]}, "there is no relation 'z'"),
    ],
)
def test_what_cannot_be_ranked_is_a_mistake(
    predictor: LinkPredictor, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=None) as error:
        predictor.predict_missing(**arguments)  # type: ignore[arg-type]
    assert words in str(error.value)


def test_a_calibration_does_not_depend_on_the_test_triples(predictor: LinkPredictor) -> None:
    graph = predictor.triples
    without = dataclasses.replace(graph, test=graph.test[:0])
    one, other = (
        MissingTriples(predictor.model, own, torch.device("cpu")).calibrate(lambda *_: None)
        for own in (graph, without)
    )
    for name in ("coefficients", "intercepts", "knots", "levels"):
        assert getattr(one, name).equal(getattr(other, name))


def test_without_validation_triples_there_is_nothing_to_calibrate_with(
    predictor: LinkPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = predictor.triples
    for valid in (graph.valid[:0], graph.train[:5]):  # none, or only those that were learned
        bare = dataclasses.replace(graph, valid=valid)
        scorer = MissingTriples(predictor.model, bare, torch.device("cpu"))
        with pytest.raises(UserError, match="no validation triples to calibrate"):
            scorer.calibration(lambda *_: None)
    monkeypatch.setattr(predictor, "card", predictor.card | {"refit": True})
    with pytest.raises(UserError, match="refitted on all labels, so no validation triples"):
        predictor.predict_missing()
