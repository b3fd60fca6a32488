"""Members of an ensemble against the same models on their own."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.layers import QGNNConv, QuaternionDropout
from quatgraph.models.node import GAT, GCN, QGNN
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.optim import MemberAdam

N, IN, CLASSES = 8, 5, 3
LR, DECAY, CLIP = [0.1, 0.01, 0.05], [0.0, 5e-4, 0.1], 0.5


class WithBatchNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = QGNNConv(IN, 8, tiled=True)
        self.norm = nn.BatchNorm1d(8)
        self.prediction = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        return adjacency @ self.prediction(torch.relu(self.norm(self.conv(x, adjacency))))


MODELS = {
    "batch norm": WithBatchNorm,
    "QGNN": lambda: QGNN(IN, CLASSES, num_layers=2, dropout=0.0, skip=True, bias=True),
    "GCN": lambda: GCN(IN, CLASSES, num_layers=2, dropout=0.0),
    "GAT": lambda: GAT(IN, CLASSES, hidden=6, heads=3, dropout=0.0),
}


def random_graph() -> Adjacency:
    return Adjacency.of(torch.randint(N, (2, 15)), N)


def doubled(graph: Adjacency) -> Adjacency:
    return graph.with_weight(graph.weight.double())


def alone(build, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return build().double()


@pytest.mark.parametrize("name", MODELS)
def test_members_train_as_if_each_were_alone(name):
    build, graph = MODELS[name], doubled(random_graph())
    x, y = torch.randn(N, IN, dtype=torch.float64), torch.randint(CLASSES, (N,))
    ensemble = Ensemble([build] * 3, [0, 1, 2]).double()
    adam = MemberAdam(ensemble.parameters(), lr=LR, weight_decay=DECAY, clip=CLIP)
    for _ in range(10):
        adam.zero_grad()
        logits = ensemble(x, graph)
        sum(F.cross_entropy(one, y) for one in logits).backward()
        adam.step()
    for m in range(3):
        model = alone(build, m)
        single = torch.optim.Adam(model.parameters(), lr=LR[m], weight_decay=DECAY[m])
        for _ in range(10):
            single.zero_grad()
            F.cross_entropy(model(x, graph), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            single.step()
        member = ensemble.member(m)
        buffers = [pair for pair in model.named_buffers() if not pair[0].endswith("draws")]
        for key, value in (*model.named_parameters(), *buffers):
            torch.testing.assert_close(member[key], value, rtol=1e-9, atol=1e-9)
        expected = model.eval()(x, graph)
        torch.testing.assert_close(ensemble.eval()(x, graph)[m], expected, rtol=1e-8, atol=1e-8)
        ensemble.train()


@pytest.mark.parametrize(("own_x", "own_graph"), [(True, True), (True, False), (False, True)])
def test_members_may_have_inputs_of_their_own(own_x, own_graph):
    graphs, x = [random_graph() for _ in range(3)], torch.randn(3, N, IN)
    stacked = pytree.tree_map(lambda *parts: torch.stack(parts), *graphs)
    ensemble = Ensemble([MODELS["QGNN"]] * 3, [0, 1, 2])
    y = ensemble(
        x if own_x else x[0],
        stacked if own_graph else graphs[0],
        in_dims=(0 if own_x else None, 0 if own_graph else None),
    )
    for m in range(3):
        model = alone(MODELS["QGNN"], m).float()
        expected = model(x[m if own_x else 0], graphs[m if own_graph else 0])
        torch.testing.assert_close(y[m], expected)


def test_members_draw_masks_of_their_own_at_their_own_rates():
    rates = [0.0, 0.2, 0.7]
    builds = [lambda rate=rate: QuaternionDropout(rate) for rate in rates]
    ensemble = Ensemble(builds, [0, 1, 2])
    y = ensemble(torch.ones(100, 100))
    for member, rate in zip(y, rates, strict=True):
        assert (member == 0).float().mean().item() == pytest.approx(rate, abs=0.02)
        torch.testing.assert_close(member.max().item(), 1 / (1 - rate))
    assert torch.equal(ensemble.eval()(torch.ones(100, 100)), torch.ones(3, 100, 100))
    first, same, other = Ensemble([builds[1]] * 3, [0, 0, 1])(torch.ones(100, 100))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_a_seed_decides_a_members_start_and_the_callers_random_numbers_are_untouched():
    before = torch.get_rng_state()
    ensemble = Ensemble([MODELS["GCN"]] * 3, [7, 7, 8])
    assert torch.equal(torch.get_rng_state(), before)
    weight = ensemble.stacked()["convs.0.linear.weight"]
    assert torch.equal(weight[0], weight[1])
    assert not torch.equal(weight[0], weight[2])
    assert torch.equal(weight[2], alone(MODELS["GCN"], 8).float().convs[0].linear.weight)


def test_a_members_state_loads_into_the_model_and_is_a_copy():
    ensemble, graph, x = Ensemble([MODELS["QGNN"]] * 2, [0, 1]), random_graph(), torch.randn(N, IN)
    before = ensemble(x, graph)
    model = MODELS["QGNN"]()
    model.load_state_dict({k: v for k, v in ensemble.member(1).items() if "rate" not in k})
    torch.testing.assert_close(model(x, graph), before[1])
    for value in ensemble.member(1).values():
        value.zero_()
    assert torch.equal(ensemble(x, graph), before)


def test_matrices_whose_size_allows_it_begin_at_multiples_of_sixteen_bytes():
    ensemble = Ensemble([MODELS["batch norm"]] * 3, [0, 1, 2])
    stacked = ensemble.stacked()
    even = {name for name, value in stacked.items() if value[0].numel() % 4 == 0}
    assert even
    assert len(even) < len(stacked)
    for name in even:
        assert all(member.data_ptr() % 16 == 0 for member in stacked[name]), name


def test_as_many_seeds_as_members_are_needed():
    with pytest.raises(ValueError, match="shorter"):
        Ensemble([MODELS["GCN"]] * 3, [0, 1])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["QGNN", "GCN"])
def test_the_gpu_gives_the_cpus_gradient_of_all_parameters(name):
    graph, x = doubled(random_graph()), torch.randn(N, IN, dtype=torch.float64)
    y, found = torch.randint(CLASSES, (N,)), []
    for device in ("cpu", "cuda"):
        ensemble = Ensemble([MODELS[name]] * 3, [0, 1, 2]).double().to(device)
        logits = ensemble(x.to(device), graph.to(device))
        sum(F.cross_entropy(one, y.to(device)) for one in logits).backward()
        found.append(ensemble.flat.grad.cpu())
    torch.testing.assert_close(*found)


class Random(nn.Module):
    """A model that draws from torch's generator."""

    def __init__(self, draw: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.draw = nn.Linear(IN, CLASSES), draw

    def forward(self, x: Tensor) -> Tensor:
        return self.draw(self.linear(x))


@pytest.mark.parametrize("draw", [F.dropout, lambda x: x + torch.randn(CLASSES)])
def test_a_random_operation_of_torch_is_refused_with_a_remedy(draw):
    ensemble = Ensemble([lambda: Random(draw)] * 2, [0, 1])
    with pytest.raises(UserError, match=r"cannot use torch's random .* use quatgraph.Quaternion"):
        ensemble(torch.ones(N, IN))


def test_any_other_error_within_an_ensemble_is_torchs_own():
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
        Ensemble([lambda: Random(torch.relu)] * 2, [0, 1])(torch.ones(N, IN + 1))


def test_flat_parameters_are_found_by_their_names():
    ensemble = Ensemble([WithBatchNorm] * 2, [0, 1])
    masks = {prefix: ensemble.flat_mask(prefix) for prefix in ("conv.", "norm.", "", "nothing")}
    sizes = {prefix: int(mask.sum()) for prefix, mask in masks.items()}
    assert sizes == {"conv.": 8 * IN, "norm.": 16, "": 8 * IN + 16 + 9 * CLASSES, "nothing": 0}
    marked = ensemble.raw_state() | {"flat": masks["norm."].float().expand(2, -1)}
    for name, value in ensemble.stacked(marked).items():
        if name in dict(WithBatchNorm().named_parameters()):
            assert bool(value.all()) == bool(value.any()) == name.startswith("norm.")
