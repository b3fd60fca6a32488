"""R-GCN, SACN, CompGCN and RelQGNN: loops over their formulas, laws, and other libraries."""

from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch_geometric.nn import RGCNConv

from quatgraph.algebra import hamilton_matrix, hamilton_product, unit
from quatgraph.errors import UserError
from quatgraph.models.link import RGCN, SACN, CompGCN, Embeddings, RelQGNN
from quatgraph.models.link.relational import RelationalModel
from quatgraph.relational import EdgeWeights, RelationalGraph
from quatgraph.training.ensemble import Ensemble

E, R, D = 9, 3, 8
FACTS = "001 002 301 401 502 115 116 710 713 602 222"  # relation 2 once, a loop; entity 8 nowhere
TRIPLES = torch.tensor([[int(digit) for digit in fact] for fact in FACTS.split()])
HEAD, RELATION = torch.tensor([0, 8, 5, 2]), torch.tensor([3, 0, 5, 2])
MODELS: dict[str, tuple[Any, dict[str, Any], EdgeWeights]] = {
    "rgcn": (RGCN, {"num_bases": 2}, "row"),
    "rgcn per relation": (RGCN, {"num_bases": 3, "input_layer": False, "norm": True}, "relation"),
    "sacn": (SACN, {"decoder": "distmult"}, "none"),
    "sacn convtranse": (SACN, {"num_filters": 3}, "none"),
    "compgcn sub": (CompGCN, {"composition": "sub", "num_layers": 2}, "receivers"),
    "compgcn mult": (CompGCN, {"composition": "mult", "decoder": "transe"}, "symmetric"),
    "compgcn corr": (CompGCN, {"composition": "corr", "num_layers": 2}, "symmetric"),
    "compgcn conve": (CompGCN, {"decoder": "conve", "num_filters": 3, "kernel_size": 2}, "row"),
    "relqgnn": (RelQGNN, {"num_layers": 2, "norm": True}, "row"),
    "relqgnn own relations": (RelQGNN, {"norm": False, "shared_relations": False}, "none"),
}
every_model = pytest.mark.parametrize("name", MODELS)


