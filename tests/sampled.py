"""A graph to sample from."""

import torch
from torch_geometric.data import Data

NODES, EDGES = 60, 400


def graph() -> Data:
    """A graph with a hub, a node without edges, self-loops and repeated edges."""
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(NODES - 1, (2, EDGES), generator=generator)
    edge_index[1, :40] = 0
    data = Data(
        x=torch.randn(NODES, 8, generator=generator, dtype=torch.float64),
        y=torch.randint(3, (NODES,), generator=generator),
        edge_index=edge_index,
        edge_weight=torch.rand(EDGES, generator=generator, dtype=torch.float64),
    )
    data.train_mask = torch.arange(NODES) % 3 == 0
    return data


DATA = graph()
