"""Classify the nodes of your own PyG graph in three lines; here a made-up one."""

import tempfile

import torch
from torch_geometric.data import Data

import quatgraph

# Two communities of 60 nodes: most links stay inside, features hint at the side.
torch.manual_seed(0)
side = torch.arange(120) % 2
links = torch.randint(120, (2, 1200))
links = links[:, (side[links[0]] == side[links[1]]) | (torch.rand(1200) < 0.1)]
features = torch.randn(120, 8) + side[:, None]
data = Data(x=features, y=side, edge_index=torch.cat((links, links.flip(0)), dim=1))

with tempfile.TemporaryDirectory() as folder:
    predictor = quatgraph.train_nodes(data, folder + "/model", device="cpu")
    answers = predictor.predict()
    print("node 7 is on side", answers.labels[7], answers.probabilities[7].tolist())
    print({name: round(value, 3) for name, value in predictor.card["metrics"].items()})
