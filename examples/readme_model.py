"""The model of README: quaternion layers inside a plain PyTorch module."""

import torch

from quatgraph import QGNNConv


class Net(torch.nn.Module):
    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv1 = QGNNConv(features, hidden, tiled=True)  # real features: as many weights
        self.conv2 = QGNNConv(hidden, hidden)  # GCNConv(hidden, hidden) has four times the weights
        self.head = torch.nn.Linear(hidden, classes)  # real again: any number of classes

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x, edge_index).relu()
        return self.head(self.conv2(x, edge_index).relu())


model = Net(features=1433, hidden=64, classes=7)
logits = model(torch.randn(100, 1433), torch.randint(100, (2, 400)))
torch.nn.functional.cross_entropy(logits, torch.randint(7, (100,))).backward()
print(logits.shape)  # torch.Size([100, 7])
