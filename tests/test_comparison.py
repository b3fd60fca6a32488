"""Models and records compared: the right test on the right pairs, said in words."""

import dataclasses
from pathlib import Path
from typing import Any

import karate
import numpy as np
import pytest
import reviews
import rings
import torch
from on_cpu import train_in_folder
from scipy import stats
from torch_geometric.data import Data

import quatgraph
from quatgraph.comparison import Comparison, Pair, compare
from quatgraph.data.node import from_data
from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.metrics.comparison import PairedTest
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.link.config import DataConfig, LinkConfig, TrainConfig
from quatgraph.tasks.node import NODE
from quatgraph.tasks.text import TEXT
from quatgraph.training.record import RunRecord, append_records, read_records

CPU = {"device": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models of the karate club and their records."""
    root = tmp_path_factory.mktemp("models")
    for name, model in (("a", "qgnn"), ("b", "gcn"), ("c", "mlp")):
        values = {"model.name": model, "seeds": 3}
        if model == "mlp":
            values |= {"train.epochs": 1}
        train_in_folder(NODE, [karate.config_of(**values)], root / name)
    return root


def correct_nodes(path: Path) -> torch.Tensor:
    """Whether the class of each test node is right, by the public methods alone."""
    predictor = quatgraph.load(path, **CPU)
    data = NODE.load(predictor.config)
    wanted = [data.label_names[y] for y in data.y.tolist()]
    found = predictor.predict().labels
    right = torch.tensor([a == b for a, b in zip(found, wanted, strict=True)])
    return right[data.test_mask[:, 0]]


def test_classifiers_are_compared_on_their_test_items_by_mcnemar(folder: Path) -> None:
    found = compare(folder / "a", folder / "c", **CPU)
    (pair,) = found.pairs
    first, second = correct_nodes(folder / "a"), correct_nodes(folder / "c")
    assert (pair.result.test, pair.result.pairs) == ("McNemar", len(first))
    assert pair.first_mean == pytest.approx(float(first.double().mean()))
    assert pair.second_mean == pytest.approx(float(second.double().mean()))
    assert pair.result.difference == pytest.approx(pair.first_mean - pair.second_mean)
    ups, downs = int((first & ~second).sum()), int((second & ~first).sum())
    assert ups + downs > 0
    assert pair.result.p == pytest.approx(stats.binomtest(ups, ups + downs).pvalue)
    assert (found.task, found.data, found.reference, found.notes) == ("node", "karate", "", ())
    assert f"{len(first)} shared test nodes of karate" in str(found)


def test_loaded_models_are_compared_too(folder: Path) -> None:
    paths = folder / "a", folder / "b"
    loaded = compare(*(quatgraph.load(path, **CPU) for path in paths))
    assert (loaded.pairs[0].first, loaded.pairs[0].second) == ("model 1", "model 2")
    assert loaded.pairs[0].result == compare(*paths, **CPU).pairs[0].result


def test_data_in_memory_is_given_in_the_form_it_was_trained_on(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    config = reviews.config_of()
    frame = pandas.DataFrame({"text": reviews.TEXTS, "label": reviews.LABELS})
    for name, epochs in (("a", 1), ("b", 2)):
        own = dataclasses.replace(config, train=dataclasses.replace(config.train, epochs=epochs))
        quatgraph.train_texts(frame, None, tmp_path / name, config=own, **CPU)
    paths = tmp_path / "a", tmp_path / "b"
    with pytest.raises(UserError, match="pass the texts again"):
        compare(*paths, **CPU)
    found = compare(*paths, data=frame, **CPU)
    assert found.pairs[0].result.pairs == len(from_list(reviews.TEXTS, reviews.LABELS).test)
    assert compare(*paths, data=(reviews.TEXTS, reviews.LABELS), **CPU) == found
    with pytest.raises(UserError, match="no longer what the model was trained on"):
        compare(*paths, data=frame[:-4], **CPU)


def test_trained_estimators_are_compared_and_other_objects_refused(folder: Path) -> None:
    estimators = []
    for name in ("a", "b"):
        estimators.append(quatgraph.NodeClassifier())
        estimators[-1].predictor_ = quatgraph.load(folder / name, **CPU)
    loaded = compare(*(quatgraph.load(folder / name, **CPU) for name in ("a", "b")))
    assert compare(*estimators) == loaded
    with pytest.raises(UserError, match="this NodeClassifier is not trained yet"):
        compare(quatgraph.NodeClassifier(), estimators[0])
    with pytest.raises(UserError, match=r"compare takes models, or paths of .*, not int"):
        compare(3, estimators[0])  # type: ignore[arg-type]


def test_three_models_are_compared_with_the_best_on_validation_data(folder: Path) -> None:
    paths = [folder / name for name in ("c", "b", "a")]
    found = compare(*paths, **CPU)
    cards = {str(path): quatgraph.load(path, **CPU).card["metrics"] for path in paths}
    best = max(cards, key=lambda name: cards[name]["valid/accuracy"])
    assert {pair.first for pair in found.pairs} == {best}
    assert {pair.second for pair in found.pairs} == cards.keys() - {best}
    plain = [compare(best, pair.second, **CPU).pairs[0].result.p for pair in found.pairs]
    low, high = sorted(plain)
    expected = {low: min(1, 2 * low), high: max(min(1, 2 * low), high)}
    assert [pair.result.p for pair in found.pairs] == [expected[p] for p in plain]
    last = str(found).splitlines()[-1]
    assert last == (
        f"all are compared with {best}, the best on validation data; p-values are Holm-corrected, "
        "intervals are not"
    )


def test_seeds_of_one_split_are_compared_by_the_paired_t_test(folder: Path) -> None:
    files = [folder / name / "records.jsonl" for name in ("a", "c")]
    (pair,) = compare(*files).pairs
    first, second = ([r.metrics["test/accuracy"] for r in read_records(file)] for file in files)
    expected = stats.ttest_rel(first, second)
    assert (pair.result.test, pair.result.pairs) == ("paired t test", 3)
    assert pair.result.p == pytest.approx(expected.pvalue, abs=1e-9)
    assert pair.paired_by == "shared seeds"
    # A model counts with its records if the other is a set of records.
    assert compare(folder / "a", files[1], **CPU).pairs[0].result == pair.result


def record_of(folder: Path) -> RunRecord:
    return read_records(folder / "a" / "records.jsonl")[0]


def write(path: Path, record: RunRecord, table: dict[tuple[int, int], float], **more: Any) -> Path:
    records = [
        dataclasses.replace(
            record,
            split=split,
            seed=seed,
            metrics={"test/accuracy": value, "valid/accuracy": 0.5, "valid/loss": 1.0},
            ensemble=f"{split} {seed}",
            **more,
        )
        for (split, seed), value in table.items()
    ]
    append_records(path, records)
    return path


def test_folds_are_compared_by_the_corrected_t_test_over_means_of_seeds(
    folder: Path, tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    keys = [(fold, seed) for fold in range(10) for seed in range(2)]
    first, second = ({key: float(draw.random()) for key in keys} for _ in range(2))
    record = dataclasses.replace(record_of(folder), task="graph")
    record.config["data"] |= {"num_folds": 10}
    files = [
        write(tmp_path / f"{name}.jsonl", record, table)
        for name, table in (("x", first), ("y", second))
    ]
    (pair,) = compare(*files).pairs
    rounded = [{k: float(f"{v:.6g}") for k, v in table.items()} for table in (first, second)]
    folds = [
        np.mean([rounded[0][fold, seed] - rounded[1][fold, seed] for seed in range(2)])
        for fold in range(10)
    ]
    error = np.sqrt((1 / 10 + 1 / 9) * np.var(folds, ddof=1))
    assert pair.result.p == pytest.approx(2 * stats.t.sf(abs(np.mean(folds)) / error, 9), abs=1e-9)
    assert (pair.result.test, pair.result.pairs) == ("corrected resampled t test", 10)
    assert pair.paired_by == "shared folds"


def test_unknown_sizes_of_splits_are_noted_and_known_ones_are_used(
    folder: Path, tmp_path: Path
) -> None:
    record = record_of(folder)
    tables = [{(split, 0): 0.1 * split**power for split in range(4)} for power in (1, 2)]
    files = [write(tmp_path / f"{i}.jsonl", record, table) for i, table in enumerate(tables)]
    known = compare(*files)  # karate is built in
    data = NODE.load(karate.config_of())
    ratio = float(data.test_mask.sum() / data.train_mask.sum())
    differences = [a - b for a, b in zip(*(t.values() for t in tables), strict=True)]
    error = np.sqrt((1 / 4 + ratio) * np.var(differences, ddof=1))
    expected = 2 * stats.t.sf(abs(np.mean(differences)) / error, 3)
    assert known.pairs[0].result.p == pytest.approx(expected, abs=1e-6)
    assert known.notes == ()
    record.config["data"]["name"] = ""
    files = [write(tmp_path / f"own-{i}.jsonl", record, t) for i, t in enumerate(tables)]
    unknown = compare(*files)
    assert unknown.notes == (
        "the sizes of the splits are unknown without the data: taken as 4 folds; pass --data",
    )


def test_of_several_configurations_the_best_on_validation_data_counts(
    folder: Path, tmp_path: Path
) -> None:
    record = record_of(folder)
    other = write(tmp_path / "y.jsonl", record, {(0, seed): 0.1 * seed for seed in range(3)})
    file = write(tmp_path / "x.jsonl", record, {(0, seed): 0.5 for seed in range(3)})
    best = [
        dataclasses.replace(
            r,
            config_digest="best",
            metrics={"test/accuracy": 0.2, "valid/accuracy": 0.9, "valid/loss": 1.0},
        )
        for r in read_records(file)
    ]
    append_records(file, best)
    found = compare(file, other)
    assert found.pairs[0].first_mean == pytest.approx(0.2)
    assert found.notes == (
        f"{file} has 2 configurations: each split counts with the one best on its validation data",
    )


def test_triples_are_compared_by_a_bootstrap_of_their_reciprocal_ranks(tmp_path: Path) -> None:
    rows = [(f"e{i}", f"r{i % 2}", f"e{(i * 7 + i % 3) % 20}") for i in range(120)]
    rows = list(dict.fromkeys(rows))
    file = tmp_path / "facts.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    for name, epochs in (("a", 1), ("b", 8)):
        config = LinkConfig(data=DataConfig(path=str(file)), train=TrainConfig(epochs=epochs))
        quatgraph.train_triples(file, tmp_path / name, config=config, **CPU)
    (pair,) = compare(tmp_path / "a", tmp_path / "b", **CPU).pairs
    assert (pair.result.test, pair.metric) == ("bootstrap", "test/mrr")
    for name, mean in (("a", pair.first_mean), ("b", pair.second_mean)):
        model = quatgraph.load(tmp_path / name, **CPU)
        assert mean == pytest.approx(model.evaluate()["test/mrr"], abs=1e-6)
        assert pair.result.pairs == len(model.triples.test)
    assert pair.result.low <= pair.result.difference <= pair.result.high


def test_graphs_are_compared_each_with_the_model_of_its_own_fold(tmp_path: Path) -> None:
    data = rings.collection(tmp_path, rings.lines(16))
    for name, rate in (("a", 0.01), ("b", 0.1)):
        config = rings.config_of(**{"train.lr": rate, "data.num_folds": 2})
        train_in_folder(GRAPH, [config], tmp_path / name, data=data)
    (pair,) = compare(tmp_path / "a", tmp_path / "b", data=data, **CPU).pairs
    assert (pair.result.pairs, pair.paired_by) == (16, "shared test graphs")
    for name, mean in (("a", pair.first_mean), ("b", pair.second_mean)):
        predictor = quatgraph.load(tmp_path / name, **CPU)
        assert mean == pytest.approx(predictor.evaluate(data)["test/accuracy"])


def test_texts_are_compared_also_after_their_file_has_moved(tmp_path: Path) -> None:
    file = reviews.written(tmp_path / "reviews.csv")
    vectors = str(reviews.vector_file(tmp_path / "vectors.txt"))
    # Word vectors belong to a model, not to the data.
    for name, more in (("a", {}), ("b", {"data.vectors": vectors})):
        config = reviews.config_of(**{"data.path": str(file), **more})
        train_in_folder(TEXT, [config], tmp_path / name)
    found = compare(tmp_path / "a", tmp_path / "b", **CPU)
    assert found.pairs[0].paired_by == "shared test texts"
    for name, mean in zip(
        "ab", (found.pairs[0].first_mean, found.pairs[0].second_mean), strict=True
    ):
        metrics = quatgraph.load(tmp_path / name, **CPU).card["metrics"]
        assert mean == pytest.approx(metrics["test/accuracy"], abs=1e-6)
    moved = file.rename(tmp_path / "moved.csv")
    with pytest.raises(UserError, match="the training data is no longer at"):
        compare(tmp_path / "a", tmp_path / "b", **CPU)
    assert compare(tmp_path / "a", tmp_path / "b", data=moved, **CPU) == found


def test_models_without_shared_test_items_cannot_be_compared(tmp_path: Path) -> None:
    ring = torch.stack((torch.arange(24), (torch.arange(24) + 2) % 24))
    part = torch.stack([(torch.arange(24) // 2 + shift) % 4 for shift in range(2)], dim=1)
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    labels = torch.arange(24) % 2
    graph = from_data(Data(x=labels[:, None] + 1.0, y=labels, edge_index=ring, **masks))
    train_in_folder(NODE, [karate.config_of()], tmp_path / "all", data=graph)
    models = []
    for split in (0, 1):
        predictor = quatgraph.load(tmp_path / "all", **CPU)
        predictor.members = [dataclasses.replace(predictor.members[0], split=split)]
        models.append(predictor)
    with pytest.raises(UserError, match="model 1 and model 2 share no test nodes"):
        compare(*models, data=graph)


def test_a_refitted_model_is_named(folder: Path) -> None:
    first, second = (quatgraph.load(folder / name, **CPU) for name in "ab")
    second.card["refit"] = True
    with pytest.raises(UserError, match=r"was refitted on all labels.*compare models from before"):
        compare(first, second, **CPU)


def test_what_cannot_be_compared_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    record = record_of(folder)
    table = {(0, seed): 0.5 for seed in range(3)}
    good = write(tmp_path / "good.jsonl", record, table)
    other = write(tmp_path / "other.jsonl", record, table, data_digest="x", dataset="cora")
    link = write(tmp_path / "link.jsonl", record, table, task="link")
    single = write(tmp_path / "single.jsonl", record, {(0, 0): 0.5})
    apart = write(tmp_path / "apart.jsonl", record, {(0, 7): 0.5, (0, 8): 0.6})
    mixed = tmp_path / "mixed.jsonl"
    append_records(mixed, [*read_records(good), *read_records(other)])
    other_splits = record.config["data"] | {"split_seed": 5}
    shifted = dataclasses.replace(record, config=record.config | {"data": other_splits})
    moved = write(tmp_path / "moved.jsonl", shifted, table)
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("card.json", "model.safetensors"):
        (bare / name).write_bytes((folder / "a" / name).read_bytes())
    (tmp_path / "empty").mkdir()
    cases = [
        (good, other, "was trained on 'karate' and .* on other data, 'cora'"),
        (good, link, "is for the task node and .* for link: compare models of one task"),
        (good, single, r"share a single run, which gives no test: train more with --seeds 5"),
        (good, apart, "share no split and seed with test data"),
        (good, mixed, "holds runs on several datasets, such as node cora and node karate"),
        (good, moved, r"have different splits, data\.split_seed is 0 and 5"),
        (good, bare, "is a set of records and .* a model without records.jsonl"),
        (good, good, "is given twice"),
        (good, tmp_path / "none", "there is no model and no record file"),
        (good, tmp_path / "empty", "is neither a trained model nor a file or folder of run"),
    ]
    for first, second, words in cases:
        with pytest.raises(UserError, match=words):
            compare(first, second, **CPU)


def pair_of(difference: float, p: float, metric: str = "test/accuracy") -> Pair:
    result = PairedTest("McNemar", difference, difference - 0.011, difference + 0.011, p, 1000)
    return Pair("A", "B", 0.8 + difference, 0.8, metric, "shared test nodes", result)


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (
            pair_of(0.013, 0.03),
            "A is ahead of B by 1.3 points (95 % CI 0.2 to 2.4; McNemar p = .03)",
        ),
        (
            pair_of(-0.013, 0.0002),
            "B is ahead of A by 1.3 points (95 % CI 0.2 to 2.4; McNemar p < .001)",
        ),
        (
            pair_of(-0.005, 0.62),
            "B is ahead of A by 0.5 points, which is within noise "
            "(95 % CI -0.6 to 1.6; McNemar p = .62)",
        ),
        (pair_of(0.0, 1.0), "A and B are level (95 % CI -1.1 to 1.1; McNemar p = 1)"),
        (
            pair_of(0.02, 0.004, "test/mrr"),
            "A is ahead of B by .020 MRR (95 % CI .009 to .031; McNemar p = .004)",
        ),
    ],
)
def test_a_difference_is_said_in_one_sentence(pair: Pair, words: str) -> None:
    assert str(pair) == words
    assert str(Comparison("node", "karate", [pair])).splitlines()[1] == words


def test_compare_is_a_public_name() -> None:
    assert quatgraph.compare is compare
