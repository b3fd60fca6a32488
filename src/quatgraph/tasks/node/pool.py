"""Combinations of node classifiers, whose predictions may be smoothed over the graph."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.metrics.classification import CLASSIFICATION_METRICS
from quatgraph.tasks.combination import (
    ClassifierPool,
    TrainedRun,
    apply_temperature,
    combine_scores,
)
from quatgraph.tasks.node.smoothing import Smoothing, correct_and_smooth, smoothing_matrix

if TYPE_CHECKING:
    from torch_geometric.data import Data


class NodePool(ClassifierPool):
    """Node classifiers of one split.

    Args:
        runs: Runs whose ``outputs`` are the logits of ``all`` nodes.
        metric: The metric to select by.
        data: The graph.

    Attributes:
        smoothing: How predictions are smoothed; None, the default, if they are not.
    """

    def __init__(self, runs: Sequence[TrainedRun], metric: str, data: "Data") -> None:
        self.logits = [run.outputs["all/logits"] for run in runs]
        split = runs[0].split
        masks = {"valid": data.val_mask, "test": data.test_mask}
        self.places = {part: mask[:, split] for part, mask in masks.items()}
        self.train, self.y = data.train_mask[:, split], data.y
        labels = {f"{part}/labels": data.y[place] for part, place in self.places.items()}
        held_out = [
            {f"{part}/logits": logits[place] for part, place in self.places.items()} | labels
            for logits in self.logits
        ]
        pairs = zip(runs, held_out, strict=True)
        super().__init__([replace(run, outputs=outputs) for run, outputs in pairs], metric)
        self.data = data
        self.smoothing: Smoothing | None = None

    @cached_property
    def matrix(self) -> Adjacency:
        return smoothing_matrix(self.data)

    def predict(self, weights: Sequence[int], temperature: float, part: str) -> Tensor:
        if self.smoothing is None:
            return super().predict(weights, temperature, part)
        every = [logits.double().log_softmax(dim=-1) for logits in self.logits]
        scores = apply_temperature(combine_scores(weights, every), temperature)
        settings = self.smoothing
        smoothed = correct_and_smooth(
            scores.exp(), self.y, self.train, self.matrix, settings=settings
        )
        return smoothed[self.places[part]].log()

    def smoothed_by(self, smoothing: Smoothing | None) -> Self:
        """Sets how predictions are smoothed."""
        self.smoothing = smoothing
        return self

    def refined_score(self, weights: Sequence[int], temperature: float) -> float:
        """The metric on validation data as the bundle predicts, smoothed or not."""
        scores, labels = self.predict(weights, temperature, "valid"), self.labels["valid"]
        value = CLASSIFICATION_METRICS[self.metric](scores, labels)
        return 0.0 if math.isnan(value) else value
