"""RelationalGraph: its sums are loops over edges, with few messages, whichever side shares them."""

from collections import Counter

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.relational import BLOCK, EdgeWeights, RelationalGraph

E, R, D = 11, 4, 6
WEIGHTS: list[EdgeWeights] = ["none", "row", "relation", "symmetric", "receivers"]
TRIPLES = {
    "any": torch.stack(
        (torch.randint(E - 1, (40,)), torch.randint(R, (40,)), torch.randint(E - 1, (40,))), dim=1
    ),
    "few tails": torch.tensor([[h, 0, 9 + h % 2] for h in range(9)] + [[3, 2, 1]]),
    "few heads": torch.tensor([[9 + t % 2, 1, t] for t in range(9)] + [[9, 1, 9]]),
    "one": torch.tensor([[2, 3, 5]]),
    "more than a block": torch.tensor(
        [[h, 0, (3 * h + t) % E] for h in range(E) for t in range(5)]
    ),
}
every_graph = pytest.mark.parametrize("name", TRIPLES)


def edges_of(triples: Tensor) -> list[tuple[int, int, int, int]]:
    """Direction, sender, relation and receiver of every edge."""
    facts = sorted({tuple(fact) for fact in triples.tolist()})
    return [(0, h, r, t) for h, r, t in facts] + [(1, t, r + R, h) for h, r, t in facts]


def weights_of(edges: list[tuple[int, int, int, int]], kind: str) -> list[float]:
    into = Counter((d, v) for d, _, _, v in edges)
    out = Counter((d, u) for d, u, _, _ in edges)
    by_relation = Counter((d, r, v) for d, _, r, v in edges)
    found = []
    for d, u, r, v in edges:
        senders = out[d, u] if kind == "symmetric" else into[d, u]
        found.append(
            {
                "none": 1.0,
                "row": 1 / into[d, v],
                "relation": 1 / by_relation[d, r, v],
                "symmetric": (into[d, v] * senders) ** -0.5 if senders else 0.0,
                "receivers": (into[d, v] * senders) ** -0.5 if senders else 0.0,
            }[kind]
        )
    return found


def build(triples: Tensor, weights: EdgeWeights = "none") -> RelationalGraph:
    graph = RelationalGraph.from_triples(triples, E, R, weights)
    widen = pytree.tree_map_only(
        Tensor, lambda t: t.double() if t.is_floating_point() else t, graph
    )
    assert isinstance(widen, RelationalGraph)
    return widen


@every_graph
@pytest.mark.parametrize("weights", WEIGHTS)
def test_sums_and_their_gradients_are_loops_over_edges(name: str, weights: EdgeWeights) -> None:
    graph, edges = build(TRIPLES[name], weights), edges_of(TRIPLES[name])
    x = torch.randn(E, D, dtype=torch.float64, requires_grad=True)
    z = torch.randn(2 * R, D, dtype=torch.float64, requires_grad=True)
    found = torch.stack(graph.sum_messages(x, lambda u, r: u * z[r][:, None]))
    rows: list[list[Tensor]] = [[torch.zeros_like(x[0]) for _ in range(E)] for _ in range(2)]
    for (d, u, r, v), weight in zip(edges, weights_of(edges, weights), strict=True):
        rows[d][v] = rows[d][v] + weight * x[u] * z[r]
    expected = torch.stack([torch.stack(some) for some in rows])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)  # weights are float32
    grad = torch.randn_like(found)
    mine, wanted = (torch.autograd.grad((y * grad).sum(), (x, z)) for y in (found, expected))
    torch.testing.assert_close(mine, wanted, rtol=1e-6, atol=1e-6)


