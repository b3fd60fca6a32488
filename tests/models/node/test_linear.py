"""Logistic regression on a node's own features, against scikit-learn."""

import karate
import pytest
import torch
from karate import CPU, config_of
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.models.node import Linear
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.task import Member
from quatgraph.training.ensemble import Ensemble

N, IN, CLASSES = 6, 5, 3
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
graph = karate.graph


def test_sees_no_graph_and_starts_with_equal_classes():
    model, x = Linear(IN, CLASSES), torch.randn(N, IN)
    assert torch.equal(model(x, Adjacency.of(EDGES, N)), torch.zeros(N, CLASSES))
    torch.nn.init.normal_(model.prediction.weight)
    torch.nn.init.normal_(model.prediction.bias)
    expected = x @ model.prediction.weight.mT + model.prediction.bias
    for edges in (EDGES, EDGES[:, :2]):
        torch.testing.assert_close(model(x, Adjacency.of(edges, N)), expected)


@pytest.mark.parametrize("sparse", [False, True])
def test_members_of_an_ensemble_equal_single_models(sparse):
    def build() -> Linear:
        model = Linear(IN, CLASSES)
        torch.nn.init.normal_(model.prediction.weight)
        torch.nn.init.normal_(model.prediction.bias)
        return model

    ensemble, adjacency = Ensemble([build] * 3, [0, 1, 2]), Adjacency.of(EDGES, N)
    x = torch.randn(N, IN).relu()
    y = ensemble(Adjacency.from_dense(x) if sparse else x, adjacency)
    for m in range(3):
        model = build()
        model.load_state_dict(ensemble.member(m))
        torch.testing.assert_close(y[m], model(x, adjacency))


def test_learns_what_scikit_learn_does(graph: Data) -> None:
    decay, here = 0.01, {"data.name": "", "data.path": "here", "data.scaling": "standard"}
    training = {"train.epochs": 400, "train.lr": 0.05, "train.select": "last"}
    config = config_of(**here, **training, **{"model.name": "linear", "train.weight_decay": decay})
    members = [Member(config, split, 0) for split in range(3)]
    problem = NODE.prepare(graph, config, CPU, layout="dense")
    weights = NODE.train(members, problem, NODE.plan(members)).weights
    for split in range(3):
        train = graph.train_mask[:, split]
        # They leave the bias out of the penalty, so it is a feature here.
        x = torch.cat((problem.features, torch.ones(len(train), 1)), dim=1)[train].double()
        theirs = LogisticRegression(
            C=2 / (decay * len(x)), fit_intercept=False, tol=1e-10, max_iter=1000
        ).fit(x, graph.y[train])
        # Of two classes they learn the difference of our rows, which have opposite signs.
        own = torch.cat(
            (weights["prediction.weight"][split], weights["prediction.bias"][split][:, None]), dim=1
        )
        found = (own[1] - own[0]).double()
        expected = torch.from_numpy(theirs.coef_[0])
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=2e-3)


def test_options_of_hidden_layers_are_a_mistake():
    with pytest.raises(UserError, match=r"the model 'linear' reads model\.name"):
        configs.build(NodeConfig, {"model": {"name": "linear", "frobs": 2}})
