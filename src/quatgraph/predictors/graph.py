"""Predicts the classes of graphs with trained models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from quatgraph.data import graph as source
from quatgraph.data.graph import AnyGraphs, Graphs
from quatgraph.data.labels import missing_labels
from quatgraph.errors import UserError
from quatgraph.models.graph import MODELS
from quatgraph.predictors.base import Cache, Classifier, TrainedMember, split_by_size
from quatgraph.predictors.predictions import Predictions, find_positions
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.graph.evaluation import max_nodes_per_chunk
from quatgraph.tasks.graph.features import NodeFeatures
from quatgraph.tasks.graph.problem import build_collection, folds_of, split_fold
from quatgraph.training.runtime import total_memory

UNSEEN = {
    "tags": "training never saw the tag {}: such a node counts as one without a tag",
    "degrees": "training never saw a node of degree {}: the nearest degree it saw is taken",
}


class GraphPredictor(Classifier[GraphConfig]):
    """Predicts the classes of graphs with the models of a bundle, by default those of all folds.

    Example:
        A bundle predicts its training graphs, or new ones::

            quatgraph.load("my-model").predict()
            quatgraph.load("my-model").predict("new.jsonl")
    """

    config_class = GraphConfig
    trained_on = "graphs"
    id_field = "graph_ids"

    def predict(
        self, graphs: "AnyGraphs | None" = None, *, ids: Sequence[str] | None = None
    ) -> Predictions:
        """Classifies graphs.

        Args:
            graphs: A path in one of the formats of training data, PyG graphs, or a collection; the
                training graphs by default.
            ids: Ids of the graphs to classify; all by default.
        """
        data = self._load_training_data() if graphs is None else self._read_new_graphs(graphs)
        places = find_positions(ids, data.graph_ids, "there is no graph {}")
        known = self._known(data, places)
        if ids is not None:
            data = data.select(places)
        if not len(data):
            none = torch.empty(0, len(self.card["labels"]))
            return Predictions([], self.card["labels"], none, **known)
        self._refuse_huge(data)
        scores = self._log_probabilities(self.members, data, range(len(data)))
        notes = [*(data.notes if graphs is not None else ()), *self._report_unseen(data)]
        return Predictions(
            data.graph_ids, self.card["labels"], scores.exp().float(), notes, **known
        )

    def _build(
        self, config: GraphConfig, card: Mapping[str, Any], tensors: dict[str, Tensor]
    ) -> tuple[nn.Module, NodeFeatures]:
        options, classes = config.model, len(card["labels"])
        model = MODELS[options.name].from_options(options, card["num_features"], classes)
        model.load_state_dict(tensors)
        return model, NodeFeatures.from_dict(card["features"])

    def _logits(
        self,
        members: Sequence[TrainedMember[GraphConfig]],
        data: Graphs,
        places: Sequence[int] | Tensor,
    ) -> Tensor:
        graphs = data if isinstance(places, range) else data.select(places)
        capacity = min(max_nodes_per_chunk(1, m.config, self.device) for m in members)
        # Some models also hold vectors of edges.
        sizes = torch.maximum(graphs.node_ptr.diff(), graphs.edge_ptr.diff() // 8)
        pieces = [graphs]
        if int(sizes.sum()) > capacity:
            pieces = [graphs.select(group) for group in split_by_size(sizes.tolist(), capacity)]
        return torch.cat([self._classify(members, piece) for piece in pieces], dim=1)

    def _classify(self, members: Sequence[TrainedMember[GraphConfig]], graphs: Graphs) -> Tensor:
        """The logits for graphs that fit into memory together."""
        cache, logits = Cache(), []
        for member in members:
            options, features = member.config.model, member.preparation
            need = options.matrix, MODELS[options.name].propagations, features
            inputs = cache.get(
                need, partial(build_collection, graphs, options, features, self.device)
            )
            logits.append(member.model(inputs.features, inputs.adjacency, inputs.pool))
        return torch.stack(logits)

    def _parts(self, member: TrainedMember[GraphConfig], data: Graphs) -> dict[str, Tensor]:
        settings = member.config.data
        folds = self._cache.get(settings, lambda: folds_of(data, settings))
        return split_fold(data.y, folds[member.split], settings, member.split)

    def _explain_overflow(
        self, member: TrainedMember[GraphConfig], data: Graphs, place: int
    ) -> str:
        features: NodeFeatures = member.preparation
        return features.explain_overflow(data.select([place]))

    def _read_training_data(self, data: "AnyGraphs | None") -> Graphs:
        if data is None:
            return GRAPH.load(self.config)
        return source.from_any(data, missing=missing_labels(self.config.data.missing))

    def _read_new_data(self, data: AnyGraphs) -> Graphs:
        graphs = self._read_new_graphs(data)
        self._refuse_huge(graphs)
        return replace(graphs, notes=[*graphs.notes, *self._report_unseen(graphs)])

    def _read_new_graphs(self, graphs: AnyGraphs) -> Graphs:
        missing = missing_labels(self.config.data.missing)
        read = source.from_any(graphs, missing=missing, labels_needed=False)
        for features in {member.preparation for member in self.members}:
            if features.kind == "tags" and features.names != ("0",) and not read.tagged:
                raise UserError(
                    "the graphs have no node tags, but the model was trained with "
                    f"{len(features.names)}; give graphs like those it was trained on"
                )
        return read

    def _refuse_huge(self, graphs: Graphs) -> None:
        """Checks that what the layers hold of the largest graph fits into memory."""
        sizes = graphs.node_ptr.diff()
        place = int(sizes.argmax())
        options = [member.config.model for member in self.members]
        numbers = int(sizes[place]) * max(one.width * (one.num_layers + 4) for one in options)
        if 4 * numbers > total_memory(self.device):
            raise UserError(
                f"graph {graphs.graph_ids[place]!r} has {int(sizes[place]):,} nodes, which do not "
                "fit into memory; leave the graph out"
            )

    def _report_unseen(self, graphs: Graphs) -> list[str]:
        """Notes on tags and degrees that training never saw."""
        notes = []
        for features in dict.fromkeys(member.preparation for member in self.members):
            if unseen := features.unknown(graphs):
                names = [repr(name) if features.kind == "tags" else name for name in unseen[:5]]
                more = f" and {len(unseen) - len(names)} more" if len(unseen) > len(names) else ""
                notes.append(UNSEEN[features.kind].format(", ".join(names) + more))
        return notes
