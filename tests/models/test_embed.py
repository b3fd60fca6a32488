"""Every model has vectors of what it classifies, from which its prediction layer makes logits."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from cities import cities
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.models.graph import MODELS as GRAPH_MODELS
from quatgraph.models.link import MODELS as LINK_MODELS
from quatgraph.models.link import build_model
from quatgraph.models.link.graphs import build_graph
from quatgraph.models.node import MODELS as NODE_MODELS
from quatgraph.models.node import NodeModel, NodeOptions
from quatgraph.models.text import MODELS as TEXT_MODELS

ITEMS, CLASSES = 90, 3


def linear_residual(inputs: Tensor, outputs: Tensor) -> float:
    """How far the outputs are from the best affine map of the inputs, relative to their size."""
    design = torch.cat((inputs, torch.ones(len(inputs), 1)), dim=1).double()
    best = torch.linalg.lstsq(design, outputs.double(), driver="gelsd").solution
    return float((design @ best - outputs).norm() / (outputs - outputs.mean(dim=0)).norm())


def ring(nodes: int) -> Adjacency:
    node = torch.arange(nodes)
    return Adjacency.of(torch.stack((node, (node + 1) % nodes)), nodes)


def small(kind: Any, **options: int) -> Any:
    """Options of a model, as far as it has them."""
    names = {field.name for field in fields(kind.Options)}
    return kind.Options(**{name: value for name, value in options.items() if name in names})


def equal_pools(items: int, size: int) -> Adjacency:
    """Items of ``size`` consecutive nodes each."""
    row = torch.arange(items).repeat_interleave(size)
    return Adjacency.from_entries(row, torch.arange(items * size), None, (items, items * size))


@pytest.mark.parametrize("name", NODE_MODELS)
@torch.no_grad()
def test_the_prediction_layer_of_nodes_takes_their_vectors(name):
    kind = NODE_MODELS[name]
    model = kind.from_options(small(kind, hidden_quats=2), 5, CLASSES).eval()
    x, graph = torch.randn(ITEMS, 5), ring(ITEMS)
    vectors, logits = model.embed(x, graph), model(x, graph)
    assert vectors.dtype == torch.float32
    assert len(vectors) == ITEMS
    if kind.embed is not NodeModel.embed and name != "gat":  # whose attention is not linear
        assert linear_residual(torch.cat((graph @ vectors, vectors), dim=1), logits) < 1e-5
    if name == "gat":
        assert torch.equal(model._convolve(2, vectors, graph), logits)


@pytest.mark.parametrize("name", GRAPH_MODELS)
@torch.no_grad()
def test_the_prediction_layer_of_graphs_takes_their_vectors(name):
    kind = GRAPH_MODELS[name]
    model = kind.from_options(small(kind, hidden_quats=1, num_layers=2), 5, CLASSES).eval()
    if name == "wl":  # which starts with zeros
        torch.nn.init.normal_(model.weight)
    x, graph, pool = torch.randn(4 * ITEMS, 5), ring(4 * ITEMS), equal_pools(ITEMS, 4)
    vectors, logits = model.embed(x, graph, pool), model(x, graph, pool)
    assert vectors.dtype == torch.float32
    assert len(vectors) == ITEMS
    if name == "gin":  # which predicts from the summed input too
        vectors = torch.cat((vectors, pool @ x), dim=1)
    if name != "capsgnn":  # whose routing is not linear
        assert linear_residual(vectors, logits) < 1e-4


# A model with what it fitted to documents has no hidden vector: it embeds as its logits.
@pytest.mark.parametrize("name", [name for name in TEXT_MODELS if not TEXT_MODELS[name].fitted])
@torch.no_grad()
def test_the_prediction_layer_of_texts_takes_their_vectors(name):
    kind = TEXT_MODELS[name]
    words = Codes(torch.randint(7, (4 * ITEMS,)), torch.ones(4 * ITEMS), 7)
    size, x = (7, words) if kind.takes_words else (8, words @ torch.randn(7, 8))
    model = kind.from_options(small(kind, hidden_quats=1), size, CLASSES).eval()
    for value in model.parameters():
        torch.nn.init.normal_(value)  # fastText starts with zeros
    inputs: tuple[Any, ...] = x, ring(4 * ITEMS), equal_pools(ITEMS, 4)
    vectors, logits = model.embed(*inputs), model(*inputs)
    assert vectors.dtype == torch.float32
    assert len(vectors) == ITEMS
    assert linear_residual(vectors, logits) < 1e-4


# Inverse relations must have vectors of their own in ConvE, and a vector of RESCAL is a matrix.
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", LINK_MODELS)
@torch.no_grad()
def test_entities_and_relations_have_vectors(name, reciprocal):
    kind, reciprocal = LINK_MODELS[name], reciprocal or name in ("conve", "sacn")
    triples, options = cities(), kind.Options(dim_quats=2)
    sizes = triples.num_entities, triples.num_relations
    model = build_model(options, triples, reciprocal=reciprocal).eval()
    assert model.encode(build_graph(triples, options.graph)).shape == (sizes[0], 8)
    rows = 2 * sizes[1] if reciprocal else sizes[1]
    assert model.embed_relations().shape == (rows, 64 if name == "rescal" else 8)


def test_a_model_without_hidden_vectors_embeds_as_its_logits():
    class Sums(NodeModel):
        Options = NodeOptions

        def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
            return adjacency @ x

    x = torch.randn(6, 2)
    assert torch.equal(Sums().embed(x, ring(6)), ring(6) @ x)
