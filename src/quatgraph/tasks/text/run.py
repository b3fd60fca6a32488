"""Trains runs of text classification of one shape as one ensemble."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from quatgraph.errors import Mistake
from quatgraph.models.text import MODELS
from quatgraph.ops.cross_entropy import smoothed_cross_entropy
from quatgraph.tasks.graph.batches import EvaluationChunk, evaluation_chunks
from quatgraph.tasks.graph.run import measured, merit_of
from quatgraph.tasks.runs import MERIT, classes_said, learners, num_parameters
from quatgraph.tasks.task import Member
from quatgraph.tasks.text.batches import DocumentBatches, summed
from quatgraph.tasks.text.config import TextConfig
from quatgraph.tasks.text.problem import Corpus, Problem, build_model, parts_of
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.runtime import at_most_threads, factors_rounded, total_memory


def members_of(config: TextConfig, corpus: Corpus) -> list[Member]:
    """One run per seed: a corpus comes with one test part."""
    return [Member(config, 0, seed) for seed in range(config.seeds)]


def plan_of(members: Sequence[Member], **others: Any) -> Plan:
    """The plan of an ensemble: measured after every epoch, whichever is kept."""
    train = members[0].config.train
    return Plan(
        epochs=train.epochs,
        select=train.select,
        monitor=MERIT,
        patience=train.patience if train.select == "best-valid" else None,
        **others,
    )


def train(
    members: Sequence[Member],
    problem: Problem,
    plan: Plan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fit:
    """Trains runs of one shape as one ensemble; see :func:`quatgraph.tasks.runs.together`.

    Validation documents are measured on the way; those of the other parts once, by the selected
    weights.
    """
    config, collection = members[0].config, problem.collection
    device = collection.labels.device
    ensemble, optimizer = learners(members, build_model, problem, device)
    parts = [parts_of(problem.corpus.documents, m.config.data, m.seed) for m in members]
    batches = DocumentBatches(
        collection,
        [part["train"] for part in parts],
        config.train.batch_size,
        nodes_at_once(problem, config, device),
        [member.key for member in members],
    )

    def losses() -> Iterator[Tensor]:
        documents = (batches.current >= 0).sum(dim=(0, 2))
        for left, batch in zip(batches.pieces_left(), batches.pieces(), strict=True):
            logits = batch.through(ensemble, batch.features, last=not left)
            each = smoothed_cross_entropy(logits, batch.labels.clamp(min=0), 0.0)
            yield (each * batch.pool.row_mask(logits)).sum(dim=1) / documents

    chunks = _chunks(problem, config, parts, "valid")

    def evaluate() -> Metrics:
        with factors_rounded(to="float32"):
            metrics = measured(ensemble, collection, chunks, with_f1=True)
        return metrics | {MERIT: merit_of(metrics["valid/accuracy"], metrics["valid/loss"])}

    with at_most_threads(_useful_threads(len(members), config, problem)):
        with factors_rounded(to=config.train.precision):
            fitted = fit(
                ensemble,
                optimizer,
                loss=lambda: summed(ensemble.flat, losses()),
                evaluate=evaluate,
                plan=plan,
                batches=batches,
                progress=progress,
            )
        return _tested(fitted, members, problem, parts)


def _tested(
    fitted: Fit, members: Sequence[Member], problem: Problem, parts: Sequence[Mapping[str, Tensor]]
) -> Fit:
    """The same with the metrics of the training and test parts, by the selected weights."""

    def selected(place: int) -> nn.Module:
        model = build_model(members[place].config, problem)
        model.load_state_dict({name: fitted.weights[name][place] for name in model.state_dict()})
        return model

    builds = [partial(selected, place) for place in range(len(members))]
    ensemble = Ensemble(builds, [m.seed for m in members]).to(problem.collection.labels.device)
    chunks = _chunks(problem, members[0].config, parts, "train", "test")
    with torch.no_grad():
        found = measured(ensemble.eval(), problem.collection, chunks, with_f1=True)
    tests = {name: value.cpu() for name, value in found.items()}
    return dataclasses.replace(fitted, metrics=fitted.metrics | tests)


def _chunks(
    problem: Problem, config: TextConfig, parts: Sequence[Mapping[str, Tensor]], *names: str
) -> list[EvaluationChunk]:
    """The documents of each member's parts, as :func:`measured` takes them."""
    device = problem.collection.labels.device
    return evaluation_chunks(
        problem.collection,
        {name: [part[name] for part in parts] for name in names},
        max(1, nodes_at_once(problem, config, device) // len(parts)),
    )


def nodes_at_once(problem: Problem, config: TextConfig, device: torch.device) -> int:
    """Nodes of all members that a step holds: a quarter of the memory, and on a CPU its cache."""
    nodes = int(total_memory(device) / 4 / (4 * _numbers_of_a_node(problem, config)))
    if device.type == "cpu":
        nodes = min(nodes, CPU_NUMBERS // config.model.width)
    return max(1, nodes)


CPU_NUMBERS = 1 << 21
"""Numbers of one layer, over all members, that a CPU handles well together."""


def _numbers_of_a_node(problem: Problem, config: TextConfig) -> int:
    """Numbers that a step holds for each node, by a generous count."""
    size = float(problem.collection.num_nodes.float().mean())
    return 4 * problem.corpus.vectors.size(1) + config.model.num_activations(size)


def _useful_threads(members: int, config: TextConfig, problem: Problem) -> int:
    """Threads of a CPU that a step keeps busy: one, and one more for each hundred million
    multiplications of a product with the nodes of a piece, if there is such a product."""
    if not MODELS[config.model.name].multiplies_nodes:
        return 1
    sizes = problem.collection.num_nodes
    documents = members * min(config.train.batch_size, len(sizes))
    nodes = documents * float(sizes.sum()) / len(sizes)
    held = min(nodes, nodes_at_once(problem, config, sizes.device))
    return 1 + int(held * config.model.width**2 / 1e8)


def members_at_once(problem: Problem, config: TextConfig, device: torch.device) -> int:
    """How many members' weights fit into a third of the memory, with the largest document of each
    in a piece of a batch.

    On a CPU fewer, but all of one configuration: beyond its cache, members trained together only
    hinder each other.
    """
    sizes = problem.collection.num_nodes
    largest, nodes = int(sizes.max()), int(sizes.sum())
    weights = 8 * num_parameters(build_model, config, problem)  # gradients, Adam's two, best, views
    room = total_memory(device)
    fitting = min(
        room / 3 / (4 * weights), room / 4 / (4 * largest * _numbers_of_a_node(problem, config))
    )
    if fitting < 1:
        raise Mistake(
            f"{len(problem.corpus.documents.vocabulary):,} words and a document of {largest:,} do "
            "not fit into memory: raise data.min_count, or lower model.hidden_quats"
        )
    if device.type == "cpu":
        documents = min(config.train.batch_size, len(sizes))
        step = documents * nodes / len(sizes)
        fitting = min(fitting, max(nodes_at_once(problem, config, device) / step, config.seeds))
    return int(fitting)


def card(config: TextConfig, corpus: Corpus, problem: Problem) -> dict[str, Any]:
    """What preparing new texts like the training texts takes."""
    documents = corpus.documents
    class_sizes = documents.y[documents.y >= 0].bincount(minlength=documents.num_classes)
    about = {"num_documents": len(documents), "class_sizes": class_sizes.tolist()}
    return {
        "data": {**about, "digest": documents.digest},  # the vectors are in the bundle
        "labels": documents.label_names,
        "words": documents.vocabulary,
        "dimensions": corpus.vectors.size(1),
        "words_found": corpus.found,
    }


def kept(corpus: Corpus, configs: Sequence[TextConfig]) -> dict[str, Tensor]:
    """The words' vectors, unless all members learn their own."""
    learned = all(config.model.vectors_are_learned for config in configs)
    return {} if learned else {"vectors": corpus.vectors}


def said(card: Mapping[str, Any]) -> list[str]:
    """What the accuracy has to be compared with, and what the words' vectors are."""
    data = card["data"]
    texts = f"texts: {classes_said(data['class_sizes'], data['num_documents'])}"
    return [texts, f"words: {_vectors_said(card)}"]


def _vectors_said(card: Mapping[str, Any]) -> str:
    config = card["members"][0]["config"]
    words, read = f"{len(card['words']):,}", config["data"]["vectors"]
    if card["words_found"]:
        return f"{card['words_found']:,} of {words} have a vector"
    name = config["model"]["name"]
    if not MODELS[name].takes_words:
        return f"{words}, their vectors drawn; --vectors FILE starts from better ones"
    own = f"{words}; {name} learns their vectors itself"
    return own if read == "none" else f"{own}, {read} was not read"
