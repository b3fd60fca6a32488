"""Predicts the classes of graphs with trained models."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from quatgraph.data import graph as source
from quatgraph.data.graph import AnyGraphs, Graphs
from quatgraph.data.graph.ablation import without_each_node
from quatgraph.data.io.messages import list_some, quote_some
from quatgraph.data.labels import missing_labels
from quatgraph.errors import UserError
from quatgraph.models.graph import MODELS
from quatgraph.predictors.base import Classifier
from quatgraph.predictors.embeddings import Embeddings, join_vectors
from quatgraph.predictors.members import Cache, TrainedMember, split_by_size
from quatgraph.predictors.predictions import GraphPredictions, Known, find_positions
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.colours import vocabulary_key
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.graph.evaluation import max_nodes_per_chunk
from quatgraph.tasks.graph.features import EdgeFeatures, NodeFeatures
from quatgraph.tasks.graph.problem import (
    build_collection,
    folds_of,
    split_fold,
    takes_edge_labels,
)
from quatgraph.training.runtime import total_memory

EXPLAINED = 100
"""Nodes of a graph that are left out in turn, at most."""
UNSEEN = {
    "tags": "training never saw the tag {}: such a node counts as one without a tag",
    "degrees": "training never saw a node of degree {}: the nearest degree it saw is taken",
}
UNSEEN_EDGES = "training never saw the edge label {}: such an edge counts as one without a label"
UNSEEN_COLOURS = {
    "tags": "training never saw the tag {}: colours with it count for nothing",
    "degrees": "training never saw a node of degree {}: colours with it count for nothing",
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
        self,
        graphs: "AnyGraphs | None" = None,
        *,
        ids: Sequence[str] | None = None,
        smiles: Sequence[str] | str | None = None,
        explain: bool = False,
    ) -> GraphPredictions:
        """Classifies graphs.

        Args:
            graphs: A path in one of the formats of training data, PyG graphs, networkx graphs,
                SMILES, or a collection; the training graphs by default. A list of networkx graphs
                or SMILES may come with its labels, as a pair ``(graphs, labels)``.
            ids: Ids of the graphs to classify; all by default.
            smiles: Molecules, or one, to classify instead of ``graphs``.
            explain: Whether to compute what each node contributes: one prediction per node.
        """
        if smiles is not None:
            if graphs is not None:
                raise UserError("give graphs or SMILES, not both")
            graphs = list(dict.fromkeys([smiles] if isinstance(smiles, str) else smiles))
        data, notes, known = self._select_graphs(graphs, ids)
        probabilities = torch.empty(0, len(self.classes))
        if len(data):
            scores = self._log_probabilities(self.members, data, range(len(data)))
            probabilities = scores.exp().float()
        drops = names = None
        if explain:
            drops = [self._weigh_nodes(data, place, p) for place, p in enumerate(probabilities)]
            names = data.node_names
        found = data.graph_ids, self.classes, probabilities, notes
        return GraphPredictions(*found, **known, drops=drops, node_names=names)

    def _weigh_nodes(self, graphs: Graphs, place: int, probabilities: Tensor) -> list[float]:
        """For each node of a graph, the drop of the probability of its class without the node; for
        more than :data:`EXPLAINED` nodes, or one, nothing."""
        size = int(graphs.node_ptr[place : place + 2].diff())
        if not 1 < size <= EXPLAINED:
            return []
        others = without_each_node(graphs, place)
        chosen = int(probabilities.argmax())
        scores = self._log_probabilities(self.members, others, range(size))
        lost: list[float] = (probabilities[chosen] - scores.exp().float()[:, chosen]).tolist()
        return lost

    def embed(
        self,
        graphs: "AnyGraphs | None" = None,
        *,
        ids: Sequence[str] | None = None,
        member: int | None = None,
    ) -> Embeddings:
        """The vectors of graphs before the prediction layer: pooled vectors of their nodes.

        Args:
            graphs, ids: As in :meth:`predict`.
            member: Only the vectors of this member; by default those of all members side by side,
                each scaled by the square root of its share of the weight.
        """
        data, notes, _ = self._select_graphs(graphs, ids)
        members = self._choose_members(member)
        vectors = self._apply("embed", members, data) if len(data) else [torch.empty(0, 0)]
        return Embeddings(data.graph_ids, join_vectors(vectors, members[: len(vectors)]), notes)

    def _select_graphs(
        self, graphs: "AnyGraphs | None", ids: Sequence[str] | None
    ) -> tuple[Graphs, list[str], Known]:
        """The graphs of a query, notes on them, and what is known of them."""
        data = self._load_training_data() if graphs is None else self._read_new_graphs(graphs)
        places = find_positions(ids, data.graph_ids, "there is no graph {}")
        known = self._known(data, places)
        if ids is not None:
            data = data.select(places)
        if not len(data):
            return data, [], known
        self._refuse_huge(data)
        notes = [*(data.notes if graphs is not None else ()), *self._report_unseen(data)]
        return data, notes, known

    @property
    def _edge_features(self) -> EdgeFeatures | None:
        """How edges are encoded; None if the model was trained without labels and features."""
        known = self.card.get("edge_features")
        return None if known is None else EdgeFeatures.from_dict(known)

    @property
    def _uses_edges(self) -> bool:
        return any(member.config.model.uses_edges for member in self.members)

    def _build(
        self, config: GraphConfig, card: Mapping[str, Any], tensors: dict[str, Tensor]
    ) -> tuple[nn.Module, NodeFeatures]:
        options, sizes = config.model, (card["num_features"], len(card["labels"]))
        edges = self._edge_features
        used = edges is not None and options.uses_edges and options.colour_rounds is None
        others = {"edge_dim": edges.num_features} if edges is not None and used else {}
        model = MODELS[options.name].from_options(options, *sizes, **others)
        model.load_state_dict(tensors)
        return model, NodeFeatures.from_dict(card["features"])

    def _logits(
        self,
        members: Sequence[TrainedMember[GraphConfig]],
        data: Graphs,
        places: Sequence[int] | Tensor,
    ) -> Tensor:
        graphs = data if isinstance(places, range) else data.select(places)
        return torch.stack(self._apply("forward", members, graphs))

    @torch.no_grad()
    def _apply(
        self, method: str, members: Sequence[TrainedMember[GraphConfig]], graphs: Graphs
    ) -> list[Tensor]:
        """What a method of each member's model returns for the graphs."""
        capacity = min(max_nodes_per_chunk(1, m.config, self.device) for m in members)
        # Some models also hold vectors of edges, or of attention to them.
        held = 8 if self._edge_features is None else 1
        sizes = torch.maximum(graphs.node_ptr.diff(), graphs.edge_ptr.diff() // held)
        models = [MODELS[m.config.model.name] for m in members]
        dense = any(model.needs_max_row for model in models)
        if any(model.has_pairs for model in models):
            sizes = sizes.square()
        sizes = sizes.clamp(min=max(math.prod(m.config.model.field_shape or (0,)) for m in members))
        pieces = [graphs]
        if int(sizes.max()) * len(sizes) > capacity if dense else int(sizes.sum()) > capacity:
            groups = split_by_size(sizes.tolist(), capacity, padded=dense)
            pieces = [graphs.select(group) for group in groups]
        found = [self._apply_to_piece(method, members, piece) for piece in pieces]
        return [torch.cat(own) for own in zip(*found, strict=True)]

    def _apply_to_piece(
        self, method: str, members: Sequence[TrainedMember[GraphConfig]], graphs: Graphs
    ) -> list[Tensor]:
        """As :meth:`_apply`, for graphs that fit into memory together."""
        cache, found, edges = Cache(), [], self._edge_features
        for member in members:
            options, features = member.config.model, member.preparation
            rounds, model = options.colour_rounds, MODELS[options.name]
            need = (
                rounds,
                options.field_shape,
                options.matrix,
                model.propagations,
                features,
                options.uses_edges,
            )
            colours = None
            if rounds is not None:
                by_edge = takes_edge_labels(options, edges)
                colours = self._bundled[vocabulary_key(features.kind, rounds, edges=by_edge)]
            build = partial(
                build_collection, graphs, options, features, self.device, colours, edges
            )
            inputs = cache.get(need, build)
            call = getattr(member.model, method)
            found.append(call(inputs.features, inputs.graph, inputs.pool))
        return found

    def _parts(self, member: TrainedMember[GraphConfig], data: Graphs) -> dict[str, Tensor]:
        settings = member.config.data
        folds = self._cache.get(settings, lambda: folds_of(data, settings))
        return split_fold(data, folds[member.split], settings, member.split)

    def _explain_overflow(
        self, member: TrainedMember[GraphConfig], data: Graphs, place: int
    ) -> str:
        features: NodeFeatures = member.preparation
        return features.explain_overflow(data.select([place]))

    def _read_training_data(self, data: "AnyGraphs | None") -> Graphs:
        if data is None:
            return GRAPH.load(self.config)
        settings = self.config.data
        graphs, labels = _split_pair(data)
        return source.from_any(
            graphs,
            labels=labels,
            missing=missing_labels(settings.missing),
            **settings.keys,
        )

    def _read_new_data(self, data: AnyGraphs) -> Graphs:
        graphs = self._read_new_graphs(data)
        self._refuse_huge(graphs)
        return replace(graphs, notes=[*graphs.notes, *self._report_unseen(graphs)])

    def _read_new_graphs(self, graphs: AnyGraphs, labels: Iterable[object] | None = None) -> Graphs:
        settings = self.config.data
        if labels is None:
            graphs, labels = _split_pair(graphs)
        read = source.from_any(
            graphs,
            labels=labels,
            missing=missing_labels(settings.missing),
            labels_needed=False,
            **settings.keys,
        )
        for features in {member.preparation for member in self.members}:
            if features.kind == "tags" and features.names != ("0",) and not read.tagged:
                raise UserError(
                    "the graphs have no node tags, but the model was trained with "
                    f"{len(features.names)}; give graphs like those it was trained on"
                )
        if (edges := self._edge_features) is not None:
            if self._uses_edges:
                edges.check(read)
        elif read.edge_tags is not None or read.edge_attributes is not None:
            read.notes.append(
                "the model was trained without labels and features of edges: they are ignored"
            )
        return read

    def _refuse_huge(self, graphs: Graphs) -> None:
        """Checks that what the layers hold of the largest graph fits into memory."""
        sizes = graphs.node_ptr.diff()
        place = int(sizes.argmax())
        numbers = max(member.config.model.num_held(int(sizes[place])) for member in self.members)
        if 4 * numbers > total_memory(self.device):
            raise UserError(
                f"graph {graphs.graph_ids[place]!r} has {int(sizes[place]):,} nodes, which do not "
                "fit into memory; leave the graph out"
            )

    def _report_unseen(self, graphs: Graphs) -> list[str]:
        """Notes on tags, degrees and labels of edges that training never saw."""
        notes, edges = [], self._edge_features
        ways = [
            (m.preparation, m.config.model.colour_rounds is None)
            for m in self.members
            # Fields hold degrees as numbers.
            if m.config.model.field_shape is None or m.preparation.kind == "tags"
        ]
        for features, plain in dict.fromkeys(ways):
            if unseen := features.unknown(graphs):
                quoted = map(repr, unseen) if features.kind == "tags" else unseen
                sentence = (UNSEEN if plain else UNSEEN_COLOURS)[features.kind]
                notes.append(sentence.format(list_some(quoted)))
        if edges is not None and self._uses_edges and (unseen := edges.unknown(graphs)):
            notes.append(UNSEEN_EDGES.format(quote_some(unseen)))
        return notes


def _split_pair(graphs: Any) -> tuple[Any, Any]:
    """The graphs and labels of a pair ``(graphs, labels)``; a tuple of two graphs is none."""
    pair = isinstance(graphs, tuple) and len(graphs) == 2 and isinstance(graphs[0], list | tuple)
    return graphs if pair else (graphs, None)
