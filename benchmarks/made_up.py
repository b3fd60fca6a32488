"""A generated citation graph, so that benchmarks need no files."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data

from quatgraph.data.node import from_data

LIKE_CORA = (2_708, 5_278, 1_433)
"""Nodes, links and features of Cora."""
CLASSES, WORDS = 7, 18
ALIKE = 0.8
"""Share of links within a class, and three times the share of words specific to a class."""


def papers(nodes: int, links: int, features: int, seed: int = 0) -> Data:
    """Papers of seven classes: bag-of-words features with rows that sum to 1, and citations."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % CLASSES
    own = torch.rand(nodes, WORDS, generator=draw) < ALIKE / 3
    topic = torch.randint(features // CLASSES, (nodes, WORDS), generator=draw) * CLASSES
    word = torch.randint(features, (nodes, WORDS), generator=draw)
    x = torch.zeros(nodes, features)
    x.scatter_(1, torch.where(own, topic + y[:, None], word), 1.0)
    citing = torch.randint(nodes, (links,), generator=draw)
    near = torch.randint(nodes // CLASSES, (links,), generator=draw) * CLASSES + y[citing]
    far = torch.randint(nodes, (links,), generator=draw)
    cited = torch.where(torch.rand(links, generator=draw) < ALIKE, near, far)
    edges = torch.stack((torch.cat((citing, cited)), torch.cat((cited, citing))))
    edges = edges[:, edges[0] != edges[1]].unique(dim=1)
    return from_data(
        Data(x=F.normalize(x, p=1.0), y=y, edge_index=edges, num_nodes=nodes), split_seed=seed
    )
