"""Laws of every quaternion twin of a PyG layer: symmetry, compilation, torch.func, autocast,
ensembles, explainers and state."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import GATConv, GINConv, GINEConv, SAGEConv, Sequential
from twins import EDGES, N

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix, hamilton_matrix_tiled
from quatgraph.errors import UserError
from quatgraph.layers import QGATConv, QGINConv, QSAGEConv, QuaternionLinear
from quatgraph.training.ensemble import Ensemble

F, D = 8, 3  # widths of nodes and edges


def gin(width: int = F, **settings: object) -> QGINConv:
    first = QuaternionLinear(width, F, bias=True)
    return QGINConv(nn.Sequential(first, nn.Tanh(), QuaternionLinear(F, F)), 0.1, **settings)


# How to build each layer, by the width of its input, and whether it takes features of edges.
BUILDS: dict[str, tuple[Callable[..., nn.Module], bool]] = {
    "gat": (lambda width=F: QGATConv(width, F // 2, 2), False),
    "gat, edges": (lambda width=F: QGATConv(width, F, 2, concat=False, edge_dim=D), True),
    "sage": (lambda width=F: QSAGEConv(width, F), False),
    "sage, max": (lambda width=F: QSAGEConv(width, F, "max"), False),
    "gin": (lambda width=F: gin(width, train_eps=True), False),
    "gin, edges": (lambda width=F: gin(width, edge_dim=D), True),
}
every_layer = pytest.mark.parametrize("name", BUILDS)
on_each_device = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
)


def built(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Tensor, list[Tensor]]:
    """A layer, features of nodes, and perhaps those of edges."""
    build, has_edges = BUILDS[name]
    edge_attr = [torch.randn(EDGES.size(1), D, dtype=dtype)] if has_edges else []
    return build().to(dtype), torch.randn(N, F, dtype=dtype), edge_attr


@every_layer
def test_commutes_with_relabelling_nodes_and_edges(name):
    conv, x, edge_attr = built(name)
    order, shuffled = torch.randperm(N), torch.randperm(EDGES.size(1))
    relabelled = order.argsort()[EDGES][:, shuffled]
    ours = conv(x[order], relabelled, *(each[shuffled] for each in edge_attr))
    torch.testing.assert_close(ours, conv(x, EDGES, *edge_attr)[order])


@on_each_device
@every_layer
def test_compiles_whole_and_keeps_values_and_gradients(name, device):
    conv, x, edge_attr = built(name)
    conv, x = conv.to(device), x.to(device).requires_grad_()
    given = [EDGES.to(device), *(each.to(device) for each in edge_attr)]
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    inputs = x, *conv.parameters()
    ours, plain = compiled(x, *given), conv(x, *given)
    torch.testing.assert_close(ours, plain)
    probe = torch.randn_like(plain)
    wanted = torch.autograd.grad(plain, inputs, probe)
    for mine, expected in zip(torch.autograd.grad(ours, inputs, probe), wanted, strict=True):
        torch.testing.assert_close(mine, expected)


@every_layer
def test_first_and_second_derivatives_are_those_of_differences(name):
    conv, x, edge_attr = built(name)
    inputs = x.requires_grad_(), *(each.requires_grad_() for each in edge_attr)

    def call(x: Tensor, *edge_attr: Tensor) -> Tensor:
        return conv(x, EDGES, *edge_attr)

    assert gradcheck(call, inputs, fast_mode=True)
    assert gradgradcheck(call, inputs, fast_mode=True)


@every_layer
def test_torch_func_takes_its_derivatives(name):
    conv, x, edge_attr = built(name)
    along, parameters = torch.randn_like(x), dict(conv.named_parameters())

    def energy(parameters: dict[str, Tensor]) -> Tensor:
        y = torch.func.functional_call(conv, parameters, (x, EDGES, *edge_attr))
        return y.square().sum()

    ours = torch.func.grad(energy)({k: v.detach() for k, v in parameters.items()})
    wanted = torch.autograd.grad(energy(parameters), list(parameters.values()))
    for mine, expected in zip(ours.values(), wanted, strict=True):
        torch.testing.assert_close(mine, expected)

    def call(x: Tensor) -> Tensor:
        return conv(x, EDGES, *edge_attr)

    _, ahead = torch.func.jvp(call, (x,), (along,))
    step = 1e-6
    torch.testing.assert_close(
        ahead, (call(x + step * along) - call(x - step * along)) / (2 * step), rtol=1e-5, atol=1e-5
    )


@every_layer
def test_autocast_is_near_the_exact_result(name):
    conv, x, edge_attr = built(name, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = conv(x, EDGES, *edge_attr)
    y.float().square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in conv.parameters())
    exact = conv.double()(x.double(), EDGES, *(each.double() for each in edge_attr))
    assert not torch.equal(y.double(), exact)
    torch.testing.assert_close(y.double(), exact, rtol=2**-5, atol=2**-4)


@every_layer
def test_members_of_an_ensemble_equal_single_layers(name):
    build, has_edges = BUILDS[name]
    ensemble, (_, x, edge_attr) = Ensemble([build] * 3, [0, 1, 2]), built(name, torch.float32)
    graphs = [EDGES] if has_edges else [EDGES, Adjacency.from_edge_index(EDGES, N)]
    for graph in graphs:
        y = ensemble(x, graph, *edge_attr)
        for m in range(3):
            conv = build()
            conv.load_state_dict(ensemble.member(m), strict=False)
            torch.testing.assert_close(y[m], conv(x, graph, *edge_attr))


@every_layer
def test_takes_its_place_in_a_pyg_model_and_learns(name):
    build, has_edges = BUILDS[name]
    inputs = "x, edge_index, edge_attr" if has_edges else "x, edge_index"
    layers = [(build(), f"{inputs} -> x"), nn.Tanh(), (build(), f"{inputs} -> x")]
    model = Sequential(inputs, layers)
    _, x, edge_attr = built(name, torch.float32)
    adam, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for _ in range(5):
        loss = nn.functional.cross_entropy(model(x, EDGES, *edge_attr), torch.arange(N))
        adam.zero_grad()
        loss.backward()
        assert all(p.grad.any() for p in model.parameters())
        adam.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


@every_layer
def test_state_and_copies_give_the_same_layer(name):
    conv, x, edge_attr = built(name, torch.float32)
    again = BUILDS[name][0]()
    assert not torch.equal(again(x, EDGES, *edge_attr), conv(x, EDGES, *edge_attr))
    again.load_state_dict(conv.state_dict())
    for other in (again, deepcopy(conv)):
        assert torch.equal(other(x, EDGES, *edge_attr), conv(x, EDGES, *edge_attr))
    conv.reset_parameters()
    assert not torch.equal(again(x, EDGES, *edge_attr), conv(x, EDGES, *edge_attr))


@pytest.mark.parametrize("name", ["gat", "gat, edges", "sage", "sage, max"])
def test_a_lazy_layer_takes_the_width_of_its_first_input(name):
    build, _ = BUILDS[name]
    _, x, edge_attr = built(name, torch.float32)
    torch.manual_seed(1)
    lazy = build(-1)
    assert lazy.in_channels == -1
    y = lazy(x, EDGES, *edge_attr)
    known = build(F)
    known.load_state_dict(lazy.state_dict())
    assert torch.equal(known(x, EDGES, *edge_attr), y)
    assert lazy.in_channels == F
    assert repr(lazy) == repr(known)


@pytest.mark.parametrize(
    ("layer", "shown"),
    [
        (QGATConv(8, 4, 2), "8, 4, heads=2"),
        (QSAGEConv(8, 4, "max"), "8, 4, aggr='max'"),
    ],
)
def test_shows_its_sizes(layer, shown):
    assert shown in repr(layer)


@every_layer
def test_a_pair_of_node_sets_is_refused(name):
    conv, x, edge_attr = built(name, torch.float32)
    with pytest.raises(UserError, match=r"one (dense )?node matrix"):
        conv((x, x), EDGES, *edge_attr)


def in_pyg(name: str, conv: nn.Module) -> nn.Module:
    """PyG's layer with the real matrices of the quaternion weights; a single head."""
    if name.startswith("sage"):
        real = SAGEConv(F, F, conv.aggr)
        state = {"lin_l": conv.neighbours, "lin_r": conv.own}
        found = {f"{key}.weight": hamilton_matrix(each.weight) for key, each in state.items()}
        real.load_state_dict(found | {"lin_l.bias": conv.bias})
        return real
    if name.startswith("gat"):
        real = GATConv(F, F, edge_dim=D)
        weights = (
            hamilton_matrix(conv.linear.weight),
            hamilton_matrix_tiled(conv.edge_linear.weight),
        )
        state = dict(zip(("lin.weight", "lin_edge.weight"), weights, strict=True))
        state |= {key: getattr(conv, key)[None] for key in ("att_src", "att_dst", "att_edge")}
        real.load_state_dict(state | {"bias": conv.bias})
        return real
    if conv.edge_linear is None:
        real = GINConv(deepcopy(conv.nn), conv.initial_eps)
    else:
        real = GINEConv(deepcopy(conv.nn), conv.initial_eps, edge_dim=D)
        weight = hamilton_matrix_tiled(conv.edge_linear.weight)
        real.lin.load_state_dict({"weight": weight, "bias": conv.edge_linear.bias})
    real.nn.load_state_dict(conv.nn.state_dict())  # PyG has reset it
    return real


