"""Graphs and their folds as the models take them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency
from quatgraph.baselines.graph import (
    GraphGAT,
    GraphGCN,
    GraphGFN,
    GraphGIN,
    GraphSAGE,
    StructureFree,
)
from quatgraph.codes import Codes
from quatgraph.data import graph as source
from quatgraph.data.collection import Graphs
from quatgraph.data.folds import Fold
from quatgraph.data.vocabulary import missing_labels
from quatgraph.errors import Mistake
from quatgraph.models.graph import GraphQGNN
from quatgraph.tasks.graph.batches import Collection
from quatgraph.tasks.graph.config import DataConfig, GraphConfig, ModelConfig
from quatgraph.tasks.graph.features import NodeFeatures

Build = Callable[[ModelConfig, int, int], nn.Module]
"""A model of a config, for so many features and classes."""
Matrix = Literal["none", "row", "symmetric", "neighbours"]
"""A + I, as it is or normalised; or the mean over the neighbours alone."""


def _qgnn(model: ModelConfig, features: int, classes: int) -> nn.Module:
    return GraphQGNN(
        features,
        classes,
        hidden_quats=model.hidden_quats,
        num_layers=model.num_layers,
        dropout=model.dropout,
        masks=model.masks,
        activation=model.activation,
        norm=model.norm,
        pooled_dropout=model.pooled_dropout,
        per_layer=model.per_layer,
    )


def _real(kind: Callable[..., nn.Module], *own: str) -> Build:
    """Makes a real model of the same width; ``own`` are settings that not all of them take."""

    def build(model: ModelConfig, features: int, classes: int) -> nn.Module:
        return kind(
            features,
            classes,
            hidden=4 * model.hidden_quats,
            num_layers=model.num_layers,
            pooled_dropout=model.pooled_dropout,
            **{key: getattr(model, key) for key in own},
        )

    return build


MODELS: dict[str, Build] = {
    "qgnn": _qgnn,
    "gcn": _real(GraphGCN, "dropout", "per_layer"),
    "sage": _real(GraphSAGE, "dropout", "per_layer"),
    "gat": _real(GraphGAT, "dropout", "per_layer", "heads"),
    "gin": _real(GraphGIN),
    "gfn": _real(GraphGFN),
    "structure-free": _real(StructureFree, "vertex"),
}

PROPAGATIONS = 3
"""How often GFN's features are propagated over the graph, beforehand."""


def load_graphs(config: DataConfig, *, labels_needed: bool = True) -> Graphs:
    """Reads the dataset a config names, or the person's own files."""
    configs.check_source(config)
    if config.name:
        return source.load(config.name)
    missing = missing_labels(config.missing)
    return source.read(Path(config.path), missing=missing, labels_needed=labels_needed)


@dataclass(frozen=True, slots=True)
class Problem:
    """Graphs as the models take them, on a device, and their folds."""

    collection: Collection
    folds: list[Fold]
    """Places of the training and of the test graphs."""
    num_classes: int
    num_features: int
    features: NodeFeatures
    graphs: Graphs


def prepare(graphs: Graphs, config: GraphConfig, device: torch.device) -> Problem:
    """Codes nodes, prepares the matrix a model multiplies with, and moves all to the device."""
    features = NodeFeatures.fit(graphs, config.data.features)
    collection = collected(graphs, config.model, features, device)
    return Problem(
        collection=collection,
        folds=folds_of(graphs, config.data),
        num_classes=graphs.num_classes,
        num_features=collection.features.shape[1],
        features=features,
        graphs=graphs,
    )


def collected(
    graphs: Graphs, model: ModelConfig, features: NodeFeatures, device: torch.device
) -> Collection:
    """The graphs as a model takes them, on a device."""
    return _collected(graphs, matrix_of(model), model.name == "gfn", features, device)


@lru_cache(maxsize=1)  # the ensembles of a search share it
def _collected(
    graphs: Graphs,
    matrix: Matrix,
    propagated: bool,
    features: NodeFeatures,
    device: torch.device,
) -> Collection:
    nodes = torch.arange(graphs.num_nodes, dtype=torch.int32)
    whole = torch.arange(graphs.num_nodes + 1, dtype=torch.int32)
    owner = torch.arange(len(graphs), dtype=torch.int32)
    pool = Adjacency(
        rowptr=graphs.node_start.int(),
        col=nodes,
        weight=torch.ones(graphs.num_nodes),
        t_rowptr=whole,
        t_col=owner.repeat_interleave(graphs.node_start.diff()),
        t_perm=nodes,
    )
    x = features.of(graphs)
    if propagated:
        x = _propagated(x, _matrix(graphs, "symmetric"), graphs.degrees)
    return Collection(
        node_start=graphs.node_start.int().to(device),
        adjacency=_matrix(graphs, matrix).to(device),
        symmetric=matrix in ("none", "symmetric"),  # the graphs are undirected
        pool=pool.to(device),
        features=x.to(device),
        labels=graphs.y.to(device),
    )


def matrix_of(model: ModelConfig) -> Matrix:
    """The matrix that a model multiplies with."""
    if model.name == "sage":
        return "neighbours"
    return model.normalization if model.name in ("qgnn", "gcn") else "none"


def _matrix(graphs: Graphs, matrix: Matrix) -> Adjacency:
    loops = matrix != "neighbours"
    made = Adjacency.from_edge_index(graphs.edge_index, graphs.num_nodes, self_loops=loops)
    return made.normalized("row" if matrix == "neighbours" else matrix)


def _propagated(x: Codes | Tensor, adjacency: Adjacency, degrees: Tensor) -> Tensor:
    """GFN's features: the degree, the features, and the features propagated a few times."""
    steps = [x @ torch.eye(x.num_codes) if isinstance(x, Codes) else x]
    for _ in range(PROPAGATIONS):
        steps.append(adjacency @ steps[-1])
    return torch.cat((degrees[:, None].float(), *steps), dim=1)


def folds_of(graphs: Graphs, config: DataConfig) -> list[Fold]:
    """The folds a config asks for; a person's own graphs have drawn ones only."""
    if config.folds == "fixed":
        if not config.name:
            raise Mistake(
                "data.folds=fixed needs a dataset with published folds; your own graphs have drawn "
                "ones: data.folds=stratified"
            )
        folds = source.fixed_folds(config.name)
        if any(len(train) + len(test) != len(graphs) for train, test in folds):
            raise Mistake(
                f"the published folds of {config.name} are not for these {len(graphs)} graphs: "
                "use data.folds=stratified"
            )
        return folds
    return source.stratified_folds(
        graphs.y, config.num_folds, config.fold_seed, names=graphs.label_names
    )


def parts_of(problem: Problem, config: GraphConfig, split: int) -> dict[str, Tensor]:
    """Places of a run's training, validation and test graphs."""
    train, test = problem.folds[split]
    valid = train[:0]
    if config.data.validation > 0:
        seed = config.data.fold_seed + split
        train, valid = source.inner_validation(
            problem.graphs.y, train, seed, config.data.validation
        )
    return {"train": train, "valid": valid, "test": test}


def build_model(config: GraphConfig, problem: Problem) -> nn.Module:
    return MODELS[config.model.name](config.model, problem.num_features, problem.num_classes)
