"""Histograms of Weisfeiler-Lehman colours, against dictionaries of nested tuples."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import networkx
import pytest
import torch
from rings import collection, config_of, lines, outcome_of

from quatgraph import config as configs
from quatgraph.data.graph import Graphs
from quatgraph.errors import UserError
from quatgraph.models.graph import GraphWL
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.colours import fit_vocabulary, histograms, node_colours
from quatgraph.tasks.graph.features import Kind, NodeFeatures
from quatgraph.tasks.graph.problem import build_collection

CPU = torch.device("cpu")
both_kinds = pytest.mark.parametrize("kind", ["tags", "degrees"])
some_rounds = pytest.mark.parametrize("rounds", [0, 1, 4])
KNOWN = {"C": 0xB3C46DCF4939A65, "N": 0xEB1109BF78911DD2, "O": 0xF74270A08A175550}
"""Hashes of tags."""
Colour = Any
"""Of the reference: a tag, or a colour with the sorted colours of the neighbours."""


def random_lines(count: int = 25) -> list[dict[str, Any]]:
    """Random graphs with three tags; some have no edge, some a single node."""
    made = []
    for place in range(count):
        size = 1 + place % 9
        graph = networkx.gnp_random_graph(size, 0.4 * (place % 4 > 0), seed=place)
        tags = [f"tag {(7 * node + place) % 3}" for node in range(size)]
        made.append(
            {"edges": [list(e) for e in graph.edges], "node_labels": tags, "label": str(place % 2)}
        )
    return made


def reference_counts(line: dict[str, Any], kind: Kind, rounds: int) -> Counter[Colour]:
    graph = networkx.Graph(line["edges"])
    graph.add_nodes_from(range(len(line["node_labels"])))
    tags = line["node_labels"]
    colours: dict[int, Colour] = {
        node: tags[node] if kind == "tags" else str(graph.degree(node)) for node in graph
    }
    found = Counter((0, colour) for colour in colours.values())
    for number in range(1, rounds + 1):
        colours = {
            node: (colours[node], tuple(sorted((colours[u] for u in graph[node]), key=repr)))
            for node in graph
        }
        found.update((number, colour) for colour in colours.values())
    return found


def reference_histograms(
    made: list[dict[str, Any]], kind: Kind, rounds: int, known: set[Colour] | None = None
) -> tuple[list[dict[Colour, float]], set[Colour]]:
    counts = [reference_counts(line, kind, rounds) for line in made]
    if known is None:
        graphs = Counter(colour for one in counts for colour in one)
        known = {colour for colour, number in graphs.items() if number > 1}
    kept = [{c: n for c, n in one.items() if c in known} for one in counts]
    return [{c: math.sqrt(n / sum(one.values())) for c, n in one.items()} for one in kept], known


def dense(found: tuple[torch.Tensor, Any]) -> torch.Tensor:
    ptr, entries = found
    made = torch.zeros(len(ptr) - 1, entries.num_codes)
    graph = torch.arange(len(ptr) - 1).repeat_interleave(ptr.diff())
    return made.index_put((graph, entries.code.long()), entries.weight, accumulate=True)


def kernel(histogram: list[dict[Colour, float]]) -> torch.Tensor:
    return torch.tensor(
        [[sum(w * b.get(c, 0) for c, w in a.items()) for b in histogram] for a in histogram]
    )


@both_kinds
@some_rounds
def test_histograms_are_those_of_dictionaries(kind: Kind, rounds: int, tmp_path: Path) -> None:
    graphs = collection(tmp_path, random_lines())
    vocabulary = fit_vocabulary(graphs, kind, rounds)
    expected, known = reference_histograms(random_lines(), kind, rounds)
    assert len(vocabulary) == len(known)
    found = dense(histograms(graphs, kind, rounds, vocabulary))
    assert (found > 0).sum(dim=1).tolist() == [len(one) for one in expected]
    for row, one in zip(found, expected, strict=True):
        ours = row[row > 0].sort().values
        torch.testing.assert_close(ours, torch.tensor(sorted(one.values())))
    # Equal kernels: the same graphs share the same colours.
    torch.testing.assert_close(found @ found.T, kernel(expected))


@both_kinds
@some_rounds
def test_new_graphs_get_the_colours_of_training_and_unknown_ones_count_for_nothing(
    kind: Kind, rounds: int, tmp_path: Path
) -> None:
    old, new = random_lines()[:18], random_lines()[18:]
    new[0]["node_labels"] = ["unheard of"] * len(new[0]["node_labels"])
    trained = collection(tmp_path, old)
    vocabulary = fit_vocabulary(trained, kind, rounds)
    first, known = reference_histograms(old, kind, rounds)
    others, _ = reference_histograms(new, kind, rounds, known)
    before = dense(histograms(trained, kind, rounds, vocabulary))
    after = dense(histograms(collection(tmp_path, new), kind, rounds, vocabulary))
    both = torch.cat((before, after))
    torch.testing.assert_close(both @ both.T, kernel([*first, *others]))
    if kind == "tags":
        assert not after[0].any()


def test_colours_do_not_depend_on_the_order_of_nodes(tmp_path: Path) -> None:
    made, renamed = random_lines(), []
    for line in made:
        size = len(line["node_labels"])
        order = torch.randperm(size, generator=torch.Generator().manual_seed(size)).tolist()
        edges = [[order[a], order[b]] for a, b in reversed(line["edges"])]
        tags = [line["node_labels"][order.index(node)] for node in range(size)]
        renamed.append(line | {"edges": edges, "node_labels": tags})
    first, second = collection(tmp_path, made), collection(tmp_path, renamed)
    vocabulary = fit_vocabulary(first, "tags", 3)
    assert torch.equal(vocabulary, fit_vocabulary(second, "tags", 3))
    torch.testing.assert_close(
        dense(histograms(first, "tags", 3, vocabulary)),
        dense(histograms(second, "tags", 3, vocabulary)),
        rtol=0,
        atol=0,
    )


def mixed(value: int) -> int:
    """The last step of SplitMix64, with Python's integers."""
    mask = (1 << 64) - 1
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def test_a_colour_is_the_same_number_on_every_machine(tmp_path: Path) -> None:
    line = {"edges": [[0, 1], [0, 2]], "node_labels": ["C", "N", "O"], "label": "a"}
    colours = node_colours(collection(tmp_path, [line, line | {"label": "b"}]), "tags", 1)
    names, after = [int(c) % 2**64 for c in colours[0]], int(colours[1, 0]) % 2**64
    # blake2b of "C", "N" and "O", 8 bytes, as little-endian numbers.
    assert names[:3] == [KNOWN["C"], KNOWN["N"], KNOWN["O"]]
    own = (0x9E3779B97F4A7C15 * names[0]) % 2**64
    assert after == mixed((own + mixed(names[1]) + mixed(names[2])) % 2**64)


