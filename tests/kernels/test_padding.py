"""Matrices whose last positions are padding: the kernels, run on a CPU by Triton's interpreter."""

from contextlib import nullcontext
from importlib import import_module

import pytest
import torch
from launches import INTERPRETED
from matrices import Structure, long_rows, random_structure

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1"),
]


@pytest.mark.parametrize("graph", [long_rows(), random_structure()], ids=["long", "short"])
def test_entries_beyond_the_last_row_are_not_read(
    graph: Structure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    kernels = import_module("quatgraph.ops.kernels.aggregate")
    padding = [*[0] * 700, 1 << 30]
    col = torch.cat((graph.col, torch.tensor(padding, dtype=torch.int32)))
    weight, none = torch.randn(2, graph.col.numel()), torch.full((2, len(padding)), torch.nan)
    columns, rows = len(graph.t_rowptr) - 1, len(graph.rowptr) - 1
    x, y = torch.randn(2, columns, 5), torch.randn(2, rows, 5)
    padded = torch.cat((weight, none), dim=1)
    summed = kernels.sum_rows(graph.rowptr, col, None, padded, x)
    assert torch.equal(summed, kernels.sum_rows(graph.rowptr, graph.col, None, weight, x))
    products = kernels.entry_products(graph.rowptr, col, y, x)
    known = kernels.entry_products(graph.rowptr, graph.col, y, x)
    assert torch.equal(products, torch.nn.functional.pad(known, (0, len(padding))))
