"""Receptive fields: paths against networkx, fields against sorted lists, and any numbering."""

from pathlib import Path
from typing import Any

import networkx
import pytest
import torch
import torch.utils._pytree as pytree
from on_cpu import train_in_folder
from rings import collection, config_of, lines, without, written
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from quatgraph.data.graph import Graphs
from quatgraph.errors import UserError
from quatgraph.predictors import load
from quatgraph.tasks.graph import GRAPH, fields
from quatgraph.tasks.graph.features import Kind, NodeFeatures

NUM_FIELDS, FIELD_SIZE = 6, 4
GRAPHS: list[networkx.Graph] = [
    networkx.gnp_random_graph(9, 0.3, seed=0),
    networkx.gnp_random_graph(14, 0.2, seed=1),
    networkx.cycle_graph(8),
    networkx.star_graph(7),
    networkx.petersen_graph(),
    networkx.barbell_graph(4, 2),
    networkx.disjoint_union(networkx.path_graph(3), networkx.cycle_graph(4)),
    networkx.empty_graph(3),
    networkx.path_graph(1),
    networkx.complete_graph(7),
]


def line(graph: networkx.Graph, tags: list[str]) -> dict[str, Any]:
    return {
        "edges": [list(edge) for edge in graph.edges],
        "node_labels": tags,
        "label": "ab"[len(graph) % 2],
    }


def tags_of(graph: networkx.Graph) -> list[str]:
    return ["CNO"[(5 * node) % 3] for node in range(len(graph))]


@pytest.fixture
def graphs(tmp_path: Path) -> Graphs:
    return collection(tmp_path, [line(graph, tags_of(graph)) for graph in GRAPHS])


def edges_of(graph: networkx.Graph) -> Tensor:
    made = torch.tensor(list(graph.edges), dtype=torch.int64).view(-1, 2).mT
    return torch.cat((made, made.flip(0)), dim=1)


def expected_field(graph: networkx.Graph, root: int, values: list[int]) -> list[int]:
    """The values of the nodes of a field, -1 for none."""
    central = networkx.betweenness_centrality(graph, normalized=False)
    far = networkx.single_source_shortest_path_length(graph, root)
    order = sorted((far[v], -round(central[v], 6), values[v]) for v in far)
    return ([value for _, _, value in order] + [-1] * FIELD_SIZE)[:FIELD_SIZE]


@pytest.mark.parametrize("dense_cost", [0, 10**6], ids=["sparse", "dense"])
@pytest.mark.parametrize("sources", [3, 128])
def test_distances_and_betweenness_are_those_of_networkx(
    dense_cost: int, sources: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields, "_DENSE_COST", dense_cost)
    monkeypatch.setattr(fields, "_SOURCES", sources)
    for graph in GRAPHS:
        distance, betweenness = fields.measure_paths(edges_of(graph), len(graph))
        far = dict(networkx.all_pairs_shortest_path_length(graph))
        assert distance.tolist() == [[far[u].get(v, -1) for v in graph] for u in graph]
        theirs = networkx.betweenness_centrality(graph, normalized=False)
        wanted = torch.tensor([2 * theirs[v] for v in graph], dtype=torch.float64)
        torch.testing.assert_close(betweenness, wanted)  # both directions of a path count


@pytest.mark.parametrize("sources", [3, 128])
@pytest.mark.parametrize("place", range(len(GRAPHS)))
def test_the_most_central_nodes_have_the_nodes_around_them(
    place: int, sources: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields, "_SOURCES", sources)
    graph = GRAPHS[place]
    values = [(3 * node) % 4 for node in graph]
    central = networkx.betweenness_centrality(graph, normalized=False)
    described = sorted(
        (-round(central[root], 6), expected_field(graph, root, values)) for root in graph
    )
    wanted = [field for _, field in described][:NUM_FIELDS]
    wanted += [[-1] * FIELD_SIZE] * (NUM_FIELDS - len(wanted))
    value = torch.tensor(values)
    found = fields.select_fields(edges_of(graph), value, NUM_FIELDS, FIELD_SIZE)
    assert torch.where(found >= 0, value[found.clamp(min=0)], -1).tolist() == wanted


