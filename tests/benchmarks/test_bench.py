"""Benchmarks run on tiny sizes and give the numbers they promise."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks import (
    BENCHES,
    aggregate,
    conv,
    defaults,
    graph,
    large,
    limits,
    link,
    measure,
    node,
    rows,
    sampling,
    text,
)
from quatgraph import config as configs
from quatgraph.config import override
from quatgraph.presets import names, preset
from quatgraph.tasks.node.config import NodeConfig, TrainConfig

CPU = torch.device("cpu")
TIMES = {"ms", "ms_20", "ms_80"}


def test_a_measure_is_the_median_within_its_quintiles() -> None:
    calls = []
    found = measure.measure(lambda: calls.append(sum(range(1000))), CPU, repeats=7)
    assert len(calls) == 3 + 7
    assert found.keys() == TIMES
    assert 0 <= found["ms_20"] <= found["ms"] <= found["ms_80"]


def test_aggregate_compares_variants_that_compute_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aggregate, "SIZES", {"cpu": {"tiny": (6, 5, 20, 3)}})
    monkeypatch.setattr(limits, "COPIED", {"cpu": 1 << 10})
    copied, *rows = aggregate.rows(CPU)
    assert copied["case"] == limits.REACHED
    assert all(row.keys() == {"case", "variant", "work"} | TIMES for row in rows)
    assert [(row["variant"], row["work"]) for row in rows] == [
        ("quatgraph", "forward"),
        ("torch CSR", "forward"),
        ("torch embedding bag", "forward"),
        ("torch index_add", "forward"),
        ("quatgraph", "forward and backward"),
        ("torch CSR", "forward and backward"),
    ]
    matrix, x = aggregate.random_matrix(6, 5, 20, CPU), torch.randn(5, 3)
    variants = aggregate._variants(matrix)
    for product in variants.values():
        torch.testing.assert_close(product(x), variants["quatgraph"](x))


def test_aggregate_counts_what_it_reads_where_no_cache_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert round(aggregate.gigabytes(1_000_000, 10_000_000, 256), 1) == 11.3
    monkeypatch.setattr(aggregate, "SIZES", {"cpu": {"tiny": (6, 5, 20, 3)}})
    monkeypatch.setattr(aggregate, "BEYOND_CACHE", 5 * 3 * 4)
    monkeypatch.setattr(limits, "COPIED", {"cpu": 1 << 10})
    _, *rows = aggregate.rows(CPU)
    for row in rows:
        read = 20 + 6 if row["work"] == "forward" else 20 + 6 + 20 + 5
        assert row["gb"] == pytest.approx(4 * 3 * read / 1e9, rel=1e-3)
        assert row["share"] > 0


def test_conv_compares_raw_and_prepared_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "SIZES", {"cpu": [(20, 60, 8), (30, 60, 8)]})
    rows = list(conv.rows(CPU))
    assert all(row.keys() == {"case", "graph", "variant", "work"} | TIMES for row in rows)
    variants = [
        ("QGNNConv", "raw edge_index"),
        ("GCNConv", "raw edge_index"),
        ("QGNNConv, prepared", "prepared"),
        ("GCNConv, cached", "prepared"),
        ("GCNConv, torch CSR", "prepared"),
    ]
    assert [(row["variant"], row["graph"]) for row in rows] == 2 * variants
    cases = [f"{nodes} nodes, 60 edges, 8 wide" for nodes in (20, 30)]
    assert [row["case"] for row in rows] == [case for case in cases for _ in variants]


def test_node_times_a_deep_network(monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["data.name=karate", "data.scaling=none", "model.num_layers=3"]
    monkeypatch.setattr(node, "preset", lambda name: override(preset(name), small))
    monkeypatch.setattr(node, "DEEP_EPOCHS", 2)
    row = node.deep(CPU)
    assert row["case"] == "karate, 4 runs, 2 epochs"
    assert row["variant"] == "Deep QGNN, 3 layers of 64"


def test_node_times_whole_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "DATASETS", {"cpu": ("karate",)})
    monkeypatch.setattr(node, "SEEDS", {"cpu": 2})
    monkeypatch.setattr(node, "preset", lambda name: override(preset(name), ["train.epochs=3"]))
    rows = list(node.rows(CPU))
    assert [row["variant"] for row in rows] == [
        "4 masks, sparse features",
        "1 masks, sparse features",
    ]
    for row in rows:
        assert row.keys() == {
            *("case", "variant", "work"),
            *("seconds", "seconds_with_start", "test_accuracy"),
        }
        assert row["case"] == "karate, 2 runs, 3 epochs"
        assert 0 < row["seconds"] <= row["seconds_with_start"]
        assert 0 <= row["test_accuracy"] <= 1


def test_graph_times_the_folds_of_a_preset_and_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("data.name=cycles", "data.num_folds=2", "train.epochs=1", "train.batch_size=50")
    monkeypatch.setattr(graph, "DATASETS", {"cpu": ("imdb-b",)})
    monkeypatch.setattr(graph, "GRIDS", {"cpu": ("imdb-b",)})
    monkeypatch.setattr(graph, "preset", lambda name: override(preset(name), few))
    grid = {"train.lr": [0.1, 0.01], "model.hidden_quats": [1, 2]}
    monkeypatch.setattr(graph, "protocols", lambda task: {"grid": grid})
    one, many = graph.rows(CPU)
    assert (one["case"], one["variant"]) == (
        "imdb-b, QGNN, 2 runs, 1 epochs",
        "2 layers, 32 quaternions, batch 50",
    )
    assert (many["case"], many["variant"]) == (
        "imdb-b, QGNN, the paper's grid, 8 runs, 1 epochs",
        "4 configurations",
    )
    for row in (one, many):
        assert row.keys() == {
            *("case", "variant", "work"),
            *("seconds", "seconds_with_start", "test_accuracy"),
        }
        assert 0 < row["seconds"] <= row["seconds_with_start"]
        assert 0 <= row["test_accuracy"] <= 1


def test_link_times_an_epoch_ranks_a_whole_training_and_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = ("data.name=countries", "model.dim_quats=1", "train.epochs=2")
    for module in (link, measure):
        monkeypatch.setattr(module, "preset", lambda name: override(preset(name), few))
    made_up = ("made up", lambda: link.random_triples(50, 3, 300), "link/codex-l-simqgnn", 1)
    monkeypatch.setattr(link, "GRAPHS", {"cpu": [made_up]})
    monkeypatch.setattr(link, "WHOLE", {"cpu": ("link/codex-s-simqgnn",)})
    monkeypatch.setattr(link, "MANY", {"cpu": [(100, 8, 5)]})
    rows = list(link.rows(CPU))
    assert [(row["case"], row["work"], row["variant"]) for row in rows] == [
        ("made up", "training epoch", "SimQGNN, float32"),
        ("made up", "filtered ranks of valid triples, both sides", "SimQGNN"),
        ("countries", "training, 2 epochs, each validated", "SimQGNN, float32"),
        ("5 queries, 100 entities, 8 wide", "1-N loss, forward and backward", "tiled"),
    ]
    assert all(row["ms"] > 0 for row in rows)


@pytest.mark.parametrize("counted", [True, False])
def test_text_times_an_epoch_of_each_method_and_word_graphs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, counted: bool
) -> None:
    few = ("data.name=snippets", "data.vectors=none", "data.dimensions=4", "model.hidden_quats=1")
    for module in (text, measure):
        monkeypatch.setattr(module, "preset", lambda name: override(preset(name), few))
    trained = [("mr", "textqgnn", "float32"), ("r8", "texting", "tf32")]
    monkeypatch.setattr(text, "TRAINED", {"cpu": trained})
    monkeypatch.setattr(text, "SEEDS", {"cpu": 2})
    monkeypatch.setattr(text, "GRAPHS", {"cpu": ("snippets",)})
    (tmp_path / "status").write_text("VmPeak: 9000 kB\nVmHWM:\t 2048 kB\n")
    monkeypatch.setattr(measure, "_PROCESS", tmp_path if counted else tmp_path / "no such system")
    rows = list(text.rows(CPU))
    assert [(row["case"], row["work"], row["variant"]) for row in rows] == [
        ("mr, 2 runs", "training epoch", "TextQGNN, float32"),
        ("r8, 2 runs", "training epoch", "TextING, tf32"),
        ("snippets", "word graphs, window 3", "600 documents"),
        ("snippets", "graph of the corpus", "93,408 entries"),
    ]
    assert all(row["ms"] > 0 for row in rows)
    assert [row.get("peak_mib") for row in rows] == [2.0 if counted else None, None, None, None]


def test_text_trains_what_has_a_preset() -> None:
    for device, trained in text.TRAINED.items():
        assert len({*trained}) == len(trained) == (10 if device == "cuda" else 3)
        assert {f"text/{dataset}-{method}" for dataset, method, _ in trained} <= {*names("text")}


def test_defaults_compares_forms_of_qgnn_on_several_kinds_of_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = {"with features": (0.5, 0.1, 1.0), "without": (0.5, 0.1, None)}
    for name, value in {"KINDS": kinds, "NODES": 40, "GRAPHS": 1}.items():
        monkeypatch.setattr(defaults, name, value)
    few = TrainConfig(epochs=2)
    monkeypatch.setattr(
        defaults,
        "default_candidates",
        lambda task, values: [dataclasses.replace(configs.build(NodeConfig, values), train=few)],
    )
    rows = list(defaults.rows(CPU))
    assert [row["case"] for row in rows] == ["with features"] * 4 + ["without"] * 4
    assert len({row["variant"] for row in rows}) == 4
    for row in rows:
        assert row.keys() == {"case", "variant", "work", "valid_accuracy"}
        assert 0 <= row["valid_accuracy"] <= 1
    # The features of the first kind tell the classes apart, the second kind has none.
    assert defaults.random_graph(*kinds["with features"], seed=0).x.shape == (40, 32)
    assert defaults.random_graph(*kinds["without"], seed=0).x is None


def test_sampling_counts_nodes_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"NODES": 50, "EDGES": 300, "HIDDEN": 8, "BATCH": 16}.items():
        monkeypatch.setattr(sampling, name, size)
    rows = list(sampling.rows(CPU))
    assert [row["variant"] for row in rows] == 2 * [
        "NeighborSampler",
        "PyG's k_hop_subgraph",
        "NeighborLoader",
    ]
    for row in rows:
        assert row["seeds_per_second"] == pytest.approx(16_000 / row["ms"], rel=0.01)
    assert torch.equal(sampling.random_edges(heavy=True), sampling.random_edges(heavy=True))


@pytest.mark.slow
def test_a_command_on_a_large_graph_is_measured_from_outside() -> None:
    row = large.train_by_command(large.Graph(1000, 6000, features=8, classes=4), [5, 5])
    assert row["work"] == "an epoch of 1 batches of 1,024, 5, 5 neighbours"
    assert 0 < row["ms"] < 1000 * row["cpu_seconds"]
    assert 50 < row["peak_mib"] < 2000
    assert 0 < row["test_accuracy"] <= 1


def test_a_graph_as_large_as_products_is_trained_on_whole_and_in_samples() -> None:
    small = large.Graph(2450, 124_000, classes=47, train=0.08)  # a thousandth
    data = small.data()
    whole = list(large.train_whole(small, data, 3, CPU))
    sampled = list(large.train_sampled(small, data, [15, 10, 5], CPU))
    (prepared, epoch), (draw, step), rows = whole, sampled, [*whole, *sampled]
    assert epoch["edges"] == 124_000
    assert [row["variant"] for row in (prepared, epoch)] == ["matrix and features", "whole graph"]
    assert {row["variant"] for row in (draw, step)} == {"drawn on the CPU"}
    assert all(row["case"] == "2,450 nodes, 124,000 edges, heavy tail" for row in rows)
    assert 0 < draw["ms"] < step["ms"]
    assert step["batches_per_second"] == pytest.approx(1000 / step["ms"], rel=0.01)
    assert step["share_of_drawing"] == pytest.approx(draw["ms"] / step["ms"], rel=0.01)
    degrees = torch.bincount(torch.from_numpy(small.arrays()["edge_index"][1]))
    assert int(degrees.max()) > 10 * int(degrees.median())


def test_every_bench_has_a_name() -> None:
    tasks = ["node", "graph", "graph_methods", "link", "link_methods", "sharded", "text"]
    operations = ["aggregate", "hamilton", "loss", "fused", "kernels"]
    beside = ["peers", "released"]
    defaults = ["defaults", "own_data", "explain", "missing", "serve"]
    layers = ["growth", *beside, "conv", "sampling", "large"]
    assert list(BENCHES) == [*operations, *layers, *tasks, "steps", *defaults]
    for name in BENCHES:
        assert isinstance(rows(name, CPU), Iterator)  # none of them is run yet
