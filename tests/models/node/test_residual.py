"""GCNII as a stack of PyG's ``GCN2Conv``, Deep QGNN as its equation, and both in training."""

import karate
import pytest
import torch
from karate import CPU, config_of
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN2Conv

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix, hamilton_matrix_tiled
from quatgraph.errors import UserError
from quatgraph.models.node import GCNII, DeepQGNN, NodeModel
from quatgraph.tasks.node import NODE
from quatgraph.tasks.task import Member

N, IN, CLASSES = 6, 5, 3
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
SETTINGS = {"num_layers": 4, "alpha": 0.2, "theta": 0.7}
graph = karate.graph
both = pytest.mark.parametrize("kind", [GCNII, DeepQGNN])


def small(kind: type[NodeModel]) -> NodeModel:
    size = {"hidden": 8} if kind is GCNII else {"hidden_quats": 2}
    model = kind(IN, CLASSES, **size, **SETTINGS)
    for layer in (model.first, model.prediction):
        nn.init.normal_(layer.bias)
    return model


def stack(model: NodeModel, matrices: list[torch.Tensor], h: torch.Tensor) -> torch.Tensor:
    """The logits from the first layer's vectors on, by PyG's layers with these weights."""
    start = h
    for layer, matrix in enumerate(matrices, 1):
        conv = GCN2Conv(8, SETTINGS["alpha"], SETTINGS["theta"], layer)
        conv.weight1.data.copy_(matrix.mT)
        h = torch.relu(conv(h, start, EDGES))
    return model.prediction(h)


def test_gcnii_is_a_stack_of_pygs_gcn2conv():
    model, x = small(GCNII).eval(), torch.randn(N, IN)
    wanted = stack(model, [c.linear.weight for c in model.convs], torch.relu(model.first(x)))
    torch.testing.assert_close(model(x, Adjacency.of(EDGES, N)), wanted)


def test_deep_qgnn_is_that_stack_with_quaternion_matrices():
    model, x = small(DeepQGNN).eval(), torch.randn(N, IN)
    start = torch.relu(x @ hamilton_matrix_tiled(model.first.weight).mT + model.first.bias)
    wanted = stack(model, [hamilton_matrix(c.linear.weight) for c in model.convs], start)
    torch.testing.assert_close(model(x, Adjacency.of(EDGES, N)), wanted)


@both
def test_sparse_features_equal_dense_ones(kind):
    model, x, adjacency = small(kind).eval(), torch.randn(N, IN).relu(), Adjacency.of(EDGES, N)
    torch.testing.assert_close(model(Adjacency.from_dense(x), adjacency), model(x, adjacency))


@both
def test_relabelled_nodes_have_relabelled_logits(kind):
    model, x, order = small(kind).eval(), torch.randn(N, IN), torch.randperm(N)
    relabelled = model(x[order], order.argsort()[EDGES])
    torch.testing.assert_close(relabelled, model(x, EDGES)[order])


@both
def test_every_layers_input_is_dropped_in_training_alone(kind):
    model, x, seen = small(kind), torch.randn(N, IN), []
    model.dropout.register_forward_hook(lambda module, args, y: seen.append(y))
    assert not torch.equal(model(x, EDGES), model(x, EDGES))
    assert len(seen) == 2 * (SETTINGS["num_layers"] + 2)
    model.eval()
    assert torch.equal(model(x, EDGES), model(x, EDGES))


@both
def test_a_model_without_layers_is_a_mistake(kind):
    with pytest.raises(UserError, match="at least one layer, got num_layers=0"):
        kind(IN, CLASSES, num_layers=0)


@both
@pytest.mark.parametrize("option", ["theta", "conv_weight_decay"])
def test_a_negative_option_is_a_mistake(kind, option):
    with pytest.raises(ValueError, match=f"model.{option} must not be negative, got -1"):
        kind.Options(**{option: -1.0})


def test_memory_is_estimated_from_what_a_layer_stores():
    """Beside what the linear layers take, three numbers per node and channel of each layer."""
    ten, twenty = (GCNII.Options(num_layers=n).num_activations(N, 0) for n in (10, 20))
    assert twenty - ten == 10 * 3 * N * 64
    stored = {}
    for layers in (10, 20):
        model, count = GCNII(IN, CLASSES, num_layers=layers), set()
        x, adjacency = torch.randn(N, IN), Adjacency.of(EDGES, N)

        def remember(value: torch.Tensor, count: set = count) -> torch.Tensor:
            if value.shape == (N, 64):
                count.add(value.data_ptr())
            return value

        with torch.autograd.graph.saved_tensors_hooks(remember, lambda value: value):
            logits = model(x, adjacency)
        stored[layers] = len(count) * N * 64
        assert logits.requires_grad
    assert stored[20] - stored[10] <= twenty - ten


@pytest.mark.parametrize("name", ["gcnii", "deep-qgnn"])
@pytest.mark.parametrize("own", [None, 0.5])
def test_convolutions_may_have_a_weight_decay_of_their_own(
    graph: Data, name: str, own: float | None
) -> None:
    """Against torch's Adam with two groups of parameters."""
    here = {"data.name": "", "data.path": "here", "train.epochs": 8, "train.select": "last"}
    deep = {"model.name": name, "model.num_layers": 3, "model.dropout": 0.0}
    config = config_of(**here, **deep, **{"model.conv_weight_decay": own})
    members = [Member(config, split, 0) for split in range(2)]
    problem = NODE.prepare(graph, config, CPU)
    weights = NODE.train(members, problem, NODE.plan(members)).weights
    for split in range(2):
        torch.manual_seed(0)
        model = NODE.build(config, problem)
        decay = config.train.weight_decay
        groups = [
            {"params": model.convs.parameters(), "weight_decay": decay if own is None else own},
            {"params": model.first.parameters()},
            {"params": model.prediction.parameters()},
        ]
        optimizer = torch.optim.Adam(groups, lr=config.train.lr, weight_decay=decay)
        train = problem.masks["train"][split]
        for _ in range(config.train.epochs):
            optimizer.zero_grad()
            logits = model(*problem.inputs)[train]
            nn.functional.cross_entropy(logits, problem.labels[train]).backward()
            optimizer.step()
        for key, wanted in model.named_parameters():
            torch.testing.assert_close(weights[key][split], wanted, rtol=1e-3, atol=1e-4)
