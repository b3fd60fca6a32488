"""PyG's explainers on QGNNConv, against the same explainers on PyG's GCNConv."""

import io
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.explain.algorithm.base import ExplainerAlgorithm
from torch_geometric.explain.algorithm.captum import CaptumModel
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import GCNConv, MessagePassing

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.layers import QGNNConv, SimplifiedQGNNConv
from quatgraph.models.node import QGNN

N, IN, OUT = 6, 3, 2  # nodes and quaternions
# Directed, with a loop at node 1; node 5 is alone.
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 1], [1, 0, 2, 1, 2, 3, 1]])
WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 4.0])
CONFIG = ModelConfig("multiclass_classification", task_level="node", return_type="raw")


class Net(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


def equal_nets(**settings: bool) -> tuple[Net, Net]:
    """Quaternion layers with real weights only, and PyG's layers with the same block-diagonal
    weights."""
    ours = Net(QGNNConv(4 * IN, 4 * OUT, **settings), QGNNConv(4 * OUT, 4, **settings))
    theirs = Net(
        GCNConv(4 * IN, 4 * OUT, bias=False, **settings),
        GCNConv(4 * OUT, 4, bias=False, **settings),
    )
    for own, real in ((ours.first, theirs.first), (ours.second, theirs.second)):
        with torch.no_grad():
            own.linear.weight[1:] = 0
            real.lin.weight.copy_(torch.block_diag(*[own.linear.weight[0]] * 4))
    return ours, theirs


@pytest.mark.parametrize("sigmoid", [True, False])
@pytest.mark.parametrize(
    "settings",
    [{}, {"add_self_loops": False}, {"normalize": False, "add_self_loops": False}],
    ids=str,
)
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_a_mask_has_the_effect_and_the_gradient_it_has_on_gcnconv(settings, sigmoid, weight):
    ours, theirs = equal_nets(**settings)
    x = torch.randn(N, 4 * IN)
    plain, found = ours.first(x, EDGES, weight), []
    mask = torch.rand(EDGES.size(1))
    for conv in (ours.first, theirs.first):
        own = nn.Parameter(mask.clone())
        set_masks(conv, own, EDGES, apply_sigmoid=sigmoid)
        y = conv(x, EDGES, weight)
        found.append((y, *torch.autograd.grad(y.square().sum(), own)))
    for mine, wanted in zip(*found, strict=True):
        torch.testing.assert_close(mine, wanted)
    assert not torch.allclose(found[0][0], plain)
    clear_masks(ours.first)
    assert torch.equal(ours.first(x, EDGES, weight), plain)


@pytest.mark.parametrize("index", [None, 2])
def test_gnn_explainer_finds_the_masks_it_finds_for_gcnconv(index):
    x = torch.randn(N, 4 * IN)
    explanations = []
    for net in equal_nets():
        torch.manual_seed(0)
        explainer = Explainer(
            net,
            GNNExplainer(epochs=20),
            explanation_type="model",
            node_mask_type="attributes",
            edge_mask_type="object",
            model_config=CONFIG,
        )
        explanations.append(explainer(x, EDGES, index=index))
    mine, wanted = explanations
    torch.testing.assert_close(mine.edge_mask, wanted.edge_mask, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(mine.node_mask, wanted.node_mask, rtol=1e-3, atol=1e-4)
    assert mine.edge_mask.unique().numel() > 2


@pytest.mark.parametrize("kind", ["edge", "node_and_edge"])
def test_captums_model_has_the_gradients_it_has_for_gcnconv(kind):
    x, found = torch.randn(N, 4 * IN), []
    for net in equal_nets():
        mask = torch.linspace(0, 1, EDGES.size(1))[None].requires_grad_()  # as Captum gives it
        inputs = (mask, x, EDGES) if kind == "edge" else (x[None], mask, EDGES)
        y = CaptumModel(net, kind, output_idx=2)(*inputs)
        found.append(torch.autograd.grad(y[0, 1], mask)[0])
    torch.testing.assert_close(*found)
    assert found[0].any()


def test_the_whole_model_takes_an_explainer_too_and_each_hop_counts():
    model, x = QGNN(IN, 4, num_layers=2, hidden_quats=2).eval(), torch.randn(N, IN)
    assert ExplainerAlgorithm._num_hops(model) == 3  # the prediction layer aggregates too
    explainer = Explainer(
        model,
        GNNExplainer(epochs=5),
        explanation_type="model",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    plain = model(x, EDGES)
    explanation = explainer(x, EDGES, index=2)
    used = explanation.edge_mask > 0
    assert used.any()
    without = model(x, EDGES[:, used])  # degrees change with the edges, but the class need not
    assert without.shape == plain.shape
    assert torch.equal(model(x, EDGES), plain)


def test_what_was_explained_is_copied_pickled_and_summed_up_without_its_mask():
    conv, x = QGNNConv(4 * IN, 4 * OUT), torch.randn(N, 4 * IN)
    before, plain = set(conv.state_dict()), conv(x, EDGES)
    assert sum(isinstance(module, MessagePassing) for module in conv.modules()) == 1
    set_masks(conv, nn.Parameter(torch.zeros(EDGES.size(1))), EDGES)
    assert set(conv.state_dict()) == before
    assert "edge_mask" not in repr(conv)
    file = io.BytesIO()
    torch.save(conv, file)
    file.seek(0)
    for again in (deepcopy(conv), torch.load(file, weights_only=False)):
        assert torch.equal(again(x, EDGES), plain)
    assert not torch.equal(conv(x, EDGES), plain)


def test_a_cached_graph_is_masked_and_a_prepared_one_is_used_as_it_is():
    conv, x = QGNNConv(4 * IN, 4 * OUT, cached=True), torch.randn(N, 4 * IN)
    plain = conv(x, EDGES)
    set_masks(conv, nn.Parameter(torch.randn(EDGES.size(1))), EDGES)
    fresh = QGNNConv(4 * IN, 4 * OUT)
    fresh.load_state_dict(conv.state_dict())
    set_masks(fresh, conv._mask_holder._edge_mask, EDGES)
    assert torch.equal(conv(x, EDGES), fresh(x, EDGES))
    assert torch.equal(conv(x, Adjacency.of(EDGES, N)), plain)
    with pytest.raises(UserError, match="not a sparse matrix"):
        fresh(x, torch.eye(N).to_sparse())


def test_a_simplified_layer_is_masked_at_every_hop():
    conv, x = SimplifiedQGNNConv(4 * IN, 4 * OUT, num_hops=2), torch.randn(N, 4 * IN)
    set_masks(conv, nn.Parameter(torch.zeros(EDGES.size(1))), EDGES, apply_sigmoid=False)
    loops = Adjacency.of(EDGES, N).to_dense().diag().diag()  # only these are left
    torch.testing.assert_close(conv(x, EDGES), loops @ loops @ conv.conv.linear(x))


def test_a_layer_that_explainers_have_seen_compiles_whole():
    conv, x = QGNNConv(4 * IN, 4 * OUT), torch.randn(N, 4 * IN)
    list(conv.modules())
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, EDGES), conv(x, EDGES))
