"""Answers about texts."""

from collections.abc import Sequence
from typing import Any

from quatgraph.errors import UserError
from quatgraph.predictors.predictions import TextPredictions
from quatgraph.predictors.text_inputs import check_texts
from quatgraph.serve.answers.base import Keywords, Reply, check_explained, encode, reply_of
from quatgraph.serve.answers.items import ItemAnswers

EXAMPLES = 20
"""Documents that an example is chosen from."""


class TextAnswers(ItemAnswers):
    """Classifies new texts or those of the training data."""

    task = "text"
    kinds = ("documents", "classes")

    def _reply(self, requests: Sequence[Keywords], *, explain: bool) -> list[bytes | Exception]:
        """Texts of several requests are classified together; notes are on the own texts only."""
        alone = [
            place
            for place, one in enumerate(requests)
            if explain or one.get("explain") or one.get("ids") is not None or not one.get("texts")
        ]
        together = sorted(set(range(len(requests))).difference(alone))
        replies: list[bytes | Exception] = [b""] * len(requests)
        try:
            found = self._classify([requests[place]["texts"] for place in together])
        except Exception:  # of one of them: the others have theirs all the same
            alone, together, found = [*alone, *together], [], []
        for place, reply in zip(together, found, strict=True):
            replies[place] = reply
        for place in alone:
            replies[place] = self._reply_to_one(requests[place], explain)
        return replies

    def _classify(self, requests: Sequence[list[str]]) -> list[bytes]:
        """The replies to the texts of some requests."""
        for own in requests:
            check_texts(own)  # a list of texts, which never names a file
        if not requests:
            return []
        found = self.predictor.predict([text for own in requests for text in own])
        mixed = bool(found.notes) and len(requests) > 1
        reply, start, replies = self._as_reply(found), 0, []
        for own in requests:
            notes = self.predictor.notes_on(own) if mixed else found.notes
            answers = reply["answers"][start : start + len(own)]
            replies.append(encode(reply | {"answers": answers, "notes": notes}))
            start += len(own)
        return replies

    def _answer(self, keywords: Keywords, explain: bool) -> Reply:
        texts, ids = keywords.get("texts"), keywords.get("ids")
        if texts is None and ids is None:
            raise UserError("give texts, or ids of the training data")
        if texts is not None and ids is not None:
            raise UserError("give texts or ids of the training data, not both")
        if texts is not None:
            check_texts(texts)  # a list of texts, which never names a file
        wanted = explain or bool(keywords.get("explain"))
        if wanted:
            check_explained(len(texts if texts is not None else ids or ()))
        return self._as_reply(self.predictor.predict(texts, ids=ids, explain=wanted))

    def _as_reply(self, predictions: TextPredictions) -> Reply:
        reply = reply_of(predictions)
        columns = {"support": predictions.support, "attention": predictions.attention}
        for place, answer in enumerate(reply["answers"]):
            if predictions.id_name == "text":
                answer["text"] = answer.pop("id")
            for key, found in columns.items():
                if found is not None:
                    answer[key] = found[place]
        return reply

    def _ids(self) -> Sequence[str]:
        return self.predictor.training_data.ids

    def _example(self) -> Reply:
        documents = self.predictor.training_data
        places = [*documents.test.tolist(), *range(len(documents))][:EXAMPLES]
        place = max(places, key=lambda n: len(documents.words(n)) > 2)  # the first such text
        return {"texts": [" ".join(documents.words(place)[:40])]}

    def _names(self, kind: str) -> tuple[Sequence[str], Sequence[str]]:
        names: Any = self._ids() if kind == "documents" else list(map(str, self.predictor.classes))
        return names, names

    def draw(self, name: str, hops: int, limit: int) -> Reply:
        raise UserError("a text has no graph to draw")
