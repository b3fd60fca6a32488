"""Graphs and their folds as the models take them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from rings import collection, config_of, lines, with_features, without, written

from quatgraph.codes import Codes
from quatgraph.data.graph import Graphs, read, stratified_folds
from quatgraph.errors import UserError
from quatgraph.models.graph import MODELS, GraphGFN, GraphQGNN, LayeredOptions
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import DataConfig, GraphConfig
from quatgraph.tasks.graph.features import NodeFeatures
from quatgraph.tasks.graph.problem import build_collection, folds_of, split_indices

CPU = torch.device("cpu")
LAYERED = [name for name, model in MODELS.items() if issubclass(model.Options, LayeredOptions)]


@pytest.fixture
def graphs(tmp_path: Path) -> Graphs:
    return collection(tmp_path)


@pytest.mark.parametrize("values", [{}, {"name": "cycles", "path": "here"}])
def test_a_config_must_name_one_source_of_data(values: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"set either data\.name, .* or data\.path"):
        GRAPH.load(GraphConfig(data=DataConfig(**values)))


def test_the_data_is_the_catalogs_or_a_file(tmp_path: Path) -> None:
    assert len(GRAPH.load(GraphConfig(data=DataConfig(name="cycles")))) == 200
    path = written(tmp_path / "mine.jsonl", lines())
    assert GRAPH.load(GraphConfig(data=DataConfig(path=str(path)))).graph_ids[:2] == [
        "ring-0",
        "chain-1",
    ]


def test_a_problem_knows_its_classes_features_and_folds(graphs: Graphs) -> None:
    problem = GRAPH.prepare(graphs, config_of(), CPU)
    assert (problem.num_classes, problem.num_features, len(problem.folds)) == (2, 3, 3)
    assert problem.features.names == ("C", "N", "O")
    assert problem.collection.labels.tolist() == graphs.y.tolist()
    assert problem.collection.num_nodes.tolist() == [3 + place % 5 for place in range(30)]


def test_the_pool_says_which_nodes_each_graph_has(graphs: Graphs) -> None:
    pool = GRAPH.prepare(graphs, config_of(), CPU).collection.pool
    expected = torch.zeros(30, graphs.num_nodes)
    for graph in range(30):
        expected[graph, graphs.node_ptr[graph] : graphs.node_ptr[graph + 1]] = 1
    assert torch.equal(pool @ torch.eye(graphs.num_nodes), expected)
    assert torch.equal(pool.transpose() @ torch.eye(30), expected.T)


def dense(graphs: Graphs) -> torch.Tensor:
    made = torch.zeros(graphs.num_nodes, graphs.num_nodes)
    made[graphs.edge_index[1], graphs.edge_index[0]] = 1
    return made


@pytest.mark.parametrize("name", LAYERED)
@pytest.mark.parametrize("normalization", ["none", "row", "symmetric"])
def test_a_model_gets_the_matrix_it_is_made_for(
    name: str, normalization: str, graphs: Graphs
) -> None:
    normalizes = name in ("qgnn", "gcn")
    chosen = {"model.normalization": normalization} if normalizes else {}
    config = config_of(**{"model.name": name}, **chosen)
    found = GRAPH.prepare(graphs, config, CPU).collection.adjacency @ torch.eye(graphs.num_nodes)
    plain = dense(graphs)
    loops = plain + torch.eye(graphs.num_nodes)
    degree = loops.sum(dim=1)
    by_name = {
        "none": loops,
        "row": loops / degree[:, None],
        "symmetric": loops / (degree[:, None] * degree).sqrt(),
    }
    expected = by_name[normalization if normalizes else "none"]
    if name == "sage":
        expected = plain / plain.sum(dim=1, keepdim=True)
    if name in ("diffpool", "iegn", "ppgn", "ugformer1"):
        expected = plain
    if name == "gcaps":
        expected = by_name["symmetric"]
    torch.testing.assert_close(found, expected)


def test_gfn_gets_degrees_and_features_propagated_beforehand(graphs: Graphs) -> None:
    problem = GRAPH.prepare(graphs, config_of(**{"model.name": "gfn"}), CPU)
    loops = dense(graphs) + torch.eye(graphs.num_nodes)
    scaled = loops / (loops.sum(dim=1)[:, None] * loops.sum(dim=1)).sqrt()
    step = torch.nn.functional.one_hot(graphs.tags).float()
    expected = [graphs.degrees[:, None].float(), step]
    for _ in range(GraphGFN.propagations):
        step = scaled @ step
        expected.append(step)
    torch.testing.assert_close(problem.collection.features, torch.cat(expected, dim=1))
    assert problem.num_features == 1 + 3 * (1 + GraphGFN.propagations)


def test_attributes_make_the_features_dense(tmp_path: Path, graphs: Graphs) -> None:
    assert isinstance(GRAPH.prepare(graphs, config_of(), CPU).collection.features, Codes)
    problem = GRAPH.prepare(collection(tmp_path, with_features(lines())), config_of(), CPU)
    assert problem.collection.features.shape == (graphs.num_nodes, 5)
    assert problem.num_features == 5


@pytest.mark.parametrize("name", MODELS)
def test_every_model_answers_for_every_graph(name: str, graphs: Graphs) -> None:
    config = config_of(**{"model.name": name})
    problem = GRAPH.prepare(graphs, config, CPU)
    whole = problem.collection
    logits = GRAPH.build(config, problem).eval()(whole.features, whole.adjacency, whole.pool)
    assert logits.shape == (30, 2)
    assert bool(logits.isfinite().all())


def test_the_ensembles_of_a_search_share_the_collection(graphs: Graphs) -> None:
    features = NodeFeatures.fit(graphs, "auto")
    first = build_collection(graphs, GraphQGNN.Options(), features, CPU)
    again = NodeFeatures.fit(graphs, "auto")
    assert build_collection(graphs, GraphQGNN.Options(hidden_quats=3), again, CPU) is first
    assert build_collection(graphs, GraphQGNN.Options(normalization="row"), again, CPU) is not first


def test_folds_are_drawn_by_the_configs_seed(graphs: Graphs) -> None:
    drawn = folds_of(graphs, DataConfig(num_folds=3, fold_seed=4))
    for (train, test), (theirs, apart) in zip(drawn, stratified_folds(graphs.y, 3, 4), strict=True):
        assert torch.equal(train, theirs)
        assert torch.equal(test, apart)


def test_published_folds_belong_to_datasets_of_the_catalog(graphs: Graphs) -> None:
    with pytest.raises(UserError, match=r"data\.folds=fixed needs a dataset with published folds"):
        folds_of(graphs, DataConfig(path="mine.jsonl", folds="fixed"))
    with pytest.raises(UserError, match="cycles has no published folds"):
        folds_of(graphs, DataConfig(name="cycles", folds="fixed"))


def test_a_class_needs_as_many_graphs_as_there_are_folds(tmp_path: Path) -> None:
    few = collection(tmp_path, [g for g in lines() if g["label"] == "chain"] + lines(8)[::2])
    with pytest.raises(
        UserError, match="the class 'ring' has 4 graphs, too few for 10 folds: take "
    ):
        folds_of(few, DataConfig())
    with pytest.raises(UserError, match=r"take fewer with data\.num_folds=4, add graphs"):
        folds_of(few, DataConfig())
    assert len(folds_of(few, DataConfig(num_folds=4))) == 4
    lone = collection(tmp_path, [g for g in lines() if g["label"] == "chain"] + lines(1))
    with pytest.raises(UserError, match="has 1 graph, too few for 10 folds: add graphs, or leave"):
        folds_of(lone, DataConfig())


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_parts_share_out_the_graphs_and_no_test_graph_decides_anything(
    share: float, graphs: Graphs
) -> None:
    config = config_of(**{"data.validation": share, "train.select": "last"})
    problem = GRAPH.prepare(graphs, config, CPU)
    tested: list[int] = []
    for split, (fold, apart) in enumerate(problem.folds):
        parts = split_indices(problem, config, split)
        assert torch.equal(parts["test"], apart)
        together = torch.cat((parts["train"], parts["valid"])).sort().values
        assert torch.equal(together, fold.sort().values)
        assert torch.cat(list(parts.values())).sort().values.tolist() == list(range(30))
        assert bool(len(parts["valid"])) == (share > 0)
        tested += parts["test"].tolist()
        again = split_indices(problem, config, split)
        assert all(torch.equal(again[name], part) for name, part in parts.items())
    assert sorted(tested) == list(range(30))


def test_graphs_without_a_label_are_in_no_part(tmp_path: Path) -> None:
    unknown = [g | {"label": None} if place in (3, 8) else g for place, g in enumerate(lines())]
    config = config_of()
    problem = GRAPH.prepare(collection(tmp_path, unknown), config, CPU)
    for split in range(3):
        parts = split_indices(problem, config, split)
        known = torch.cat(list(parts.values())).sort().values.tolist()
        assert known == [place for place in range(30) if place not in (3, 8)]


@pytest.mark.realdata
@pytest.mark.parametrize("folds", ["stratified", "fixed"])
def test_the_parts_of_a_published_dataset_do_not_overlap(folds: str) -> None:
    config = config_of(**{"data.name": "mutag", "data.folds": folds, "data.num_folds": 10})
    problem = GRAPH.prepare(GRAPH.load(config), config, CPU)
    assert len(problem.folds) == 10
    for split in range(10):
        parts = split_indices(problem, config, split)
        places = torch.cat(list(parts.values())).tolist()
        assert sorted(places) == list(range(188))
        assert 16 <= len(parts["valid"]) <= 18


def test_all_models_with_layers_share_one_width_and_one_way_to_be_built() -> None:
    def weights(name: str, **values: Any) -> int:
        model = MODELS[name].Options(hidden_quats=4, **values)
        return sum(p.numel() for p in MODELS[name].from_options(model, 5, 3).parameters())

    assert all(weights(name, num_layers=3) > weights(name, num_layers=2) for name in LAYERED)
    # Real weights of QGNN's layers: a quarter of those between equal widths.
    assert weights("qgnn") < weights("gcn") < weights("sage")


def test_untagged_graphs_start_from_their_degrees(tmp_path: Path) -> None:
    problem = GRAPH.prepare(collection(tmp_path, without(lines(), "node_labels")), config_of(), CPU)
    assert (problem.features.kind, problem.num_features) == ("degrees", 2)


def own_split(tmp_path: Path, words: list[str], **more: list[str]) -> Graphs:
    """Thirty graphs whose parts, and perhaps groups, are the words in turn."""
    listed = [
        line
        | {"split": words[place % len(words)]}
        | {key: names[place % len(names)] for key, names in more.items()}
        for place, line in enumerate(lines())
    ]
    return read(written(tmp_path / "mine.jsonl", listed))


def test_an_own_split_is_the_only_fold(tmp_path: Path) -> None:
    graphs = own_split(tmp_path, ["train", "train", "valid", "train", "test"])
    config = config_of()
    assert GRAPH.num_splits(config, graphs) == 1
    problem = GRAPH.prepare(graphs, config, CPU)
    parts = split_indices(problem, config, 0)
    assert parts["train"].tolist() == [n for n in range(30) if n % 5 in (0, 1, 3)]
    assert parts["valid"].tolist() == list(range(2, 30, 5))
    assert parts["test"].tolist() == list(range(4, 30, 5))
    unchecked = config_of(**{"data.validation": 0.0, "train.select": "last"})
    assert GRAPH.has_validation(unchecked, graphs)
    assert torch.equal(split_indices(problem, unchecked, 0)["valid"], parts["valid"])


def test_a_valid_part_that_an_own_split_lacks_is_sampled_from_its_training_part(
    tmp_path: Path,
) -> None:
    graphs = own_split(tmp_path, ["train", "train", "test"])
    problem = GRAPH.prepare(graphs, config_of(), CPU)
    parts = split_indices(problem, config_of(**{"data.validation": 0.2}), 0)
    both = torch.cat((parts["train"], parts["valid"])).sort().values
    assert both.tolist() == [n for n in range(30) if n % 3 < 2]
    assert len(parts["valid"]) == 4
    last = config_of(**{"data.validation": 0.0, "train.select": "last"})
    assert not GRAPH.has_validation(last, graphs)


def test_folds_and_validation_parts_keep_groups_whole(tmp_path: Path) -> None:
    graphs = own_split(tmp_path, [""], group=[f"scaffold {n}" for n in range(10)])
    assert graphs.parts is None
    problem = GRAPH.prepare(graphs, config_of(), CPU)
    assert len(problem.folds) == 3
    assert sorted(torch.cat([test for _, test in problem.folds]).tolist()) == list(range(30))
    for split in range(3):
        parts = split_indices(problem, config_of(), split)
        groups = [{n % 10 for n in part.tolist()} for part in parts.values()]
        assert all(groups)
        assert sum(map(len, groups)) == 10
    with pytest.raises(UserError, match=r"10 groups are too few for 11 folds: .*num_folds=10"):
        folds_of(graphs, config_of(**{"data.num_folds": 11}).data)


def test_names_of_keys_are_no_part_of_a_configuration() -> None:
    identity = config_of().identity()
    assert not {"split", "group"} & identity["data"].keys()
    assert identity == config_of(**{"data.split": "fold", "data.group": "who"}).identity()
