"""QGNNConv against the paper's equations, PyG's convolutions and a graph layer's symmetries."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd.functional import jacobian
from torch.func import hessian
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv, Sequential, SGConv

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_product
from quatgraph.errors import UserError
from quatgraph.layers import QGNNConv, SimplifiedQGNNConv
from quatgraph.layers.real import GraphConv
from quatgraph.training.ensemble import Ensemble

N, IN, OUT = 6, 3, 2  # nodes and quaternions
# Directed, with a loop at node 1; node 5 is alone.
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 4.0])
on_each_device = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
)


def four_real_convolutions(conv: nn.Module, real: nn.Module, weight: Tensor) -> None:
    """Makes ``conv`` real-only, ``[W, 0, 0, 0]``, and gives ``real`` the same W."""
    with torch.no_grad():
        conv.weight.zero_()
        conv.weight[0].copy_(weight)
        real.weight.copy_(weight)


def test_is_the_sum_of_hamilton_products_over_neighbours():
    conv, x = QGNNConv(4 * IN, 4 * OUT), torch.randn(N, 4 * IN)
    adjacency = Adjacency.of(EDGES, N, WEIGHT)
    expected = torch.zeros(N, OUT, 4)
    for v, row in enumerate(adjacency.to_dense()):
        for u, a in enumerate(row):
            for m in range(OUT):
                for n in range(IN):
                    product = hamilton_product(conv.linear.weight[:, m, n], x[u, n::IN])
                    expected[v, m] += a * product
    torch.testing.assert_close(conv(x, adjacency), expected.mT.flatten(1))
    torch.testing.assert_close(conv(x, EDGES, WEIGHT), expected.mT.flatten(1))


@pytest.mark.parametrize("conv", [QGNNConv(4 * OUT, 4 * IN, bias=True), GraphConv(4 * OUT, 4 * IN)])
@pytest.mark.parametrize("narrow", [True, False])
def test_features_that_are_narrower_than_the_output_are_summed_before_they_are_mapped(
    conv: nn.Module, narrow: bool
):
    conv = conv.double() if narrow else type(conv)(4 * IN, 4 * OUT).double()
    x = torch.randn(N, 4 * (OUT if narrow else IN), dtype=torch.double)
    adjacency = Adjacency.of(EDGES, N, WEIGHT.double())
    summed = replace(adjacency, t_col=torch.zeros_like(adjacency.t_col))  # a wrong transpose
    expected, found = conv(x.clone().requires_grad_(), adjacency), conv(x, summed)
    torch.testing.assert_close(found, expected)
    probe = torch.randn_like(found)
    weight = conv.linear.weight
    wanted, mine = (torch.autograd.grad(y, weight, probe)[0] for y in (expected, found))
    assert torch.allclose(mine, wanted) == narrow  # no gradient passes through the transpose


def test_a_matrix_that_rounds_rounds_the_layers_product_too():
    conv, x = QGNNConv(4 * IN, 4 * OUT), torch.randn(N, 4 * IN, requires_grad=True)
    adjacency = Adjacency.of(EDGES, N, WEIGHT)
    found = conv(x, adjacency.with_product_dtype(torch.bfloat16))
    assert found.dtype == torch.float32
    exact, probe = conv(x, adjacency), torch.randn(N, 4 * OUT)
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05)
    assert not torch.equal(found, exact)
    given = x, conv.linear.weight
    rounded, plain = (torch.autograd.grad(y, given, probe) for y in (found, exact))
    for mine, wanted in zip(rounded, plain, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, wanted, rtol=0.05, atol=0.1)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"add_self_loops": False},
        {"normalize": False, "add_self_loops": False},
        {"normalize": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_real_only_weights_make_it_four_of_pygs_gcnconv_in_parallel(weight, settings):
    conv, real = QGNNConv(4 * IN, 4 * OUT, **settings), GCNConv(IN, OUT, bias=False, **settings)
    four_real_convolutions(conv.linear, real.lin, torch.randn(OUT, IN))
    x = torch.randn(N, 4, IN)
    expected = torch.cat([real(x[:, part], EDGES, weight) for part in range(4)], dim=1)
    torch.testing.assert_close(conv(x.flatten(1), EDGES, weight), expected)


@pytest.mark.parametrize("layer", [QGNNConv, SimplifiedQGNNConv])
def test_every_node_gets_the_bias_once_as_in_pyg(layer):
    conv, x = layer(4 * IN, 4 * OUT, bias=True), torch.randn(N, 4 * IN)
    without = conv(x, EDGES, WEIGHT)
    (bias,) = (value for name, value in conv.named_parameters() if name.endswith("bias"))
    nn.init.normal_(bias)
    torch.testing.assert_close(conv(x, EDGES, WEIGHT), without + bias)


def test_commutes_with_relabelling_the_nodes():
    conv, x, order = QGNNConv(4 * IN, 4 * OUT), torch.randn(N, 4 * IN), torch.randperm(N)
    relabelled = order.argsort()[EDGES]
    torch.testing.assert_close(conv(x[order], relabelled, WEIGHT), conv(x, EDGES, WEIGHT)[order])


def test_a_tiled_input_equals_four_copies():
    lifted, direct = QGNNConv(IN, 4 * OUT, tiled=True), QGNNConv(4 * IN, 4 * OUT)
    direct.load_state_dict(lifted.state_dict())
    h = torch.randn(N, IN)
    torch.testing.assert_close(lifted(h, EDGES), direct(h.repeat(1, 4), EDGES))


@pytest.mark.parametrize("layer", [QGNNConv, SimplifiedQGNNConv])
@pytest.mark.parametrize("tiled", [False, True])
def test_sparse_features_equal_dense_ones(tiled, layer):
    conv = layer(IN if tiled else 4 * IN, 4 * OUT, tiled=tiled)
    x = torch.randn(N, IN if tiled else 4 * IN).relu()
    torch.testing.assert_close(conv(Adjacency.from_dense(x), EDGES), conv(x, EDGES))


def test_holds_a_quarter_of_the_weights_of_gcnconv():
    ours, real = QGNNConv(64, 64), GCNConv(64, 64, bias=False)
    assert 4 * sum(p.numel() for p in ours.parameters()) == sum(
        p.numel() for p in real.parameters()
    )


def test_takes_gcnconvs_place_in_a_pyg_model_and_learns():
    model = Sequential(
        "x, edge_index",
        [
            (QGNNConv(64, 64), "x, edge_index -> x"),
            nn.ReLU(),
            (QGNNConv(64, 8), "x, edge_index -> x"),
        ],
    )
    x, y = torch.randn(N, 64), torch.arange(N)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        loss = nn.functional.cross_entropy(model(x, EDGES), y)
        adam.zero_grad()
        loss.backward()
        assert all(p.grad.any() for p in model.parameters())
        adam.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


def test_a_cached_graph_is_kept_until_reset():
    conv, x = QGNNConv(4 * IN, 4 * OUT, cached=True), torch.randn(N, 4 * IN)
    first = conv(x, EDGES)
    assert torch.equal(conv(x, EDGES.flip(0)), first)
    weights = conv.state_dict()["linear.weight"].clone()
    conv.reset_parameters()
    conv.load_state_dict({"linear.weight": weights})
    assert not torch.equal(conv(x, EDGES.flip(0)), first)
    fresh = QGNNConv(4 * IN, 4 * OUT)
    assert not torch.equal(fresh(x, EDGES), fresh(x, EDGES.flip(0)))


@on_each_device
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("layer", [QGNNConv, SimplifiedQGNNConv])
def test_compiles_whole_and_keeps_values_and_gradients(layer, prepared, device):
    conv, edges = layer(4 * IN, 4 * OUT).to(device), EDGES.to(device)
    x = torch.randn(N, 4 * IN, device=device, requires_grad=True)
    graph = Adjacency.of(edges, N) if prepared else edges
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    inputs, probe = (x, *conv.parameters()), torch.randn(N, 4 * OUT, device=device)
    ours, plain = compiled(x, graph), conv(x, graph)
    torch.testing.assert_close(ours, plain)
    wanted = torch.autograd.grad(plain, inputs, probe)
    for mine, expected in zip(torch.autograd.grad(ours, inputs, probe), wanted, strict=True):
        torch.testing.assert_close(mine, expected)


def test_autocast_gives_bfloat16_near_the_exact_result():
    conv, x = QGNNConv(4 * IN, 4 * OUT), torch.randn(N, 4 * IN)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = conv(x, EDGES)
    assert y.dtype == torch.bfloat16
    exact = conv.double()(x.double(), EDGES)
    torch.testing.assert_close(y.double(), exact, rtol=2**-6, atol=2**-6)
    y.sum().backward()
    assert conv.linear.weight.grad.any()


@pytest.mark.parametrize("layer", [QGNNConv, SimplifiedQGNNConv])
def test_members_of_an_ensemble_equal_single_layers(layer):
    def build() -> nn.Module:
        return layer(4 * IN, 4 * OUT, bias=True)

    ensemble, x = Ensemble([build] * 3, [0, 1, 2]), torch.randn(N, 4 * IN)
    for graph in (Adjacency.of(EDGES, N), EDGES):
        y = ensemble(x, graph)
        for m in range(3):
            conv = build()
            conv.load_state_dict(ensemble.member(m))
            torch.testing.assert_close(y[m], conv(x, graph))


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_the_simplified_layer_is_one_product_and_several_hops(hops):
    conv, x = SimplifiedQGNNConv(4 * IN, 4 * OUT, num_hops=hops), torch.randn(N, 4 * IN)
    matrix = torch.linalg.matrix_power(Adjacency.of(EDGES, N, WEIGHT).to_dense(), hops)
    expected = matrix @ conv.conv.linear(x)
    torch.testing.assert_close(conv(x, EDGES, WEIGHT), expected)
    torch.testing.assert_close(conv(x, Adjacency.of(EDGES, N, WEIGHT)), expected)


@pytest.mark.parametrize("hops", [1, 3])
def test_real_only_weights_make_the_simplified_layer_four_of_pygs_sgconv(hops):
    conv = SimplifiedQGNNConv(4 * IN, 4 * OUT, num_hops=hops)
    real = SGConv(IN, OUT, K=hops, bias=False)
    four_real_convolutions(conv.conv.linear, real.lin, torch.randn(OUT, IN))
    x = torch.randn(N, 4, IN)
    expected = torch.cat([real(x[:, part], EDGES, WEIGHT) for part in range(4)], dim=1)
    torch.testing.assert_close(conv(x.flatten(1), EDGES, WEIGHT), expected)


def test_no_hops_are_a_mistake():
    with pytest.raises(UserError, match="num_hops must be at least 1, got 0"):
        SimplifiedQGNNConv(4, 4, num_hops=0)


def test_a_graph_of_other_nodes_is_a_mistake():
    with pytest.raises(UserError, match="cannot multiply"):
        QGNNConv(4, 4)(torch.randn(N + 1, 4), Adjacency.of(EDGES, N))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, inside torch
def test_compiles_to_machine_code():
    conv, x = QGNNConv(8, 8), torch.randn(6, 8, requires_grad=True)
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    compiled = torch.compile(conv, fullgraph=True)
    expected = conv(x, edge_index)
    torch.testing.assert_close(compiled(x, edge_index), expected)
    (gradient,) = torch.autograd.grad(compiled(x, edge_index).square().sum(), x)
    (wanted,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("layer", [QGNNConv, SimplifiedQGNNConv])
def test_a_pair_of_node_sets_is_refused(layer):
    x = torch.randn(3, 4)
    with pytest.raises(UserError, match="takes one node matrix"):
        layer(4, 4)((x, x), torch.tensor([[0], [1]]))


def test_whole_numbers_and_another_graph_than_the_one_kept_are_told():
    conv, x = QGNNConv(4 * IN, 4 * OUT, cached=True), torch.randn(N, 4 * IN)
    conv(x, EDGES)
    with pytest.raises(UserError, match="which has 6 nodes, but x has 9: remove cached"):
        conv(torch.randn(9, 4 * IN), EDGES)
    with pytest.raises(UserError, match=r"got torch\.int64: use x\.float"):
        conv(x.long(), EDGES)


@pytest.mark.filterwarnings("ignore:torch.searchsorted")  # copies what vmap gives it
def test_members_may_have_edges_of_their_own():
    conv, x = QGNNConv(4 * IN, 4 * OUT), torch.randn(2, N, 4 * IN)
    edges = torch.stack((EDGES, EDGES.flip(0)))
    for m, y in enumerate(torch.vmap(conv)(x, edges)):
        torch.testing.assert_close(y, conv(x[m], edges[m]))


def test_a_width_that_is_no_quaternions_tells_of_tiled_features():
    with pytest.raises(UserError, match="got 1433: pad x with zeros to 1436, or use tiled=True"):
        QGNNConv(1433, 16)


def test_float64_is_exact_without_weights_too():
    conv, x = QGNNConv(4 * IN, 4 * OUT).double(), torch.randn(N, 4 * IN, dtype=torch.float64)
    ones = torch.ones(EDGES.size(1), dtype=torch.float64)
    assert torch.equal(conv(x, EDGES), conv(x, EDGES, ones))


def test_a_graph_that_is_given_goes_before_the_one_that_is_kept():
    conv, x = QGNNConv(4 * IN, 4 * OUT, cached=True), torch.randn(N, 4 * IN)
    cached, other = conv(x, EDGES), Adjacency.of(EDGES.flip(0), N)
    assert torch.equal(conv(x, EDGES.flip(0)), cached)
    assert torch.equal(conv(x, other), other @ conv.linear(x))
    assert torch.equal(conv(x, EDGES), cached)


@pytest.mark.parametrize("prepare", [lambda edges: edges, lambda edges: Adjacency.of(edges, N)])
def test_torch_func_takes_its_derivatives(prepare):
    conv, x, along = QGNNConv(4 * IN, 4 * OUT), torch.randn(N, 4 * IN), torch.randn(N, 4 * IN)
    graph = prepare(EDGES)

    def energy(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(conv, parameters, (x, graph)).square().sum()

    parameters = dict(conv.named_parameters())
    ours = torch.func.grad(energy)({k: v.detach() for k, v in parameters.items()}, x)
    (wanted,) = torch.autograd.grad(energy(parameters, x), parameters.values())
    torch.testing.assert_close(ours["linear.weight"], wanted)
    _, ahead = torch.func.jvp(lambda x: conv(x, graph), (x,), (along,))
    torch.testing.assert_close(ahead, conv(along, graph))


@on_each_device
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_what_is_traced_can_be_kept_and_takes_other_graphs(device, tmp_path):
    conv, edges = QGNNConv(4 * IN, 4 * OUT).to(device), EDGES.to(device)
    x = torch.randn(N, 4 * IN, device=device)
    torch.jit.trace(conv, (x, edges)).save(tmp_path / "traced.pt")
    traced = torch.jit.load(tmp_path / "traced.pt")
    torch.testing.assert_close(traced(x, edges.flip(0)), conv(x, edges.flip(0)))


@on_each_device
def test_fake_tensors_go_through(device):
    with FakeTensorMode(), torch.device(device):
        conv, x = QGNNConv(4 * IN, 4 * OUT), torch.empty(N, 4 * IN)
        y = conv(x, torch.empty(2, 9, dtype=torch.long))
        y.sum().backward()
    assert y.shape == (N, 4 * OUT)
    assert conv.linear.weight.grad.shape == conv.linear.weight.shape


def test_is_checkpointed_with_rounded_products_too():
    conv, x = QGNNConv(4 * IN, 4 * OUT), torch.randn(N, 4 * IN, requires_grad=True)
    graph = Adjacency.of(EDGES, N).with_product_dtype(torch.bfloat16)
    (again,) = torch.autograd.grad(checkpoint(conv, x, graph, use_reentrant=False).sum(), x)
    (wanted,) = torch.autograd.grad(conv(x, graph).sum(), x)
    assert torch.equal(again, wanted)


@pytest.mark.gpu
def test_a_gpu_has_the_same_derivatives():
    conv = QGNNConv(4 * IN, 4 * OUT)
    x, along = torch.randn(N, 4 * IN), torch.randn(N, 4 * IN)

    def found(device: str) -> list[Tensor]:
        conv.to(device)
        graph, weight = Adjacency.of(EDGES, N).to(device), conv.linear.weight
        point, way = x.to(device).requires_grad_(), along.to(device)

        def energy(x: Tensor) -> Tensor:
            return conv(x, graph).pow(3).sum()

        gradients = torch.autograd.grad(energy(point), (point, weight), create_graph=True)
        seconds = torch.autograd.grad(
            sum(gradient.square().sum() for gradient in gradients), (point, weight)
        )
        point = point.detach()
        forward = torch.func.jvp(energy, (point,), (way,))
        batched = jacobian(lambda x: conv(x, graph), point, vectorize=True)
        backward = torch.func.grad(energy)(point), hessian(energy)(point)
        return [*gradients, *seconds, *forward, batched, *backward]

    for ours, wanted in zip(found("cuda"), found("cpu"), strict=True):
        torch.testing.assert_close(ours.cpu(), wanted, rtol=1e-4, atol=1e-4)
