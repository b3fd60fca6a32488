"""QGATConv against its equation and PyG's GATConv."""

import math

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GATConv
from twins import EDGES, IN, OUT, SENDERS, N, assert_same, features

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import (
    concatenate,
    hamilton_matrix,
    hamilton_matrix_tiled,
    hamilton_product,
    inner_product,
)
from quatgraph.errors import UserError
from quatgraph.layers import QGATConv

HEADS, EDGE_DIM = 3, 5


def by_heads(matrix: Tensor) -> Tensor:
    """Rows ordered by head, then by component, as PyG has the heads one after the other."""
    return matrix.unflatten(0, (4, HEADS, -1)).movedim(0, 1).flatten(0, 2)


def in_pyg(conv: QGATConv, **settings: object) -> GATConv:
    """PyG's layer with the real matrices of the quaternion weights."""
    real = GATConv(4 * IN, 4 * OUT, HEADS, concat=conv.concat, **settings).double()
    bias = by_heads(conv.bias) if conv.concat else conv.bias
    state = {"lin.weight": by_heads(hamilton_matrix(conv.linear.weight)), "bias": bias}
    state |= {"att_src": conv.att_src[None], "att_dst": conv.att_dst[None]}
    if conv.edge_linear is not None:
        state["lin_edge.weight"] = by_heads(hamilton_matrix_tiled(conv.edge_linear.weight))
        state["att_edge"] = conv.att_edge[None]
    real.load_state_dict(state)
    return real


def built(**settings: object) -> QGATConv:
    conv = QGATConv(4 * IN, 4 * OUT, HEADS, **settings).double()
    torch.nn.init.normal_(conv.bias)
    return conv


def test_is_the_equation():
    conv, x, edge_attr = built(edge_dim=EDGE_DIM), features(), features(EDGE_DIM, EDGES.size(1))
    mapped = conv.edge_linear(edge_attr).unflatten(-1, (4, HEADS, OUT))
    between = dict(zip(map(tuple, EDGES.T.tolist()), mapped, strict=True))
    expected = torch.zeros(N, HEADS, 4 * OUT, dtype=torch.float64)
    for head in range(HEADS):
        weight = conv.linear.weight[:, head * OUT : (head + 1) * OUT]
        a, b, c = conv.att_src[head], conv.att_dst[head], conv.att_edge[head]
        value = torch.zeros(N, 4, OUT, dtype=torch.float64)
        for v in range(N):
            for m in range(OUT):
                for n in range(IN):
                    value[v, :, m] += hamilton_product(weight[:, m, n], x[v, n::IN])
        value = value.flatten(1)
        for v in range(N):
            senders = [u for u in SENDERS[v] if u != v]
            by_edge = {u: between[u, v][:, head].flatten() for u in senders}
            by_edge[v] = sum(by_edge.values()) / max(len(senders), 1) + 0 * c  # the mean
            score = {}
            for u, edge in by_edge.items():
                logit = inner_product(a, value[u]) + inner_product(b, value[v])
                logit = (logit + inner_product(c, edge)).item()
                score[u] = math.exp(logit if logit > 0 else 0.2 * logit)
            for u, each in score.items():
                expected[v, head] += each / sum(score.values()) * value[u]
    expected = concatenate(*expected.unbind(dim=1)) + conv.bias
    torch.testing.assert_close(conv(x, EDGES, edge_attr), expected)


@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("edge_dim", [None, EDGE_DIM])
@pytest.mark.parametrize("loops", [True, False])
def test_is_pygs_gatconv_with_the_matrix_of_the_quaternions(concat, edge_dim, loops):
    settings = {"add_self_loops": loops, "edge_dim": edge_dim, "negative_slope": 0.3}
    conv, x = built(concat=concat, **settings), features()
    edge_attr = None if edge_dim is None else features(edge_dim, EDGES.size(1))
    theirs = in_pyg(conv, **settings)(x, EDGES, edge_attr)
    if concat:
        theirs = theirs.unflatten(-1, (HEADS, 4, OUT)).movedim(1, 2).flatten(1)
    assert_same(conv(x, EDGES, edge_attr), theirs, x, *([] if edge_dim is None else [edge_attr]))


