"""Answers of trained models to requests, by task."""

from pathlib import Path

from quatgraph.predictors import load
from quatgraph.serve.answers.base import Answers
from quatgraph.serve.answers.graph import GraphAnswers
from quatgraph.serve.answers.link import LinkAnswers
from quatgraph.serve.answers.node import NodeAnswers
from quatgraph.serve.answers.text import TextAnswers

ANSWERS: dict[str, type[Answers]] = {
    "node": NodeAnswers,
    "graph": GraphAnswers,
    "link": LinkAnswers,
    "text": TextAnswers,
}


def open_answers(path: Path, device: str = "auto") -> Answers:
    """Loads a bundle, and answers one query, so that the first request need not wait."""
    predictor = load(path, device=device)
    answers = ANSWERS[predictor.card["task"]](predictor, path)
    answers.warm_up()
    return answers


__all__ = ["Answers", "open_answers"]
