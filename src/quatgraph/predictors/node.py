"""Asks a trained node classifier: which class has each node, and how sure is it?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.data import node as source
from quatgraph.data.io.messages import quote_some
from quatgraph.data.labels import missing_labels
from quatgraph.data.node.assembly import default_feature_names
from quatgraph.data.scaling import Scaling
from quatgraph.errors import Mistake, did_you_mean
from quatgraph.models.node import MODELS
from quatgraph.predictors.predictions import (
    Predictions,
    class_probabilities,
    positions,
    refuse_changed,
    refuse_moved,
    refuse_not_finite,
    without_empty_parts,
)
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.problem import Problem, explain_overflow, load_data, prepare
from quatgraph.training.bundle import Bundle
from quatgraph.training.metrics import accuracy, cross_entropy

if TYPE_CHECKING:
    from torch_geometric.data import Data


class NodePredictor:
    """A node classifier out of a bundle.

    Example:
        A bundle answers for the graph it was trained on, or for a new one::

            quatgraph.load("my-model").predict()
            quatgraph.load("my-model").predict("another-folder")
    """

    def __init__(self, bundle: Bundle, device: torch.device, data: "Data | None" = None) -> None:
        self.card = bundle.card
        self.device = device
        self.config = configs.build(NodeConfig, self.card["config"])
        scaling = self.card["scaling"]
        self.scaling = None if scaling is None else Scaling.from_dict(scaling)
        classes = len(self.card["labels"])
        options = self.config.model
        self.model = MODELS[options.name].from_options(options, self.card["num_features"], classes)
        self.model.load_state_dict(bundle.tensors)
        self.model.to(device).eval()
        self._data = data
        self._known: tuple[Data, Problem, Tensor] | None = None

    def predict(
        self, graph: "Data | Path | str | None" = None, *, nodes: Sequence[str] | None = None
    ) -> Predictions:
        """Classifies nodes.

        Args:
            graph: A folder in the format of the training data, or a PyG ``Data``; the graph the
                model was trained on unless given.
            nodes: Ids to answer for; all nodes unless given.
        """
        data = self._training_data() if graph is None else self._new_data(graph)
        problem, logits = self._classified(data)
        chosen = positions(nodes, data.node_ids, "there is no node {} in the graph")
        probabilities = class_probabilities(logits).cpu()[chosen]
        ids = [data.node_ids[index] for index in chosen]
        refuse_not_finite(
            probabilities, ids.__getitem__, lambda row: explain_overflow(data, problem)
        )
        notes = [] if graph is None else data.notes
        return Predictions(ids, self.card["labels"], probabilities, notes)

    def evaluate(self, graph: "Data | Path | str | None" = None) -> dict[str, float]:
        """The bundle's metrics, computed again from its weights and the training data; those of a
        part without nodes are left out.

        Args:
            graph: Where the training data is now, if it was moved or was in memory.
        """
        if graph is not None:
            given = self._read(graph, labels_needed=True)
            refuse_changed(given, self.card, "folder")
            self._data = given
        data = self._training_data()
        problem, logits = self._classified(data)
        refuse_not_finite(
            logits, data.node_ids.__getitem__, lambda row: explain_overflow(data, problem)
        )
        parts = {name: mask[self.card["split"]].float() for name, mask in problem.masks.items()}
        metrics = {
            f"{name}/accuracy": float(accuracy(logits, problem.labels, mask))
            for name, mask in parts.items()
        }
        metrics["valid/loss"] = float(cross_entropy(logits, problem.labels, parts["valid"]))
        return without_empty_parts(metrics)

    @torch.no_grad()
    def _classified(self, data: "Data") -> tuple[Problem, Tensor]:
        """A graph as the model takes it, and the logits of its nodes; of the training graph they
        are computed once."""
        known = self._known
        if known is not None and known[0] is data:
            return known[1:]
        problem = prepare(data, self.config, self.device, scaling=self.scaling)
        logits = self.model(problem.features, problem.adjacency)
        if data is self._data:
            self._known = data, problem, logits
        return problem, logits

    def _training_data(self) -> "Data":
        if self._data is None:
            source_of = self.config.data
            if not source_of.name and not source_of.path:
                raise Mistake("the model was trained on a graph in memory: give the graph again")
            refuse_moved(source_of.path)
            self._data = load_data(source_of)
        refuse_changed(self._data, self.card, "folder")
        return self._data

    def _read(self, graph: "Data | Path | str", *, labels_needed: bool) -> "Data":
        from torch_geometric.data import Data

        if isinstance(graph, Data):
            return source.from_data(graph, labels_needed=labels_needed)
        if not isinstance(graph, Path | str):
            raise Mistake("a model of nodes answers for one graph: give a folder or a PyG Data")
        where = self.config.data
        return source.read(
            Path(graph),
            directed=where.directed,
            split_seed=where.split_seed,
            missing=missing_labels(where.missing),
            labels_needed=labels_needed,
        )

    def _new_data(self, graph: "Data | Path | str") -> "Data":
        data = self._read(graph, labels_needed=False)
        if data.digest == self.card["data"]["digest"]:
            return data
        if self.scaling is None:
            raise Mistake(
                "this model was trained without features, on the nodes themselves, "
                "so it can only answer for the graph it was trained on"
            )
        named = isinstance(graph, Path | str) or graph.get("feature_names") is not None
        return (_with_columns if named else _in_order)(data, self.card["features"])


def _in_order(data: "Data", wanted: list[str]) -> "Data":
    """The data, its features without names taken for the training data's, in their order."""
    if data.x is None or data.feature_names == wanted:
        return _with_columns(data, wanted)
    if data.x.size(1) != len(wanted):
        raise Mistake(
            f"the graph has {data.x.size(1)} features; give it the {len(wanted)} that the model "
            "was trained on, or name its columns in data.feature_names"
        )
    made = data.clone()
    made.feature_names = wanted
    made.notes = [
        *data.notes,
        "the graph has no data.feature_names, so its columns are taken in the order of the "
        f"training data: {quote_some(wanted)}",
    ]
    return made


def _with_columns(data: "Data", wanted: list[str]) -> "Data":
    """The data with the training data's feature columns, in their order."""
    if data.x is None:
        raise Mistake(f"the graph has no features; the model needs {len(wanted)} of them")
    if data.feature_names == wanted:
        return data
    if wanted == default_feature_names(len(wanted)) and data.feature_names == default_feature_names(
        data.x.size(1)
    ):
        raise Mistake(
            f"the graph has {data.x.size(1)} features; give it the {len(wanted)} that the model "
            "was trained on"
        )
    places = {name: index for index, name in enumerate(data.feature_names)}
    missing = [name for name in wanted if name not in places]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        hint = did_you_mean(missing[0], places) or "; add it"
        raise Mistake(
            f"the graph lacks the feature {missing[0]!r}{more} of the training data{hint}"
        )
    made = data.clone()
    made.x = data.x[:, [places[name] for name in wanted]]
    made.feature_names = wanted
    return made
