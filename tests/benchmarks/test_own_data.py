"""The defaults beside what people use otherwise."""

import contextlib
import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from commands import assert_user_error
from torch_geometric.utils import from_networkx
from typer.testing import CliRunner

from benchmarks import made_triples, own_data, own_sets, rivals
from benchmarks.__main__ import app
from benchmarks.own_data import compare, is_lost, pick_rival, sample, table
from benchmarks.rivals import Score, weisfeiler_lehman
from quatgraph import config as configs
from quatgraph.data.graph import from_list
from quatgraph.data.io.store import catalog
from quatgraph.tasks import TASKS
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.task import AnyTask

CPU = torch.device("cpu")


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["own_data", *arguments], catch_exceptions=False)


def test_a_sample_is_a_mean_with_its_standard_error_in_points() -> None:
    found = sample([0.5, 0.6, 0.7, 0.8])
    assert found.mean == pytest.approx(65.0)
    assert found.error == pytest.approx(100 * math.sqrt(0.05 / 3) / 2)
    assert str(found) == "65.0 ± 6.5"
    assert str(sample([0.5])) == "50.0"  # one split tells nothing about the error


def test_validation_data_alone_picks_the_rival() -> None:
    splits = [
        {"steady": Score(0.8, 0.1), "lucky": Score(0.9, 0.9)},
        {"steady": Score(0.8, 0.1), "lucky": Score(0.6, 0.9)},
    ]
    assert pick_rival(splits) == "steady"
    assert rivals.best([Score(0.7, 0.9), Score(0.8, 0.1), Score(0.8, 0.2)]) == Score(0.8, 0.1)


def test_differences_are_paired_by_split() -> None:
    hard, easy = {"rival": Score(0.5, 0.40)}, {"rival": Score(0.9, 0.90)}
    row = compare([0.38, 0.88], [hard, easy])  # 2 points behind on each split
    assert (row["against"], row["ours"], row["rival"]) == ("rival", 63.0, 65.0)
    assert (row["difference"], row["difference_error"], row["regret"]) == (-2.0, 0.0, 2.0)
    assert row["ours_error"] == 25.0
    assert is_lost(row)
    ahead = compare([0.42, 0.88], [hard, easy])
    assert (ahead["difference"], ahead["difference_error"], ahead["regret"]) == (0.0, 2.0, 0.0)
    assert not is_lost(ahead)


@pytest.mark.parametrize(
    ("difference", "error", "lost"),
    [(-2.1, 1.0, True), (-1.9, 1.0, False), (0.3, 0.1, False), (-0.1, None, True)],
)
def test_a_dataset_is_lost_by_more_than_two_standard_errors(
    difference: float, error: float | None, lost: bool
) -> None:
    row = {"difference": difference}
    assert is_lost(row if error is None else row | {"difference_error": error}) == lost


def test_the_table_tells_the_mean_regret_and_what_is_lost() -> None:
    times = {"single": 49.0, "seconds": 1.0, "rival_seconds": 2.0}
    behind = compare([0.5, 0.51], [{"SVM": Score(0.6, 0.6)}, {"SVM": Score(0.6, 0.6)}])
    ahead = compare([0.7], [{"GCN": Score(0.6, 0.6)}])
    shown = table([{"case": "text: a", **behind, **times}, {"case": "node: b", **ahead, **times}])
    lines = shown.splitlines()
    lost = "| text: a | 50.5 ± 0.5 | 49.0 | SVM | 60.0 ± 0.0 | **-9.5 ± 0.5** | 9.5 | 1.0 | 2.0 |"
    assert lost in lines
    assert "| node: b | 70.0 | 49.0 | GCN | 60.0 | 10.0 | 0.0 | 1.0 | 2.0 |" in lines
    assert lines[-1] == (
        "Mean regret 4.75 points over 2 datasets; behind by more than two standard errors: text: a."
    )


def test_half_of_the_catalog_is_hidden() -> None:
    for task in TASKS:
        visible, hidden = own_sets.VISIBLE[task], own_sets.HIDDEN[task]
        assert not set(visible) & set(hidden)
        known = {name for name, entry in catalog().items() if entry.task == task} - {"codex-l"}
        assert known <= {*visible, *hidden}
        assert abs(len(known & {*visible}) - len(known & {*hidden})) <= 1


def test_colours_of_weisfeiler_lehman_are_those_of_networkx() -> None:
    drawn = [nx.gnp_random_graph(9, 0.3, seed=seed) for seed in range(12)]
    for graph in drawn:
        nx.set_node_attributes(graph, {node: node % 3 for node in graph}, "tag")
    graphs = from_list(map(from_networkx, drawn), labels_needed=False)
    counts = weisfeiler_lehman(graphs, rounds=3)
    hashes = [nx.weisfeiler_lehman_subgraph_hashes(g, node_attr="tag") for g in drawn]
    for turn, matrix in enumerate(counts[1:]):
        kernel = (matrix @ matrix.T).to_dense()
        for one, two in itertools.combinations(range(len(drawn)), 2):
            names = [Counter(node[turn] for node in hashes[place].values()) for place in (one, two)]
            product = sum(count * names[1][name] for name, count in names[0].items())
            assert kernel[one, two] == product


