"""SimQGNN and SimRGCN: scores as the paper writes them, alone and in an ensemble."""

import pytest
import torch
from torch import nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix
from quatgraph.errors import UserError
from quatgraph.models.link import SimQGNN, SimRGCN
from quatgraph.training.ensemble import Ensemble

E, R, QUATS = 7, 4, 3
HEAD, RELATION = torch.tensor([0, 5, 5, 2]), torch.tensor([3, 0, 1, 1])


@pytest.fixture
def graph() -> Adjacency:
    edges = torch.randint(E, (2, 12))
    return Adjacency.from_edge_index(edges, E, self_loops=True).normalized("row")


def weights(model: nn.Module) -> list[torch.Tensor]:
    if isinstance(model, SimRGCN):
        return [conv.linear.weight for conv in model.convs]
    return [hamilton_matrix(conv.linear.weight) for conv in model.convs]


@pytest.mark.parametrize("kind", [SimQGNN, SimRGCN])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_score_is_the_papers(kind, layers, graph):
    model = kind(E, R, dim_quats=QUATS, num_layers=layers)
    query, candidates = model(graph, HEAD, RELATION)
    h = model.entities
    for weight in weights(model):
        h = torch.tanh(graph.to_dense() @ (h @ weight.mT))
    scores = (h[HEAD, None] * model.decoder.relations[RELATION, None] * h[None]).sum(dim=-1)
    torch.testing.assert_close(query @ candidates.mT, scores)


def test_the_real_twin_has_four_times_the_weights_of_a_layer():
    ours, real = (kind(E, R, dim_quats=QUATS).convs for kind in (SimQGNN, SimRGCN))
    sizes = [sum(p.numel() for p in convs.parameters()) for convs in (ours, real)]
    assert 4 * sizes[0] == sizes[1]


def test_vectors_are_normalised_over_entities_and_over_queries(graph):
    model = SimQGNN(E, R, dim_quats=QUATS, norm=True, activation="none")
    query, candidates = model(graph, HEAD, RELATION)
    torch.testing.assert_close(candidates.mean(dim=0), torch.zeros(4 * QUATS), atol=1e-6, rtol=0)
    torch.testing.assert_close(query.mean(dim=0), torch.zeros(4 * QUATS), atol=1e-5, rtol=0)


def test_a_layer_is_a_sum_over_neighbours_then_the_norm_then_the_activation(graph):
    model = SimQGNN(E, R, dim_quats=QUATS, norm=True, activation="elu").double()
    plain = SimQGNN(E, R, dim_quats=QUATS, activation="none").double()
    plain.load_state_dict(model.state_dict(), strict=False)
    sums = plain.encode(graph)
    expected = nn.functional.elu(nn.functional.batch_norm(sums, None, None, training=True))
    torch.testing.assert_close(model.encode(graph), expected)


@pytest.mark.parametrize("kind", [SimQGNN, SimRGCN])
def test_members_score_as_if_each_were_alone(kind, graph):
    def build() -> nn.Module:
        return kind(E, R, dim_quats=QUATS, num_layers=2, norm=True)

    ensemble = Ensemble([build] * 3, [0, 1, 2]).eval()
    heads, relations = torch.randint(E, (3, 5)), torch.randint(R, (3, 5))
    query, candidates = ensemble(graph, heads, relations, in_dims=(None, 0, 0))
    for m in range(3):
        alone = build().eval()
        alone.load_state_dict({k: v for k, v in ensemble.member(m).items() if "rate" not in k})
        own = alone(graph, heads[m], relations[m])
        torch.testing.assert_close(query[m], own[0])
        torch.testing.assert_close(candidates[m], own[1])


def test_the_query_is_dropped_out_in_training_only(graph):
    model = SimQGNN(E, R, dim_quats=QUATS, dropout=0.5)
    dropped, candidates = model(graph, HEAD, RELATION)
    assert (dropped == 0).any()
    assert not (candidates == 0).any()
    assert not (model.eval()(graph, HEAD, RELATION)[0] == 0).any()


def test_a_model_without_layers_is_a_mistake():
    with pytest.raises(UserError, match="at least one layer"):
        SimQGNN(E, R, num_layers=0)
