"""One law for every layer: stacked members equal single ones.

A layer takes parameters and inputs with a leading dimension of members, or runs under ``vmap``.
There are as many members as nodes, features or graphs in turn, so that a sum that aligns members
with rows gives other values instead of an error.
"""

from collections.abc import Callable

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from quatgraph import layers
from quatgraph.adjacency import Adjacency
from quatgraph.layers import (
    bilinear_decoder,
    conv_decoder,
    decoder,
    hyperbolic,
    jumping,
    linear,
    phm_decoder,
    pooling,
    readout,
    real,
    residual,
    virtual_node,
)

N, G, F = 6, 2, 8  # nodes, graphs, width
ENTITIES, RELATIONS, QUERIES = 5, 3, 4
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
ADJACENCY = Adjacency.of(EDGES, N)
POOL = Adjacency.from_entries(
    torch.tensor([0, 0, 0, 1, 1, 1]), torch.arange(N), None, (G, N)
)  # which nodes each graph has


def nodes(members: int) -> tuple[Tensor]:
    return (torch.randn(members, N, F),)


def two_of_nodes(members: int) -> tuple[Tensor, Tensor]:
    return torch.randn(members, N, F), torch.randn(members, N, F)


def queries(members: int) -> tuple[Tensor, ...]:
    head = torch.randint(ENTITIES, (members, QUERIES))
    relation = torch.randint(2 * RELATIONS, (members, QUERIES))
    return torch.randn(members, ENTITIES, F), head, relation


Build = Callable[[], nn.Module]
Inputs = Callable[[int], tuple[Tensor, ...]]
GRAPH: tuple[Adjacency, ...] = (ADJACENCY,)
# How to build a layer, its inputs of each member, and what all members share.
LAYERS: dict[str, tuple[Build, Inputs, tuple[Adjacency, ...]]] = {
    "QuaternionLinear": (lambda: layers.QuaternionLinear(F, F, bias=True), nodes, ()),
    "QGNNConv": (lambda: layers.QGNNConv(F, F, bias=True), nodes, GRAPH),
    "QGATConv": (lambda: layers.QGATConv(F, 4, 2), nodes, GRAPH),
    "QSAGEConv": (lambda: layers.QSAGEConv(F, F, project=True), nodes, GRAPH),
    "QSAGEConv, max": (lambda: layers.QSAGEConv(F, F, "max"), nodes, GRAPH),
    "QGINConv": (
        lambda: layers.QGINConv(layers.QuaternionLinear(F, F, bias=True), train_eps=True),
        nodes,
        GRAPH,
    ),
    "PHMLinear": (lambda: layers.PHMLinear(F, F, 4, bias=True), nodes, ()),
    "SimplifiedQGNNConv": (lambda: layers.SimplifiedQGNNConv(F, F, bias=True), nodes, GRAPH),
    "GatedQGNNConv": (lambda: layers.GatedQGNNConv(F, bias=True), nodes, GRAPH),
    "GatedGNNConv": (lambda: layers.GatedGNNConv(F, bias=True), nodes, GRAPH),
    "BatchNorm": (lambda: layers.BatchNorm(F, "relu"), nodes, ()),
    "QuaternionDropout": (lambda: layers.QuaternionDropout(0.5), nodes, ()),
    "AttentionReadout": (lambda: layers.AttentionReadout(F, 3, bias=True), nodes, (POOL,)),
    "AttentionReadout, mean": (
        lambda: layers.AttentionReadout(F, 3, pooling="mean-plus-max"),
        nodes,
        (POOL,),
    ),
    "LayerwiseReadout": (lambda: _Readout(), nodes, (POOL,)),
    "ReadoutPerceptron": (lambda: _Readout("perceptron"), nodes, (POOL,)),
    "Set2Set": (lambda: pooling.Set2Set(F), nodes, (POOL,)),
    "max pooling": (lambda: pooling.GraphPooling(F, "max"), nodes, (POOL,)),
    "LayerAttention": (lambda: _TwoLayers(), two_of_nodes, ()),
    "VirtualNode": (lambda: virtual_node.VirtualNode(F), nodes, (POOL,)),
    "RealLinear": (lambda: linear.RealLinear(F, F), nodes, ()),
    "GlorotLinear": (lambda: linear.GlorotLinear(F, F), nodes, ()),
    **{
        f"decoder {name}": (lambda made=made: made(RELATIONS, F, norm=True), queries, ())
        for name, made in decoder.DECODERS.items()
    },
    "ConvE": (lambda: conv_decoder.ConvE(RELATIONS, F, num_entities=ENTITIES), queries, ()),
    "ConvTransE": (lambda: conv_decoder.ConvTransE(RELATIONS, F, num_filters=6), queries, ()),
    "RESCAL": (lambda: bilinear_decoder.RESCAL(RELATIONS, F), queries, ()),
    "TuckER": (lambda: bilinear_decoder.TuckER(RELATIONS, F, relation_width=3), queries, ()),
    "PHMDecoder": (
        lambda: phm_decoder.PHMDecoder(RELATIONS, F, n=4, rules="learned"),
        queries,
        (),
    ),
    "LinearOfSums": (lambda: real.LinearOfSums(F, F), nodes, GRAPH),
    "GraphConv": (lambda: real.GraphConv(F, F), nodes, GRAPH),
    "NeighbourMean": (lambda: real.NeighbourMean(F, F), nodes, GRAPH),
    "SumPerceptron": (lambda: real.SumPerceptron(F, F), nodes, GRAPH),
    "HyperbolicConv": (lambda: hyperbolic.HyperbolicConv(F, F), nodes, GRAPH),
    "ResidualQGNNConv": (lambda: residual.ResidualQGNNConv(F, 0.1), two_of_nodes, GRAPH),
    "ResidualGraphConv": (lambda: residual.ResidualGraphConv(F, 0.1), two_of_nodes, GRAPH),
    "GraphAttention": (lambda: real.GraphAttention(F, 4, heads=2), nodes, GRAPH),
}
ONLY_VMAP = {"GraphAttention", "QGATConv", "QSAGEConv, max"}
"""Heads or entries stand where members would."""


