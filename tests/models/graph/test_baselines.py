"""The compared models for graphs: as stacks of PyG's convolutions, in batches and in ensembles."""

from typing import Any

import pyg_models
import pytest
import tiny
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.layers import BatchNorm
from quatgraph.models.graph import (
    GraphCapsGNN,
    GraphDGCNN,
    GraphDiffPool,
    GraphGAT,
    GraphGCAPS,
    GraphGCN,
    GraphGFN,
    GraphGIN,
    GraphIEGN,
    GraphPPGN,
    GraphQGNN,
    GraphSAGE,
    GraphSAGPool,
    GraphTopK,
    GraphUGformer,
    StructureFree,
)
from quatgraph.tasks.graph.batches import Batch
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.optim import MemberAdam

HIDDEN, ENTRIES = 6, 20
# The model, the matrix it takes, and its options.
MODELS: dict[str, tuple[type[nn.Module], tiny.Kind, dict[str, Any]]] = {
    "GCN": (GraphGCN, "symmetric", {}),
    "GraphSAGE": (GraphSAGE, "neighbours", {"per_layer": True}),
    "GAT": (GraphGAT, "loops", {"heads": 3}),
    "GCAPS": (GraphGCAPS, "symmetric", {"moments": 3}),
    "DGCNN": (GraphDGCNN, "loops", {"num_sorted": 11}),
    "TopK": (GraphTopK, "loops", {"ratio": 0.6}),
    "SAGPool": (GraphSAGPool, "loops", {"ratio": 0.6}),
    "DiffPool": (GraphDiffPool, "adjacency", {"num_clusters": 3}),
    "UGformer": (GraphUGformer, "loops", {}),
    "CapsGNN": (GraphCapsGNN, "loops", {"num_capsules": 4, "num_degrees": 3}),
    "GIN": (GraphGIN, "loops", {}),
    "IEGN": (GraphIEGN, "adjacency", {"hidden": 32}),
    "PPGN": (GraphPPGN, "adjacency", {"mlp_layers": 2}),
    "GFN": (GraphGFN, "loops", {}),
    "fingerprint": (StructureFree, "loops", {}),
    "multiset": (StructureFree, "loops", {"vertex": True}),
    "GCN, set": (GraphGCN, "symmetric", {"pooling": "set", "virtual_node": True}),
    "GCN, max": (GraphGCN, "symmetric", {"pooling": "max", "jump": "attention"}),
    "GCN, perceptron": (GraphGCN, "symmetric", {"head": "perceptron", "pooling": "mean"}),
    "GAT, set": (GraphGAT, "loops", {"pooling": "set", "heads": 2}),
    "GIN, mean": (GraphGIN, "loops", {"pooling": "mean", "virtual_node": True}),
    "GIN, set": (GraphGIN, "loops", {"pooling": "set", "jump": "attention"}),
    "fingerprint, max": (StructureFree, "loops", {"pooling": "max"}),
    "multiset, set": (StructureFree, "loops", {"pooling": "set", "vertex": True, "hidden": 16}),
}
every_model = pytest.mark.parametrize("name", MODELS)
both_features = pytest.mark.parametrize("kind", ["codes", "dense"])
Features = Codes | Tensor


def build(name: str, x: Features, **options: Any) -> nn.Module:
    model, _, own = MODELS[name]
    options = {"hidden": HIDDEN, "num_layers": 2} | own | options
    return model(tiny.width(x), tiny.CLASSES, **options).double()


def batch_for(name: str, x: Features, graphs: Tensor = tiny.GRAPHS) -> Batch:
    return tiny.batch(x, MODELS[name][1], graphs, ENTRIES)


def joined(name: str, x: Features, graphs: list[int]) -> tuple[Any, Adjacency, Adjacency]:
    return tiny.joined(x, graphs, MODELS[name][1])


def edges_of(graphs: list[int]) -> tuple[Tensor, Tensor]:
    """The edges of a few graphs, and the graph of each node, as PyG takes them."""
    sizes = torch.tensor([tiny.SIZES[g] for g in graphs])
    offsets = sizes.cumsum(dim=0) - sizes
    moved = [tiny.edge_index(g) + begin for g, begin in zip(graphs, offsets, strict=True)]
    return torch.cat(moved, dim=1), torch.arange(len(graphs)).repeat_interleave(sizes)


def running(model: nn.Module) -> list[Tensor]:
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
    return [value for norm in norms for value in (norm.running_mean, norm.running_var)]


def split(y: Any) -> tuple[Tensor, Tensor]:
    """Logits, and the penalty of a model that has one, else zero."""
    return y if isinstance(y, tuple) else (y, y.new_zeros(()))


def gradients(model: nn.Module, y: Tensor, penalty: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.square().sum() + penalty, list(model.parameters()))