def test_quaternion_edge_features_go_through_the_same_map():
    conv, x, edge_attr = built(edge_dim=EDGE_DIM), features(), features(EDGE_DIM, EDGES.size(1))
    torch.testing.assert_close(conv(x, EDGES, edge_attr.tile(4)), conv(x, EDGES, edge_attr))
    single = built(edge_dim=1)
    column = edge_attr[:, :1]
    assert torch.equal(single(x, EDGES, column), single(x, EDGES, column[:, 0]))


def test_a_prepared_graph_takes_edge_features_in_the_order_of_its_entries():
    conv, x = built(edge_dim=EDGE_DIM, add_self_loops=False), features()
    edge_attr = features(EDGE_DIM, EDGES.size(1))
    adjacency = Adjacency.from_edge_index(EDGES, N)
    place = [
        EDGES.T.tolist().index([u, v])
        for u, v in zip(adjacency.sender.tolist(), adjacency.receiver.tolist(), strict=True)
    ]
    assert_same(conv(x, adjacency, edge_attr[place]), conv(x, EDGES, edge_attr), x, edge_attr)


def test_a_prepared_graph_is_used_as_it_is():
    conv, x = built(), features()
    prepared = Adjacency.of(EDGES, N, normalization="none")
    assert_same(conv(x, prepared), conv(x, EDGES), x)
    without = built(add_self_loops=False)
    without.load_state_dict(conv.state_dict())
    assert_same(conv(x, Adjacency.from_edge_index(EDGES, N)), without(x, EDGES), x)


def test_sparse_features_equal_dense_ones_and_tiled_ones_four_copies():
    tiled, direct = QGATConv(IN, 4, heads=2, tiled=True), QGATConv(4 * IN, 4, heads=2)
    direct.load_state_dict(tiled.state_dict())
    x = torch.randn(N, IN).relu()
    torch.testing.assert_close(tiled(x, EDGES), direct(x.tile(4), EDGES))
    torch.testing.assert_close(tiled(Adjacency.from_dense(x), EDGES), tiled(x, EDGES))


def test_its_large_matrix_has_a_quarter_of_pygs_weights():
    ours, theirs = QGATConv(64, 16, 4), GATConv(64, 16, 4)
    assert 4 * ours.linear.weight.numel() == theirs.lin.weight.numel()
    others = [sum(p.numel() for p in conv.parameters()) for conv in (ours, theirs)]
    assert others[1] - others[0] == 3 * ours.linear.weight.numel()


def test_dropped_attention_is_the_whole_one_on_average():
    conv, x = QGATConv(4, 4, dropout=0.5), torch.randn(N, 4)
    many = torch.vmap(lambda _: conv(x, EDGES), randomness="different")(torch.empty(400))
    assert many.std(dim=0).max() > 0.1
    torch.testing.assert_close(many.mean(dim=0), conv.eval()(x, EDGES), atol=0.2, rtol=0)


@pytest.mark.parametrize(
    ("edge_dim", "edge_attr", "message"),
    [
        (None, torch.randn(7, 2), "edge_dim in the layer and edge_attr"),
        (2, None, "edge_dim in the layer and edge_attr"),
        (2, torch.randn(6, 2), r"a row per edge: \(6, 2\) came with 7 edges"),
        (2, torch.ones(7, 2).long(), r"edge_attr\.float"),
        (2, torch.randn(7, 3), "takes inputs of width 2, got 3"),
    ],
)
def test_edge_features_that_do_not_fit_are_mistakes(edge_dim, edge_attr, message):
    with pytest.raises(UserError, match=message):
        QGATConv(4, 4, edge_dim=edge_dim)(torch.randn(N, 4), EDGES, edge_attr)


def test_a_sparse_matrix_has_no_edge_features_and_no_heads_are_a_mistake():
    sparse = torch.eye(N).to_sparse()
    with pytest.raises(UserError, match="come with an edge_index"):
        QGATConv(4, 4, edge_dim=2)(torch.randn(N, 4), sparse, torch.randn(N, 2))
    with pytest.raises(UserError, match="heads must be at least 1, got 0"):
        QGATConv(4, 4, 0)