class Largest(TorchDispatchMode):
    """The bytes of the largest tensor."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for value in pytree.tree_leaves(made):
            if isinstance(value, Tensor):
                self.bytes = max(self.bytes, value.untyped_storage().nbytes())
        return made


def test_two_bytes_per_pair_of_nodes_suffice_though_all_nodes_tie() -> None:
    num_nodes = 2048
    none, same = torch.empty(2, 0, dtype=torch.int64), torch.zeros(num_nodes, dtype=torch.int64)
    with Largest() as largest:
        fields.select_fields(none, same, NUM_FIELDS, FIELD_SIZE)
    assert largest.bytes <= 2 * num_nodes**2


@pytest.mark.parametrize("kind", ["tags", "degrees"])
def test_fields_do_not_depend_on_how_nodes_are_numbered(
    kind: Kind, graphs: Graphs, tmp_path: Path
) -> None:
    features = NodeFeatures.fit(graphs, kind)
    wanted = fields.build_fields(graphs, features, NUM_FIELDS, FIELD_SIZE)
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        renumbered = []
        for graph in GRAPHS:
            order = torch.randperm(len(graph), generator=generator).tolist()
            tags = [""] * len(graph)
            for node, tag in enumerate(tags_of(graph)):
                tags[order[node]] = tag
            moved = networkx.relabel_nodes(graph, dict(enumerate(order)))
            renumbered.append(line(moved, tags))
        folder = tmp_path / str(seed)
        folder.mkdir()
        found = fields.build_fields(
            collection(folder, renumbered), features, NUM_FIELDS, FIELD_SIZE
        )
        assert torch.equal(found[0], wanted[0])
        assert torch.equal(found[1].code, wanted[1].code)
        assert torch.equal(found[1].weight, wanted[1].weight)


def both_classes(folder: Path, one: dict[str, Any]) -> Graphs:
    """The same graph twice."""
    return collection(folder, [one | {"label": label} for label in "ab"])


def test_a_code_is_a_place_of_a_field_and_a_tag(tmp_path: Path) -> None:
    graphs = both_classes(tmp_path, line(networkx.path_graph(3), ["N", "C", "O"]))
    features = NodeFeatures("tags", ("C", "N"), None)
    ptr, codes = fields.build_fields(graphs, features, 2, 4)
    assert ptr.tolist() == [0, 8, 16]
    assert codes.num_codes == 4 * 2
    # Around C; O, which is unknown, comes before N; the last place has no node.
    assert codes.code[:4].tolist() == [0, 2, 5, 6]
    assert codes.weight[:4].tolist() == [1, 0, 1, 0]
    # Around O: itself, C, N.
    assert codes.code[4:8].tolist() == [0, 2, 5, 6]
    assert codes.weight[4:8].tolist() == [0, 1, 1, 0]


def test_degrees_are_numbers_divided_by_the_number_of_nodes(tmp_path: Path) -> None:
    graphs = both_classes(tmp_path, line(networkx.star_graph(3), list("CCCC")))
    features = NodeFeatures.fit(graphs, "degrees")
    _, codes = fields.build_fields(graphs, features, 3, 2)
    assert codes.code[:6].tolist() == [0, 1, 0, 1, 0, 1]
    assert codes.weight[:6].tolist() == [0.75, 0.25, 0.25, 0.75, 0.25, 0.75]


def test_a_graph_with_too_many_nodes_is_named(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields, "_MAX_NODES", 13)
    with pytest.raises(UserError, match=r"has 14 nodes, and model\.name=pscn takes at most 13"):
        fields.build_fields(graphs, NodeFeatures.fit(graphs, "tags"), 2, 2)


def test_a_model_of_fields_takes_any_degree_as_a_number(tmp_path: Path) -> None:
    path = written(tmp_path / "rings.jsonl", without(lines(), "node_labels"))
    config = config_of(**{"data.path": str(path), "model.name": "pscn", "train.epochs": 1})
    predictor = load(train_in_folder(GRAPH, [config], tmp_path / "model").folder)
    described = "features: 18 fields of 10 nodes, from the degree of each node among 2"
    assert described in GRAPH.summarize(predictor.card)
    stars = [{"edges": [[0, node] for node in range(1, 1 + size)]} for size in (5, 6)]
    answer = predictor.predict(written(tmp_path / "stars.jsonl", stars))
    assert answer.notes == []
    assert not torch.equal(*answer.probabilities)
