"""SGC against PyG's ``SGConv``; training propagates features once."""

import karate
import pytest
import torch
from karate import CPU, config_of
from torch_geometric.data import Data
from torch_geometric.nn import SGConv

from quatgraph.adjacency import Adjacency
from quatgraph.models.node import SGC
from quatgraph.tasks.node import NODE, task
from quatgraph.tasks.task import Member

N, IN, CLASSES = 6, 5, 3
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
HERE = {"data.name": "", "data.path": "here", "model.name": "sgc", "train.select": "last"}
graph = karate.graph


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_it_is_pygs_sgconv(hops, sparse):
    model, theirs = SGC(IN, CLASSES, num_hops=hops), SGConv(IN, CLASSES, K=hops)
    theirs.lin.load_state_dict(model.prediction.state_dict())
    x = torch.randn(N, IN).relu()
    given = Adjacency.from_dense(x) if sparse else x
    torch.testing.assert_close(model(given, EDGES), theirs(x, EDGES))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_a_problem_holds_propagated_features(graph: Data, layout: str) -> None:
    config = config_of(**HERE, **{"model.num_hops": 3})
    problem = NODE.prepare(graph, config, CPU, layout=layout)
    plain = NODE.prepare(graph, config_of(**HERE | {"model.name": "gcn"}), CPU, layout="dense")
    power = torch.linalg.matrix_power(plain.adjacency.to_dense(), 3)
    torch.testing.assert_close(problem.features, power @ plain.features)
    features, adjacency = problem.inputs
    assert adjacency is None
    model = NODE.build(config, problem).eval()
    torch.testing.assert_close(model(features, adjacency), model(plain.features, plain.adjacency))


def test_features_of_another_number_of_hops_are_another_problem() -> None:
    one, two = (config_of(**HERE, **{"model.num_hops": hops}) for hops in (1, 2))
    assert NODE.problem_key(one) != NODE.problem_key(two)
    linear = config_of(**HERE | {"model.name": "linear"})
    assert NODE.problem_key(linear) != NODE.problem_key(one)


def test_features_that_are_too_many_are_propagated_in_every_step(
    graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(**HERE, **{"train.epochs": 20})
    members = [Member(config, 0, seed) for seed in range(2)]
    once = NODE.prepare(graph, config, CPU)
    monkeypatch.setattr(task, "LARGEST_PROPAGATED", 3)
    always = NODE.prepare(graph, config, CPU)
    assert (once.is_propagated, always.is_propagated) == (True, False)
    weights = [NODE.train(members, each, NODE.plan(members)).weights for each in (once, always)]
    for key, wanted in weights[0].items():
        torch.testing.assert_close(weights[1][key], wanted, rtol=1e-3, atol=1e-4)


def test_it_learns_the_optimum_of_a_convex_loss(graph: Data) -> None:
    decay = 0.01
    config = config_of(**HERE, **{"train.epochs": 500, "train.weight_decay": decay})
    problem = NODE.prepare(graph, config, CPU)
    members = [Member(config, 0, 0)]
    found = NODE.train(members, problem, NODE.plan(members)).weights
    train, x = problem.masks["train"][0], problem.features.double()
    exact = torch.nn.Linear(x.size(1), 2).double()
    optimizer = torch.optim.LBFGS(exact.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(exact(x[train]), problem.labels[train])
        loss = loss + decay / 2 * sum(p.square().sum() for p in exact.parameters())
        loss.backward()
        return loss

    optimizer.step(closure)
    for key, wanted in exact.state_dict().items():
        own = found[f"prediction.{key}"][0].double()
        torch.testing.assert_close(own, wanted, rtol=1e-2, atol=1e-2)