def close(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@every_model
@pytest.mark.parametrize("layers", [1, 3])
def test_are_stacks_of_pygs_parts(name, layers):
    x, graphs = tiny.features("dense"), [2, 0, 1, 3]
    model = build(name, x, num_layers=layers)
    with torch.no_grad():
        for value in model.parameters():
            value += torch.randn_like(value) / 10  # biases too, which may start at zero
    inputs = joined(name, x, graphs)
    # The matrices of the collection are of float32.
    torch.testing.assert_close(
        model(*inputs),
        pyg_models.reference(model, inputs[0], *edges_of(graphs)),
        rtol=1e-5,
        atol=1e-6,
    )


@every_model
@both_features
def test_padding_changes_neither_values_nor_gradients_nor_running_statistics(name, kind):
    x = tiny.features(kind)
    made = batch_for(name, x)
    for m, slots in enumerate(tiny.GRAPHS.tolist()):
        padded, model = build(name, x), build(name, x)
        model.load_state_dict(padded.state_dict())
        real = torch.tensor([slot for slot, graph in enumerate(slots) if graph >= 0])
        ours, penalty = split(padded(*tiny.member_inputs(made, m)))
        ours = ours[real]
        wanted = split(model(*joined(name, x, [g for g in slots if g >= 0])))
        close((ours, penalty), wanted)
        close(gradients(padded, ours, penalty), gradients(model, *wanted))
        close(running(padded), running(model))


@every_model
@both_features
def test_evaluated_batches_equal_the_graphs_one_by_one(name, kind):
    x = tiny.features(kind)
    model, made = build(name, x), batch_for(name, x)
    model(*joined(name, x, [0, 1, 2, 3]))  # moves the running statistics
    model.eval()
    before = [value.clone() for value in running(model)]
    for m, slots in enumerate(tiny.GRAPHS.tolist()):
        batched = model(*tiny.member_inputs(made, m))
        for slot, graph in enumerate(slots):
            if graph >= 0:
                close(batched[slot], model(*joined(name, x, [graph]))[0])
    assert all(map(torch.equal, running(model), before))


@every_model
def test_the_order_of_nodes_does_not_matter(name):
    x = tiny.features("dense")
    model, (nodes, adjacency, pool) = build(name, x), joined(name, x, [2, 0, 3])
    order = torch.tensor([3, 0, 4, 1, 2, 7, 5, 6, 9, 8])  # within each graph
    moved = Adjacency.from_dense(adjacency.to_dense()[order][:, order])
    close(model(nodes[order], moved, pool), model(nodes, adjacency, pool))


@every_model
def test_one_hot_sparse_and_dense_features_are_one_input(name):
    codes = tiny.features("codes")
    model = build(name, codes)
    one, adjacency, pool = joined(name, codes, [2, 0, 3])
    expected = model(tiny.dense(one), adjacency, pool)
    for same in (one, Adjacency.from_dense(tiny.dense(one))):
        close(model(same, adjacency, pool), expected)


LR = [0.1, 0.01, 0.05]
# Batches of three members, one step each.
STEPS = [tiny.GRAPHS, torch.tensor([[0, 1, 2], [3, 2, -1], [1, 0, 3]])]


@every_model
@both_features
def test_members_train_on_batches_of_their_own_as_if_each_were_alone(name, kind):
    x = tiny.features(kind)
    ensemble = Ensemble([lambda: build(name, x)] * 3, [0, 1, 2]).double()
    starts = [ensemble.member(m) for m in range(3)]
    batches = [batch_for(name, x, graphs) for graphs in STEPS]
    adam = MemberAdam(ensemble.parameters(), lr=LR, weight_decay=[0.0] * 3, clip=0.5)
    for made in batches:
        adam.zero_grad()
        y, penalty = split(made.through(ensemble, made.features))
        loss = F.cross_entropy(y.flatten(0, 1), made.labels.flatten(), reduction="sum")
        (loss + penalty.sum()).backward()
        adam.step()
    for m in range(3):
        model = build(name, x)
        model.load_state_dict(starts[m], strict=False)
        single = torch.optim.Adam(model.parameters(), lr=LR[m])
        for made in batches:
            single.zero_grad()
            y, penalty = split(model(*tiny.member_inputs(made, m)))
            (F.cross_entropy(y, made.labels[m], reduction="sum") + penalty).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            single.step()
        state = model.state_dict()
        close({key: ensemble.member(m)[key] for key in state}, state)
        expected = model.eval()(*tiny.member_inputs(batches[0], m))
        evaluated = batches[0].through(ensemble.eval(), batches[0].features)
        close(evaluated[m], expected)
        ensemble.train()


@every_model
@pytest.mark.parametrize("option", ["dropout", "pooled_dropout"])
def test_dropout_acts_in_training_alone(name, option):
    x = tiny.features("codes")
    dropping = ("GCN", "GraphSAGE", "GAT", "UGformer", "CapsGNN")
    if option == "dropout" and not name.startswith(dropping):
        with pytest.raises(TypeError, match="dropout"):
            build(name, x, dropout=0.5)
        return
    model, inputs = build(name, x, **{option: 0.5}), joined(name, x, [2, 0, 3])
    assert not torch.equal(split(model(*inputs))[0], split(model(*inputs))[0])
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))