ONLY_STACKED = {"LayerAttention"}
"""Its LSTMs are members too."""


class _TwoLayers(nn.Module):
    """:class:`LayerAttention` to two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = jumping.LayerAttention(F, 2)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.attention([first, second])


class _Readout(nn.Module):
    """:class:`LayerwiseReadout` of a single layer's vectors."""

    def __init__(self, head: readout.Head = "linear") -> None:
        super().__init__()
        self.readout = layers.LayerwiseReadout([F], 3, per_layer=True, head=head, in_channels=F)

    def forward(self, x: Tensor, pool: Adjacency) -> Tensor:
        return self.readout([x], pool, x)


def members_of(build: Build, count: int) -> list[nn.Module]:
    """Members whose parameters and buffers all differ, biases too."""
    made = [build().eval() for _ in range(count)]
    with torch.no_grad():
        for member in made:
            for value in member.state_dict().values():
                value.uniform_(0.5, 1.5)
    return made


WAYS = [("vmap", name) for name in LAYERS if name not in ONLY_STACKED]
WAYS += [("stacked", name) for name in LAYERS if name not in ONLY_VMAP]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("members", [1, 2, 3, ENTITIES, N, F])
@pytest.mark.parametrize(("way", "name"), WAYS)
def test_stacked_members_equal_single_ones(way, name, members, device):
    build, inputs_of, shared = LAYERS[name]
    made = [member.to(device) for member in members_of(build, members)]
    inputs = [value.to(device) for value in inputs_of(members)]
    shared = tuple(value.to(device) for value in shared)
    state = dict(pair for part in stack_module_state(made) for pair in part.items())

    def call(state: dict[str, Tensor], *inputs: Tensor) -> object:
        return functional_call(made[0], state, (*inputs, *shared))

    batched = call(state, *inputs) if way == "stacked" else torch.vmap(call)(state, *inputs)
    for place, member in enumerate(made):
        alone = member(*(value[place] for value in inputs), *shared)
        own = pytree.tree_map(lambda value: value[place], batched)  # noqa: B023
        torch.testing.assert_close(own, alone)


def test_every_layer_is_held_to_the_law():
    modules = (
        *(layers, linear, bilinear_decoder, conv_decoder, decoder, real, hyperbolic, residual),
        *(jumping, pooling, readout, virtual_node),
    )
    exported = {
        found.__name__
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, nn.Module) and found.__name__[0] != "_"
    }
    tried = {type(build()).__name__ for build, *_ in LAYERS.values()}
    # Within _Readout and _TwoLayers; the others are abstract.
    abstract = {"RowDecoder", "TripleDecoder", "ResidualConv"}
    held = {"LayerwiseReadout", "ReadoutPerceptron", "LayerAttention"}
    assert exported <= tried | abstract | held
