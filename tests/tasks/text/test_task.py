"""How text classification trains: independence of members, selection, what its models learn."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import settings
import torch
from on_cpu import run, train_in_folder
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC
from torch import Tensor
from torch.nn import functional as F

from quatgraph import config as configs
from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.models.text import MODELS
from quatgraph.models.text.tfidf import INTERCEPT
from quatgraph.ops.squared_hinge import UNIT
from quatgraph.tasks.runs import Outcome, bundle_of
from quatgraph.tasks.task import Member
from quatgraph.tasks.text import TEXT, batches
from quatgraph.tasks.text import task as running
from quatgraph.tasks.text.config import DataConfig, TextConfig
from quatgraph.tasks.text.problem import Corpus, Problem, split_indices
from quatgraph.training.bundle import load_bundle
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline

CPU = torch.device("cpu")


def outcome_of(members: list[Member], data: Corpus, **others: Any) -> Outcome:
    (outcome,) = run(TEXT, members, data, **others)
    return outcome


@pytest.fixture
def in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that depend on a member's own documents alone."""

    def places(draws: Tensor, call: int, count: int) -> Tensor:
        return torch.arange(count).expand(len(draws), count)

    monkeypatch.setattr(batches, "random_order", places)


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def in_double(problem: Problem) -> Problem:
    whole, corpus, graph = problem.collection, problem.corpus, problem.graph
    if graph is not None:
        graph = dataclasses.replace(
            graph,
            adjacency=graph.adjacency.with_weight(graph.adjacency.weight.double()),
            documents=graph.documents.with_weight(graph.documents.weight.double()),
        )
    return Problem(
        dataclasses.replace(
            whole,
            features=whole.features.with_weight(whole.features.weight.double()),
            adjacency=whole.adjacency.with_weight(whole.adjacency.weight.double()),
            pool=whole.pool.with_weight(whole.pool.weight.double()),
        ),
        dataclasses.replace(corpus, vectors=corpus.vectors.double()),
        problem.table.double(),
        problem.fitted,  # of the default type
        graph,
    )


def test_a_config_is_run_with_every_seed(configured: Any, corpus: Corpus) -> None:
    assert [(m.split, m.seed) for m in TEXT.members(configured(seeds=3), corpus)] == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(
    ("name", "learned"), [*((name, False) for name in MODELS), ("textqgnn", True)]
)
def test_a_member_among_others_equals_the_same_member_alone(
    configured: Any, name: str, learned: bool
) -> None:
    same = {"model.name": name, "model.learned_vectors": learned, "train.epochs": 2}
    several = [configured(**same), configured(**same, **{"train.lr": 0.005})]
    members = [Member(several[0], 0, 3), Member(several[0], 0, 4), Member(several[1], 0, 4)]
    problem = in_double(TEXT.prepare(TEXT.load(several[0]), several[0], CPU))
    together = TEXT.train(members, problem, TEXT.plan(members))
    for index, member in enumerate(members):
        alone = TEXT.train([member], problem, TEXT.plan([member]))
        for key, value in alone.metrics.items():
            torch.testing.assert_close(together.metrics[key][index], value[0])
        for key, weight in alone.weights.items():
            torch.testing.assert_close(together.weights[key][index], weight[0])
    losses = together.curves["valid/loss"]
    assert not torch.equal(losses[:, 0], losses[:, 1])