def test_gin_drops_the_scores_of_each_layer():
    x = tiny.features("dense")
    model, seen = build("GIN", x, pooled_dropout=0.5), []
    model.dropout.register_forward_hook(lambda module, args, y: seen.append(y))
    y = model(*joined("GIN", x, [2, 0]))
    assert [one.shape for one in seen] == [(2, tiny.CLASSES)] * 3
    close(y, sum(seen))


@pytest.mark.parametrize("name", ["GFN", "fingerprint", "multiset"])
def test_models_that_see_no_edges(name):
    x = tiny.features("dense")
    model, (nodes, _, pool) = build(name, x), joined(name, x, [2, 0])
    nothing = Adjacency.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), len(nodes))
    close(model(nodes, nothing, pool), model(*joined(name, x, [2, 0])))


@every_model
def test_a_model_without_layers_is_a_mistake(name):
    with pytest.raises(UserError, match="at least one layer, got num_layers=0"):
        build(name, tiny.features("dense"), num_layers=0)


def test_dgcnn_sorts_enough_nodes_for_its_convolution():
    with pytest.raises(UserError, match="at least 10 nodes, got num_sorted=9"):
        build("DGCNN", tiny.features("dense"), num_sorted=9)


@pytest.mark.parametrize("name", ["TopK", "SAGPool"])
@pytest.mark.parametrize("ratio", [0.0, 1.5])
def test_hierarchical_pooling_keeps_a_share_of_the_nodes(name, ratio):
    with pytest.raises(UserError, match=rf"in \(0, 1\], got ratio={ratio}"):
        build(name, tiny.features("dense"), ratio=ratio)


def test_the_moments_of_gcaps_share_the_width_evenly():
    with pytest.raises(UserError, match="6 reals, cannot be shared among 4 moments"):
        build("GCAPS", tiny.features("dense"), moments=4)
    with pytest.raises(UserError, match="32 reals, cannot be shared among 3 moments"):
        GraphGCAPS.Options(moments=3)


def test_the_channels_of_capsgnn_share_the_width_evenly():
    with pytest.raises(UserError, match="6 reals, cannot be shared among 4 channels"):
        build("CapsGNN", tiny.features("dense"), channels=4)
    with pytest.raises(UserError, match="16 reals, cannot be shared among 3 channels"):
        GraphCapsGNN.Options(channels=3)


def test_capsgnn_learns_by_the_last_round_of_routing_and_predicts_log_odds():
    x, graphs = tiny.features("dense"), [2, 0, 1, 3]
    model, inputs = build("CapsGNN", x), joined("CapsGNN", x, graphs)
    with torch.no_grad():
        for value in model.parameters():
            value += torch.randn_like(value)  # votes that agree or not
    fewer = build("CapsGNN", x, routing_rounds=2)
    fewer.load_state_dict(model.state_dict())
    assert not torch.allclose(model(*inputs), fewer(*inputs), rtol=1e-3)
    expected = pyg_models.reference(model, inputs[0], *edges_of(graphs))
    close(gradients(model, model(*inputs), 0), gradients(model, expected, 0))
    logits = model.eval()(*inputs)
    close(logits, pyg_models.reference(model, inputs[0], *edges_of(graphs)))


def test_gats_heads_share_the_width_evenly():
    with pytest.raises(UserError, match="width of 6 reals cannot be shared among 4 heads"):
        build("GAT", tiny.features("dense"), heads=4)


@pytest.mark.parametrize("kind", [GraphQGNN, GraphGCN, GraphSAGE, GraphGAT, GraphGIN])
def test_a_virtual_node_stands_between_layers(kind):
    kind.Options(virtual_node=True, num_layers=2)
    with pytest.raises(UserError, match=r"between layers: use model.num_layers=2"):
        kind.Options(virtual_node=True, num_layers=1)


@pytest.mark.gpu
@every_model
@both_features
def test_a_step_can_be_captured_as_a_cuda_graph_and_equals_the_cpus(name, kind):
    x = tiny.features(kind)
    host = Ensemble([lambda: build(name, x)] * 3, [0, 1, 2]).double()
    device = Ensemble([lambda: build(name, x)] * 3, [0, 1, 2]).double().cuda()
    graphs = STEPS[0].cuda()
    there = tiny.collection(x, MODELS[name][1], "cuda")

    def step() -> Tensor:
        made = tiny.batch_of(there, graphs, ENTRIES)
        y, penalty = split(made.through(device, made.features))
        loss = y.square().sum() + penalty.sum()
        (grad,) = torch.autograd.grad(loss, device.flat)
        return grad

    before = {key: value.detach().clone() for key, value in device.raw_state().items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        results = step()
    with torch.no_grad():
        for key, value in device.raw_state().items():
            value.copy_(before[key])
    for chosen in (STEPS[1], STEPS[0]):
        graphs.copy_(chosen)
        captured.replay()
        made = batch_for(name, x, chosen)
        y, penalty = split(made.through(host, made.features))
        loss = y.square().sum() + penalty.sum()
        (grad,) = torch.autograd.grad(loss, host.flat)
        close(results.cpu(), grad)
    for key, value in host.raw_state().items():
        close(device.raw_state()[key].cpu(), value)
