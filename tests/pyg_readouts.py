"""Readouts, attention over layers and virtual nodes of parts of PyG's, with our weights."""

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn

from quatgraph.layers.jumping import LayerAttention
from quatgraph.layers.pooling import GraphPooling


def loaded(theirs: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    theirs = theirs.double()
    theirs.load_state_dict(weights, strict=False)
    return theirs


def by_layers(model: nn.Module, x: Tensor, layers: list[Tensor], batch_index: Tensor) -> Tensor:
    readout = model.readout
    layers = jumped(readout.attention, layers)
    pooled = [pool(*pair, batch_index) for pair in zip(readout.poolings, layers, strict=True)]
    vectors = torch.cat(pooled, dim=1)
    if readout.perceptron is not None:
        maps = readout.perceptron
        own = pyg.global_add_pool(maps.features(x), batch_index)
        vectors = maps.hidden((maps.pooled(vectors) + own).relu()).relu()
    return F.linear(vectors, readout.weight, readout.bias.sum(dim=0))


def pool(pooling: GraphPooling, x: Tensor, batch_index: Tensor) -> Tensor:
    if pooling.set2set is None:
        sums, means, peaks = pyg.global_add_pool, pyg.global_mean_pool, pyg.global_max_pool
        return {"sum": sums, "mean": means, "max": peaks}[pooling.kind](x, batch_index)
    theirs, ours = pyg.aggr.Set2Set(x.size(1), processing_steps=3), pooling.set2set
    weights = {
        "lstm.weight_ih_l0": ours.inputs.weight,
        "lstm.bias_ih_l0": ours.inputs.bias,
        "lstm.weight_hh_l0": ours.states.weight,
        "lstm.bias_hh_l0": ours.states.bias,
    }
    return loaded(theirs, weights)(x, batch_index)


def jumped(attention: LayerAttention | None, layers: list[Tensor]) -> list[Tensor]:
    if attention is None:
        return layers
    weights = {f"lstm.{name}": value for name, value in attention.up.named_parameters()}
    weights |= {f"lstm.{name}_reverse": value for name, value in attention.down.named_parameters()}
    weights |= {f"att.{name}": value for name, value in attention.score.named_parameters()}
    theirs = pyg.JumpingKnowledge("lstm", channels=layers[0].size(1), num_layers=len(layers))
    return [loaded(theirs, weights)(layers)]


class Virtual:
    """The virtual node of each graph of a batch, graph by graph."""

    def __init__(self, model: nn.Module, batch_index: Tensor) -> None:
        self.steps, self.batch_index = iter(model.virtual_nodes), batch_index
        self.vectors: dict[int, Tensor | float] = {}

    def add(self, x: Tensor) -> Tensor:
        """The vectors of all nodes once the virtual nodes have received and sent."""
        step = next(self.steps, None)
        if step is None:
            return x
        x = x.clone()
        for graph in self.batch_index.unique().tolist():
            own = self.batch_index == graph
            received = self.vectors.get(graph, 0.0) + x[own].mean(dim=0)
            self.vectors[graph] = step.activation(step.linear(received))
            x[own] = x[own] + self.vectors[graph]
        return x
