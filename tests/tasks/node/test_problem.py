"""A graph as the models take it: features sparse or dense, the adjacency matrix, the parts."""

from pathlib import Path

import pytest
import settings
import torch
from torch_geometric.data import Data

from quatgraph.adjacency import Adjacency
from quatgraph.data.node import from_data
from quatgraph.data.scaling import Scaling
from quatgraph.errors import UserError
from quatgraph.models.node import MODELS
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.task import Member

CPU = torch.device("cpu")
N, F = 30, 12


@pytest.fixture
def graph() -> Data:
    """Three classes whose words differ, a tenth of the numbers not zero, two splits."""
    draw = torch.Generator().manual_seed(1)
    y = torch.arange(N) % 3
    x = torch.zeros(N, F)
    x[torch.arange(N), y * 4 + torch.randint(4, (N,), generator=draw)] = 1.0
    forth = torch.randint(N, (2, 60), generator=draw)
    part = torch.stack([torch.randperm(N, generator=draw) % 5 for _ in range(2)], dim=1)
    part[:3] = 0
    return from_data(
        Data(
            x=x,
            y=y,
            edge_index=torch.cat((forth, forth.flip(0)), dim=1),
            train_mask=part < 3,
            val_mask=part == 3,
            test_mask=part == 4,
        )
    )


def config_of(**values: object) -> NodeConfig:
    return settings.built(NodeConfig, values)


@pytest.mark.parametrize("values", [{}, {"name": "karate", "path": "here"}])
def test_a_config_must_name_one_source_of_data(values: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"set either data\.name, .* or data\.path"):
        NODE.load(NodeConfig(data=DataConfig(**values)))


def test_the_data_is_the_catalogs_or_a_folder(tmp_path: Path) -> None:
    assert NODE.load(NodeConfig(data=DataConfig(name="karate"))).num_nodes == 34
    lines = [f"n{i},{'ab'[i % 2]},{i}.5" for i in range(10)]
    (tmp_path / "nodes.csv").write_text("id,label,age\n" + "\n".join(lines))
    (tmp_path / "edges.csv").write_text("n0,n1\nn1,n2\n")
    made = NODE.load(NodeConfig(data=DataConfig(path=str(tmp_path))))
    assert made.node_ids[:2] == ["n0", "n1"]
    assert made.edge_index.size(1) == 4
    directed = NODE.load(NodeConfig(data=DataConfig(path=str(tmp_path), directed=True)))
    assert directed.edge_index.tolist() == [[0, 1], [1, 2]]
    masks = [
        NODE.load(NodeConfig(data=DataConfig(path=str(tmp_path), split_seed=seed))).train_mask
        for seed in (0, 0, 3)
    ]
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_the_parts_are_masks_by_split_that_no_node_shares(graph: Data) -> None:
    problem = NODE.prepare(graph, NodeConfig(), CPU)
    assert {part: mask.shape for part, mask in problem.masks.items()} == {
        "train": (2, N),
        "valid": (2, N),
        "test": (2, N),
    }
    assert torch.equal(problem.masks["valid"][1], graph.val_mask[:, 1])
    assert int(sum(mask.int() for mask in problem.masks.values()).max()) == 1
    assert problem.num_classes == 3


def test_features_with_few_numbers_are_kept_sparse_and_others_dense(graph: Data) -> None:
    assert isinstance(NODE.prepare(graph, NodeConfig(), CPU).features, Adjacency)
    full = graph.clone()
    full.x = torch.rand(N, F) + 0.1
    assert isinstance(NODE.prepare(full, NodeConfig(), CPU).features, torch.Tensor)
    assert isinstance(NODE.prepare(graph, NodeConfig(), CPU, layout="dense").features, torch.Tensor)
    assert isinstance(NODE.prepare(full, NodeConfig(), CPU, layout="sparse").features, Adjacency)


@pytest.mark.parametrize("name", MODELS)
def test_sparse_and_dense_features_give_the_same_logits(graph: Data, name: str) -> None:
    config = config_of(**{"model.name": name, "data.scaling": "row"})
    sparse = NODE.prepare(graph, config, CPU, layout="sparse")
    dense = NODE.prepare(graph, config, CPU, layout="dense")
    model = NODE.build(config, sparse).eval()
    logits = model(sparse.features, sparse.adjacency)
    assert logits.shape == (N, 3)
    torch.testing.assert_close(logits, model(dense.features, dense.adjacency))


