"""Text classification: a training epoch, the word graphs of whole corpora, and the graph of one."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch

from benchmarks.measure import (
    held,
    measure,
    peak,
    reset_resident,
    resident_peak,
    shortened,
    training_seconds,
)
from quatgraph.data.text import load, word_graphs
from quatgraph.data.text.corpus_graph import corpus_graph
from quatgraph.presets import preset
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.problem import cached_collection

METHODS = {"textqgnn": "TextQGNN", "texting": "TextING"}
CORPORA = ("mr", "r8", "r52", "ohsumed")
TRAINED = {
    "cpu": [
        ("ohsumed", "textqgnn", "float32"),
        ("mr", "textqgnn", "float32"),
        ("mr", "texting", "float32"),
    ],
    "cuda": [*product(("mr",), METHODS, ("float32",)), *product(CORPORA, METHODS, ("tf32",))],
}
"""Datasets, methods and precisions, trained with the presets."""
SEEDS = {"cpu": 1, "cuda": 10}
EPOCHS = {"cpu": 1, "cuda": 10}
GRAPHS = {"cpu": CORPORA, "cuda": ()}
"""Corpora whose word graphs are built, on a CPU; TextGCN's graph of the last one."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for place, (dataset, method, precision) in enumerate(TRAINED[device.type]):
        # A process may keep what it has freed, so only the first tells how much it needs.
        resident = place == 0 and device.type == "cpu"
        yield _epoch(dataset, method, precision, device, resident=resident)
    if GRAPHS[device.type]:
        yield _graphs(GRAPHS[device.type], device)
        yield _corpus_graph(GRAPHS[device.type][-1], device)


def _epoch(
    dataset: str, method: str, precision: str, device: torch.device, *, resident: bool
) -> dict[str, Any]:
    """The mean time of an epoch of all runs, without validation.

    Args:
        resident: Whether to report the peak memory of the process instead of the GPU.
    """
    epochs, seeds = EPOCHS[device.type], SEEDS[device.type]
    setting = f"train.precision={precision}"
    config = shortened(f"text/{dataset}-{method}", epochs, setting, seeds=seeds)
    corpus = TEXT.load(config)
    cached_collection.cache_clear()  # the graphs of the corpus before, which these would displace
    before, counts = held(device), resident and reset_resident()
    seconds = training_seconds(TEXT, TEXT.members(config, corpus), corpus, device)
    return {
        "case": f"{dataset}, {'1 run' if seeds == 1 else f'{seeds} runs'}",
        "work": "training epoch",
        "variant": f"{METHODS[method]}, {precision}",
        "ms": round(1e3 * seconds / epochs, 3),
        **(resident_peak() if counts else peak(device, before)),
    }


def _graphs(names: tuple[str, ...], device: torch.device) -> dict[str, Any]:
    """Builds the word graphs of loaded corpora."""
    corpora = [load(name) for name in names]
    window = preset(f"text/{names[0]}-textqgnn")["data"]["window"]
    row = {
        "case": ", ".join(names),
        "work": f"word graphs, window {window}",
        "variant": f"{sum(map(len, corpora)):,} documents",
    }
    return row | measure(
        lambda: [word_graphs(documents, window) for documents in corpora], device, repeats=5
    )


def _corpus_graph(name: str, device: torch.device) -> dict[str, Any]:
    """Builds the one graph of a loaded corpus."""
    corpus = load(name)
    given = corpus.tokens, corpus.ptr, len(corpus.vocabulary)
    entries = corpus_graph(*given).adjacency.num_edges
    row = {"case": name, "work": "graph of the corpus", "variant": f"{entries:,} entries"}
    return row | measure(lambda: corpus_graph(*given), device, repeats=5)
