"""A PyG model whose GCNConv became a QGNNConv: a quarter of the weights, the same call."""

import torch
from torch_geometric.nn import GCNConv, Sequential

from quatgraph import QGNNConv

torch.manual_seed(0)
edge_index = torch.randint(100, (2, 400))
x, y = torch.randn(100, 64), torch.randint(4, (100,))

for conv in (GCNConv(64, 64, bias=False), QGNNConv(64, 64)):
    model = Sequential(
        "x, edge_index",
        [
            (conv, "x, edge_index -> x"),
            torch.nn.ReLU(),
            (GCNConv(64, 4), "x, edge_index -> x"),
        ],
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(50):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edge_index), y)
        loss.backward()
        optimizer.step()
    weights = sum(p.numel() for p in conv.parameters())
    print(f"{type(conv).__name__:9} {weights:5} weights, training loss {loss:.3f}")
