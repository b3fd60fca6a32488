"""A PyG model whose GCNConv became a QGNNConv: a quarter of the weights, the same call."""

import torch
from torch_geometric.nn import GCNConv, Sequential

from quatgraph import QGNNConv


def trained(conv: torch.nn.Module) -> float:
    """The loss after training on labels that only neighbours tell."""
    torch.manual_seed(0)
    edge_index, x = torch.randint(100, (2, 400)), torch.randn(100, 64)
    y = torch.zeros(100).index_add(0, edge_index[1], x[edge_index[0], 0]).gt(0).long()
    model = Sequential(
        "x, edge_index",
        [
            (conv, "x, edge_index -> x"),
            torch.nn.ReLU(),
            (GCNConv(64, 2), "x, edge_index -> x"),
        ],
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(50):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edge_index), y)
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":  # PyG's Sequential imports the file that calls it
    for conv in (GCNConv(64, 64, bias=False), QGNNConv(64, 64)):
        weights = sum(p.numel() for p in conv.parameters())
        said = f"{type(conv).__name__:9} {weights:5} weights"
        print(f"{said}, training loss {trained(conv):.3f}")
