"""Training on sampled neighbours: the losses, the batches, what is chosen and what is refused."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import settings
import torch
from kills import killed, points_of, steps_of
from on_cpu import train_in_folder
from sampled import DATA
from torch_geometric.data import Data

from quatgraph.data.node import from_data
from quatgraph.errors import UserError
from quatgraph.hops import Chunks
from quatgraph.models.node import MODELS
from quatgraph.predictors.node import NodePredictor
from quatgraph.tasks.node import NODE, sampled, task
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.pool import NodePool
from quatgraph.tasks.node.sampled import NodeBatches, fan_out
from quatgraph.tasks.task import Member
from quatgraph.training.bundle import load_bundle
from quatgraph.training.loop import Plan

CPU = torch.device("cpu")
SAMPLED = [name for name, model in MODELS.items() if model.Options(name=name).hops]
SMALL = {"data.path": "here", "train.epochs": 3, "train.lr": 0.05, "model.hidden_quats": 2}
SMALL |= {"model.num_layers": 2, "train.batch_size": 8, "train.num_neighbors": 2}


def config_of(**values: Any) -> NodeConfig:
    return settings.built(NodeConfig, values, SMALL)


@pytest.fixture(scope="module")
def graph() -> Data:
    """The graph to sample from, whose first feature tells the classes apart, with two splits."""
    nodes = DATA.num_nodes
    x = DATA.x.float().clone()
    x[:, 0] += 2.0 * DATA.y
    part = torch.stack([(torch.arange(nodes) + shift) % 4 for shift in range(2)], dim=1)
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    edges = {"edge_index": DATA.edge_index, "edge_weight": DATA.edge_weight.float()}
    return from_data(Data(x=x, y=DATA.y, name="made", **edges, **masks))


@pytest.mark.parametrize("name", SAMPLED)
def test_a_batch_of_all_nodes_with_all_neighbours_trains_as_the_whole_graph(
    graph: Data, name: str
) -> None:
    whole = {"model.name": name, "model.dropout": 0.0, "train.num_neighbors": 0}
    whole |= {"train.class_weights": "balanced"}
    every = whole | {"train.num_neighbors": -1, "train.batch_size": 1000}
    fits = []
    for config in (config_of(**whole), config_of(**every)):
        torch.set_default_dtype(torch.float64)
        try:
            problem = NODE.prepare(in_float64(graph), config, CPU)
            members = [Member(config, 1, 3)]
            fits.append(NODE.train(members, problem, NODE.plan(members)))
        finally:
            torch.set_default_dtype(torch.float32)
    one, other = fits
    for key, curve in one.curves.items():
        torch.testing.assert_close(curve, other.curves[key], rtol=1e-8, atol=1e-10)
    for key, weight in one.weights.items():
        torch.testing.assert_close(weight, other.weights[key], rtol=1e-6, atol=1e-8)
    logits = [fit.outputs[0]["all/logits"] for fit in fits]
    torch.testing.assert_close(*logits, rtol=1e-6, atol=1e-8)


def in_float64(graph: Data) -> Data:
    wide = graph.clone()
    wide.x, wide.edge_weight = graph.x.double(), graph.edge_weight.double()
    return wide


def batches_of(graph: Data, **how: Any) -> NodeBatches:
    config = config_of(**{"model.name": "gcn"})
    problem = NODE.prepare(graph, config, CPU)
    nodes = problem.masks["train"][0].nonzero().flatten()
    given = {"num_neighbors": [2, 2, 2], "batch_size": 8, "seed": 5} | how
    return NodeBatches(problem.adjacency, nodes=nodes, **given)


def test_an_epoch_has_every_training_node_once_in_parts_of_equal_size(graph: Data) -> None:
    batches = batches_of(graph)
    for epoch in range(2):
        steps = len(batches.draw(epoch))
        loaded = [batches.load(step, 1)[0] for step in range(steps)]
        seeds = [batch.seeds for batch in loaded]
        assert torch.equal(torch.cat(seeds).sort().values, batches.nodes)
        assert {len(each) for each in seeds} == {7, 8}
        for batch in loaded:
            assert torch.equal(batch.hops.nodes[: len(batch.seeds)], batch.seeds)
            assert batch.hops.matrices[-1].shape[0] == len(batch.seeds)


def test_an_epoch_depends_on_its_number_and_the_seed_alone(graph: Data) -> None:
    def draws(epoch: int, **how: Any) -> list[list[int]]:
        batches = batches_of(graph, **how)
        count = len(batches.draw(epoch))
        return [batches.load(step, 1)[0].hops.nodes.tolist() for step in range(count)]

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)
    assert draws(3) != draws(3, seed=6)


def test_padded_batches_give_the_loss_and_gradients_of_plain_ones(
    graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(**{"model.name": "qgnn", "model.dropout": 0.5})
    problem = NODE.prepare(graph, config, CPU)
    members = [Member(config, 0, 0)]
    plain = NODE.train(members, problem, NODE.plan(members))
    made = NodeBatches.__init__

    def padded(self: NodeBatches, *args: Any) -> None:
        made(self, *args)
        self.padded = True

    monkeypatch.setattr(NodeBatches, "__init__", padded)
    other = NODE.train(members, problem, NODE.plan(members))
    for key, weight in plain.weights.items():  # dropout masks too do not depend on padding
        torch.testing.assert_close(weight, other.weights[key], rtol=1e-4, atol=1e-6)


def test_batches_of_one_shape_share_their_buffers(graph: Data) -> None:
    batches = batches_of(graph)
    batches.padded = True
    batches.draw(0)
    first = batches.load(0, 1)[0]
    places = [tensor.data_ptr() for tensor in first.tensors()]
    wanted = batches_of(graph)
    wanted.draw(0)
    for step in (1, 2):
        (batch,) = batches.load(step, 1)
        (plain,) = wanted.load(step, 1)
        seeds = batch.seeds[batch.seeds >= 0]
        assert torch.equal(seeds, plain.seeds)
        assert torch.equal(batch.hops.nodes[: len(plain.hops.nodes)], plain.hops.nodes)
        if batches.shapes[step] == batches.shapes[0]:
            assert [tensor.data_ptr() for tensor in batch.tensors()] == places
    assert batches.shapes[1] == batches.shapes[0]  # so that the line above was reached


def test_training_learns_is_recorded_and_predicts_layer_by_layer(
    graph: Data, tmp_path: Path
) -> None:
    values = {"model.name": "qgnn", "train.epochs": 40, "train.patience": 20, "model.dropout": 0.1}
    values |= {"train.num_neighbors": [3, 2, 2], "train.metric": "macro-f1", "seeds": 2}
    config = config_of(**values)
    job = train_in_folder(NODE, [config], tmp_path, data=graph)
    assert len(job.records) == 4
    assert all(record.metrics["valid/accuracy"] > 0.5 for record in job.records)  # of 3 classes
    assert len({record.ensemble for record in job.records}) == 4  # one after the other
    assert job.records[0].config["train"]["num_neighbors"] == [3, 2, 2]
    predictor = NodePredictor(load_bundle(tmp_path), CPU, graph)
    measured = predictor.evaluate()
    for name in ("valid/loss", "valid/macro-f1", "test/macro-f1", "test/accuracy"):
        assert measured[name] == pytest.approx(job.metrics[name], rel=1e-5), name
    (member,) = predictor.members
    problem = NODE.prepare(graph, member.config, CPU, scaling=member.preparation)
    assert isinstance(problem.inputs[1], Chunks)
    found = predictor.predict()
    whole = member.model(problem.features, problem.adjacency).softmax(dim=1)
    torch.testing.assert_close(found.probabilities, whole.detach(), rtol=1e-4, atol=1e-6)
    assert predictor.embed(nodes=["3"]).vectors.shape == (1, 8)


def test_a_killed_training_resumes_as_if_nothing_had_been(
    graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Plan.__init__.__kwdefaults__, "save_every", -1.0)
    config = config_of(**{"model.name": "gcn", "model.dropout": 0.3})

    def train(folder: Path, **how: bool) -> dict[str, torch.Tensor]:
        train_in_folder(NODE, [config], folder, data=graph, combine=True, **how)
        return load_bundle(folder).tensors

    whole = train(tmp_path / "whole")
    points = points_of(steps_of(partial(train, tmp_path / "counted")))
    for place, point in enumerate(points[3 :: len(points) // 4]):
        folder = tmp_path / str(place)
        assert killed(partial(train, folder), point)
        resumed = train(folder, resume=True)
        assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_large_predictions_are_not_smoothed(
    graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(**{"model.name": "gcn"})
    monkeypatch.setattr(task, "LARGEST_SMOOTHED", graph.num_nodes * 3 - 1)
    monkeypatch.setattr(NodePool, "smoothed_by", None)  # calling it is an error
    train_in_folder(NODE, [config], tmp_path, data=graph, combine=True)
    assert "smoothing" not in load_bundle(tmp_path).card


@pytest.mark.gpu
def test_a_gpu_trains_on_the_samples_of_a_cpu_and_repeats_bit_for_bit(graph: Data) -> None:
    config = config_of(**{"model.name": "qgnn", "model.dropout": 0.3, "train.epochs": 5})

    def train(device: str) -> Any:
        problem = NODE.prepare(graph, config, torch.device(device))
        members = [Member(config, 0, 0)]
        return NODE.train(members, problem, NODE.plan(members))

    one, other, ours = train("cuda:0"), train("cuda:0"), train("cpu")
    for key, weight in one.weights.items():
        assert torch.equal(weight, other.weights[key])
        torch.testing.assert_close(weight.cpu(), ours.weights[key], rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
def test_captured_steps_on_samples_equal_launched_ones(graph: Data) -> None:
    config = config_of(**{"model.name": "gat", "model.dropout": 0.3, "train.epochs": 5})
    problem = NODE.prepare(graph, config, torch.device("cuda:0"))
    members = [Member(config, 0, 0)]
    plan = NODE.plan(members)
    captured = NODE.train(members, problem, plan)
    launched = NODE.train(members, problem, replace(plan, capture=False))
    for key, weight in captured.weights.items():
        assert torch.equal(weight, launched.weights[key])


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("fan", [[3], [3, 2, 2, 1]])
def test_a_list_of_another_length_than_the_hops_is_refused(name: str, fan: list[int]) -> None:
    config = config_of(**{"model.name": name, "train.num_neighbors": fan})
    hops = config.model.hops
    with pytest.raises(UserError, match=rf"has {len(fan)} numbers, but {name}.* {hops} times"):
        fan_out(config)
    assert fan_out(config_of(**{"model.name": name, "train.num_neighbors": 4})) == [4] * hops


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(SAMPLED)))
def test_models_that_cannot_sample_name_those_that_can(name: str, graph: Data) -> None:
    config = config_of(**{"model.name": name})
    with pytest.raises(UserError, match=rf"{name} does not train on sampled .*qgnn.*gat"):
        NODE.settle([config], graph, CPU)


def test_of_several_candidates_those_that_cannot_sample_as_chosen_are_left_out(
    graph: Data,
) -> None:
    configs = [config_of(**{"model.name": name, "model.num_layers": 1}) for name in ("mlp", "gcn")]
    deep = config_of(**{"model.name": "gcn", "train.num_neighbors": [3, 2, 2]})
    shallow = config_of(
        **{"model.name": "gcn", "model.num_layers": 1, "train.num_neighbors": [3, 2]}
    )
    kept, notes = NODE.settle([*configs, deep], graph, CPU)
    assert kept == [configs[1], deep]
    assert "left out 1 of 3 configurations: mlp does not" in notes[0]
    assert "an epoch has 4 steps for 30 training nodes" in notes[1]
    wrong = config_of(**{"model.name": "gcn", "train.num_neighbors": [3, 2]})
    _, (first, second, _) = NODE.settle([*configs, configs[0], wrong, shallow], graph, CPU)
    assert first.startswith("left out 2 of 5 configurations: mlp does not")
    assert second.startswith("left out 1 of 5 configurations: train.num_neighbors")
    assert NODE.settle([wrong, shallow], graph, CPU)[0] == [shallow]


def test_a_graph_that_does_not_fit_is_sampled_and_the_command_says_why(
    graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto = config_of(**{"model.name": "gcn", "train.num_neighbors": "auto"})
    linear = config_of(**{"model.name": "linear", "train.num_neighbors": "auto"})
    assert NODE.settle([auto, linear], graph, CPU) == ([auto, linear], [])
    monkeypatch.setattr(sampled, "TOLD_FROM", 1)
    _, (note,) = NODE.settle([auto], graph, CPU)
    assert "trained on the whole graph: gcn about 0.0 GiB" in note
    monkeypatch.setattr(sampled, "available_memory", lambda device: 1000)
    (made, same), (why, whole) = NODE.settle([auto, linear], graph, CPU)
    assert made.train.num_neighbors == (15, 10, 5)
    assert same == linear
    assert "gcn [15, 10, 5]: trained on so many sampled neighbours" in why
    assert "cpu has 0.0 GiB" in why
    assert "trained on the whole graph: linear about" in whole
    told = config_of(**{"model.name": "gcn", "train.num_neighbors": 0})
    assert NODE.settle([told], graph, CPU)[0] == [told]
    bare = graph.clone()
    bare.x = None
    assert NODE.settle([auto], bare, CPU)[0] == [auto]
    with pytest.raises(UserError, match="a graph without features is trained on whole"):
        NODE.settle([config_of(**{"model.name": "gcn"})], bare, CPU)


def test_settings_are_checked() -> None:
    for wrong in (-2, [3, 0], [0, 0]):
        with pytest.raises(UserError, match=r"train\.num_neighbors must be a number of neigh"):
            config_of(**{"train.num_neighbors": wrong})
    with pytest.raises(UserError, match=r"must be 'auto' or a whole number or a list of whole"):
        config_of(**{"train.num_neighbors": [1.5]})
    with pytest.raises(UserError, match=r"train\.batch_size must be at least 1"):
        config_of(**{"train.batch_size": 0})
    with pytest.raises(UserError, match=r"nesterov takes steps on all .*num_neighbors=0"):
        config_of(**{"train.optimizer": "nesterov"})
    for whole in ("auto", 0, []):
        config = config_of(**{"train.num_neighbors": whole, "train.optimizer": "nesterov"})
        assert not config.train.samples


def test_only_a_choice_identifies_a_configuration() -> None:
    plain = NodeConfig()
    assert "num_neighbors" not in plain.identity()["train"]
    assert "batch_size" not in plain.identity()["train"]
    assert config_of().identity()["train"]["num_neighbors"] == 2
