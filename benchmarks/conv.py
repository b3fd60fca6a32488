"""``QGNNConv`` and PyG's ``GCNConv`` of equal width, forward and backward."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.aggregate import csr
from benchmarks.measure import measure
from quatgraph.adjacency import Adjacency
from quatgraph.layers import QGNNConv

SIZES = {
    # nodes, edges, width: of a graph like Cora, where calls take longer than sums, and a large one
    "cpu": [(2_708, 10_556, 64), (50_000, 500_000, 64)],
    "cuda": [(2_708, 10_556, 64), (1_000_000, 10_000_000, 256)],
}


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for nodes, edges, width in SIZES[device.type]:
        yield from _rows_of(nodes, edges, width, device)


def _rows_of(nodes: int, edges: int, width: int, device: torch.device) -> Iterator[dict[str, Any]]:
    from torch_geometric.nn import GCNConv

    draw = torch.Generator().manual_seed(0)
    edge_index = torch.randint(nodes, (2, edges), generator=draw).to(device)
    x = torch.randn(nodes, width, generator=draw).to(device).requires_grad_()
    prepared = Adjacency.of(edge_index, nodes)
    ours = QGNNConv(width, width).to(device)
    peer = GCNConv(width, width, bias=False).to(device)
    cached = GCNConv(width, width, bias=False, cached=True).to(device)
    plain = GCNConv(width, width, bias=False, normalize=False).to(device)
    sparse = csr(prepared)
    variants: dict[str, tuple[str, Callable[[], Tensor]]] = {
        "QGNNConv": ("raw edge_index", lambda: ours(x, edge_index)),
        "GCNConv": ("raw edge_index", lambda: peer(x, edge_index)),
        "QGNNConv, prepared": ("prepared", lambda: ours(x, prepared)),
        "GCNConv, cached": ("prepared", lambda: cached(x, edge_index)),
        "GCNConv, torch CSR": ("prepared", lambda: plain(x, sparse)),
    }
    grad = torch.randn(nodes, width, generator=draw).to(device)
    case = describe_size(nodes, edges, width)
    for variant, (graph, forward) in variants.items():

        def both(forward: Callable[[], Tensor] = forward) -> None:
            for layer in (ours, peer, cached, plain):
                layer.zero_grad()
            x.grad = None
            forward().backward(grad)

        row = {"case": case, "graph": graph, "variant": variant, "work": "forward and backward"}
        yield row | measure(both, device, repeats=10 if edges > 1e5 else 100)


def describe_size(nodes: int, edges: int, width: int) -> str:
    return f"{nodes:,} nodes, {edges:,} edges, {width} wide"