@pytest.mark.parametrize("masks", ["real", "quaternion"])
def test_sparse_and_dense_features_train_alike_without_dropout(graph: Data, masks: str) -> None:
    settings = {"model.masks": masks, "model.dropout": 0, "train.epochs": 8, "train.lr": 0.05}
    config = config_of(**settings, **{"train.select": "last"})
    members = [Member(config, 0, 0)]
    fits = [
        NODE.train(members, NODE.prepare(graph, config, CPU, layout=layout), NODE.plan(members))
        for layout in ("sparse", "dense")
    ]
    for name, weight in fits[0].weights.items():
        torch.testing.assert_close(weight, fits[1].weights[name], rtol=1e-4, atol=1e-5)
    assert fits[0].epochs_run == 8


def test_a_graph_without_features_gives_each_node_a_feature_of_its_own() -> None:
    data = NODE.load(NodeConfig(data=DataConfig(name="karate")))
    problem = NODE.prepare(data, NodeConfig(), CPU)
    assert problem.scaling is None
    assert isinstance(problem.features, Adjacency)
    assert torch.equal(problem.features @ torch.eye(34), torch.eye(34))
    logits = NODE.build(NodeConfig(), problem)(problem.features, problem.adjacency)
    assert logits.shape == (34, 2)


def test_the_adjacency_matrix_has_self_loops_and_the_normalization_of_the_config(
    graph: Data,
) -> None:
    ones, eye = torch.ones(N, 1), torch.eye(N)
    by_row = NODE.prepare(graph, config_of(**{"model.normalization": "row"}), CPU).adjacency
    torch.testing.assert_close(by_row @ ones, ones)
    plain = NODE.prepare(graph, config_of(**{"model.normalization": "none"}), CPU).adjacency @ eye
    assert bool((plain.diagonal() > 0).all())
    degree = plain.sum(dim=1)
    symmetric = NODE.prepare(graph, NodeConfig(), CPU).adjacency @ eye
    torch.testing.assert_close(symmetric, plain / (degree[:, None] * degree[None, :]).sqrt())


def test_gat_normalizes_by_attention_alone(graph: Data) -> None:
    gat = NODE.prepare(graph, config_of(**{"model.name": "gat"}), CPU).adjacency
    # 0 where a loop of the data made way for the one that every node has.
    assert set(gat.weight.tolist()) <= {0.0, 1.0}
    assert not set(NODE.prepare(graph, NodeConfig(), CPU).adjacency.weight.tolist()) <= {0.0, 1.0}


def test_a_given_scaling_is_used_instead_of_a_new_one(graph: Data) -> None:
    other = Scaling.fit(torch.tensor([[-1.0] * F, [3.0] * F]), "standard")
    problem = NODE.prepare(graph, NodeConfig(), CPU, scaling=other, layout="dense")
    assert problem.scaling == other
    torch.testing.assert_close(problem.features, (graph.x - 1) / 2)


def test_edge_weights_reach_the_adjacency_matrix(graph: Data) -> None:
    heavy = graph.clone()
    heavy.edge_weight = torch.full((graph.edge_index.size(1),), 5.0)
    config = config_of(**{"model.normalization": "none"})
    plain, weighted = (
        NODE.prepare(d, config, CPU).adjacency @ torch.eye(N) for d in (graph, heavy)
    )
    off = ~torch.eye(N, dtype=torch.bool)
    torch.testing.assert_close(weighted[off], 5 * plain[off])


def test_a_width_that_heads_cannot_share_is_a_mistake() -> None:
    with pytest.raises(UserError, match="width of 4 reals cannot be shared among 8 heads"):
        config_of(**{"model.name": "gat", "model.hidden_quats": 1})


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("linear", "sgc")])
def test_a_models_width_counts_four_reals_per_quaternion(graph: Data, name: str) -> None:
    model = MODELS[name].Options(hidden_quats=2)
    first = next(MODELS[name].from_options(model, F, 3).parameters())
    assert 8 in (first.numel() // F, first.size(0), first.size(-1))
