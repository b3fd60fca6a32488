"""Graphs and their folds as the models take them."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.data import graph as source
from quatgraph.data.graph.collection import Graphs
from quatgraph.data.group_splits import group_folds, group_validation
from quatgraph.data.splits import PARTS, Fold
from quatgraph.errors import UserError
from quatgraph.layers.messages import MessageGraph
from quatgraph.models.graph import MODELS, GraphOptions
from quatgraph.models.graph.base import GraphNormalization
from quatgraph.tasks.graph.batches import Collection
from quatgraph.tasks.graph.colours import fit_vocabulary, histograms
from quatgraph.tasks.graph.config import DataConfig, GraphConfig
from quatgraph.tasks.graph.features import EdgeFeatures, NodeFeatures
from quatgraph.tasks.graph.fields import build_fields

Encoders = tuple[NodeFeatures, EdgeFeatures | None]
"""What encodes nodes and edges."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Graphs as the models take them, on a device, and their folds."""

    collection: Collection
    folds: list[Fold]
    """Indices of the training and of the test graphs."""
    num_classes: int
    num_features: int
    features: NodeFeatures
    graphs: Graphs
    edges: EdgeFeatures | None = None
    """The labels and features of edges that the graphs have; models may ignore them."""

    @property
    def edge_dim(self) -> int:
        """The number of features of an edge that the model takes."""
        used = self.collection.messages
        return 0 if used is None else used.features.shape[1]

    @property
    def device(self) -> torch.device:
        return self.collection.labels.device


def build_collection(
    graphs: Graphs,
    options: GraphOptions,
    features: NodeFeatures,
    device: torch.device,
    vocabulary: Tensor | None = None,
    edges: EdgeFeatures | None = None,
) -> Collection:
    """Builds the graphs as a model takes them, on a device. For a model of colours, the nodes of
    the collection are the entries of the graphs' histograms; for a model of fields, their places.

    Args:
        vocabulary: For a model of colours, those of the training graphs; by default these graphs.
        edges: How labels and features of edges are encoded; None without them.
    """
    if options.field_shape is not None:
        return _build_fields(graphs, options.field_shape, features, device)
    edges = edges if options.uses_edges else None
    rounds = options.colour_rounds
    if rounds is None:
        propagations = MODELS[options.name].propagations
        return _build_collection(graphs, options.matrix, propagations, (features, edges), device)
    by_edge = takes_edge_labels(options, edges)
    if vocabulary is None:
        vocabulary = fit_vocabulary(graphs, features.kind, rounds, edges=by_edge)
    ptr, entries = histograms(graphs, features.kind, rounds, vocabulary, edges=by_edge)
    return _build_entries(ptr, entries, graphs.y, device)


@lru_cache(maxsize=1)  # the ensembles of a search share it
def _build_fields(
    graphs: Graphs, shape: tuple[int, int], features: NodeFeatures, device: torch.device
) -> Collection:
    return _build_entries(*build_fields(graphs, features, *shape), graphs.y, device)


def _build_entries(ptr: Tensor, x: Codes, labels: Tensor, device: torch.device) -> Collection:
    """A collection without edges."""
    no_edges = Adjacency.from_edge_index(torch.empty(2, 0, dtype=torch.long), int(ptr[-1]))
    return Collection.build(ptr, no_edges, x, labels, device)


def takes_edge_labels(options: GraphOptions, edges: EdgeFeatures | None) -> bool:
    """Whether a model of colours mixes in the labels of edges."""
    return options.uses_edges and edges is not None and bool(edges.names)


@lru_cache(maxsize=1)  # the ensembles of a search share it
def _build_collection(
    graphs: Graphs,
    matrix: GraphNormalization,
    propagations: int,
    features: Encoders,
    device: torch.device,
) -> Collection:
    nodes, edges = features
    x = nodes.of(graphs)
    if propagations:
        x = _propagate(x, _matrix(graphs, "symmetric"), graphs.degrees, propagations)
    symmetric = matrix in ("none", "symmetric", "adjacency")  # the graphs are undirected
    adjacency = _matrix(graphs, matrix)
    built = Collection.build(graphs.node_ptr, adjacency, x, graphs.y, device, symmetric=symmetric)
    if edges is None:
        return built
    messages = _build_messages(graphs, matrix, edges.of(graphs))
    return built.with_messages(messages, graphs.node_ptr)


