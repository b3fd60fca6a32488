"""How models on the graph of a corpus train: on all documents, but on training labels alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from on_cpu import run, train_in_folder

from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.models.text import MODELS
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.task import Member
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text import task as running
from quatgraph.tasks.text.problem import Corpus
from quatgraph.training.bundle import load_bundle
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline

CPU = torch.device("cpu")
NAMES = [name for name in MODELS if MODELS[name].transductive]
every_name = pytest.mark.parametrize("name", NAMES)


def weights_of(config: Any, corpus: Corpus) -> dict[str, torch.Tensor]:
    (outcome,) = run(TEXT, [Member(config, 0, 3)], corpus)
    return outcome.fit.weights


@every_name
def test_labels_of_test_documents_change_nothing_but_their_words_do(
    configured: Any, name: str
) -> None:
    config = configured(**{"model.name": name})
    corpus = TEXT.load(config)
    documents, expected = corpus.documents, weights_of(config, corpus)
    y = documents.y.clone()
    y[documents.test] = 1 - y[documents.test]
    found = weights_of(config, replace(corpus, documents=replace(documents, y=y)))
    assert all(torch.equal(found[key], value) for key, value in expected.items())
    tokens = documents.tokens.clone()
    place = int(documents.ptr[documents.test[0]])
    tokens[place] = (tokens[place] + 1) % len(documents.vocabulary)
    others = weights_of(config, replace(corpus, documents=replace(documents, tokens=tokens)))
    assert not torch.equal(others["nodes"], expected["nodes"])


@every_name
def test_an_epoch_is_one_step_on_all_training_documents(configured: Any, name: str) -> None:
    one, other = (
        configured(**{"model.name": name, "train.batch_size": size}) for size in (2, 1000)
    )
    corpus = TEXT.load(one)
    expected = weights_of(other, corpus)
    for key, value in weights_of(one, corpus).items():
        assert torch.equal(value, expected[key])


@every_name
def test_a_resumed_training_equals_the_uninterrupted_one_bit_for_bit(
    configured: Any, name: str, tmp_path: Path
) -> None:
    dropout = {"model.dropout": 0.3} if name == "textgcn" else {}
    config = configured(seeds=2, **{"model.name": name}, **dropout)
    train_in_folder(TEXT, [config], tmp_path / "whole")
    with pytest.raises(Paused, match="stopped after 1 of 3 epochs"):
        train_in_folder(TEXT, [config], tmp_path / "parts", deadline=Deadline(0))
    train_in_folder(TEXT, [config], tmp_path / "parts", resume=True)
    first, second = (load_bundle(tmp_path / name) for name in ("whole", "parts"))
    assert first.card["sha256"] == second.card["sha256"]


def test_configurations_of_one_window_share_a_graph(configured: Any) -> None:
    wide, narrow, far = (
        configured(
            **{"model.name": "textgcn", "model.hidden_quats": quats, "model.pmi_window": window}
        )
        for quats, window in ((4, 3), (2, 3), (2, 4))
    )
    corpus = TEXT.load(wide)
    graphs = [TEXT.prepare(corpus, config, CPU).graph for config in (wide, narrow, far)]
    first, second, third = (graph.adjacency.weight for graph in graphs if graph is not None)
    assert first is second
    assert third is not first


def test_a_graph_that_does_not_fit_into_memory_is_an_error(
    configured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(**{"model.name": "textgcn"})
    problem = TEXT.prepare(TEXT.load(config), config, CPU)
    assert TEXT.max_members(problem, config) == 1
    monkeypatch.setattr(running, "total_memory", lambda device: 10_000)
    with pytest.raises(UserError, match="17 words and a graph of 77 nodes do not fit"):
        TEXT.max_members(problem, config)


@every_name
def test_it_has_a_grid_of_its_own_for_ones_own_texts(name: str) -> None:
    candidates = default_candidates(TEXT, {"model": {"name": name}})
    assert {config.model.name for config in candidates} == {name}
    assert {config.train.epochs for config in candidates} == {200}
    assert len(candidates) > 1
    (given,) = default_candidates(
        TEXT, {"model": {"name": "textsgc"}, "train": {"lr": 0.3, "weight_decay": 0.0}}
    )
    assert given.train.lr == 0.3


def test_the_summary_says_that_the_test_texts_are_in_the_graph(configured: Any) -> None:
    texts = [f"word {n} {'cat' if n % 2 else 'dog'}" for n in range(41)]
    documents = from_list(texts, [*["a", "b"] * 20, ""])
    corpus = Corpus(documents, torch.empty(len(documents.vocabulary), 0), 0)
    config = configured(**{"model.name": "textgcn", "train.epochs": 1})
    (outcome,) = run(TEXT, [Member(config, 0, 0)], corpus)
    card = TEXT.card(config, corpus, outcome.problem)
    card["members"] = [{"config": {"model": {"name": "textgcn"}, "data": {"vectors": "none"}}}]
    first, *_, last = TEXT.summarize(card)
    assert first.endswith("; 1 more without a label took part in the graph only")
    assert last == (
        "textgcn: transductive, its graph has the test texts, so its accuracy is not comparable "
        "with that of other models"
    )