@pytest.mark.parametrize("sigmoid", [True, False])
@pytest.mark.parametrize("name", ["gat, edges", "sage", "sage, max", "gin", "gin, edges"])
def test_a_mask_has_the_effect_and_the_gradient_it_has_on_pygs_layer(name, sigmoid):
    conv, x, edge_attr = built(name, torch.float32)
    conv = QGATConv(F, F, edge_dim=D) if name.startswith("gat") else conv
    plain, mask, found = conv(x, EDGES, *edge_attr), torch.rand(EDGES.size(1)), []
    for each in (conv, in_pyg(name, conv)):
        own = nn.Parameter(mask.clone())
        set_masks(each, own, EDGES, apply_sigmoid=sigmoid)
        y = each(x, EDGES, *edge_attr)
        found.append((y, *torch.autograd.grad(y.square().sum(), own)))
    for mine, wanted in zip(*found, strict=True):
        torch.testing.assert_close(mine, wanted)
    assert not torch.allclose(found[0][0], plain)
    clear_masks(conv)
    assert torch.equal(conv(x, EDGES, *edge_attr), plain)


@every_layer
def test_gnn_explainer_finds_masks(name):
    conv, x, edge_attr = built(name, torch.float32)
    explainer = Explainer(
        conv,
        GNNExplainer(epochs=5),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=ModelConfig("multiclass_classification", "node", "raw"),
    )
    given = {"edge_attr": edge_attr[0]} if edge_attr else {}
    explanation = explainer(x, EDGES, index=1, **given)
    assert explanation.edge_mask.count_nonzero() > 1
