"""Checks of the texts that a predictor is given, and notes about them."""

from collections.abc import Sequence
from typing import Any

from quatgraph.data.io.files import is_unicode
from quatgraph.data.text import Documents, check_strings
from quatgraph.errors import UserError
from quatgraph.predictors.members import TrainedMember
from quatgraph.tasks.text.config import TextConfig


def list_notes(
    documents: Documents, members: Sequence[TrainedMember[TextConfig]], *, is_new: bool
) -> list[str]:
    """What the user should know about texts, new ones or those of the training data."""
    notes = [*documents.notes] if is_new else []
    if documents.corpus_index is None:
        notes += fold_notes(members)
    if bool((documents.ptr.diff() == 0).any()):
        notes.append("a text without a known word is classified like an empty one")
    return notes


def fold_notes(members: Sequence[TrainedMember[TextConfig]]) -> list[str]:
    """Says that predictions of new texts are approximate, for each transductive model."""
    models = [member.model for member in members if member.model.transductive]
    return [
        f"{name} is transductive: new texts are folded into the graph; their predictions are "
        "approximate"
        for name in dict.fromkeys(type(model).__name__ for model in models)
    ]


def split_pair(data: Any) -> tuple[Any, Any]:
    """The texts and labels of a pair ``(texts, labels)``; other data has no labels apart."""
    pair = isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str)
    return data if pair else (data, None)


def check_texts(texts: Sequence[str]) -> None:
    """Checks that texts are strings with words in them."""
    check_strings(texts)
    if not any(map(str.strip, texts)):
        raise UserError("there is no text to classify; give at least one word")
    for text in texts:
        if "\0" in text or not is_unicode(text):
            raise UserError(f"{text[:40]!r} is not UTF-8 text; write it in UTF-8, without NUL")
