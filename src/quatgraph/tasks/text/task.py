"""The task of text classification."""

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from quatgraph.codes import Codes
from quatgraph.data.splits import PARTS
from quatgraph.data.text import Documents
from quatgraph.errors import UserError
from quatgraph.models.text import MODELS, TextModel
from quatgraph.models.text.vectors import WithVectors
from quatgraph.ops.cross_entropy import smoothed_cross_entropy
from quatgraph.ops.squared_hinge import squared_hinge
from quatgraph.tasks.class_weights import class_weights, weighted_mean
from quatgraph.tasks.graph.batches import BatchIndices, Collection, assemble
from quatgraph.tasks.graph.evaluation import build_chunks, compute_metrics, compute_outputs
from quatgraph.tasks.overflow import SUSPICIOUS, find_beyond
from quatgraph.tasks.runs import count_classes, describe_classes
from quatgraph.tasks.task import Card, Member, Task
from quatgraph.tasks.text.batches import DocumentBatches, VectorBatch, accumulate_gradients
from quatgraph.tasks.text.config import Loss, TextConfig
from quatgraph.tasks.text.problem import (
    Corpus,
    Problem,
    build_collection,
    cached_collection,
    corpus_of,
    describe_number,
    document_nodes,
    load_documents,
    split_indices,
)
from quatgraph.training.batches import WholeData
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.runtime import limit_threads, matmul_precision, total_memory

CPU_NUMBERS = 1 << 21
"""Numbers of one layer, over all members, that a CPU handles well together."""
LOSSES: dict[Loss, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": partial(smoothed_cross_entropy, smoothing=0.0),
    "squared-hinge": squared_hinge,
}


