"""PATCHY-SAN against torch's convolutions, with padding and in ensembles."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.models.graph import GraphPSCN
from quatgraph.tasks.graph.batches import Batch, Capacity, Collection, assemble
from quatgraph.training.ensemble import Ensemble

FIELD_SIZE, TAGS, CLASSES, COUNT = 3, 4, 2, 5
both_sizes = pytest.mark.parametrize("num_fields", [4, 12], ids=["one window", "three windows"])


def collection(num_fields: int) -> Collection:
    """Random fields of a few graphs, with places that have no node."""
    generator = torch.Generator().manual_seed(3)
    places = COUNT * num_fields * FIELD_SIZE
    tag = torch.randint(TAGS, (places,), generator=generator)
    code = torch.arange(places) % FIELD_SIZE * TAGS + tag
    weight = (torch.rand(places, generator=generator) > 0.2).double()
    ptr = torch.arange(COUNT + 1) * num_fields * FIELD_SIZE
    no_edges = Adjacency.from_edge_index(torch.empty(2, 0, dtype=torch.long), places)
    x = Codes(code.int(), weight, FIELD_SIZE * TAGS)
    return Collection.build(ptr, no_edges, x, torch.zeros(COUNT).long(), torch.device("cpu"))


def build(num_fields: int) -> GraphPSCN:
    sizes = {"num_fields": num_fields, "field_size": FIELD_SIZE}
    model = GraphPSCN(FIELD_SIZE * TAGS, CLASSES, **sizes).double()
    with torch.no_grad():
        for value in model.parameters():
            value += torch.randn_like(value) / 10  # biases too
    return model


def batch(whole: Collection, graphs: list[list[int]]) -> Batch:
    size = whole.num_nodes[0].item() * len(graphs[0])
    return assemble(whole, torch.tensor(graphs), Capacity(int(size)))


def reference(model: GraphPSCN, x: Codes) -> Tensor:
    dense = x @ torch.eye(x.num_codes, dtype=torch.float64)
    rows = dense.view(-1, FIELD_SIZE, FIELD_SIZE, TAGS).diagonal(dim1=1, dim2=2).mT
    image = rows.reshape(-1, model.num_fields * FIELD_SIZE, TAGS).mT  # (G, tags, places)
    filters = model.field_conv.weight.view(16, FIELD_SIZE, TAGS).mT
    y = F.conv1d(image, filters, model.field_bias, stride=FIELD_SIZE).relu()
    filters = model.conv.weight.view(8, -1, 16).mT
    y = F.conv1d(y, filters, model.conv.bias).relu()
    return model.prediction(model.dense(y.mT.flatten(1)).relu())


@both_sizes
def test_is_a_stack_of_two_convolutions_and_a_perceptron(num_fields: int) -> None:
    whole, model = collection(num_fields), build(num_fields)
    x = whole.features
    assert isinstance(x, Codes)
    torch.testing.assert_close(model(x, whole.adjacency, whole.pool), reference(model, x))


@both_sizes
def test_padding_and_other_members_change_nothing(num_fields: int) -> None:
    whole = collection(num_fields)
    graphs = [[2, -1, 0], [-1, 4, 1]]
    made = batch(whole, graphs)
    ensemble = Ensemble([lambda: build(num_fields)] * 2, [0, 1]).double()
    found = made.through(ensemble, made.features)
    for m, own in enumerate(graphs):
        model = build(num_fields)
        model.load_state_dict(ensemble.member(m), strict=False)
        alone = model(whole.features, whole.adjacency, whole.pool)
        for slot, graph in enumerate(own):
            if graph >= 0:
                torch.testing.assert_close(found[m, slot], alone[graph])