@pytest.mark.parametrize("task", ["node", "graph", "link", "text"])
def test_every_split_of_a_dataset_is_written_once_and_drawn_anew(task: str, tmp_path: Path) -> None:
    name = {"node": "karate", "graph": "cycles", "link": "countries", "text": "snippets"}[task]
    values = own_sets.written(task, name, tmp_path)
    configurations = [configs.build(TASKS[task].config, each) for each in values]
    data = [TASKS[task].load(config) for config in configurations]
    splits = sum(map(TASKS[task].num_splits, configurations, data))
    assert splits == {"node": 5, "graph": 5, "link": 3, "text": 5}[task]
    assert len({one.digest for one in data}) == len(data)
    parts = [rivals.load_case(task, each).parts for each in values]
    for one in parts if task != "link" else ():
        places = [int(place) for part in one.values() for place in part]
        assert len(places) == len(set(places))
        assert len(one["train"]) > len(one["test"]) > 0 < len(one["valid"])
    if task == "node":
        assert {one.num_nodes for one in data} == {34}
    if task == "text":
        assert {len(one.documents) for one in data} == {600}


def test_large_graphs_keep_neighbours_together() -> None:
    path = torch.stack((torch.arange(99), torch.arange(1, 100)))
    both = torch.cat((path, path.flip(0)), dim=1)
    kept = own_sets._nearby(both, 100, 40)
    assert len(kept) == len(kept.unique()) == 40
    assert len(own_sets._nearby(both, 100, 200)) == 100
    links = torch.isin(both, kept).all(dim=0).sum() // 2
    assert links >= 30  # of 39 at most; a random choice keeps 16


def test_generated_data_has_the_structure_that_it_claims() -> None:
    pages = own_sets.web_pages(seed=0)
    alike = (pages.y[pages.edge_index[0]] == pages.y[pages.edge_index[1]]).float().mean()
    assert alike < 0.25
    compounds = own_sets.compounds(seed=0, count=60)
    kinds = [compounds.tag_names.index(name) for name in ("1", "2")]
    nitrogens = compounds.tags == kinds[0]
    oxygens = torch.zeros(compounds.num_nodes)
    ends = compounds.edge_index
    oxygens.index_add_(0, ends[0], (compounds.tags[ends[1]] == kinds[1]).float())
    graph_of = torch.arange(len(compounds)).repeat_interleave(compounds.node_ptr.diff())
    has_group = torch.zeros(len(compounds)).index_add_(
        0, graph_of, (nitrogens & (oxygens >= 2)).float()
    )
    found = has_group > 0
    active = torch.tensor([compounds.label_names[label] == "1" for label in compounds.y.tolist()])
    assert (found == active).float().mean() > 0.7


@pytest.mark.parametrize("seed", [0, 1])
def test_relatives_follow_from_parents(seed: int) -> None:
    triples = made_triples.families(seed)
    rows = torch.cat((triples.train, triples.valid, triples.test)).tolist()
    names = triples.entities, triples.relations
    ends: dict[str, set[tuple[str, str]]] = {}
    for head, relation, tail in rows:
        ends.setdefault(names[1][relation], set()).add((names[0][head], names[0][tail]))
    mother, father = (dict(ends[parent]) for parent in ("mother", "father"))
    assert mother.keys() == father.keys()
    siblings = {(a, b) for a in mother for b in mother if a != b and mother[a] == mother[b]}
    assert ends["sister or brother"] == siblings
    for child, uncle in ends["aunt or uncle"]:
        assert {(mother[child], uncle), (father[child], uncle)} & siblings
    for one, other in ends["cousin"]:
        assert {(one, mother[other]), (one, father[other])} & ends["aunt or uncle"]
        assert (other, one) in ends["cousin"]


def test_half_of_the_relations_of_a_made_world_are_symmetric() -> None:
    triples = made_triples.world(0)
    rows = {tuple(r) for r in torch.cat((triples.train, triples.valid, triples.test)).tolist()}
    symmetric = {
        name
        for number, name in enumerate(triples.relations)
        if all((t, r, h) in rows for h, r, t in rows if r == number)
    }
    assert symmetric == {"has embassy in", "borders", "is married to", "met"}
    assert len(triples.relations) == 9


def _few_epochs(task: AnyTask, values: configs.Values) -> list[Any]:
    candidates = default_candidates(task, values)
    return [replace(one, train=replace(one.train, epochs=4)) for one in candidates[::6]]


