"""``QGNNConv`` against PyG's ``GCNConv`` of equal width, forward and backward."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.bench.aggregate import csr
from quatgraph.bench.measure import measure
from quatgraph.layers import QGNNConv

SIZES = {"cpu": (50_000, 500_000, 64), "cuda": (1_000_000, 10_000_000, 256)}


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    from torch_geometric.nn import GCNConv

    nodes, edges, width = SIZES[device.type]
    draw = torch.Generator().manual_seed(0)
    edge_index = torch.randint(nodes, (2, edges), generator=draw).to(device)
    x = torch.randn(nodes, width, generator=draw).to(device).requires_grad_()
    prepared = Adjacency.of(edge_index, nodes)
    ours = QGNNConv(width, width).to(device)
    peer = GCNConv(width, width, bias=False).to(device)
    plain = GCNConv(width, width, bias=False, normalize=False).to(device)
    sparse = csr(prepared)
    variants: dict[str, tuple[str, Callable[[], Tensor]]] = {
        "QGNNConv": ("raw edge_index", lambda: ours(x, edge_index)),
        "GCNConv": ("raw edge_index", lambda: peer(x, edge_index)),
        "QGNNConv, prepared": ("prepared", lambda: ours(x, prepared)),
        "GCNConv, torch CSR": ("prepared", lambda: plain(x, sparse)),
    }
    grad = torch.randn(nodes, width, generator=draw).to(device)
    case = f"{nodes:,} nodes, {edges:,} edges, {width} wide"
    for variant, (graph, forward) in variants.items():

        def both(forward: Callable[[], Tensor] = forward) -> None:
            x.grad = None
            ours.zero_grad()
            peer.zero_grad()
            plain.zero_grad()
            forward().backward(grad)

        row = {"case": case, "graph": graph, "variant": variant, "work": "forward and backward"}
        yield row | measure(both, device, repeats=10)
