"""Predictions for a single query, in words, as `predict` prints them."""

from functools import singledispatch
from typing import Any

from quatgraph.cli.tables import WORDS, align
from quatgraph.errors import printable
from quatgraph.predictors.link import LinkPredictor
from quatgraph.predictors.predictions import (
    AnyPredictions,
    GraphPredictions,
    Links,
    TextPredictions,
)


@singledispatch
def format_single(predictions: AnyPredictions, predictor: Any, source: Any) -> str:
    """Predictions for a single query: a triple in options, or a text; empty for all others, which
    are printed as rows."""
    return ""


@format_single.register
def _(predictions: Links, predictor: LinkPredictor, source: Any) -> str:
    rows = list(predictions.rows())
    return _format_links(rows, predictor) if source is None and rows else ""


@format_single.register
def _(predictions: TextPredictions, predictor: Any, source: Any) -> str:
    return _format_classes(next(predictions.rows()), "word") if isinstance(source, str) else ""


@format_single.register
def _(predictions: GraphPredictions, predictor: Any, source: Any) -> str:
    if predictions.support is None or len(predictions.ids) != 1:
        return ""
    return _format_classes(next(predictions.rows()), "node")


def _format_links(rows: list[dict[str, Any]], predictor: LinkPredictor) -> str:
    """Predictions for a single query, the columns in which they differ, and what these mean."""
    end = rows[0]["predicted"]
    columns = ["tail_rank", "head_rank"] if end == "both" else ["rank", end, f"{end}_id"]
    columns += ["score", "known"]
    table = align([{key: row[key] for key in columns if key in row} for row in rows])
    if "support" in rows[0]:
        table += "\n" + "".join(_format_support(row, end) for row in rows)
    whole = "its tail's"
    if predictor.reciprocal:
        whole = "the mean of its tail's and, by the inverse relation, its head's"
    score = whole if end == "both" else f"the {end}'s; a whole triple has {whole}"
    if (members := len(predictor.members)) > 1:
        score += f"; each the weighted mean of {members} models' log-softmax over all entities"
    rank = "filtered, other known triples do not count; ties averaged"
    lines = [f"rank: {rank}", f"score: {score}"]
    if "support" in rows[0]:
        rise = "how much the score of a known triple rises when the prediction's rises by 1"
        lines.append(f"support: {rise}")
    return f"{table}\n" + "".join(f"{line}\n" for line in lines)


def _format_support(row: dict[str, Any], end: str) -> str:
    """What supports a prediction, in words."""
    triples = [f"{words} ({value:.2f})" for words, value in row["support"].items()]
    whole = " ".join(row[key] for key in ("head", "relation", "tail"))
    name = whole if end == "both" else row[end]
    return f"{printable(name)}: {printable('; '.join(triples) or 'no known triple')}\n"


def _format_classes(row: dict[str, Any], what: str) -> str:
    """The classes of an item, the most probable first, and the parts of it that count most."""
    probabilities = {key[2:-1]: value for key, value in row.items() if key.startswith("p(")}
    ordered = sorted(probabilities.items(), key=lambda item: -item[1])
    text = align([{"class": name, "probability": f"{value:.4f}"} for name, value in ordered])
    attention, words = row.get("attention", {}), []
    for word, support in list(row["support"].items())[:WORDS]:
        weight = {"attention": f"{attention[word]:.4f}"} if word in attention else {}
        words.append({what: word, "support": f"{support:+.4f}", **weight})
    return f"{text}\n{align(words)}" if words else text
