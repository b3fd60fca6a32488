"""Tell cycles from trees: train on many small graphs, then ask about new ones."""

import tempfile

import torch
from torch_geometric.data import Data

import quatgraph
from quatgraph.data.graph import load
from quatgraph.models.graph import GraphQGNN
from quatgraph.tasks.graph.config import GraphConfig, TrainConfig

# The built-in sample; a list of your own PyG Data, each with edge_index and y, does as well.
graphs = load("cycles")

# Without a config a few settings are tried, which takes longer.
config = GraphConfig(
    model=GraphQGNN.Options(hidden_quats=4, dropout=0.0, pooled_dropout=0.0),
    train=TrainConfig(epochs=20, batch_size=16, lr=0.01),
)
square = Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), num_nodes=4)
star = Data(edge_index=torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]]), num_nodes=5)

with tempfile.TemporaryDirectory() as folder:
    predictor = quatgraph.train_graphs(graphs, folder + "/model", config=config, device="cpu")
    print({name: round(value, 3) for name, value in predictor.card["metrics"].items()})
    for what, row in zip(("square", "star"), predictor.predict([square, star]).rows(), strict=True):
        print(f"a {what} is a {row['prediction']} ({100 * row['probability']:.0f} %)")
