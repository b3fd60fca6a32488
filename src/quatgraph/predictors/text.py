"""Predicts the classes of texts with trained models, and explains them by their words."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from quatgraph.codes import Codes
from quatgraph.data import text as source
from quatgraph.data.io.frame import is_frame
from quatgraph.data.labels import missing_labels
from quatgraph.data.text import STOP_WORDS, Documents, WordVectors
from quatgraph.errors import UserError
from quatgraph.models.text import MODELS
from quatgraph.models.text.base import TextModel
from quatgraph.models.text.vectors import word_vectors
from quatgraph.predictors.base import Classifier
from quatgraph.predictors.embeddings import Embeddings, join_vectors
from quatgraph.predictors.members import (
    Attention,
    Cache,
    TrainedMember,
    average_attention,
    split_by_size,
)
from quatgraph.predictors.predictions import Known, TextPredictions, find_positions
from quatgraph.predictors.text_inputs import check_texts, fold_notes, list_notes, split_pair
from quatgraph.tasks.graph.batches import Collection
from quatgraph.tasks.overflow import SUSPICIOUS, find_beyond, refuse_beyond
from quatgraph.tasks.text.config import TextConfig
from quatgraph.tasks.text.problem import (
    build_collection,
    describe_number,
    load_documents,
    split_indices,
    text_options,
)
from quatgraph.tasks.text.task import CPU_NUMBERS
from quatgraph.training.runtime import limit_threads

AnyTexts = Documents | Path | str | Sequence[str]
NUMBERS_AT_ONCE = {"cpu": CPU_NUMBERS, "cuda": 1 << 26}
"""Numbers of one layer for the texts that are classified at once."""
EXPLAINED = 100
"""Different words of a text that are left out in turn: those with most attention, or the first."""


class TextPredictor(Classifier[TextConfig]):
    """Predicts the classes of texts with the models of a bundle, which holds their words.

    Example:
        A bundle predicts one text, many, or its training texts::

            model = quatgraph.load("my-model")
            model.predict("a charming little film")
            model.predict(["a charming little film", "dull"])
            model.predict("reviews.csv")
            model.predict()
    """

    config_class = TextConfig
    trained_on = "texts"
    id_field = "ids"

    def predict(
        self,
        texts: AnyTexts | None = None,
        *,
        ids: Sequence[str] | None = None,
        vectors: WordVectors | Path | str | None = None,
        explain: bool = False,
    ) -> TextPredictions:
        """Classifies texts, cleaned like your own training texts.

        Words that the training data lacks are left out, with a note. A text without a known word is
        classified like an empty one, also with a note.

        Args:
            texts: A text; a list of them; a file or a folder in the formats of training data,
                labels not needed, or a ``.txt`` file with a text per line; or documents, which are
                clean. A string is a text unless it names an existing file or folder, or ends like
                the name of a file. The training texts by default.
            ids: Ids of the documents to classify; all by default.
            vectors: Vectors of words that the bundle lacks, see
                :func:`quatgraph.data.text.load_vectors`, for models whose vectors were read from
                the same source. Words that only test documents have use them too, even if vectors
                are learned. Members that learn words of their own leave new words out.
            explain: Whether to compute :attr:`TextPredictions.support`, which classifies each text
                again without each of its words, up to a hundred of them.
        """
        documents, id_name, members, known = self._select_documents(texts, ids, vectors)
        scores, attention = self._explain_classes(members, documents)
        support = None
        if explain:
            support = self._compute_support(members, documents, scores, attention)
        return TextPredictions(
            documents.ids,
            self.classes,
            scores.exp().float(),
            list_notes(documents, members, is_new=texts is not None),
            **known,
            attention=attention,
            support=support,
            id_name=id_name,
        )

    def notes_on(self, texts: AnyTexts) -> list[str]:
        """The notes of :meth:`predict` on new texts."""
        documents, *_ = self._select_documents(texts, None, None)
        return list_notes(documents, self.members, is_new=True)

    def embed(
        self,
        texts: AnyTexts | None = None,
        *,
        ids: Sequence[str] | None = None,
        vectors: WordVectors | Path | str | None = None,
        member: int | None = None,
    ) -> Embeddings:
        """The vectors of texts before the prediction layer.

        Args:
            texts, ids, vectors: As in :meth:`predict`.
            member: Only the vectors of this member; by default those of all members side by side,
                each scaled by the square root of its share of the weight.
        """
        documents, _, members, _ = self._select_documents(texts, ids, vectors)
        if member is not None:
            members = [members[self.members.index(self._choose_members(member)[0])]]
        found = []
        for piece in self._split_documents(members, documents):
            cache, own = Cache(), []
            for one in members:
                _, x, inputs = self._prepare(one, piece, cache)
                with torch.no_grad():
                    own.append(one.model.embed(x, inputs.adjacency, inputs.pool))
            found.append(join_vectors(own, members))
        notes = list_notes(documents, members, is_new=texts is not None)
        return Embeddings(documents.ids, torch.cat(found) if found else torch.empty(0, 0), notes)

    def _select_documents(
        self,
        texts: AnyTexts | None,
        ids: Sequence[str] | None,
        vectors: WordVectors | Path | str | None,
    ) -> tuple[Documents, str, Sequence[TrainedMember[TextConfig]], Known]:
        """The documents of a query, what their ids are, members that know their words, and what is
        known of the documents."""
        documents, id_name = self._read_query(texts)
        places = find_positions(ids, documents.ids, "there is no document {}")
        known = self._known(documents, places)
        documents = self._number(documents)
        if ids is not None:
            documents = documents.select(places)
        words, members = self.card["words"], self.members
        if vectors is not None:
            words, members = self._extend_words(documents, vectors)
        return documents.in_vocabulary(words), id_name, members, known

    def _build(
        self, config: TextConfig, card: Mapping[str, Any], tensors: dict[str, Tensor]
    ) -> tuple[TextModel, Tensor | None]:
        """The model, and the vectors of words, ``(V, D)``; None if they are among its weights."""
        kind, classes = MODELS[config.model.name], len(card["labels"])
        size = len(card["words"]) if kind.takes_words else card["dimensions"]
        fitted = {name: tensors[name] for name in kind.fitted}
        model: TextModel = kind.from_options(config.model, size, classes, **fitted)
        table = None
        if not kind.takes_words:
            table = tensors.pop("vectors", None)
            table = self._bundled["vectors"] if table is None else table.to(self.device)
            tensors = {name.removeprefix("model."): value for name, value in tensors.items()}
        model.load_state_dict(tensors)
        return model, table

    def _logits(
        self,
        members: Sequence[TrainedMember[TextConfig]],
        data: Documents,
        places: Sequence[int] | Tensor,
    ) -> Tensor:
        documents = self._number(data).select(torch.as_tensor(places).tolist())
        documents = documents.in_vocabulary(self.card["words"])
        return self._classify(members, documents)[0]

    def _number(self, documents: Documents) -> Documents:
        """The documents; training documents with their indices."""
        is_known = self._is_training_data(documents)
        return replace(documents, corpus_index=torch.arange(len(documents)) if is_known else None)

    def _explain_classes(
        self, members: Sequence[TrainedMember[TextConfig]], documents: Documents
    ) -> tuple[Tensor, Attention | None]:
        """The combined log-probabilities, ``(N, C)``, and the attention, if a member attends."""
        logits, attention = self._classify(members, documents)
        return self._combine(members, logits, documents, range(len(documents.ids))), attention

    @torch.no_grad()
    def _classify(
        self, members: Sequence[TrainedMember[TextConfig]], documents: Documents
    ) -> tuple[Tensor, Attention | None]:
        """The logits of each member, ``(M, N, C)``, and the weighted mean of their attention."""
        logits = [torch.empty(len(members), 0, len(self.card["labels"]), device=self.device)]
        attention: Attention = []
        for piece in self._split_documents(members, documents):
            cache = Cache()
            # One thread for each million numbers of a layer: more would wait for each other.
            with limit_threads(piece.tokens.numel() * self._width // 1_000_000):
                found = [self._classify_piece(member, piece, cache) for member in members]
            logits.append(torch.stack([one for one, _ in found]))
            attention += average_attention(
                [(m.weight, one) for m, (_, one) in zip(members, found, strict=True) if one]
            )
        attends = any(member.model.attends for member in members)
        return torch.cat(logits, dim=1), attention if attends else None

    def _split_documents(
        self, members: Sequence[TrainedMember[TextConfig]], documents: Documents
    ) -> Iterator[Documents]:
        """Splits documents into pieces that fit into memory."""
        options = [member.config.model for member in members]
        lengths = documents.ptr.diff().tolist()
        sizes = [max(one.padded(length) for one in options) for length in lengths]
        for group in split_by_size(sizes, self._capacity):
            yield documents.select(group)

    def _classify_piece(
        self, member: TrainedMember[TextConfig], documents: Documents, cache: Cache
    ) -> tuple[Tensor, Attention]:
        """The logits of a member and its attention, for texts that fit into memory together."""
        words, x, inputs = self._prepare(member, documents, cache)
        logits, weights = member.model.classify(x, inputs.adjacency, inputs.pool)
        if weights is None:
            return logits, []
        columns = (words.code, weights, words.weight)
        nodes = list(zip(*(column.tolist() for column in columns), strict=True))
        return logits, [
            {
                documents.vocabulary[word]: weight
                for word, weight, known in nodes[start:end]
                if known
            }
            for start, end in pairwise(inputs.node_start.tolist())
        ]

    def _prepare(
        self, member: TrainedMember[TextConfig], documents: Documents, cache: Cache
    ) -> tuple[Codes, Tensor | Codes, Collection]:
        """The words of texts, the features that the member's model takes, and the collection."""
        model, table = member.model, member.preparation
        window = member.config.data.window if model.reads_graphs else None
        own_words = table is None and len(documents.vocabulary) > len(self.card["words"])
        has_nodes = model.transductive and documents.corpus_index is not None

        def prepare() -> Collection:
            known = documents.in_vocabulary(self.card["words"]) if own_words else documents
            known = source.append_nodes(known) if has_nodes else known
            return build_collection(known, window, self.device)

        inputs = cache.get((window, own_words, has_nodes), prepare)
        words = inputs.features
        assert isinstance(words, Codes)
        return words, words if table is None else word_vectors(words, table), inputs

    def _compute_support(
        self,
        members: Sequence[TrainedMember[TextConfig]],
        documents: Documents,
        scores: Tensor,
        attention: Attention | None,
    ) -> list[dict[str, float]]:
        """See :attr:`TextPredictions.support`."""
        found, number = [], {word: place for place, word in enumerate(documents.vocabulary)}
        for place, row in enumerate(scores):
            chosen = int(row.argmax())
            words = dict.fromkeys(documents.words(place)) if attention is None else attention[place]
            explained = list(words)[:EXPLAINED]
            left_out = torch.tensor([number[word] for word in explained], dtype=torch.long)
            lost: list[float] = []
            # A few words at a time: each makes another text.
            length = int(documents.ptr[place : place + 2].diff())
            for some in left_out.split(max(1, self._capacity // max(1, length))):
                others, _ = self._explain_classes(members, documents.without_each(place, some))
                lost += (row[chosen].exp() - others[:, chosen].exp()).tolist()
            pairs = zip(explained, lost, strict=True)
            found.append(dict(sorted(pairs, key=lambda pair: -pair[1])))
        return found

    @property
    def _capacity(self) -> int:
        """Words of the texts that are classified at once."""
        return NUMBERS_AT_ONCE[self.device.type] // self._width

    @property
    def _width(self) -> int:
        """Numbers of a word in the widest layer."""
        return max(member.config.model.width for member in self.members)

    def _parts(self, member: TrainedMember[TextConfig], data: Documents) -> dict[str, Tensor]:
        return split_indices(data, member.config.data, member.seed)

    def _explain_overflow(
        self, member: TrainedMember[TextConfig], data: Documents, place: int
    ) -> str:
        """Names the largest number among the vectors of a text's words, if it is suspicious."""
        table = member.preparation
        if table is None:
            return ""
        words = data.tokens[data.ptr[place] : data.ptr[place + 1]].unique()
        words = words[words < len(data.vocabulary)]
        found = find_beyond(vectors := table[words.to(table.device)], SUSPICIOUS)
        names = [data.vocabulary[word] for word in words.tolist()]
        return describe_number(names, vectors, *found) if found else ""

    def _read_training_data(self, data: Any) -> Documents:
        if isinstance(data, Documents):
            return data
        if data is None:
            return load_documents(self.config)
        if not isinstance(data, Path | str):
            return source.from_list(*split_pair(data), text_options(self.config.data))
        settings = replace(self.config.data, name="", path=str(data))
        return load_documents(replace(self.config, data=settings))

    def _read_new_data(self, data: AnyTexts) -> Documents:
        documents, _ = self._read_documents(data, labels_needed=True)
        documents = documents.in_vocabulary(self.card["words"])
        return replace(documents, notes=documents.notes + fold_notes(self.members))

    def _read_query(self, texts: AnyTexts | None) -> tuple[Documents, str]:
        """As :meth:`_read_documents`; training texts in the words and the split of training."""
        documents, id_name = self._read_documents(texts)
        is_alike = id_name == "id" and len(documents) == self.card["data"]["num_documents"]
        if is_alike and texts is not None:
            with suppress(UserError):  # such texts could not be trained on
                trained = self._read_training_data(texts)
                if self._is_training_data(trained):
                    trained.notes[:] = documents.notes  # not those on training
                    documents = trained
        return documents, id_name

    def _read_documents(
        self, texts: AnyTexts | None, *, labels_needed: bool = False
    ) -> tuple[Documents, str]:
        """The texts to classify, and what their ids are: ``id``, or ``text`` for the texts."""
        if texts is None:
            return self._load_training_data(), "id"
        if isinstance(texts, Documents):
            return texts, "id"
        # If the training data has no stop words, vectors must not bring any into new texts.
        drop = STOP_WORDS.isdisjoint(self.card["words"])
        settings = self.config.data
        options = source.TextOptions(
            text=settings.text,
            label=settings.label,
            missing=missing_labels(settings.missing),
            stop_words=drop,
            labels_needed=labels_needed,
            for_training=False,
        )
        if isinstance(texts, Path) or (isinstance(texts, str) and source.names_a_file(texts)):
            return source.read(Path(texts), options), "id"
        if is_frame(texts) or split_pair(texts)[1] is not None:
            return source.from_list(*split_pair(texts), options), "id"
        if not isinstance(texts, Sequence):
            raise UserError(
                f"texts are a string, a list, a path or documents, not {type(texts).__name__}"
            )
        given = [texts] if isinstance(texts, str) else list(texts)
        check_texts(given)
        return replace(
            source.from_list(given, options=source.TextOptions(stop_words=drop)), ids=given
        ), "text"

    def _extend_words(
        self, documents: Documents, vectors: WordVectors | Path | str
    ) -> tuple[list[str], list[TrainedMember[TextConfig]]]:
        """The words of the model and new ones of the documents, and members that know them."""
        if all(m.preparation is None for m in self.members) or not self.card["words_found"]:
            raise UserError(
                "the model learned its own word vectors, so it cannot use those of a file: train "
                "one with that file (--vectors, or data.vectors)"
            )
        words: list[str] = self.card["words"]
        if not isinstance(vectors, WordVectors):
            vectors = source.load_vectors(vectors, set(documents.vocabulary).difference(words))
        refuse_beyond(vectors.matrix, partial(describe_number, vectors.words, vectors.matrix))
        new, members = WordVectors(vectors.words, vectors.matrix.to(self.device)), []
        for member in self.members:
            if member.preparation is not None:
                extended = WordVectors(self.card["words"], member.preparation).extended(new)
                words, member = extended.words, replace(member, preparation=extended.matrix)
            members.append(member)
        return words, members