def test_the_defaults_stand_beside_a_rival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "EPOCHS", 4)
    monkeypatch.setattr(own_data, "default_candidates", _few_epochs)
    monkeypatch.setattr(own_sets, "_num_splits", lambda items: 2)
    result = call("--only", "karate", "--device", "cpu", "--out", str(tmp_path))
    lines = result.stdout.splitlines()
    assert lines[0].startswith("own_data  node: karate  2 splits  ")
    assert lines[-1].startswith("Mean regret ")
    (row,) = map(json.loads, (tmp_path / "own_data.jsonl").read_text().splitlines())
    assert row["against"] in ("logistic regression", "MLP", "GCN", "GraphSAGE")
    assert row["difference"] == pytest.approx(row["ours"] - row["rival"], abs=0.011)
    assert min(row["seconds"], row["rival_seconds"]) > 0


def test_what_is_on_record_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[tuple[str, int]] = []

    def measure(job: Any) -> dict[str, float]:
        if len(measured) == 7:
            raise ValueError("interrupted")
        measured.append((job.part.method, job.part.split))
        score = 0.5 if job.part.method == own_data.OURS else 0.4
        return {"valid": score, "test": score, "single": score, "seconds": 1.0}

    monkeypatch.setattr(own_data, "_measure", measure)
    parts = tmp_path / "parts.jsonl"
    with pytest.raises(RuntimeError, match=r"(?s)calls failed.*node: karate.*interrupted"):
        list(own_data.rows(CPU, ["karate"], parts=parts))
    assert len(parts.read_text().splitlines()) == 7
    first = measured[:]
    measured.clear()
    for _ in range(3):  # 25 parts: five methods on five splits, at most seven in a row
        with contextlib.suppress(RuntimeError):
            list(own_data.rows(CPU, ["karate"], parts=parts))
        first += measured
        measured.clear()
    assert len(first) == len(set(first)) == 25
    (row,) = own_data.rows(CPU, ["karate"], parts=parts)
    assert not measured
    assert (row["difference"], row["work"]) == (10.0, "5 splits")
    # Other defaults count as not measured.
    monkeypatch.setattr(own_data, "default_candidates", _few_epochs)
    list(own_data.rows(CPU, ["karate"], parts=parts))
    assert measured == [(own_data.OURS, split) for split in range(5)]


def test_another_selection_counts_as_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [own_data._settings("graph: cycles", method) for method in (own_data.OURS, "GIN")]
    monkeypatch.setattr(own_data, "_OWN_SOURCES", [*own_data._OWN_SOURCES, "changed"])
    after = [own_data._settings("graph: cycles", method) for method in (own_data.OURS, "GIN")]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]


def test_packages_read_in_another_way_count_as_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = "graph: solubility", "graph: cycles"
    before = [own_data._settings(case, "GIN") for case in cases]
    monkeypatch.setattr(own_data, "_PACKAGE_SOURCES", ["changed"])
    after = [own_data._settings(case, "GIN") for case in cases]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]


def test_more_splits_begin_with_the_same_ones(tmp_path: Path) -> None:
    digests = []
    for splits in (2, 4):
        folder = tmp_path / str(splits)
        folder.mkdir()
        paths = [v["data"]["path"] for v in own_sets.written("graph", "cycles", folder, splits)]
        digests.append([Path(path).read_text() for path in paths])
    assert [len(found) for found in digests] == [2, 4]
    assert digests[1][:2] == digests[0]


def test_the_defaults_of_all_datasets_begin_before_rivals(tmp_path: Path) -> None:
    chosen = [("node", "karate"), ("link", "families")]
    for first in (True, False):
        folder = tmp_path / str(first)
        written = own_data._Written(folder)
        jobs = list(own_data._pending(chosen, written, {}, "cpu", ours_first=first))
        parts = [job.part for job in jobs]
        assert len(set(parts)) == len(parts) == 5 * 5 + 3 * 3
        ours = [part.method == own_data.OURS for part in parts]
        assert (ours == sorted(ours, reverse=True)) == first
        cases = [part.case for part in parts]
        assert (cases == sorted(cases, reverse=True)) == (not first)


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    assert_user_error(call("--only", "kora"), "no task or dataset 'kora'", "did you mean 'cora'?")
    assert_user_error(call("--only", "citeseer"), "no task or dataset 'citeseer' here")
    assert_user_error(call("--folder", str(tmp_path)), "is not TASK/NAME")
    for others in (["--hidden"], ["--folder", str(tmp_path)]):
        both = call("--archives", str(tmp_path), *others)
        assert_user_error(both, "--hidden, --folder and --archives are different datasets")
    assert_user_error(call("--jobs", "2", "--device", "cuda"), "--jobs trains on the CPU")
    other = CliRunner().invoke(app, ["conv", "--hidden"], catch_exceptions=False)
    assert_user_error(other, "options of the benchmark own_data")


def test_data_of_a_folder_is_compared_too(tmp_path: Path) -> None:
    (tmp_path / "link" / "mine").mkdir(parents=True)
    found = own_data._chosen((), [tmp_path / "link" / "mine"], own_sets.VISIBLE)
    assert found == [("link", str(tmp_path / "link" / "mine"))]