@pytest.mark.usefixtures("in_turn", "double")
@pytest.mark.parametrize("name", ["textqgnn", "fasttext"])
def test_a_batch_in_pieces_trains_the_same(
    configured: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(**{"model.name": name})
    problem = in_double(TEXT.prepare(TEXT.load(config), config, CPU))
    members = [Member(config, 0, seed) for seed in (0, 1)]
    whole = TEXT.train(members, problem, TEXT.plan(members))
    monkeypatch.setattr(running, "max_nodes_per_step", lambda *_: 20)
    pieces = TEXT.train(members, problem, TEXT.plan(members))
    for key, weight in whole.weights.items():
        torch.testing.assert_close(pieces.weights[key], weight)
    for key, value in whole.metrics.items():
        torch.testing.assert_close(pieces.metrics[key], value)


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize(
    ("weights", "by_class"), [("none", [1.0, 1.0]), ("cats:3,dogs:0.5", [3.0, 0.5])]
)
def test_a_member_learns_from_its_training_documents_and_is_measured_on_its_others(
    configured: Any, corpus: Corpus, weights: str, by_class: list[float]
) -> None:
    config = configured(
        **{"train.select": "last", "train.weight_decay": 0.01, "train.clip": 0.1},
        **{"train.class_weights": weights},
    )
    outcome = outcome_of([Member(config, 0, seed) for seed in (7, 8)], corpus)
    documents = corpus.documents
    for index, member in enumerate(outcome.members):
        torch.manual_seed(member.seed)
        model, whole = TEXT.build(config, outcome.problem).train(), outcome.problem.collection
        adam = torch.optim.Adam(model.parameters(), lr=config.train.lr, weight_decay=0.01)
        parts = split_indices(documents, config.data, member.seed)

        def loss(places: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
            logits = model(whole.features, whole.adjacency, whole.pool)[places]  # noqa: B023
            right = (logits.argmax(dim=1) == documents.y[places]).float().mean()
            return F.cross_entropy(logits, documents.y[places], weight=weight), right

        for _ in range(config.train.epochs):
            for places in parts["train"].split(8):
                adam.zero_grad()
                loss(places, torch.tensor(by_class))[0].backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                adam.step()
        for key, weight in model.named_parameters():
            kept = outcome.fit.weights[key][index]
            torch.testing.assert_close(kept, weight.detach(), rtol=1e-3, atol=1e-4)
        model.eval()
        found = outcome.records[index].metrics
        for part, places in parts.items():
            with torch.no_grad():
                value, right = loss(places)
            assert found[f"{part}/accuracy"] == pytest.approx(float(right))
            assert found[f"{part}/loss"] == pytest.approx(float(value), rel=1e-3)


LINEAR = {
    **{"model.name": "tfidf", "train.batch_size": None, "train.optimizer": "nesterov"},
    **{"train.lr": 100.0, "train.clip": None, "train.select": "last"},
}


@pytest.mark.parametrize("weights", ["none", "cats:3,dogs:0.5"])
@pytest.mark.parametrize("loss", ["squared-hinge", "cross-entropy"])
def test_a_linear_model_trains_on_the_vectors_of_its_documents_as_on_their_words(
    configured: Any, monkeypatch: pytest.MonkeyPatch, loss: str, weights: str
) -> None:
    more = {"train.loss": loss, "train.class_weights": weights, "train.epochs": 5}
    config = configured(**LINEAR, **more)
    problem = TEXT.prepare(TEXT.load(config), config, CPU)
    members = [Member(config, 0, seed) for seed in (7, 8)]  # which hold out different documents
    vectors = TEXT.train(members, problem, TEXT.plan(members))
    monkeypatch.setattr(MODELS["tfidf"], "vectorizes", False)
    words = TEXT.train(members, problem, TEXT.plan(members))
    for key, weight in words.weights.items():
        torch.testing.assert_close(vectors.weights[key], weight, rtol=1e-4, atol=1e-4)
    assert not torch.equal(vectors.weights["weight"][0], vectors.weights["weight"][1])


def test_a_squared_hinge_loss_gives_scikit_learns_linear_svm() -> None:
    more = {"data.name": "snippets", "model.bigrams": 0, "train.loss": "squared-hinge"}
    corpus = TEXT.load(settings.built(TextConfig, LINEAR | more))
    parts = split_indices(corpus.documents, DataConfig(), 0)
    more |= {"train.weight_decay": 1 / (UNIT**2 * len(parts["train"]))}  # C = 1
    more |= {"train.epochs": 150, "train.evaluate_every": 150}
    config = settings.built(TextConfig, LINEAR | more)
    outcome = outcome_of([Member(config, 0, 0)], corpus)
    model = TEXT.build(config, outcome.problem)
    whole = outcome.problem.collection
    vectors = model.vectorize(whole.features, whole.pool).to_dense().numpy()
    theirs = LinearSVC(intercept_scaling=INTERCEPT, tol=1e-6, max_iter=10_000)
    theirs.fit(vectors[parts["train"]], corpus.documents.y[parts["train"]])
    margins = theirs.decision_function(vectors[parts["test"]])
    logits = outcome.fit.outputs[0]["test/logits"]
    np.testing.assert_allclose(logits.numpy() / UNIT, margins, atol=1e-3)


def test_documents_without_a_label_or_without_words_hinder_nothing(
    configured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "max_nodes_per_step", lambda *_: 9)
    texts = ["no label", *(f"word {n} {'cat' if n % 2 else 'dog'}" for n in range(40)), "", ""]
    documents = from_list(texts, ["", *["a", "b"] * 21])
    for name in MODELS:
        config = configured(**{"model.name": name, "train.epochs": 1})
        words = len(documents.vocabulary)
        corpus = Corpus(documents, torch.rand(words, 8), 0)
        (record,) = outcome_of([Member(config, 0, 0)], corpus).records
        assert all(math.isfinite(value) for value in record.metrics.values())


def test_the_kept_epoch_has_the_best_accuracy_and_among_these_the_lowest_loss(
    configured: Any,
) -> None:
    config = configured(
        seeds=3, **{"train.epochs": 8, "train.lr": 0.008, "model.learned_vectors": True}
    )
    corpus = TEXT.load(config)
    outcome = outcome_of(TEXT.members(config, corpus), corpus).with_curves()
    for index, record in enumerate(outcome.records):
        accuracy, loss = (
            outcome.fit.curves[f"valid/{name}"][:, index] for name in ("accuracy", "loss")
        )
        scores = list(zip(accuracy.tolist(), (-loss).tolist(), strict=True))
        assert record.best_epoch == 1 + scores.index(max(scores))
        measured = ("accuracy", "loss", "macro-f1", "merit")
        assert set(record.curves) == {f"valid/{name}" for name in measured}


def test_what_the_weights_and_vectors_of_a_bundle_give_is_what_its_record_says(
    configured: Any, corpus: Corpus
) -> None:
    config = configured(seeds=2, **{"train.epochs": 8, "model.dropout": 0.3})
    outcome = outcome_of(TEXT.members(config, corpus), corpus)
    bundle = bundle_of(TEXT, [(outcome, 1, 1)], corpus)
    vectors, whole = bundle.tensors["data.vectors"], outcome.problem.collection
    read = dataclasses.replace(outcome.problem, table=vectors)
    model = TEXT.build(config, read).eval()
    model.load_state_dict(bundle.select_tensors("members.0"))
    logits = model(whole.features, whole.adjacency, whole.pool)
    guesses, labels, metrics = logits.argmax(dim=1), corpus.documents.y, bundle.card["metrics"]
    for part, places in split_indices(corpus.documents, config.data, 1).items():
        own, true = guesses[places], labels[places]
        assert metrics[f"{part}/accuracy"] == pytest.approx(float((own == true).float().mean()))
        f1 = f1_score(true, own, average="macro")
        assert metrics[f"{part}/macro-f1"] == pytest.approx(f1, abs=1e-5)


def test_the_same_runs_give_the_same_numbers_and_other_seeds_others(
    configured: Any, corpus: Corpus
) -> None:
    config = configured(**{"model.dropout": 0.3})
    first, again, other = (outcome_of([Member(config, 0, seed)], corpus) for seed in (5, 5, 6))
    assert first.records[0].metrics == again.records[0].metrics
    for key, weight in first.fit.weights.items():
        assert torch.equal(weight, again.fit.weights[key])
    assert first.records[0].metrics != other.records[0].metrics


def test_a_resumed_training_equals_the_uninterrupted_one_bit_for_bit(
    configured: Any, corpus: Corpus, tmp_path: Path
) -> None:
    dropped = {"model.dropout": 0.3, "model.pooled_dropout": 0.3}
    candidates = [configured(seeds=2, **dropped, **{"train.lr": lr}) for lr in (0.01, 0.02)]

    def trained(name: str, **others: Any) -> list[Any]:
        job = train_in_folder(TEXT, candidates, tmp_path / name, data=corpus, **others)
        return [(r.seed, r.config_digest, r.best_epoch, r.metrics, r.curves) for r in job.records]

    whole = trained("whole")
    for done in (1, 2):
        with pytest.raises(Paused, match=f"stopped after {done} of 3 epochs"):
            trained("parts", resume=done > 1, deadline=Deadline(0))
    assert trained("parts", resume=True) == whole
    first, second = (load_bundle(tmp_path / name) for name in ("whole", "parts"))
    assert first.card["sha256"] == second.card["sha256"]


def test_a_resumed_training_on_vectors_equals_the_uninterrupted_one_bit_for_bit(
    configured: Any, corpus: Corpus, tmp_path: Path
) -> None:
    decays = {"train.loss": "squared-hinge", "train.epochs": 6}
    candidates = [configured(**LINEAR, **decays, **{"train.weight_decay": d}) for d in (0, 1e-4)]

    def trained(name: str, **others: Any) -> list[Any]:
        job = train_in_folder(TEXT, candidates, tmp_path / name, data=corpus, **others)
        return [(r.config_digest, r.metrics, r.curves) for r in job.records]

    whole = trained("whole")
    for done in (1, 2):
        with pytest.raises(Paused, match=f"stopped after {done} of 6 epochs"):
            trained("parts", resume=done > 1, deadline=Deadline(0))
    assert trained("parts", resume=True) == whole


def test_the_card_says_how_texts_are_read_and_what_they_are(
    configured: Any, corpus: Corpus
) -> None:
    outcome = outcome_of(TEXT.members(configured(**{"train.epochs": 1}), corpus), corpus)
    bundle = bundle_of(TEXT, [(outcome, 0, 1)], corpus)
    card = bundle.card
    assert card["labels"] == ["cats", "dogs"]
    assert card["words"] == corpus.documents.vocabulary
    assert card["data"]["class_sizes"] == [30, 30]
    assert (card["dimensions"], card["words_found"]) == (8, 0)
    assert torch.equal(bundle.tensors["data.vectors"], corpus.vectors)
    assert TEXT.summarize(card) == [
        "texts: 60 in 2 classes, 50.0 % in the largest",
        f"words: {len(card['words'])}, their vectors drawn; --vectors FILE starts from better ones",
    ]
    more = card | {"words_found": 3}
    more["data"] = card["data"] | {"num_documents": 62}
    assert TEXT.summarize(more) == [
        "texts: 60 in 2 classes, 50.0 % in the largest; 2 more without a label took no part",
        f"words: 3 of {len(card['words'])} have a vector",
    ]


def test_vectors_that_a_model_does_not_read_are_reported(configured: Any) -> None:
    config = configured(**{"model.name": "fasttext", "data.vectors": "own.txt", "train.epochs": 1})
    corpus = TEXT.load(config)
    outcome = outcome_of(TEXT.members(config, corpus), corpus)
    reported = TEXT.summarize(bundle_of(TEXT, [(outcome, 0, 1)], corpus).card)[1]
    assert reported.endswith("; fasttext takes no pretrained vectors, so own.txt was not read")


def test_threads_are_as_many_as_a_step_keeps_busy(
    configured: Any, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def threads(**values: Any) -> int:
        config = configured(**values)
        return running._useful_threads(1, config, TEXT.prepare(corpus, config, CPU))

    wide = {"model.hidden_quats": 192, "train.batch_size": 256}
    assert (threads(), threads(**wide), threads(**wide, **{"model.name": "fasttext"})) == (1, 2, 1)
    limits: list[int] = []
    limited = running.limit_threads
    monkeypatch.setattr(
        running, "limit_threads", lambda count: (limits.append(count), limited(count))[1]
    )
    config = configured(**{"train.epochs": 1})
    outcome_of(TEXT.members(config, corpus), corpus)
    assert limits == [1]


def test_a_bundle_with_learned_vectors_holds_them_once(configured: Any) -> None:
    config = configured(**{"model.learned_vectors": True, "train.epochs": 1})
    corpus = TEXT.load(config)
    outcome = outcome_of(TEXT.members(config, corpus), corpus)
    tensors = bundle_of(TEXT, [(outcome, 0, 1)], corpus).tensors
    assert "data.vectors" not in tensors
    assert tensors["members.0.vectors"].shape == corpus.vectors.shape


def test_fewer_members_fit_at_once_the_more_each_holds(
    configured: Any, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, wide = configured(), configured(**{"model.hidden_quats": 64})
    problem = TEXT.prepare(corpus, config, CPU)
    plenty = TEXT.max_members(problem, config)
    assert 1 <= TEXT.max_members(problem, wide) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 1_000_000)
    assert 1 <= TEXT.max_members(problem, config) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 10_000)
    with pytest.raises(UserError, match="17 words and a document of 6 do not fit into memory"):
        TEXT.max_members(problem, config)


def test_the_sample_is_learned() -> None:
    small = {"hidden_quats": 16, "steps": 1, "dropout": 0.8, "learned_vectors": True}
    values = {
        "data": {"name": "snippets", "dimensions": 64},
        "model": small,
        "train": {"epochs": 12, "batch_size": 64, "lr": 0.01},
    }
    config = configs.build(TextConfig, values)
    corpus = TEXT.load(config)
    (record,) = outcome_of(TEXT.members(config, corpus), corpus).records
    assert record.metrics["test/accuracy"] > 0.65