def test_graphs_that_share_no_colour_are_refused_in_a_sentence(tmp_path: Path) -> None:
    alone = [
        {"edges": [], "node_labels": [str(place)], "label": "ab"[place % 2]} for place in range(6)
    ]
    config = config_of(**{"model.name": "wl", "data.features": "tags"})
    with pytest.raises(UserError, match=r"no tag of a node occurs in two graphs, so model.name=wl"):
        GRAPH.prepare(collection(tmp_path, alone), config, CPU)


def test_graphs_without_a_known_colour_are_trained_and_predicted(tmp_path: Path) -> None:
    # The only shared tag is in two graphs without a label.
    tags = [f"own {place}" for place in range(12)] + ["shared"] * 2
    made = [
        {"edges": [], "node_labels": [tag], "label": "ab"[place % 2] if place < 12 else None}
        for place, tag in enumerate(tags)
    ]
    graphs = collection(tmp_path, made)
    config = config_of(**{"model.name": "wl", "data.features": "tags"})
    records = outcome_of(GRAPH.members(config, graphs), graphs).records
    assert [record.metrics["test/accuracy"] for record in records] == [0.5] * 3


def test_logits_are_a_loop_over_the_colours_of_a_graph(tmp_path: Path) -> None:
    graphs = collection(tmp_path, random_lines())
    options = GraphWL.Options(rounds=2)
    made = build_collection(graphs, options, NodeFeatures.fit(graphs, "auto"), CPU)
    model = GraphWL(made.features.shape[1], 3).eval()
    torch.nn.init.normal_(model.weight)
    torch.nn.init.normal_(model.bias)
    found = model(made.features, made.adjacency, made.pool)
    rows = dense(histograms(graphs, "tags", 2, fit_vocabulary(graphs, "tags", 2)))
    for logits, row in zip(found, rows, strict=True):
        expected = model.bias.clone()
        for colour, weight in enumerate(row):
            expected = expected + weight * model.weight[colour]
        torch.testing.assert_close(logits, expected)


def test_what_no_training_graph_has_never_counts(tmp_path: Path) -> None:
    made = lines(40)
    for line in made[-2:]:  # in two graphs, so it is in the vocabulary
        line["node_labels"] = ["rare"] * len(line["node_labels"])
        line["label"] = None
    graphs = collection(tmp_path, made)
    config = config_of(**{"model.name": "wl", "model.rounds": 3})
    outcome = outcome_of(GRAPH.members(config, graphs), graphs)
    rare = histograms(graphs.select([38]), "tags", 3, fit_vocabulary(graphs, "tags", 3))[1].code
    weights = outcome.fit.weights["weight"]
    assert len(rare) > 0
    assert not weights[:, rare.long()].any()
    assert weights.any()


def test_a_histogram_tells_rings_from_chains(tmp_path: Path) -> None:
    graphs = collection(tmp_path, lines(60))
    settings = {"model.name": "wl", "train.epochs": 30, "train.lr": 0.1}
    records = outcome_of(GRAPH.members(config_of(**settings), graphs), graphs).records
    assert [record.metrics["test/accuracy"] for record in records] == [1.0] * 3


def test_attributes_are_left_out_and_the_summary_says_so(graphs: Graphs) -> None:
    config = config_of(**{"model.name": "wl", "model.rounds": 3})
    problem = GRAPH.prepare(graphs, config, CPU)
    card = {
        **GRAPH.card(config, graphs, problem),
        "members": [{"config": configs.to_dict(config)}],
    }
    assert GRAPH.summarize(card)[1] == (
        f"features: {problem.num_features} colours of 3 rounds, from the tag of each node among 3; "
        "attributes unused"
    )


@pytest.fixture
def graphs(tmp_path: Path) -> Graphs:
    made = [
        line | {"node_features": [[float(p)]] * len(line["node_labels"])}
        for p, line in enumerate(random_lines())
    ]
    return collection(tmp_path, made)
