"""Labels and features of edges, from the collection to the logits of batches."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from quatgraph.algebra import hamilton_matrix_tiled
from quatgraph.data.graph import Graphs
from quatgraph.data.graph.jsonl import merge_objects
from quatgraph.models.graph import MODELS, GraphGIN, GraphQGNN
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.batches import Capacity, assemble
from quatgraph.tasks.graph.colours import node_colours
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.graph.features import EdgeFeatures, NodeFeatures
from quatgraph.tasks.graph.problem import build_collection
from quatgraph.training.ensemble import Ensemble

CPU = torch.device("cpu")
LABELS = ["single", "double", "aromatic"]


def random_graphs(count: int = 24, *, features: bool = False, labels: bool = True) -> Graphs:
    """Random graphs, the last of them without edges."""
    random = torch.Generator().manual_seed(0)
    objects: list[dict[str, Any]] = []
    for place in range(count):
        size = 3 + place % 5
        drawn = torch.randint(size, (0 if place == count - 1 else 2 * size, 2), generator=random)
        pairs = sorted({tuple(sorted(pair)) for pair in drawn.tolist() if pair[0] != pair[1]})
        own: dict[str, Any] = {"edges": [list(pair) for pair in pairs], "label": place % 2}
        own["node_labels"] = torch.randint(4, (size,), generator=random).tolist()
        if labels:
            chosen = torch.randint(len(LABELS), (len(pairs),), generator=random).tolist()
            own["edge_labels"] = [LABELS[one] for one in chosen]
        if features:
            own["edge_features"] = torch.randn(len(pairs), 2, generator=random).tolist()
        objects.append(own)
    return merge_objects((f"graph {place}", own) for place, own in enumerate(objects))


def encoders(graphs: Graphs) -> tuple[NodeFeatures, EdgeFeatures]:
    edges = EdgeFeatures.fit(graphs)
    assert edges is not None
    return NodeFeatures.fit(graphs, "tags"), edges


def collection_of(graphs: Graphs, name: str, **options: Any) -> Any:
    nodes, edges = encoders(graphs)
    chosen = MODELS[name].Options(name=name, **options)
    return build_collection(graphs, chosen, nodes, CPU, edges=edges)


def dense_edges(graphs: Graphs) -> Tensor:
    """One-hot labels, then standardised features, ``(E, D)``, by plain indexing."""
    parts = []
    if graphs.edge_tags is not None:
        parts.append(torch.eye(len(graphs.edge_tag_names))[graphs.edge_tags])
    if (x := graphs.edge_attributes) is not None:
        parts.append((x - x.mean(dim=0)) / x.std(dim=0, correction=0))
    return torch.cat(parts, dim=1)


every_kind = pytest.mark.parametrize(
    ("labels", "features"), [(True, False), (False, True), (True, True)]
)


@every_kind
def test_gin_on_edges_is_pygs_gine(labels: bool, features: bool) -> None:
    graphs = random_graphs(labels=labels, features=features)
    collection, (_, edges) = collection_of(graphs, "gin"), encoders(graphs)
    torch.manual_seed(0)
    model = GraphGIN(4, 2, hidden=8, num_layers=2, edge_dim=edges.num_features).eval()
    x = torch.eye(4)[graphs.tags]
    scores = model.predictions[0](x, collection.pool)
    for place, conv in enumerate(model.convs):
        rest = nn.Sequential(conv.norm, conv.second)
        rest[0].in_channels = 8  # which GINEConv asks for
        oracle = GINEConv(rest, edge_dim=edges.num_features).eval()
        oracle.lin.load_state_dict(model.edge_linears[place].state_dict())
        own = nn.functional.linear(x, conv.first.weight, conv.first.bias)
        x = model.norms[place](oracle(own, graphs.edge_index, dense_edges(graphs)))
        scores = scores + model.predictions[place + 1](x, collection.pool)
    found = model(collection.features, collection.graph, collection.pool)
    torch.testing.assert_close(found, scores, rtol=1e-5, atol=1e-5)


@every_kind
@pytest.mark.parametrize("normalization", ["none", "row", "symmetric"])
def test_qgnn_on_edges_is_the_sum_of_messages_written_as_a_loop(
    labels: bool, features: bool, normalization: str
) -> None:
    graphs = random_graphs(labels=labels, features=features)
    collection = collection_of(graphs, "qgnn", normalization=normalization)
    dims = encoders(graphs)[1].num_features
    torch.manual_seed(0)
    model = GraphQGNN(4, 2, hidden_quats=2, num_layers=1, edge_dim=dims)
    x = torch.eye(4)[graphs.tags] @ hamilton_matrix_tiled(model.convs[0].linear.weight).mT
    linear = model.edge_linears[0]
    embedded = dense_edges(graphs) @ hamilton_matrix_tiled(linear.weight).mT + linear.bias
    degree = graphs.degrees + 1.0
    scale = {
        "none": lambda v, u: 1.0,
        "row": lambda v, u: 1 / degree[v],
        "symmetric": lambda v, u: (degree[v] * degree[u]) ** -0.5,
    }[normalization]
    rows = []
    for v in range(graphs.num_nodes):
        total = scale(v, v) * x[v]
        for edge, (u, receiver) in enumerate(graphs.edge_index.T.tolist()):
            if receiver == v:
                total = total + scale(v, u) * (x[u] + embedded[edge]).relu()
        rows.append(total.relu())
    (found,) = model.encode(collection.features, collection.graph, collection.pool)
    torch.testing.assert_close(found, torch.stack(rows), rtol=1e-5, atol=1e-5)


@every_kind
@pytest.mark.parametrize("name", ["qgnn", "gin"])
def test_a_padded_batch_of_members_gives_the_logits_and_gradients_of_its_graphs(
    name: str, labels: bool, features: bool
) -> None:
    graphs = random_graphs(labels=labels, features=features)
    collection, (nodes, edges) = collection_of(graphs, name), encoders(graphs)
    options = MODELS[name].Options(name=name, hidden_quats=2, num_layers=2)

    def build() -> nn.Module:
        return MODELS[name].from_options(options, 4, 2, edge_dim=edges.num_features)

    ensemble = Ensemble([build, build], seeds=[0, 1]).eval()
    chosen = torch.tensor([[3, 23, 0], [5, 2, -1]])
    batch = assemble(collection, chosen, Capacity(nodes=31, entries=70))
    found = batch.through(ensemble, batch.features)
    found[0].sum().backward()
    for member, own in enumerate(chosen.tolist()):
        few = graphs.select([graph for graph in own if graph >= 0])
        model = build().eval()
        model.load_state_dict(ensemble.member(member), strict=False)
        alone = build_collection(few, options, nodes, CPU, edges=edges)
        expected = model(alone.features, alone.graph, alone.pool)
        torch.testing.assert_close(found[member, : len(few)], expected, rtol=1e-5, atol=1e-5)
        if member == 0:
            expected.sum().backward()
            assert ensemble.flat.grad is not None
            assert not ensemble.flat.grad[1].any()
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            total = sum(float(grad.double().square().sum()) for grad in grads)
            assert float(ensemble.flat.grad[0].double().square().sum()) == pytest.approx(
                total, 1e-4
            )
            assert float(model.edge_linears[0].weight.grad.abs().sum()) > 0


def test_a_node_sends_one_message_per_label_of_its_edges() -> None:
    star = {
        "edges": [[0, 1], [0, 2], [0, 3]],
        "edge_labels": ["a", "a", "b"],
        "node_labels": [0, 0, 0, 1],
    }
    graphs = merge_objects([("star", star)], labels_needed=False)
    messages = collection_of(graphs, "gin").messages
    assert messages.senders.shape == (2 + 3, 4)
    assert messages.sums.num_edges == 6


def test_an_unknown_label_of_an_edge_counts_as_none() -> None:
    _, edges = encoders(random_graphs())
    odd = {"edges": [[0, 1]], "edge_labels": ["quadruple"], "node_labels": [0, 1]}
    new = merge_objects([("new", odd)], labels_needed=False)
    codes = edges.of(new)
    assert edges.unknown(new) == ["quadruple"]
    assert not (codes @ torch.eye(codes.shape[1])).any()
    assert EdgeFeatures.from_dict(edges.to_dict()) == edges


def test_models_without_edges_and_models_that_should_ignore_them_are_as_before() -> None:
    graphs = random_graphs()
    for name, values in (
        ("gcn", {}),
        ("qgnn", {"edge_data": False}),
        ("gin", {"edge_data": False}),
    ):
        config = GraphConfig(model=MODELS[name].Options(name=name, **values))
        problem = GRAPH.prepare(graphs, config, CPU)
        assert problem.edge_dim == 0
        assert problem.collection.messages is None
        assert not any("edge" in key for key in GRAPH.build(config, problem).state_dict())
    names = ("gcn", "qgnn", "wl", "gfn")
    candidates = [GraphConfig(model=MODELS[name].Options(name=name)) for name in names]
    assert GRAPH.check_candidates(candidates, graphs) == ["edge labels are ignored by gcn, gfn"]
    numbers = random_graphs(labels=False, features=True)
    notes = GRAPH.check_candidates(candidates, numbers)
    assert notes == ["edge features are ignored by gcn, gfn, wl"]


def reference_colours(graphs: Graphs, rounds: int) -> list[list[Any]]:
    """The colours of all nodes after each round: nested tuples instead of hashes."""
    assert graphs.edge_tags is not None
    colours: list[Any] = [graphs.tag_names[tag] for tag in graphs.tags.tolist()]
    found = [colours]
    for _ in range(rounds):
        received: list[list[Any]] = [[] for _ in colours]
        ends = graphs.edge_index.T.tolist()
        for (sender, receiver), label in zip(ends, graphs.edge_tags.tolist(), strict=True):
            received[receiver].append((colours[sender], label))
        colours = [(c, tuple(sorted(r, key=repr))) for c, r in zip(colours, received, strict=True)]
        found.append(colours)
    return found


def test_colours_with_labels_of_edges_tell_apart_what_nested_tuples_do() -> None:
    graphs = random_graphs()
    found = node_colours(graphs, "tags", 3, edges=True).tolist()
    for ours, expected in zip(found, reference_colours(graphs, 3), strict=True):
        pairs = set(zip(ours, expected, strict=True))
        assert len(pairs) == len(set(ours)) == len(set(expected))
    plain = node_colours(graphs, "tags", 3)
    assert torch.equal(plain[0], torch.tensor(found[0]))
    assert not torch.equal(plain, torch.tensor(found))
    assert torch.equal(plain, node_colours(graphs, "tags", 3, edges=False))