@every_graph
def test_a_relation_has_as_many_messages_as_it_has_heads_or_tails(name: str) -> None:
    triples, graph = TRIPLES[name], build(TRIPLES[name])
    blocks = 0
    for r in triples[:, 1].unique():
        of = triples[triples[:, 1] == r]
        blocks += -(-min(len(of[:, 0].unique()), len(of[:, 2].unique())) // BLOCK)
    assert graph.num_messages == 2 * blocks * BLOCK
    assert len(graph.relation) == 2 * blocks


@every_graph
def test_a_repeated_triple_counts_once(name: str) -> None:
    once, twice = build(TRIPLES[name], "row"), build(TRIPLES[name].repeat(2, 1), "row")
    for mine, wanted in zip(pytree.tree_leaves(twice), pytree.tree_leaves(once), strict=True):
        assert torch.equal(mine, wanted)


@pytest.mark.parametrize("weights", ["none", "row"])
def test_without_differences_between_relations_it_is_a_plain_graph(weights: str) -> None:
    triples = TRIPLES["any"].clone()
    triples[:, 1] = 0
    x = torch.randn(E, D, dtype=torch.float64)
    to_tails, to_heads = build(triples, weights).sum_messages(x, lambda u, _: u)
    edge_index = triples[:, ::2].unique(dim=0).mT
    for found, edges in ((to_tails, edge_index), (to_heads, edge_index.flip(0))):
        plain = Adjacency.from_edge_index(edges, E, normalization=weights)
        torch.testing.assert_close(found, plain @ x, rtol=1e-6, atol=1e-6)


def test_the_total_weights_are_those_of_the_gathered_edges() -> None:
    graph = build(TRIPLES["any"], "symmetric")
    ones = torch.ones(E, 1, dtype=torch.float64)
    seen = []
    graph.sum_messages(ones, lambda u, _: seen.append(u) or u)
    assert torch.equal(graph.total_weights(), seen[0])


@every_graph
def test_the_triples_that_answer_a_query_are_hidden(name: str) -> None:
    triples = TRIPLES[name].unique(dim=0)
    graph = build(triples)
    head, relation = triples[::3, 0], triples[::3, 1].clone()
    head, relation = torch.cat((head, triples[:1, 2])), torch.cat((relation, triples[:1, 1] + R))
    unknown = torch.tensor([[E - 1, 2 * R - 1], [0, 0], [E - 1, 0]])  # some of them
    head, relation = torch.cat((head, unknown[:, 0])), torch.cat((relation, unknown[:, 1]))
    asked = set(zip(head.tolist(), relation.tolist(), strict=True))
    keep = [(h, r) not in asked and (t, r + R) not in asked for h, r, t in triples.tolist()]
    assert graph.hide(head, relation).tolist() == [float(one) for one in keep]
    both = torch.vmap(graph.hide)(torch.stack((head, head + 0)), torch.stack((relation, relation)))
    assert both.tolist() == [[float(one) for one in keep]] * 2


@every_graph
def test_a_triple_with_the_factor_zero_is_as_good_as_removed(name: str) -> None:
    triples = TRIPLES[name].unique(dim=0)
    factor = (torch.arange(len(triples)) % 3 > 0).double()
    x = torch.randn(E, D, dtype=torch.float64)
    z = torch.randn(2 * R, D, dtype=torch.float64)

    def sums(graph: RelationalGraph) -> tuple[Tensor, Tensor]:
        return graph.sum_messages(x, lambda u, r: u * z[r][:, None])

    found = sums(build(triples).scaled(factor))
    kept = triples[factor > 0]
    expected = sums(build(kept)) if len(kept) else (torch.zeros_like(x),) * 2
    torch.testing.assert_close(found, expected)


def test_it_is_a_pytree_that_keeps_its_product_type() -> None:
    graph = build(TRIPLES["any"]).with_product_dtype(torch.bfloat16)
    moved = graph.to("cpu")
    assert moved.product_dtype == moved.scatter.product_dtype == torch.bfloat16
    assert moved.num_relations == R
    assert moved.num_entities == E
    assert moved.num_triples == len(TRIPLES["any"].unique(dim=0))


def test_unknown_weights_are_refused() -> None:
    with pytest.raises(UserError, match="no edge weights 'rows'; choose none, row"):
        RelationalGraph.from_triples(TRIPLES["any"], E, R, "rows")  # type: ignore[arg-type]
