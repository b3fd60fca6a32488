"""Predicts the classes of nodes with trained models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from quatgraph.data import node as source
from quatgraph.data.io.messages import quote_some
from quatgraph.data.labels import missing_labels
from quatgraph.data.node.assembly import default_feature_names
from quatgraph.data.scaling import Scaling
from quatgraph.errors import UserError, did_you_mean
from quatgraph.models.node import MODELS
from quatgraph.predictors.base import Cache, Classifier, TrainedMember
from quatgraph.predictors.predictions import Predictions, find_positions
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.problem import Problem

if TYPE_CHECKING:
    from torch_geometric.data import Data


class NodePredictor(Classifier[NodeConfig]):
    """Predicts the classes of nodes with the models of a bundle.

    The logits of the training graph are computed once.

    Example:
        A bundle predicts the nodes of its training graph, or of a new one::

            quatgraph.load("my-model").predict()
            quatgraph.load("my-model").predict("another-folder")
    """

    config_class = NodeConfig
    trained_on = "graph"
    id_field = "node_ids"

    def predict(
        self, graph: "Data | Path | str | None" = None, *, nodes: Sequence[str] | None = None
    ) -> Predictions:
        """Classifies nodes.

        Args:
            graph: A folder in the format of the training data, or a PyG ``Data``; the training
                graph by default.
            nodes: Ids of the nodes to classify; all by default.
        """
        data = self._load_training_data() if graph is None else self._read_new_data(graph)
        places = find_positions(nodes, data.node_ids, "there is no node {} in the graph")
        scores = self._log_probabilities(self.members, data, places)
        ids = [data.node_ids[place] for place in places]
        notes = [] if graph is None else data.notes
        known = self._known(data, places)
        return Predictions(ids, self.card["labels"], scores.exp().float(), notes, **known)

    def _build(
        self, config: NodeConfig, card: Mapping[str, Any], tensors: dict[str, Tensor]
    ) -> tuple[nn.Module, Scaling | None]:
        options, scaling = config.model, card["scaling"]
        size, classes = card["num_features"], len(card["labels"])
        model = MODELS[options.name].from_options(options, size, classes)
        model.load_state_dict(tensors)
        return model, None if scaling is None else Scaling.from_dict(scaling)

    def _logits(
        self,
        members: Sequence[TrainedMember[NodeConfig]],
        data: "Data",
        places: Sequence[int] | Tensor,
    ) -> Tensor:
        cache = self._cache if data is self._data else Cache()

        def classify(member: TrainedMember[NodeConfig]) -> Tensor:
            need = member.config.model.matrix, member.preparation
            problem = cache.get(need, lambda: self._prepare(member, data))
            return cache.get(member, lambda: member.model(problem.features, problem.adjacency))

        return torch.stack([classify(member)[places] for member in members])

    def _prepare(self, member: TrainedMember[NodeConfig], data: "Data") -> Problem:
        return NODE.prepare(data, member.config, self.device, scaling=member.preparation)

    def _parts(self, member: TrainedMember[NodeConfig], data: "Data") -> dict[str, Tensor]:
        masks = {"train": data.train_mask, "valid": data.val_mask, "test": data.test_mask}
        return {part: mask[:, member.split].nonzero().flatten() for part, mask in masks.items()}

    def _explain_overflow(self, member: TrainedMember[NodeConfig], data: "Data", place: int) -> str:
        return NODE.explain_overflow(data, self._prepare(member, data))

    def _read_training_data(self, data: "Data | Path | str | None") -> "Data":
        if data is None:
            return NODE.load(self.config)
        return self._read(data, labels_needed=True)

    def _read(self, graph: "Data | Path | str", *, labels_needed: bool) -> "Data":
        from torch_geometric.data import Data

        if isinstance(graph, Data):
            return source.from_data(graph, labels_needed=labels_needed)
        if not isinstance(graph, Path | str):
            raise UserError("node models predict one graph at a time: pass a folder or a PyG Data")
        settings = self.config.data
        return source.read(
            Path(graph),
            directed=settings.directed,
            split_seed=settings.split_seed,
            missing=missing_labels(settings.missing),
            labels_needed=labels_needed,
        )

    def _read_new_data(self, graph: "Data | Path | str") -> "Data":
        data = self._read(graph, labels_needed=False)
        if data.digest == self.card["data"]["digest"]:
            return data
        if self.card["scaling"] is None:
            raise UserError(
                "the model was trained without features, on the nodes themselves, so it can only "
                "predict its training graph"
            )
        named = isinstance(graph, Path | str) or graph.get("feature_names") is not None
        return _match_columns(data, self.card["features"], named=named)


def _match_columns(data: "Data", wanted: list[str], *, named: bool) -> "Data":
    """Selects the features of the training data by name; unnamed ones are taken in their order."""
    if data.x is None:
        raise UserError(f"the graph has no features; the model needs {len(wanted)} of them")
    if data.feature_names == wanted:
        return data
    size, needed = data.x.size(1), len(wanted)
    defaults = [default_feature_names(size), default_feature_names(needed)]
    if size != needed and (not named or [data.feature_names, wanted] == defaults):
        remedy = "" if named else ", or name its columns in data.feature_names"
        raise UserError(
            f"the graph has {size} features; give it the {needed} that the model was trained on"
            f"{remedy}"
        )
    matched = data.clone()
    matched.feature_names = wanted
    if not named:
        note = (
            "the graph has no data.feature_names, so its columns are taken in the order of the "
            f"training data: {quote_some(wanted)}"
        )
        matched.notes = [*data.notes, note]
        return matched
    places = {name: index for index, name in enumerate(data.feature_names)}
    missing = [name for name in wanted if name not in places]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        hint = did_you_mean(missing[0], places) or "; add it"
        raise UserError(
            f"the graph lacks the feature {missing[0]!r}{more} of the training data{hint}"
        )
    matched.x = data.x[:, [places[name] for name in wanted]]
    return matched
