"""CapsGNN as loops over its equations, with the weights of ours."""

import torch
from torch import Tensor, nn
from torch_geometric.utils import add_remaining_self_loops as remaining_self_loops

from quatgraph.models.graph import GraphCapsGNN


def capsgnn(model: GraphCapsGNN, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    edges, _ = remaining_self_loops(edges, num_nodes=len(x))
    degree = torch.bincount(edges[1], minlength=len(x))
    known, width = len(model.tables[1]), model.capsule_width
    degree_code = (degree - 1).clamp(max=known - 1)
    tables = [x @ model.tables[0], model.tables[1][degree_code], model.tables[2].expand(len(x), -1)]
    h, layers = torch.cat(tables, dim=1), []
    scaled = torch.zeros(len(x), len(x), dtype=x.dtype)
    for sender, receiver in edges.mT.tolist():
        scaled[receiver, sender] += 1 / (degree[sender] * degree[receiver]).sqrt()
    for linear in model.linears:
        h = torch.tanh(scaled @ linear(h))
        layers.append(h)
    z, rows = torch.cat(layers, dim=1), []
    scores = model.attention[1](model.attention[0](z).tanh())
    for graph in range(int(batch_index.max()) + 1):
        own = batch_index == graph
        count = int(own.sum())
        attention = scores[own].softmax(dim=0) * count
        capsules = z[own].view(count, -1, width) * attention[..., None]
        inputs = [(k, u) for node in capsules for k, u in enumerate(node)]
        pooled = routed(model.graph_routing, inputs, count)
        s = routed(model.class_routing, [(k, squashed(one)) for k, one in enumerate(pooled)], 1)
        if not model.training:
            rows.append(torch.stack([(one.norm() ** 2).log() for one in s]))
            continue
        counts = torch.cat((x[own].sum(dim=0), torch.zeros(known, dtype=x.dtype)))
        for code in degree_code[own]:
            counts[x.size(1) + code] += 1
        rows.append(torch.stack([capsule_loss(model, s, c, counts) for c in range(len(s))]))
    return torch.stack(rows)


def routed(routing: nn.Module, inputs: list[tuple[int, Tensor]], count: int) -> list[Tensor]:
    """The routed capsules, vote by vote."""
    outputs, width = routing.weight.size(0), routing.weight.size(2)
    matrices = routing.weight.view(outputs, -1, width, width)
    votes = [[u @ matrices[j, k] for j in range(outputs)] for k, u in inputs]
    b = [torch.zeros(outputs, dtype=torch.float64) for _ in votes]
    for _ in range(routing.rounds):
        c = [one.softmax(dim=0) for one in b]
        s = [
            sum(ci[j] * vote[j] for ci, vote in zip(c, votes, strict=True)) for j in range(outputs)
        ]
        s = [one / count for one in s]
        b = [
            bi + torch.stack([vote[j] @ squashed(s[j]) for j in range(outputs)]).detach()
            for bi, vote in zip(b, votes, strict=True)
        ]
    return s


def squashed(s: Tensor) -> Tensor:
    square = s @ s
    return square / (1 + square) * s / (square + 1e-11).sqrt()


def capsule_loss(model: GraphCapsGNN, s: list[Tensor], label: int, counts: Tensor) -> Tensor:
    loss = torch.zeros(())
    for place, one in enumerate(s):
        a = (one @ one) / (1 + one @ one)
        loss = loss + ((0.9 - a).relu() ** 2 if place == label else 0.5 * (a - 0.1).relu() ** 2)
    counts = counts.clamp(min=0)
    found = model.decoder[1](model.decoder[0](squashed(s[label])).relu()).sigmoid()
    squares = (found - counts / counts.max()) ** 2
    error = sum(part.max() for part in (squares[counts > 0], squares[counts == 0]) if len(part))
    return loss + model.reconstruction * error
