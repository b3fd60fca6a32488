"""Texts, their graphs and the words' vectors as the models take them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.data import text as source
from quatgraph.data.labels import missing_labels
from quatgraph.data.splits import inner_validation
from quatgraph.data.text import CorpusGraph, Documents
from quatgraph.errors import UserError
from quatgraph.models.text import MODELS
from quatgraph.tasks.graph.batches import Collection
from quatgraph.tasks.overflow import refuse_beyond
from quatgraph.tasks.text.config import DataConfig, TextConfig


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents with a vector for each of their words.

    Attributes:
        documents: The texts.
        vectors: Of each word of the vocabulary, ``(V, D)``; ``(V, 0)`` for a model that takes
            words.
        found: How many of them were read from a file; the others are random.
    """

    documents: Documents
    vectors: Tensor
    found: int

    @property
    def name(self) -> str:
        return self.documents.name

    @property
    def notes(self) -> list[str]:
        """Messages for the user about the documents."""
        return self.documents.notes

    @cached_property
    def digest(self) -> str:
        """A sha256 of everything that can change a number: the documents', and the vectors that
        were read; those that are drawn depend on the config."""
        if not self.found:
            return self.documents.digest
        total = hashlib.sha256(self.documents.digest.encode())
        total.update(self.vectors.numpy().astype("<f4", copy=False).data)
        return total.hexdigest()


def corpus_of(documents: Documents, config: TextConfig) -> Corpus:
    """Texts with the vectors that a config gives their words."""
    vocabulary, data = documents.vocabulary, config.data
    model = MODELS[config.model.name]
    if model.takes_words:
        return Corpus(documents, torch.empty(len(vocabulary), 0), 0)
    known = None if data.vectors == "none" else source.load_vectors(data.vectors, vocabulary)
    if known is not None and not len(known):
        raise UserError(
            f"none of the {len(vocabulary):,} words of the texts has a vector in {data.vectors}: "
            "take vectors of the texts' language, of words in small letters"
        )
    vectors, found = source.vectors_for(
        vocabulary, known, dimensions=data.dimensions, seed=data.draw_seed
    )
    refuse_beyond(vectors, partial(describe_number, vocabulary, vectors))
    with torch.device("meta"):  # now, while nothing is written yet: does it take such vectors?
        model.from_options(config.model, vectors.size(1), documents.num_classes)
    return Corpus(documents, vectors, found)


def load_documents(config: TextConfig, *, labels_needed: bool = True) -> Documents:
    """Loads the texts that a config names, or the user's own files."""
    settings = config.data
    configs.check_source(settings)
    if settings.name:
        return source.load(settings.name)
    return source.read(Path(settings.path), text_options(settings, labels_needed=labels_needed))


def text_options(settings: DataConfig, *, labels_needed: bool = True) -> source.TextOptions:
    """How a config wants texts to be read."""
    return source.TextOptions(
        text=settings.text,
        label=settings.label,
        split=settings.split,
        group=settings.group,
        validation=settings.validation,
        split_seed=settings.draw_seed,
        stop_words=settings.stop_words,
        min_count=settings.min_count,
        missing=missing_labels(settings.missing),
        labels_needed=labels_needed,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A corpus ready for one kind of model, on one device.

    Attributes:
        collection: All documents as graphs: of distinct words, or of words in order, without edges;
            of their nodes in the graph, if there is one.
        corpus: The corpus it was made of.
        table: The words' vectors on the device.
        fitted: See :attr:`quatgraph.models.text.TextModel.fitted`.
        graph: The graph of all documents on the device, for a transductive model.
    """

    collection: Collection
    corpus: Corpus
    table: Tensor
    fitted: dict[str, Tensor] = field(default_factory=dict)
    graph: CorpusGraph | None = None

    @property
    def device(self) -> torch.device:
        return self.table.device


def build_collection(documents: Documents, window: int | None, device: torch.device) -> Collection:
    """Builds the documents as a model takes them, on a device.

    Args:
        window: See :func:`quatgraph.data.text.word_graphs`; None for words in their order.
    """
    num_words = len(documents.vocabulary)
    if window is None:
        start, words = documents.ptr, documents.tokens
        edges = torch.empty(2, 0, dtype=torch.int64)
    else:
        graphs = source.word_graphs(documents, window)
        start, words, edges = graphs.node_ptr, graphs.tags, graphs.edge_index
    known = words < num_words  # not NO_WORD
    codes = Codes(torch.where(known, words, 0).int(), known.float(), num_words)
    adjacency = Adjacency.from_edge_index(edges, len(words)).normalized("symmetric")
    return Collection.build(start, adjacency, codes, documents.y, device)


cached_collection = lru_cache(maxsize=1)(build_collection)
""":func:`build_collection`; the ensembles of a search share its result."""


def document_nodes(documents: Documents) -> Documents:
    """The documents as nodes of the graph of their corpus, without their words."""
    return source.append_nodes(
        replace(
            documents,
            tokens=documents.tokens[:0],
            ptr=torch.zeros_like(documents.ptr),
            corpus_index=torch.arange(len(documents)),
        )
    )


def split_indices(documents: Documents, config: DataConfig, seed: int) -> dict[str, Tensor]:
    """The indices of a run's training, validation and test documents."""
    train, valid = documents.train, documents.valid
    if not len(valid):
        train, valid = inner_validation(documents.y, train, seed, config.validation)
    return {"train": train, "valid": valid, "test": documents.test}


def describe_number(words: Sequence[str], vectors: Tensor, row: int, column: int) -> str:
    """Describes a number of a word's vector."""
    value = float(vectors[row, column])
    return f"the vector of the word {words[row]!r} has {value:g} in column {column + 1}"
