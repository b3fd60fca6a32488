"""QSAGEConv against its equation and PyG's SAGEConv."""

import pytest
import torch
from torch_geometric.nn import SAGEConv
from twins import EDGES, IN, OUT, SENDERS, N, all_nodes, assert_same, features

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix, hamilton_product
from quatgraph.errors import UserError
from quatgraph.layers import QSAGEConv

WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 4.0], dtype=torch.float64)


def in_pyg(conv: QSAGEConv, **settings: object) -> SAGEConv:
    """PyG's layer with the real matrices of the quaternion weights."""
    real = SAGEConv(4 * IN, 4 * OUT, conv.aggr, **settings).double()
    state = {"lin_l.weight": hamilton_matrix(conv.neighbours.weight), "lin_l.bias": conv.bias}
    if conv.own is not None:
        state["lin_r.weight"] = hamilton_matrix(conv.own.weight)
    if conv.project is not None:
        state["lin.weight"] = hamilton_matrix(conv.project.weight)
        state["lin.bias"] = conv.project.bias
    real.load_state_dict(state)
    return real


def built(aggr: str = "mean", **settings: object) -> QSAGEConv:
    conv = QSAGEConv(4 * IN, 4 * OUT, aggr, **settings).double()
    torch.nn.init.normal_(conv.bias)
    return conv


@pytest.mark.parametrize("aggr", ["mean", "sum", "max"])
def test_is_the_equation(aggr):
    conv, x = built(aggr), features()
    reduce = {"mean": sum, "sum": sum, "max": lambda rows: torch.stack(rows).amax(dim=0)}[aggr]
    expected = torch.zeros(N, 4, OUT, dtype=torch.float64)
    for v, senders in enumerate(SENDERS):
        summed = reduce([x[u] for u in senders]) if senders else torch.zeros_like(x[0])
        summed = summed / (max(len(senders), 1) if aggr == "mean" else 1)
        for m in range(OUT):
            for n in range(IN):
                expected[v, :, m] += hamilton_product(
                    conv.neighbours.weight[:, m, n], summed[n::IN]
                )
                expected[v, :, m] += hamilton_product(conv.own.weight[:, m, n], x[v, n::IN])
    torch.testing.assert_close(conv(x, EDGES), expected.flatten(1) + conv.bias)


@pytest.mark.parametrize("aggr", ["mean", "sum", "max"])
@pytest.mark.parametrize(
    "settings", [{}, {"root_weight": False}, {"normalize": True}, {"project": True}], ids=str
)
def test_is_pygs_sageconv_with_the_matrix_of_the_quaternions(aggr, settings):
    conv, x = built(aggr, **settings), features()
    assert_same(conv(x, EDGES), in_pyg(conv, **settings)(x, EDGES), x)


def test_equal_maxima_share_the_gradient_as_in_pyg():
    conv = built("max")
    x = torch.randint(1, 3, (N, 4 * IN)).double().requires_grad_()
    edges = torch.randint(N, (2, 20))
    assert_same(conv(x, edges), in_pyg(conv)(x, edges), x)


@pytest.mark.parametrize("aggr", ["mean", "sum", "max"])
def test_means_and_sums_commute_with_a_rotation_and_maxima_do_not(aggr):
    conv = QSAGEConv(4 * IN, 4 * OUT, aggr, bias=False).double()
    q = torch.randn(4, dtype=torch.float64)
    x = features()
    turned = hamilton_product(x, q.repeat_interleave(IN))
    expected = hamilton_product(conv(x, EDGES), q.repeat_interleave(OUT))
    assert torch.allclose(conv(turned, EDGES), expected) == (aggr != "max")


def test_weights_of_edges_weigh_means_and_sums():
    x, dense = features(), torch.zeros(N, N, dtype=torch.float64)
    for (u, v), weight in zip(EDGES.T.tolist(), WEIGHT, strict=True):
        dense[v, u] += weight
    for aggr in ("mean", "sum"):
        conv = built(aggr)
        matrix = dense / dense.sum(dim=1, keepdim=True).clamp(min=1e-9) if aggr == "mean" else dense
        expected = conv.neighbours(matrix @ x) + conv.own(x) + conv.bias
        assert_same(conv(x, EDGES, WEIGHT), expected, x)
    with pytest.raises(UserError, match="no edge_weight"):
        built("max")(x, EDGES, WEIGHT)


def test_a_prepared_graph_is_used_as_it_is():
    x = features()
    for aggr, kind in (("mean", "row"), ("sum", "none"), ("max", "none")):
        conv = built(aggr)
        prepared = Adjacency.of(EDGES, N, self_loops=False, normalization=kind)
        assert_same(conv(x, prepared), conv(x, EDGES), x)


def test_the_maximum_ignores_entries_of_weight_zero():
    conv, x = built("max"), features()
    some = torch.tensor([1.0, 0, 1, 1, 0, 1, 1])
    graph = Adjacency.from_edge_index(EDGES, N, some)
    assert_same(conv(x, graph), conv(x, EDGES[:, some > 0]), x)


def test_the_maximum_passes_on_numbers_that_are_none():
    conv, x = QSAGEConv(4, 4, "max", root_weight=False), torch.randn(N, 4)
    x[0] = torch.nan
    y = conv(x, EDGES)
    assert y[1].isnan().all()
    assert y[2:].isfinite().all()


def test_sparse_features_equal_dense_ones_and_tiled_ones_four_copies():
    tiled, direct = QSAGEConv(IN, 4, tiled=True), QSAGEConv(4 * IN, 4)
    direct.load_state_dict(tiled.state_dict())
    x = torch.randn(N, IN).relu()
    torch.testing.assert_close(tiled(x, EDGES), direct(x.tile(4), EDGES))
    torch.testing.assert_close(tiled(Adjacency.from_dense(x), EDGES), tiled(x, EDGES))
    with pytest.raises(UserError, match="dense features"):
        QSAGEConv(IN, 4, "max", tiled=True)(Adjacency.from_dense(x), EDGES)


def test_has_a_quarter_of_the_weights_of_sageconv():
    ours, theirs = (
        sum(p.numel() for p in conv.parameters()) - 64
        for conv in (QSAGEConv(64, 64), SAGEConv(64, 64))
    )
    assert 4 * ours == theirs


def test_blocks_sum_but_have_no_maximum():
    adjacency = Adjacency.of(EDGES, N, self_loops=False, normalization="row")
    blocks = all_nodes(adjacency)
    x = torch.randn(N, 8)
    conv = QSAGEConv(8, 8)
    torch.testing.assert_close(conv(x, blocks), conv(x, adjacency))
    with pytest.raises(UserError, match=r"cannot use Blocks: use adjacency\.expanded"):
        QSAGEConv(8, 8, "max")(x, blocks)


def test_settings_that_do_not_fit_are_mistakes():
    with pytest.raises(UserError, match="choose mean, sum or max"):
        QSAGEConv(4, 4, "lstm")
    for settings in ({"in_channels": -1}, {"in_channels": 4, "tiled": True}):
        with pytest.raises(UserError, match="project=True needs in_channels"):
            QSAGEConv(out_channels=4, project=True, **settings)