class TextTask(Task[TextConfig, Corpus, Problem]):
    name = "text"
    config = TextConfig
    varying = ("model.dropout", "model.pooled_dropout", "train.lr", "train.weight_decay")
    models = MODELS
    reported_metrics = ("accuracy", "macro-f1")
    evaluates_always = True

    def load(self, config: TextConfig, *, labels_needed: bool = True) -> Corpus:
        return corpus_of(load_documents(config, labels_needed=labels_needed), config)

    def load_for(self, candidates: Sequence[TextConfig]) -> Corpus:
        """With word vectors, if any of the models takes them."""
        takes = [config for config in candidates if not MODELS[config.model.name].takes_words]
        return self.load((takes or candidates)[0])

    def prepare(self, data: Corpus, config: TextConfig, device: torch.device) -> Problem:
        """Builds the documents' graphs, and moves all to the device."""
        kind, documents = MODELS[config.model.name], data.documents
        if kind.transductive:
            seen, collection = documents, build_collection(document_nodes(documents), None, device)
        else:
            seen = documents.select(documents.train.tolist())
            window = config.data.window if kind.reads_graphs else None
            collection = cached_collection(documents, window, device)
        inputs = config.model, seen.tokens, seen.ptr, len(documents.vocabulary)
        graph = kind.build_graph(*inputs)
        return Problem(
            collection,
            data,
            data.vectors.to(device),
            kind.fit_documents(*inputs),
            None if graph is None else graph.to(device),
        )

    def build(self, config: TextConfig, problem: Problem) -> nn.Module:
        """Builds a new model, which takes words."""
        corpus, kind = problem.corpus, MODELS[config.model.name]
        words, dimensions = corpus.vectors.shape
        classes = corpus.documents.num_classes
        if kind.takes_words:
            made = kind.from_options(config.model, words, classes, **problem.fitted)
            made.graph = problem.graph
            return made
        model = kind.from_options(config.model, dimensions, classes)
        learned = config.model.vectors_are_learned
        return WithVectors(corpus.vectors if learned else problem.table, model, learned=learned)

    def train(self, members: Sequence[Member[TextConfig]], problem: Problem, plan: Plan) -> Fit:
        """Validation documents are evaluated during the training; those of the other parts once,
        by the selected weights."""
        config, collection = members[0].config, problem.collection
        ensemble, optimizer = self.build_ensemble(members, problem)
        parts = [self._split(problem.corpus.documents, member) for member in members]
        max_nodes = max(1, max_nodes_per_step(problem, config) // len(members))
        metric = config.train.metric
        chunks = build_chunks(collection, parts, ("valid",), max_nodes)
        documents = problem.corpus.documents
        train_parts = [part["train"] for part in parts]
        train_labels = [documents.y[part] for part in train_parts]
        found = class_weights(config.train.class_weights, documents.label_names, train_labels)
        by_class = None if found is None else found.to(problem.device)
        losses_of = LOSSES[config.train.loss]

        def piece_losses(indices: BatchIndices) -> Iterator[Tensor]:
            weights = document_weights(collection, indices.graphs, by_class)
            total = weights.sum(dim=(0, 2))
            for number, graphs in enumerate(indices.graphs, 1):
                batch = assemble(collection, graphs, indices.capacity)
                logits = batch.through(ensemble, batch.features, last=number == len(indices.graphs))
                each = losses_of(logits, batch.labels.clamp(min=0))
                yield (each * weights[number - 1]).sum(dim=1) / total

        def loss(indices: BatchIndices) -> Tensor:
            return accumulate_gradients(ensemble.flat, piece_losses(indices))

        def vector_loss(batch: VectorBatch) -> Tensor:
            logits = ensemble(batch.vectors, None, None)
            return weighted_mean(losses_of(logits, batch.labels), batch.weights)

        def evaluate() -> Metrics:
            with matmul_precision("float32"):
                return compute_metrics(ensemble, collection, chunks, metric, with_f1=True)

        with limit_threads(_useful_threads(len(members), config, problem)):
            with matmul_precision(config.train.precision):
                train = partial(fit, ensemble, optimizer, evaluate=evaluate, plan=plan)
                if trains_on_vectors(config):
                    batch = self._vectorize(config, problem, train_parts, by_class)
                    fitted = train(loss=vector_loss, batches=WholeData(batch))
                else:
                    batches = DocumentBatches(
                        collection,
                        train_parts,
                        num_documents_per_step(problem, config),
                        max_nodes_per_step(problem, config),
                        [member.key for member in members],
                    )
                    fitted = train(loss=loss, batches=batches)
            others = build_chunks(collection, parts, ("train", "test"), max_nodes)
            with torch.no_grad():
                measured = compute_metrics(
                    ensemble.eval(), collection, others, metric, with_f1=True
                )
            tests = {name: value.cpu() for name, value in measured.items()}
            held_out = build_chunks(collection, parts, ("valid", "test"), max_nodes)
            outputs = compute_outputs(ensemble, collection, held_out)
            metrics = fitted.metrics | tests
            return dataclasses.replace(fitted, metrics=metrics, outputs=outputs)

    def _vectorize(
        self,
        config: TextConfig,
        problem: Problem,
        parts: Sequence[Tensor],
        by_class: Tensor | None,
    ) -> VectorBatch:
        """The features of all documents that any member is trained on."""
        rows = torch.cat(list(parts)).unique()
        documents = problem.corpus.documents.select(rows.tolist())
        words = build_collection(documents, None, problem.device)
        model = self.build(config, problem).to(problem.device)
        assert isinstance(model, TextModel)
        assert isinstance(words.features, Codes)
        own = torch.stack([torch.searchsorted(rows, part) for part in parts]).to(problem.device)
        weights = torch.zeros(len(parts), len(rows), device=problem.device)
        each = document_weights(words, own[None], by_class)[0]
        return VectorBatch(
            vectors=model.vectorize(words.features, words.pool),
            labels=words.labels.expand(len(parts), -1),
            weights=weights.scatter_(1, own, each),
        )

    def _split(self, documents: Documents, member: Member[TextConfig]) -> dict[str, Tensor]:
        """The indices of a run's documents; where it learns from all labels, also to measure it."""
        if member.config.train.labels == "all":
            known = (documents.y >= 0).nonzero().flatten()
            return dict.fromkeys(PARTS, known)
        return split_indices(documents, member.config.data, member.seed)

    def max_members(self, problem: Problem, config: TextConfig) -> int:
        """As many as also have their largest documents, or the graph of all documents, in a piece
        of a batch. On a CPU at least all runs of one configuration, but one run if it has such a
        graph: its products leave nothing of the cache."""
        sizes = problem.collection.num_nodes
        largest, nodes = int(sizes.max()), int(sizes.sum())
        if problem.graph is not None:
            largest = problem.graph.adjacency.shape[0]
        # Weights, gradients, Adam's two moments, the best weights, and views.
        weights = 8 * self.num_parameters(config, problem)
        memory = total_memory(problem.device)
        activations = largest * _numbers_per_node(problem, config)
        fitting = min(memory / 3 / (4 * weights), memory / 4 / (4 * activations))
        if fitting < 1:
            narrower = hasattr(config.model, "hidden_quats")
            whole = "a document of {:,}" if problem.graph is None else "a graph of {:,} nodes"
            raise UserError(
                f"{len(problem.corpus.documents.vocabulary):,} words and {whole.format(largest)} "
                "do not fit into memory: raise data.min_count"
                f"{', or lower model.hidden_quats' if narrower else ''}"
            )
        if problem.device.type == "cpu" and problem.graph is not None:
            return 1
        if problem.device.type == "cpu" and not trains_on_vectors(config):
            step = num_documents_per_step(problem, config) * nodes / len(sizes)
            fitting = min(fitting, max(max_nodes_per_step(problem, config) / step, config.seeds))
        return int(fitting)

    def card(self, config: TextConfig, data: Corpus, problem: Problem) -> Card:
        """What preparing new texts like the training texts takes."""
        documents = data.documents
        return {
            "data": {
                "num_documents": len(documents),
                "class_sizes": count_classes(documents.y, documents.num_classes),
                "digest": documents.digest,  # the vectors are in the bundle
            },
            "labels": documents.label_names,
            "label_type": documents.label_type,
            "words": documents.vocabulary,
            "dimensions": data.vectors.size(1),
            "words_found": data.found,
        }

    def bundled_tensors(self, data: Corpus, chosen: Sequence[TextConfig]) -> dict[str, Tensor]:
        """The words' vectors, unless all members learn their own."""
        learned = all(config.model.vectors_are_learned for config in chosen)
        return {} if learned else {"vectors": data.vectors}

    def summarize(self, card: Card) -> list[str]:
        """Describes the classes and the words' vectors."""
        data = card["data"]
        names = dict.fromkeys(member["config"]["model"]["name"] for member in card["members"])
        transductive = [name for name in names if MODELS[name].transductive]
        unlabelled = " took part in the graph only" if transductive else " took no part"
        classes = describe_classes(data["class_sizes"], data["num_documents"], unlabelled)
        return [f"texts: {classes}", f"words: {_describe_vectors(card)}"] + [
            f"{name}: transductive, its graph has the test texts, so its accuracy is not "
            "comparable with that of other models"
            for name in transductive
        ]

    def explain_overflow(self, data: Corpus, problem: Problem) -> str:
        if place := find_beyond(data.vectors, SUSPICIOUS):
            return describe_number(data.documents.vocabulary, data.vectors, *place)
        return ""


def document_weights(collection: Collection, documents: Tensor, by_class: Tensor | None) -> Tensor:
    """The weight of each document in its member's loss, 0 for padding.

    Shape:
        - documents: indices, -1 for none, ``(P, M, B)``
        - by_class: ``(M, C)``; None if all classes weigh 1
        - output: ``(P, M, B)``
    """
    real = documents >= 0
    if by_class is None:
        return real.float()
    labels = collection.labels[documents.clamp(min=0)].clamp(min=0)
    return real * by_class.expand(len(documents), -1, -1).gather(-1, labels)


def trains_on_vectors(config: TextConfig) -> bool:
    """Whether a step multiplies the features of all documents, computed once."""
    return config.train.batch_size is None and MODELS[config.model.name].vectorizes


def num_documents_per_step(problem: Problem, config: TextConfig) -> int:
    count = len(problem.collection.num_nodes)
    if config.train.batch_size is None or problem.graph is not None:
        return count
    return min(config.train.batch_size, count)


def max_nodes_per_step(problem: Problem, config: TextConfig) -> int:
    """Nodes of all members that a step holds: a quarter of the memory, and on a CPU its cache. A
    transductive model has no limit: every piece would compute the whole graph again."""
    if problem.graph is not None:
        return sys.maxsize
    nodes = int(total_memory(problem.device) / 4 / (4 * _numbers_per_node(problem, config)))
    if problem.device.type == "cpu":
        nodes = min(nodes, CPU_NUMBERS // config.model.width)
    return max(1, nodes)


def _numbers_per_node(problem: Problem, config: TextConfig) -> int:
    """Numbers that a step holds for each node, by a generous estimate."""
    size = float(problem.collection.num_nodes.float().mean())
    return 4 * problem.corpus.vectors.size(1) + config.model.num_activations(size)


def _useful_threads(num_members: int, config: TextConfig, problem: Problem) -> int:
    """CPU threads that a step keeps busy: one, and one more per hundred million multiplications of
    a matrix product with the nodes of a piece, if the model has such a product."""
    if not MODELS[config.model.name].multiplies_nodes:
        return 1
    sizes = problem.collection.num_nodes
    documents = num_members * num_documents_per_step(problem, config)
    nodes = documents * float(sizes.sum()) / len(sizes)
    if problem.graph is not None:
        nodes = num_members * problem.graph.adjacency.shape[0]
    held = min(nodes, max_nodes_per_step(problem, config))
    return 1 + int(held * config.model.width**2 / 1e8)


def _describe_vectors(card: Card) -> str:
    config = card["members"][0]["config"]
    words, source = f"{len(card['words']):,}", config["data"]["vectors"]
    if card["words_found"]:
        return f"{card['words_found']:,} of {words} have a vector"
    name = config["model"]["name"]
    if not MODELS[name].takes_words:
        return f"{words}, their vectors drawn; --vectors FILE starts from better ones"
    own = f"{words}; {name} takes no pretrained vectors"
    return own if source == "none" else f"{own}, so {source} was not read"
