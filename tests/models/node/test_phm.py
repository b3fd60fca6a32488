"""The hypercomplex node model against GCN, and with fixed rules against quaternion layers."""

import pytest
import torch

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix
from quatgraph.errors import UserError
from quatgraph.layers import PHMLinear
from quatgraph.models.node import GCN, PHM
from quatgraph.models.node.phm import PHMOptions

N, IN, HIDDEN, CLASSES = 6, 5, 8, 3
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 2, 3]])
SHAPE = {"hidden": HIDDEN, "num_layers": 3}


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("n", [1, 4])
def test_is_gcn_with_the_matrices_of_its_hypercomplex_weights(n, skip):
    model = PHM(IN, CLASSES, n=n, rules="fixed", skip=skip, bias=True, **SHAPE).eval()
    real = GCN(IN, CLASSES, skip=skip, bias=True, **SHAPE).eval()
    state = model.state_dict()
    for name, layer in model.named_modules():
        if isinstance(layer, PHMLinear):
            weight = layer.weight
            state[f"{name}.weight"] = weight[0] if n == 1 else hamilton_matrix(weight)
    real.load_state_dict(state)
    x, graph = torch.randn(N, IN), Adjacency.of(EDGES, N)
    torch.testing.assert_close(model(x, graph), real(x, graph))
    torch.testing.assert_close(model(Adjacency.from_dense(x), EDGES), real(x, EDGES))


def test_only_maps_between_hidden_layers_are_hypercomplex():
    def count(**settings: object) -> int:
        return sum(p.numel() for p in PHM(IN, CLASSES, **SHAPE, **settings).parameters())

    outer, inner = HIDDEN * (IN + CLASSES), 2 * HIDDEN**2
    assert count(n=1, rules="fixed") == outer + inner
    assert count(n=4, rules="fixed") == outer + inner // 4
    assert count(n=4) == outer + inner // 4 + 2 * 4**3
    assert count(n=4, skip=True) == 2 * count(n=4)


def test_options_that_do_not_fit_are_mistakes():
    with pytest.raises(UserError, match=r"must divide the width, which is 12 reals.*got 8"):
        PHMOptions(hidden_quats=3, n=8)
    with pytest.raises(UserError, match=r"needs model\.n = 1, 2, 4 or 8, got 3"):
        PHMOptions(hidden_quats=3, n=3, rules="fixed")
