"""Graphs and their folds as the models take them."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.data import graph as source
from quatgraph.data.graph.collection import Graphs
from quatgraph.data.splits import Fold
from quatgraph.errors import UserError
from quatgraph.models.graph import MODELS, GraphOptions
from quatgraph.models.graph.base import GraphNormalization
from quatgraph.tasks.graph.batches import Collection
from quatgraph.tasks.graph.config import DataConfig, GraphConfig
from quatgraph.tasks.graph.features import NodeFeatures


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

    @property
    def device(self) -> torch.device:
        return self.collection.labels.device


def build_collection(
    graphs: Graphs, options: GraphOptions, features: NodeFeatures, device: torch.device
) -> Collection:
    """Builds the graphs as a model takes them, on a device."""
    propagations = MODELS[options.name].propagations
    return _build_collection(graphs, options.matrix, propagations, features, device)


@lru_cache(maxsize=1)  # the ensembles of a search share it
def _build_collection(
    graphs: Graphs,
    matrix: GraphNormalization,
    propagations: int,
    features: NodeFeatures,
    device: torch.device,
) -> Collection:
    x = features.of(graphs)
    if propagations:
        x = _propagate(x, _matrix(graphs, "symmetric"), graphs.degrees, propagations)
    symmetric = matrix in ("none", "symmetric")  # the graphs are undirected
    adjacency = _matrix(graphs, matrix)
    return Collection.build(graphs.node_ptr, adjacency, x, graphs.y, device, symmetric=symmetric)


def _matrix(graphs: Graphs, matrix: GraphNormalization) -> Adjacency:
    loops = matrix != "neighbours"
    made = Adjacency.from_edge_index(graphs.edge_index, graphs.num_nodes, self_loops=loops)
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
    """The folds of a config; the user's own graphs have sampled ones only."""
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
    return source.stratified_folds(
        graphs.y, config.num_folds, config.fold_seed, names=graphs.label_names
    )


def split_indices(problem: Problem, config: GraphConfig, split: int) -> dict[str, Tensor]:
    """The indices of a run's training, validation and test graphs."""
    return split_fold(problem.graphs.y, problem.folds[split], config.data, split)


def split_fold(y: Tensor, fold: Fold, config: DataConfig, split: int) -> dict[str, Tensor]:
    """The indices of the training, validation and test graphs of a fold, by the classes ``y``."""
    train, test = fold
    valid = train[:0]
    if config.validation > 0:
        seed = config.fold_seed + split
        train, valid = source.inner_validation(y, train, seed, config.validation)
    return {"train": train, "valid": valid, "test": test}