def build(name: str, **others: Any) -> RelationalModel:
    kind, values, _ = MODELS[name]
    size = {"dim_quats": D // 4} if kind is RelQGNN else {"width": D}
    model: RelationalModel = kind(E, R, **size, **values | others)
    return model


def graph_of(name: str, triples: Tensor = TRIPLES) -> RelationalGraph:
    graph = RelationalGraph.from_triples(triples, E, R, MODELS[name][2])
    return pytree.tree_map(lambda t: t.double() if t.is_floating_point() else t, graph)


def matrices(graph: RelationalGraph) -> Tensor:
    """The weights of edges by relation, receiver and sender, ``(2R, E, E)``."""
    eye, shape = torch.eye(E, dtype=torch.float64), (len(graph.relation), -1, E)
    dense = []
    for relation in range(2 * R):
        chosen = (graph.relation == relation)[:, None, None]
        to_tails, to_heads = graph.sum_messages(
            eye, lambda u, _, chosen=chosen: (u * chosen).view(shape)
        )
        dense.append(to_tails + to_heads)
    return torch.stack(dense)


def normalise(y: Tensor, norm: nn.Module | None) -> Tensor:
    if norm is None:
        return y
    mean, var = y.mean(dim=0), y.var(dim=0, unbiased=False)
    return (y - mean) / (var + 1e-5).sqrt() * norm.weight + norm.bias


def rgcn_encode(model: Any, a: Tensor) -> Tensor:
    x = model.entities if model.input_bias is None else (model.entities + model.input_bias).relu()
    for index, layer in enumerate(model.layers):
        y = x @ layer.own.weight.mT
        for r in range(2 * R):
            bases, coefficients = layer.bases[r // R], layer.coefficients[r // R, r % R]
            y = y + a[r] @ x @ sum(c * v for c, v in zip(coefficients, bases, strict=True))
        y = normalise(y, model.norms[index] if len(model.norms) else None)
        x = y.relu() if index + 1 < len(model.layers) else y
    return x


def sacn_encode(model: Any, a: Tensor) -> Tensor:
    x = model.entities
    for index, linear in enumerate(model.layers):
        total = model.loops[index] * torch.eye(E, dtype=x.dtype)
        for r in range(R):
            total = total + model.alphas[index, r] * (a[r] + a[r].mT)
        x = normalise(total @ x @ linear.weight.mT + linear.bias, model.norms[index]).tanh()
    return x


def correlate(x: Tensor, z: Tensor) -> Tensor:
    return torch.stack([(x * z.roll(-k, dims=-1)).sum(dim=-1) for k in range(D)], dim=-1)


def compgcn_encode(model: Any, a: Tensor, composition: str) -> Tensor:
    phi = {"sub": torch.sub, "mult": torch.mul, "corr": correlate}[composition]
    x, z = model.entities, model.decoder.relations
    for layer, relation_map in zip(model.layers, model.relation_maps, strict=True):
        y = phi(x, layer.loop) @ layer.own.weight.mT
        for r in range(R):  # the tail sends with r, the head with the inverse of r
            y = y + a[r + R] @ phi(x, z[r]) @ layer.to_heads.weight.mT
            y = y + a[r] @ phi(x, z[r + R]) @ layer.to_tails.weight.mT
        x, z = normalise(y / 3, layer.norm).tanh(), z @ relation_map.weight.mT
    return x


def relqgnn_encode(model: Any, a: Tensor) -> Tensor:
    x = model.entities
    z = model.decoder.relations if model.relations is None else model.relations
    for index, layer in enumerate(model.layers):
        y = x @ hamilton_matrix(layer.own.weight).mT
        for r in range(2 * R):
            weight = (layer.to_tails if r < R else layer.to_heads).weight
            y = y + a[r] @ hamilton_product(x, unit(z[r])) @ hamilton_matrix(weight).mT
        norm = model.norms[index] if len(model.norms) else None
        x = model.residual * model.entities + normalise(y, norm).tanh()
    return x


def encode(name: str, model: Any, a: Tensor) -> Tensor:
    kind, values, _ = MODELS[name]
    if kind is CompGCN:
        return compgcn_encode(model, a, values.get("composition", "corr"))
    return {RGCN: rgcn_encode, SACN: sacn_encode, RelQGNN: relqgnn_encode}[kind](model, a)


@every_model
def test_vectors_and_their_gradients_are_loops_over_the_formula(name: str) -> None:
    model, graph = build(name).double(), graph_of(name)
    found = model.encode(graph)
    expected = encode(name, model, matrices(graph))
    torch.testing.assert_close(found, expected)
    parameters = [p for key, p in model.named_parameters() if not key.startswith("decoder.")]
    parameters = [model.decoder.relations, *parameters]
    grad = torch.randn_like(found)
    mine, wanted = (
        torch.autograd.grad((y * grad).sum(), parameters, allow_unused=True)
        for y in (found, expected)
    )
    for one, other in zip(mine, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


@every_model
def test_scores_do_not_depend_on_the_numbers_of_entities(name: str) -> None:
    model, renamed = build(name).double().eval(), build(name).double().eval()
    new = torch.randperm(E)
    moved = TRIPLES.clone()
    moved[:, ::2] = new[TRIPLES[:, ::2]]
    state = dict(model.state_dict())
    for key in ("entities", "decoder.bias"):
        if key in state:
            state[key] = state[key][new.argsort()]
    renamed.load_state_dict(state)
    query, candidates = model(graph_of(name), HEAD, RELATION)
    others = renamed(graph_of(name, moved), new[HEAD], RELATION)
    torch.testing.assert_close((others[0] @ others[1].mT)[:, new], query @ candidates.mT)


@every_model
def test_members_score_as_if_each_were_alone(name: str) -> None:
    ensemble = Ensemble([lambda: build(name)] * 3, [0, 1, 2]).double().eval()
    graph = graph_of(name)
    heads, relations = torch.randint(E, (3, 5)), torch.randint(2 * R, (3, 5))
    query, candidates = ensemble(graph, heads, relations, in_dims=(None, 0, 0))
    for m in range(3):
        alone = build(name).double().eval()
        alone.load_state_dict(ensemble.member(m), strict=False)
        own = alone(graph, heads[m], relations[m])
        torch.testing.assert_close(query[m], own[0])
        torch.testing.assert_close(candidates[m], own[1])


@every_model
def test_hidden_answers_send_no_messages_in_training_only(name: str) -> None:
    model, plain = build(name, hide_answers=True).double(), build(name).double()
    plain.load_state_dict(model.state_dict())
    asked = set(zip(HEAD.tolist(), RELATION.tolist(), strict=True))
    kept = [(h, r) not in asked and (t, r + R) not in asked for h, r, t in TRIPLES.tolist()]
    assert 0 < sum(kept) < len(kept)
    graph, keep = graph_of(name), torch.tensor(kept)
    order = torch.unique(TRIPLES, dim=0, return_inverse=True)[1]
    factor = torch.zeros(len(TRIPLES), dtype=torch.float64).index_put((order,), keep.double())
    found = model(graph, HEAD, RELATION)
    torch.testing.assert_close(found, plain(graph.scaled(factor), HEAD, RELATION))
    model.eval(), plain.eval()
    torch.testing.assert_close(model(graph, HEAD, RELATION), plain(graph, HEAD, RELATION))


def test_members_drop_triples_of_their_own() -> None:
    def build_one() -> nn.Module:
        return build("relqgnn own relations", edge_dropout=0.5)

    graph, same = graph_of("relqgnn own relations"), HEAD.expand(2, -1)
    for seeds, alike in (([5, 5], True), ([5, 6], False)):
        ensemble = Ensemble([build_one] * 2, seeds).double()
        with torch.no_grad():
            ensemble.flat[1] = ensemble.flat[0]
        _, candidates = ensemble(graph, same, RELATION.expand(2, -1), in_dims=(None, 0, 0))
        assert torch.equal(candidates[0], candidates[1]) == alike


@every_model
def test_a_step_stores_no_more_than_the_options_say(name: str) -> None:
    kind, values, _ = MODELS[name]
    options = kind.Options(dim_quats=D // 4, **values)
    model, graph = build(name), RelationalGraph.from_triples(TRIPLES, E, R, "row")
    held = [*model.parameters(), *model.buffers(), *pytree.tree_leaves(graph)]
    held_at = {value.untyped_storage().data_ptr() for value in held}
    stored: dict[int, Tensor] = {}

    def pack(value: Tensor) -> Tensor:
        stored[value.untyped_storage().data_ptr()] = value
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        model(graph, HEAD, RELATION)
    sizes = [v.untyped_storage().nbytes() // 4 for at, v in stored.items() if at not in held_at]
    assert sum(sizes) <= options.num_activations(E, len(HEAD), graph.num_messages)


@pytest.mark.parametrize("decoder", ["distmult", "quate"])
@pytest.mark.parametrize("kind", [RGCN, SACN, CompGCN, RelQGNN])
def test_without_reciprocal_relations_heads_are_asked_by_the_decoders_inverse(
    kind: Any, decoder: str
) -> None:
    model = kind(E, R, decoder=decoder, reciprocal=False).double().eval()
    graph = RelationalGraph.from_triples(TRIPLES, E, R, "row")
    assert model.decoder.relations.size(0) == model.embed_relations().size(0) == R
    pairs = torch.tensor([[0, 1], [2, 2], [8, 3]])
    scores = [
        (query @ candidates.mT).gather(1, tail[:, None])
        for head, tail, inverse in ((*pairs.unbind(1), 0), (*pairs.flip(1).unbind(1), R))
        for query, candidates in [model(graph, head, torch.arange(3) + inverse)]
    ]
    torch.testing.assert_close(*scores)


def test_relqgnn_whose_layers_add_nothing_is_quate() -> None:
    model = RelQGNN(E, R, dim_quats=2, norm=False).double()
    quate = Embeddings(E, R, decoder="quate", width=D).double()
    quate.load_state_dict({k: v for k, v in model.state_dict().items() if "layers" not in k})
    for weight in model.layers.parameters():
        nn.init.zeros_(weight)
    graph = graph_of("relqgnn")
    torch.testing.assert_close(model(graph, HEAD, RELATION), quate(None, HEAD, RELATION))


def test_a_quaternion_layer_has_a_quarter_of_the_weights_of_compgcns() -> None:
    real, ours = CompGCN(E, R, width=D).layers[0], RelQGNN(E, R, dim_quats=D // 4).layers[0]
    matrices = [sum(p.numel() for p in one.parameters() if p.dim() > 1) for one in (real, ours)]
    assert matrices[0] == 4 * matrices[1] + D  # and the relation of self-loops


@pytest.mark.parametrize("kind", [RGCN, SACN, CompGCN, RelQGNN])
def test_a_model_without_layers_is_a_mistake(kind: Any) -> None:
    with pytest.raises(UserError, match="at least one layer"):
        kind(E, R, num_layers=0)


def test_a_convolution_without_reciprocal_relations_is_a_mistake() -> None:
    with pytest.raises(UserError, match=r"ConvTransE needs .* data\.reciprocal=true"):
        SACN(E, R, reciprocal=False)


def test_a_layer_of_rgcn_is_pygs() -> None:
    model = RGCN(E, R, width=D, num_layers=1, input_layer=False).double()
    layer: Any = model.layers[0]
    theirs = RGCNConv(D, D, 2 * R, aggr="mean", bias=False).double()
    bases, coefficients = layer.bases, layer.coefficients
    with torch.no_grad():
        theirs.weight.copy_(torch.einsum("drb,dbio->drio", coefficients, bases).flatten(0, 1))
        theirs.root.copy_(layer.own.weight.mT)
    edges = TRIPLES[:, ::2].mT
    both = torch.cat((edges, edges.flip(0)), dim=1)
    kinds = torch.cat((TRIPLES[:, 1], TRIPLES[:, 1] + R))
    graph = graph_of("rgcn per relation")
    torch.testing.assert_close(
        model.encode(graph), theirs(model.entities, both, kinds), rtol=1e-6, atol=1e-6
    )


def test_a_layer_of_rgcn_is_pykeens() -> None:
    passing = pytest.importorskip("pykeen.nn.message_passing")
    model = RGCN(E, R, width=D, num_layers=1, num_bases=2, input_layer=False).double()
    layer: Any = model.layers[0]
    theirs = passing.RGCNLayer(
        R, D, D, use_bias=False, decomposition="bases", decomposition_kwargs={"num_bases": 2}
    )
    theirs = theirs.double().eval()
    with torch.no_grad():
        theirs.self_loop.weight.copy_(layer.own.weight)
        for direction, part in enumerate((theirs.fwd, theirs.bwd)):
            part.bases.copy_(layer.bases[direction])
            part.base_weights.copy_(layer.coefficients[direction])
    graph = graph_of("sacn")  # without weights, as theirs
    head, relation, tail = TRIPLES.unbind(1)
    ones = torch.ones(len(TRIPLES), dtype=torch.float64)
    # Sources are rows of their matrices, so they are the receivers.
    expected = theirs(model.entities, tail, head, relation, ones)
    torch.testing.assert_close(model.encode(graph), expected)


@pytest.mark.parametrize(
    ("composition", "theirs"),
    [
        ("sub", "SubtractionCompositionModule"),
        ("mult", "MultiplicationCompositionModule"),
        ("corr", "CircularCorrelationCompositionModule"),
    ],
)
def test_a_layer_of_compgcn_is_pykeens(composition: Any, theirs: str) -> None:
    pytest.importorskip("pykeen")
    from pykeen.nn import compositions
    from pykeen.nn.representation import CompGCNLayer

    model = CompGCN(E, R, width=D, composition=composition).double()
    layer: Any = model.layers[0]
    other = CompGCNLayer(D, composition=getattr(compositions, theirs), activation=nn.Tanh).double()
    with torch.no_grad():
        other.w_loop.copy_(layer.own.weight.mT)
        other.w_fwd.copy_(layer.to_tails.weight.mT)
        other.w_bwd.copy_(layer.to_heads.weight.mT)
        other.self_loop.copy_(layer.loop)
        other.w_rel.weight.copy_(model.relation_maps[0].weight)
    z = model.decoder.relations
    # Theirs alternate between relations and inverse ones, and the head sends with the relation.
    alternating = torch.stack((z[R:], z[:R]), dim=1).flatten(0, 1)
    graph = graph_of("compgcn corr")
    entities, relations = other(model.entities, alternating, TRIPLES[:, ::2].mT, TRIPLES[:, 1])
    torch.testing.assert_close(model.encode(graph), entities, rtol=1e-5, atol=1e-6)
    ours = model.embed_relations()
    torch.testing.assert_close(torch.stack((ours[R:], ours[:R]), dim=1).flatten(0, 1), relations)