def _build_messages(
    graphs: Graphs, matrix: GraphNormalization, features: Codes | Tensor
) -> MessageGraph:
    """The messages of all graphs, sorted by sender: one for each label of a node's edges or, with
    real features, for each edge."""
    sender, receiver = graphs.edge_index
    if isinstance(features, Codes):
        label = torch.where(features.weight > 0, features.code, features.num_codes)
        key, message = (sender * (features.num_codes + 1) + label).unique(return_inverse=True)
        sent_by, label = key // (features.num_codes + 1), key % (features.num_codes + 1)
        known = label < features.num_codes
        features = Codes(torch.where(known, label, 0).int(), known.float(), features.num_codes)
    else:
        sent_by, message = sender, torch.arange(len(sender))
    degree, loops = graphs.degrees + 1.0, None
    weight = torch.ones(len(sender))
    if matrix == "row":
        weight = 1 / degree[receiver]
    elif matrix == "symmetric":
        weight = (degree[sender] * degree[receiver]).rsqrt()
    nodes, count = graphs.num_nodes, len(sent_by)
    if matrix != "none":
        every = torch.arange(nodes)
        loops = Adjacency.from_entries(every, every, 1 / degree, (nodes, nodes))
    return MessageGraph(
        senders=Adjacency.from_entries(torch.arange(count), sent_by, None, (count, nodes)),
        sums=Adjacency.from_entries(receiver, message, weight, (nodes, count)),
        loops=loops,
        features=features,
    )


def _matrix(graphs: Graphs, matrix: GraphNormalization) -> Adjacency:
    loops = matrix not in ("neighbours", "adjacency")
    made = Adjacency.from_edge_index(graphs.edge_index, graphs.num_nodes, self_loops=loops)
    if matrix == "adjacency":
        return made
    return made.normalized("row" if matrix == "neighbours" else matrix)


def _propagate(
    x: Codes | Tensor, adjacency: Adjacency, degrees: Tensor, propagations: int
) -> Tensor:
    """Concatenates degrees, features, and the features after each propagation."""
    steps = [x @ torch.eye(x.num_codes) if isinstance(x, Codes) else x]
    for _ in range(propagations):
        steps.append(adjacency @ steps[-1])
    return torch.cat((degrees[:, None].float(), *steps), dim=1)


def folds_of(graphs: Graphs, config: DataConfig) -> list[Fold]:
    """The folds of a config; the user's own graphs have sampled ones only, or their own split, as
    the only fold, without its validation part."""
    if config.folds == "fixed":
        if not config.name:
            raise UserError(
                "data.folds=fixed needs a dataset with published folds; your own graphs have drawn "
                "ones: data.folds=stratified"
            )
        folds = source.fixed_folds(config.name)
        if any(len(train) + len(test) != len(graphs) for train, test in folds):
            raise UserError(
                f"the published folds of {config.name} are not for these {len(graphs)} graphs: "
                "use data.folds=stratified"
            )
        return folds
    if graphs.parts is not None:
        train, _, test = own_parts(graphs, graphs.parts)
        return [(train, test)]
    if graphs.groups is not None:
        count = len(graphs.groups[graphs.y >= 0].unique())
        if count < config.num_folds:
            raise UserError(
                f"{count} groups are too few for {config.num_folds} folds: take fewer with "
                f"data.num_folds={max(2, count)}, or name another data.group"
            )
        return group_folds(graphs.y, graphs.groups, config.num_folds, config.fold_seed)
    return source.stratified_folds(
        graphs.y, config.num_folds, config.fold_seed, names=graphs.label_names
    )


def split_indices(problem: Problem, config: GraphConfig, split: int) -> dict[str, Tensor]:
    """The indices of a run's training, validation and test graphs."""
    if config.train.labels == "all":
        known = (problem.graphs.y >= 0).nonzero().flatten()
        return {"train": known, "valid": known[:0], "test": known}
    return split_fold(problem.graphs, problem.folds[split], config.data, split)


def split_fold(graphs: Graphs, fold: Fold, config: DataConfig, split: int) -> dict[str, Tensor]:
    """The indices of the training, validation and test graphs of a fold."""
    train, test = fold
    valid = train[:0] if graphs.parts is None else own_parts(graphs, graphs.parts)[1]
    if config.validation > 0 and not len(valid):
        seed, share = config.fold_seed + split, config.validation
        if graphs.groups is None:
            train, valid = source.inner_validation(graphs.y, train, seed, share)
        else:
            train, valid = group_validation(graphs.y, graphs.groups, train, seed, share)
    return {"train": train, "valid": valid, "test": test}


def own_parts(graphs: Graphs, parts: Tensor) -> list[Tensor]:
    """The indices of the labelled graphs that their own split has for train, valid and test."""
    known = torch.where(graphs.y >= 0, parts, -1)
    return [(known == place).nonzero().flatten() for place in range(len(PARTS))]
