"""Asks a trained text classifier: which class has each text, how sure is it, and by which words?"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.codes import Codes
from quatgraph.data import text as source
from quatgraph.data.io.files import is_unicode
from quatgraph.data.text import STOP_WORDS, Documents, WordVectors
from quatgraph.errors import Mistake
from quatgraph.models.text import MODELS
from quatgraph.models.text.vectors import FixedVectors, word_vectors
from quatgraph.predictors.predictions import (
    TextPredictions,
    positions,
    refuse_changed,
    refuse_moved,
    refuse_not_finite,
    without_empty_parts,
)
from quatgraph.tasks.graph.evaluation import compute_metrics, evaluation_chunks
from quatgraph.tasks.overflow import SUSPICIOUS, find_beyond, refuse_beyond
from quatgraph.tasks.text.config import TextConfig
from quatgraph.tasks.text.problem import (
    Corpus,
    build_collection,
    describe_number,
    load_documents,
    prepare,
    split_indices,
)
from quatgraph.tasks.text.task import CPU_NUMBERS, max_nodes_per_step
from quatgraph.training.bundle import Bundle
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.runtime import limit_threads

AnyTexts = Documents | Path | str | Sequence[str]
NUMBERS_AT_ONCE = {"cpu": CPU_NUMBERS, "cuda": 1 << 26}
"""Of one layer, for as many texts as are answered for at once."""
EXPLAINED = 100
"""Different words of a text that are left out in turn: those with most attention, or else the
first."""


class TextPredictor:
    """A text classifier out of a bundle, which holds its words and their vectors.

    Example:
        A bundle answers for a text, for many, or for those it was trained on::

            model = quatgraph.load("my-model")
            model.predict("a charming little film")
            model.predict(["a charming little film", "dull"])
            model.predict("reviews.csv")
            model.predict()
    """

    def __init__(self, bundle: Bundle, device: torch.device, corpus: Corpus | None = None) -> None:
        self.card = bundle.card
        self.device = device
        self.config = configs.build(TextConfig, self.card["config"])
        model, tensors = self.config.model, bundle.tensors
        self.table: Tensor | None = None
        """The words' vectors, ``(V, D)``; fastText has them among its weights."""
        size = len(self.card["words"])
        kind = MODELS[model.name]
        if not kind.takes_words:
            size = self.card["dimensions"]
            held = tensors["vectors" if model.vectors_are_learned else "data.vectors"]
            self.table = held.to(device)
            within = "model."
            tensors = {
                name.removeprefix(within): value
                for name, value in tensors.items()
                if name.startswith(within)
            }
        self.model = kind.from_options(model, size, len(self.card["labels"]))
        self.model.load_state_dict(tensors)
        self.model.to(device).eval()
        self._corpus = corpus

    def predict(
        self,
        texts: AnyTexts | None = None,
        *,
        ids: Sequence[str] | None = None,
        vectors: WordVectors | Path | str | None = None,
        explain: bool = False,
    ) -> TextPredictions:
        """Classifies texts, cleaned as a person's own texts are for training.

        Words that the training data lacks are left out, and a note says so. A text of which no word
        is known has the answer that the model gives to no words at all; a note says this too.

        Args:
            texts: A text; a list of them; a file or a folder in the formats of training data,
                labels not needed, or a ``.txt`` file with a text per line; or documents, which are
                clean. A string is a text unless it names a file or folder that is there, or ends
                like the name of a file. The texts the model was trained on unless given.
            ids: Documents to answer for; all unless given.
            vectors: Where the vectors of words are that the bundle lacks, see
                :func:`quatgraph.data.text.load_vectors`: such words then count by these, as do,
                even where vectors are learned, words that only test documents have. For models
                whose vectors were read from the same source.
            explain: Whether to tell of the words what the class has by them, see
                :attr:`TextPredictions.support`: a text is classified again without each of its
                words, up to a hundred of them.
        """
        named, notes = "id", True
        if texts is None:
            asked, notes = self._training_corpus().documents, False
        elif isinstance(texts, Documents):
            asked = texts
        elif isinstance(texts, Path) or (isinstance(texts, str) and source.names_a_file(texts)):
            options = source.TextOptions(
                text=self.config.data.text, stop_words=self._stops, labels_needed=False
            )
            asked = source.read(Path(texts), options)
        elif not isinstance(texts, Sequence):
            raise Mistake(f"texts are a string, a list of them, a path or documents, got {texts!r}")
        else:
            given = [texts] if isinstance(texts, str) else list(texts)
            asked, named = self._listed(given), "text"
        if ids is not None:
            asked = asked.select(positions(ids, asked.ids, "there is no document {}"))
        vocabulary, table = self.card["words"], self.table
        if vectors is not None:
            known = self._extended(asked, vectors)
            vocabulary, table = known.words, known.matrix
        asked = asked.in_vocabulary(vocabulary)
        chances, weights = self._answers(asked, table)
        refuse_not_finite(
            chances, asked.ids.__getitem__, lambda row: _explain_overflow(asked, row, table)
        )
        told = [*asked.notes] if notes else []
        if bool((asked.ptr.diff() == 0).any()):
            told.append("a text without a known word is answered for like an empty one")
        return TextPredictions(
            asked.ids,
            self.card["labels"],
            chances.exp().float(),
            told,
            attention=weights if self.model.attends else None,
            support=self._support(asked, table, chances, weights) if explain else None,
            named=named,
        )

    def evaluate(self, data: Documents | Path | str | None = None) -> dict[str, float]:
        """The bundle's metrics, computed again from its weights and the training data.

        Args:
            data: Where the training data is now, if it was moved or was in memory.
        """
        if data is not None:
            if not isinstance(data, Documents):
                data = load_documents(replace(self.config.data, name="", path=str(data)))
            self._corpus = self._checked(data)
        corpus = self._training_corpus()
        problem = prepare(corpus, self.config, self.device)
        parts = split_indices(corpus.documents, self.config.data, self.card["seed"])
        room = max_nodes_per_step(problem, self.config)
        models = Ensemble([self._copied], [self.card["seed"]]).to(self.device).eval()
        found: dict[str, Tensor] = {}
        for names in (("valid",), ("train", "test")):  # as they were measured in training
            of_one: dict[str, Sequence[Tensor]] = {name: [parts[name]] for name in names}
            chunks = evaluation_chunks(problem.collection, of_one, room)
            with torch.no_grad(), limit_threads(self._useful_threads(corpus.documents)):
                found |= compute_metrics(models, problem.collection, chunks, with_f1=True)
        return without_empty_parts({name: float(value) for name, value in found.items()})

    def _copied(self) -> nn.Module:
        """A model of its own, which takes words."""
        model = copy.deepcopy(self.model)
        return model if self.table is None else FixedVectors(self.table, model)

    def _answers(
        self, documents: Documents, table: Tensor | None
    ) -> tuple[Tensor, list[dict[str, float]]]:
        """The logarithms of the probabilities, float64 ``(D, C)``, and the attention to each one's
        words if there is any."""
        chances = [torch.empty(0, len(self.card["labels"]), dtype=torch.float64)]
        weights: list[dict[str, float]] = []
        for part in self._pieces(documents):
            with limit_threads(self._useful_threads(part)):
                found, attended = self._answered(part, table)
            chances.append(found)
            weights += attended
        return torch.cat(chances), weights

    def _support(
        self,
        documents: Documents,
        table: Tensor | None,
        chances: Tensor,
        weights: list[dict[str, float]],
    ) -> list[dict[str, float]]:
        """See :attr:`TextPredictions.support`."""
        found, number = [], {word: place for place, word in enumerate(documents.vocabulary)}
        for place, row in enumerate(chances):
            chosen = int(row.argmax())
            if weights:
                known = list(weights[place])[:EXPLAINED]
            else:
                known = list(dict.fromkeys(documents.words(place)))[:EXPLAINED]
            left_out = torch.tensor([number[word] for word in known], dtype=torch.long)
            lost: list[float] = []
            # A few words at a time: each makes another text.
            room = max(1, self._room // max(1, int(documents.ptr[place : place + 2].diff())))
            for some in left_out.split(room):
                others, _ = self._answers(documents.without_each(place, some), table)
                lost += (_odds(row[None], chosen) - _odds(others, chosen)).tolist()
            pairs = zip(known, lost, strict=True)
            found.append(dict(sorted(pairs, key=lambda pair: -pair[1])))
        return found

    @torch.no_grad()
    def _answered(
        self, documents: Documents, table: Tensor | None
    ) -> tuple[Tensor, list[dict[str, float]]]:
        """As :meth:`_answers`, of documents that are handled well together."""
        window = self.config.data.window if self.model.reads_graphs else None
        whole = build_collection(documents, window, self.device)
        words = whole.features
        assert isinstance(words, Codes)
        x = words if table is None else word_vectors(words, table)
        logits, weights = self.model.classify(x, whole.adjacency, whole.pool)
        if weights is None:
            return _chances(logits), []
        columns = (words.code, weights, words.weight)
        nodes = list(zip(*(column.tolist() for column in columns), strict=True))
        return _chances(logits), [
            {
                documents.vocabulary[word]: weight
                for word, weight, known in sorted(nodes[begin:end], key=lambda node: -node[1])
                if known
            }
            for begin, end in pairwise(whole.node_start.tolist())
        ]

    def _pieces(self, documents: Documents) -> Iterator[Documents]:
        """The documents, as many at once as are handled well together."""
        held: list[int] = []
        filled = 0.0
        for place, count in enumerate(documents.ptr.diff().tolist()):
            size = self.config.model.padded(count)
            if held and filled + size > self._room:
                yield documents.select(held)
                held, filled = [], 0.0
            held.append(place)
            filled += size
        if held:
            yield documents.select(held)

    @property
    def _room(self) -> int:
        """Words of as many texts as are answered for at once."""
        return NUMBERS_AT_ONCE[self.device.type] // self._width

    @property
    def _width(self) -> int:
        """Numbers of a word in a layer."""
        return self.config.model.width

    def _useful_threads(self, documents: Documents) -> int:
        """Threads of a CPU that are kept busy: one for each million numbers of a layer."""
        return documents.tokens.numel() * self._width // 1_000_000

    @property
    def _stops(self) -> bool:
        """Whether stop words are left out: where the training data has none, as some published
        corpora, new texts must not gain any by vectors."""
        return STOP_WORDS.isdisjoint(self.card["words"])

    def _listed(self, texts: list[str]) -> Documents:
        if not all(isinstance(text, str) for text in texts):
            raise Mistake("texts must be a list of strings, a document each")
        if not any(map(str.strip, texts)):
            raise Mistake("there is no text to classify; give at least one word")
        for text in texts:
            if "\0" in text or not is_unicode(text):
                raise Mistake(f"{text[:40]!r} is not UTF-8 text; write it in UTF-8, without NUL")
        documents = source.from_list(texts, options=source.TextOptions(stop_words=self._stops))
        return replace(documents, ids=texts)

    def _extended(self, documents: Documents, vectors: WordVectors | Path | str) -> WordVectors:
        """The model's words with those of the documents that only the given vectors have."""
        if self.table is None or not self.card["words_found"]:
            raise Mistake(
                "this model's word vectors are its own, so those of a file tell it nothing: train "
                "one with that file (--vectors, or data.vectors)"
            )
        known = WordVectors(self.card["words"], self.table)
        if not isinstance(vectors, WordVectors):
            new = set(documents.vocabulary).difference(known.words)
            vectors = source.load_vectors(vectors, new)
        refuse_beyond(vectors.matrix, partial(describe_number, vectors.words, vectors.matrix))
        return known.extended(WordVectors(vectors.words, vectors.matrix.to(self.device)))

    def _checked(self, documents: Documents) -> Corpus:
        """The texts the model was trained on, with the vectors it has; refuses others."""
        refuse_changed(documents, self.card, "file or folder")
        table = torch.empty(0, 0) if self.table is None else self.table.cpu()
        learned = self.config.model.vectors_are_learned
        return Corpus(documents, table, self.card["words_found"], learned)

    def _training_corpus(self) -> Corpus:
        if self._corpus is None:
            place = self.config.data
            if not place.name and not place.path:
                raise Mistake("the model was trained on texts in memory: give the texts again")
            refuse_moved(place.path)
            self._corpus = self._checked(load_documents(place))
        return self._corpus


def _chances(logits: Tensor) -> Tensor:
    """The logarithms of probabilities; in float64, as those near 1 differ late. NaN where a logit
    is not finite."""
    finite = logits.isfinite().all(dim=1, keepdim=True)
    return torch.where(finite, logits.double().log_softmax(dim=1), torch.nan).cpu()


def _explain_overflow(documents: Documents, row: int, table: Tensor | None) -> str:
    """Names the largest number among the vectors of a text's words, if it is suspicious."""
    if table is None:
        return ""
    words = documents.tokens[documents.ptr[row] : documents.ptr[row + 1]].unique()
    words = words[words < len(documents.vocabulary)]
    place = find_beyond(vectors := table[words.to(table.device)], SUSPICIOUS)
    names = [documents.vocabulary[word] for word in words.tolist()]
    return describe_number(names, vectors, *place) if place else ""


def _odds(chances: Tensor, chosen: int) -> Tensor:
    """The logarithm of how much likelier a class is than all others, ``(D, C) -> (D,)``."""
    others = torch.cat((chances[:, :chosen], chances[:, chosen + 1 :]), dim=1)
    return chances[:, chosen] - others.logsumexp(dim=1)
