"""Predicts the classes of nodes with trained models."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.data import node as source
from quatgraph.data.encoding import Encoding
from quatgraph.data.io.messages import quote_some
from quatgraph.data.node.assembly import default_feature_names
from quatgraph.data.scaling import Scaling
from quatgraph.errors import UserError, did_you_mean
from quatgraph.models.node import MODELS
from quatgraph.predictors.base import Classifier
from quatgraph.predictors.embeddings import Embeddings, join_vectors
from quatgraph.predictors.members import Cache, TrainedMember
from quatgraph.predictors.predictions import Predictions, find_positions
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.problem import Problem
from quatgraph.tasks.node.smoothing import Smoothing, correct_and_smooth, smoothing_matrix

if TYPE_CHECKING:
    from torch_geometric.data import Data


class NodePredictor(Classifier[NodeConfig]):
    """Predicts the classes of nodes with the models of a bundle.

    The logits of the training graph are computed once. If the card has ``smoothing``, its
    predictions are corrected and smoothed with the labels that were trained on, see
    :func:`quatgraph.tasks.node.smoothing.correct_and_smooth`.

    Example:
        A bundle predicts the nodes of its training graph, or of a new one::

            quatgraph.load("my-model").predict()
            quatgraph.load("my-model").predict("another-folder")
    """

    config_class = NodeConfig
    trained_on = "graph"
    id_field = "node_ids"
    takes_pairs = False

    def predict(self, graph: Any = None, *, nodes: Sequence[str] | None = None) -> Predictions:
        """Classifies nodes.

        Args:
            graph: A folder, or a graph in memory as :func:`train_nodes` takes it; the training
                graph by default.
            nodes: Ids of the nodes to classify; all by default.
        """
        data = self._load_training_data() if graph is None else self._read_new_data(graph)
        places = find_positions(nodes, data.node_ids, "there is no node {} in the graph")
        scores = self._log_probabilities(self.members, data, places)
        ids = [data.node_ids[place] for place in places]
        notes = [] if graph is None else [*data.notes]
        if self.smoothing is not None and not self._is_training_data(data):
            notes.append("no labels of a new graph are known, so its predictions are not smoothed")
        known = self._known(data, places)
        return Predictions(ids, self.classes, scores.exp().float(), notes, **known)

    def embed(
        self,
        graph: Any = None,
        *,
        nodes: Sequence[str] | None = None,
        member: int | None = None,
    ) -> Embeddings:
        """The vectors of nodes before the prediction layer.

        Args:
            graph, nodes: As in :meth:`predict`.
            member: Only the vectors of this member; by default those of all members side by side,
                each scaled by the square root of its share of the weight.
        """
        data = self._load_training_data() if graph is None else self._read_new_data(graph)
        places = find_positions(nodes, data.node_ids, "there is no node {} in the graph")
        members = self._choose_members(member)
        vectors = join_vectors(self._apply("embed", members, data, places), members)
        notes = [] if graph is None else data.notes
        return Embeddings([data.node_ids[place] for place in places], vectors, notes)

    @cached_property
    def smoothing(self) -> Smoothing | None:
        """How the predictions of the training graph are smoothed; None if they are not."""
        values = self.card.get("smoothing")
        return None if values is None else configs.build(Smoothing, values, "smoothing.")

    def _log_probabilities(
        self,
        members: Sequence[TrainedMember[NodeConfig]],
        data: "Data",
        places: Sequence[int] | Tensor,
    ) -> Tensor:
        if self.smoothing is None or not self._is_training_data(data):
            return super()._log_probabilities(members, data, places)
        splits: dict[int, list[TrainedMember[NodeConfig]]] = {}
        for member in members:
            splits.setdefault(member.split, []).append(member)
        cache = self._cache if data is self._data else Cache()
        combined = torch.zeros(())
        for own in splits.values():  # members of one split share their training labels
            smoothed = cache.get(tuple(own), partial(self._smooth, own, data, self.smoothing))
            combined = combined + smoothed * sum(member.weight for member in own)
        return (combined / sum(member.weight for member in members))[places].log()

    def _smooth(
        self, members: Sequence[TrainedMember[NodeConfig]], data: "Data", settings: Smoothing
    ) -> Tensor:
        """The smoothed probabilities of all nodes, of members of one split, float64 ``(N, C)``."""
        scores = super()._log_probabilities(members, data, range(data.num_nodes))
        refitted = self.card.get("refit")
        known = data.y >= 0 if refitted else data.train_mask[:, members[0].split]
        found = correct_and_smooth(
            scores.exp().to(self.device),
            data.y.to(self.device),
            known.to(self.device),
            smoothing_matrix(data).to(self.device),
            settings=settings,
        )
        return found.cpu()

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
        return torch.stack(self._apply("forward", members, data, places))

    @torch.no_grad()
    def _apply(
        self,
        method: str,
        members: Sequence[TrainedMember[NodeConfig]],
        data: "Data",
        places: Sequence[int] | Tensor,
    ) -> list[Tensor]:
        """What a method of each member's model returns for some of the nodes."""
        cache = self._cache if data is self._data else Cache()

        def compute(member: TrainedMember[NodeConfig]) -> Tensor:
            options = member.config.model
            need = options.matrix, options.propagations, member.preparation
            problem = cache.get(need, lambda: self._prepare(member, data))
            call = getattr(member.model, method)
            return cache.get((method, member), lambda: call(*problem.inputs))

        return [compute(member)[places] for member in members]

    def _prepare(self, member: TrainedMember[NodeConfig], data: "Data") -> Problem:
        return NODE.prepare(data, member.config, self.device, scaling=member.preparation)

    def _parts(self, member: TrainedMember[NodeConfig], data: "Data") -> dict[str, Tensor]:
        masks = {"train": data.train_mask, "valid": data.val_mask, "test": data.test_mask}
        return {part: mask[:, member.split].nonzero().flatten() for part, mask in masks.items()}

    def _explain_overflow(self, member: TrainedMember[NodeConfig], data: "Data", place: int) -> str:
        return NODE.explain_overflow(data, self._prepare(member, data))

    def _read_training_data(self, data: Any) -> "Data":
        if data is None:
            return NODE.load(self.config)
        return self._read(data, labels_needed=True)

    def _read(self, graph: Any, *, labels_needed: bool) -> "Data":
        stored = self.card.get("encoding")  # older bundles have none
        encoding = None if stored is None else Encoding.from_dict(stored)
        options = self.config.data.read_options(labels_needed=labels_needed, encoding=encoding)
        if isinstance(graph, Path | str):
            return source.read(Path(graph), options)
        if isinstance(graph, list):
            raise UserError("node models predict one graph at a time: pass a folder or a PyG Data")
        return source.from_any(graph, options)

    def _read_new_data(self, graph: Any) -> "Data":
        data = self._read(graph, labels_needed=False)
        if self._is_training_data(data):
            return data
        if self.card["scaling"] is None:
            raise UserError(
                "the model was trained without features, on the nodes themselves, so it can only "
                "predict its training graph"
            )
        return _match_columns(data, self.card["features"], named=data.has_feature_names)


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
