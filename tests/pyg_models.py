"""The compared models for graphs out of PyG's and torch's parts, with the weights of ours."""

from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.utils import add_remaining_self_loops as remaining_self_loops
from torch_geometric.utils import remove_self_loops, to_dense_adj, to_dense_batch

from quatgraph.layers import BatchNorm
from quatgraph.models.graph import (
    GraphCapsGNN,
    GraphDGCNN,
    GraphDiffPool,
    GraphGAT,
    GraphGCAPS,
    GraphGCN,
    GraphGFN,
    GraphGIN,
    GraphSAGE,
    GraphSAGPool,
    GraphTopK,
    GraphUGformer,
    StructureFree,
)


def reference(model: nn.Module, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    return REFERENCES[type(model)](model, x, edges, batch_index)


def loaded(theirs: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    theirs = theirs.double()
    theirs.load_state_dict(weights, strict=False)
    return theirs


def by_layers(model: nn.Module, layers: list[Tensor], batch_index: Tensor) -> Tensor:
    summed = [pyg.global_add_pool(layer, batch_index) for layer in layers]
    bias = model.readout.bias.sum(dim=0)
    return F.linear(torch.cat(summed, dim=1), model.readout.weight, bias)


def gcn(model: GraphGCN, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    layers: list[Tensor] = []
    for conv in model.convs:
        theirs = pyg.GCNConv(*conv.linear.weight.mT.shape, bias=False)
        x = loaded(theirs, {"lin.weight": conv.linear.weight})(x, edges).relu()
        layers.append(x)
    return by_layers(model, layers, batch_index)


def sage(model: GraphSAGE, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    layers: list[Tensor] = []
    for conv in model.convs:
        weights = {
            "lin_l.weight": conv.neighbours.weight,
            "lin_l.bias": conv.own.bias,
            "lin_r.weight": conv.own.weight,
        }
        x = loaded(pyg.SAGEConv(*conv.own.weight.mT.shape), weights)(x, edges).relu()
        layers.append(x)
    return by_layers(model, layers, batch_index)


def gat(model: GraphGAT, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    layers: list[Tensor] = []
    for conv in model.convs:
        weights = {
            "lin.weight": conv.linear.weight,
            "att_src": conv.att_src[None],
            "att_dst": conv.att_dst[None],
            "bias": conv.bias,
        }
        theirs = pyg.GATConv(conv.linear.in_features, conv.att_src.size(1), conv.heads)
        x = F.elu(loaded(theirs, weights)(x, edges))
        layers.append(x)
    return by_layers(model, layers, batch_index)


def gcaps(model: GraphGCAPS, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    layers: list[Tensor] = []
    for conv in model.convs:
        moments = []
        for power, one in enumerate(conv.maps, start=1):
            theirs = pyg.GCNConv(*one.neighbours.weight.mT.shape, bias=False)
            theirs = loaded(theirs, {"lin.weight": one.neighbours.weight})
            moments.append(one.own(x**power) + theirs(x**power, edges))
        x = norm_like(conv.norm)(torch.cat(moments, dim=1)).tanh()
        layers.append(x)
    z, rows = torch.cat(layers, dim=1), []
    for graph in range(int(batch_index.max()) + 1):
        own = z[batch_index == graph]
        covariance = torch.cov(own.mT, correction=0)
        upper = [covariance[a, b] for a in range(z.size(1)) for b in range(a, z.size(1))]
        rows.append(torch.cat((own.mean(dim=0), torch.stack(upper))))
    return model.prediction(model.dense(norm_like(model.norm)(torch.stack(rows))).relu())


def dgcnn(model: GraphDGCNN, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    edges, _ = remaining_self_loops(edges, num_nodes=len(x))
    degree = torch.bincount(edges[1], minlength=len(x)).double()[:, None]
    layers: list[Tensor] = []
    for linear, bias in zip(model.linears, model.biases, strict=True):
        summed = pyg.SimpleConv()(x, edges) @ linear.weight.mT
        x = torch.tanh((summed + bias) / degree)
        layers.append(x)
    width, filters = sum(layer.size(1) for layer in layers), model.conv.weight.view(32, 5, 16)
    y = pyg.SortAggregation(model.num_sorted)(torch.cat(layers, dim=1), batch_index)
    weight = model.node_conv.weight[:, None]
    y = F.conv1d(y[:, None], weight, model.node_conv.bias, stride=width).relu()
    y = F.conv1d(F.max_pool1d(y, 2, 2), filters.movedim(1, 2), model.conv.bias).relu()
    return model.prediction(model.dense(y.mT.flatten(1)).relu())


def topk(model: GraphTopK, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    pooled = 0
    for block in model.blocks:
        loops, _ = remaining_self_loops(edges, num_nodes=len(x))
        weights = {"lin_l.weight": block.neighbours.weight, "lin_r.weight": block.own.weight}
        conv = pyg.SAGEConv(*block.own.weight.mT.shape, bias=False)
        x = loaded(conv, weights)(x, loops).relu()
        pooling = pyg.TopKPooling(x.size(1), ratio=model.ratio)
        pooling = loaded(pooling, {"select.weight": block.projection[None]})
        x, edges, _, batch_index, *_ = pooling(x, edges, batch=batch_index)
        pooled = pooled + mean_and_max(x, batch_index)
    return perceptron(model, pooled)


def sagpool(model: GraphSAGPool, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    pooled = 0
    for block in model.blocks:
        weights = {"lin.weight": block.conv.linear.weight, "bias": block.conv.bias}
        x = loaded(pyg.GCNConv(*block.conv.linear.weight.mT.shape), weights)(x, edges).relu()
        pooling = pyg.SAGPooling(x.size(1), ratio=model.ratio, GNN=pyg.GCNConv)
        weights = {
            "gnn.lin.weight": block.score.linear.weight,
            "gnn.bias": block.score.bias,
            "select.weight": torch.ones(1, 1),
        }
        x, edges, _, batch_index, *_ = loaded(pooling, weights)(x, edges, batch=batch_index)
        pooled = pooled + mean_and_max(x, batch_index)
    return perceptron(model, pooled)


def diffpool(model: GraphDiffPool, x: Tensor, edges: Tensor, batch_index: Tensor) -> Any:
    x, mask = to_dense_batch(x, batch_index)
    adjacency = to_dense_adj(edges, batch_index).mT.to(x.dtype)  # rows are receivers
    z = sage_stack(model.embedding, x, adjacency, mask)
    s = model.assign(sage_stack(model.assignment, x, adjacency, mask))
    pooled, links, link, entropy = pyg.dense_diff_pool(z, adjacency, s, mask)
    clusters = sage_stack(model.clusters, pooled, links, None)
    peak = z.masked_fill(~mask[..., None], -torch.inf).amax(dim=1)
    y = model.dense(torch.cat((peak, clusters.amax(dim=1)), dim=1)).relu()
    # PyG divides by the padded numbers of pairs and of nodes.
    sizes = mask.sum(dim=1)
    penalty = link * adjacency.numel() / sizes.square().sum() + entropy * mask.numel() / sizes.sum()
    return (model.prediction(y), penalty) if model.training else model.prediction(y)


def sage_stack(stack: nn.Module, x: Tensor, adjacency: Tensor, mask: Tensor | None) -> Tensor:
    layers: list[Tensor] = []
    for depth, (own, neighbours) in enumerate(zip(stack.own, stack.neighbours, strict=True)):
        theirs = pyg.DenseSAGEConv(*own.weight.mT.shape)
        weights = {"lin_rel.weight": neighbours.weight} | {
            f"lin_root.{key}": value for key, value in own.state_dict().items()
        }
        x = loaded(theirs, weights)(x, adjacency, mask)
        if depth < len(stack.norms):
            norm, present = norm_like(stack.norms[depth]), x.new_ones(x.shape[:2]).bool()
            present = present if mask is None else mask
            y = torch.zeros_like(x)
            y[present] = norm(x[present].relu())
            x = y
        layers.append(x)
    return torch.cat(layers, dim=-1)


def ugformer(model: GraphUGformer, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    edges, _ = remaining_self_loops(edges, num_nodes=len(x))
    logits = torch.zeros(())
    parts = zip(model.transformers, model.linears, model.norms, model.predictions, strict=True)
    for ours, linear, norm, prediction in parts:
        theirs = nn.TransformerEncoderLayer(
            x.size(1), 1, ours.first.out_features, dropout=0.0, batch_first=True
        )
        names = {
            "self_attn.in_proj_": ours.query_key_value,
            "self_attn.out_proj.": ours.out,
            "linear1.": ours.first,
            "linear2.": ours.second,
            "norm1.": ours.norms[0],
            "norm2.": ours.norms[1],
        }
        weights = {f"{a}{b}": v for a, part in names.items() for b, v in part.state_dict().items()}
        dense, mask = to_dense_batch(x, batch_index)
        x = loaded(theirs, weights)(dense, src_key_padding_mask=~mask)[mask]
        x = norm_like(norm)(pyg.SimpleConv()(x @ linear.weight.mT, edges)).relu()
        logits = logits + plain(prediction)(pyg.global_add_pool(x, batch_index))
    return logits


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


def mean_and_max(x: Tensor, batch_index: Tensor) -> Tensor:
    both = pyg.global_max_pool(x, batch_index), pyg.global_mean_pool(x, batch_index)
    return torch.cat(both, dim=1)


def perceptron(model: nn.Module, x: Tensor) -> Tensor:
    for linear in (model.first, model.second):
        x = plain(linear)(x).relu()
    return plain(model.prediction)(x)


def norm_like(norm: BatchNorm) -> nn.Module:
    return loaded(nn.BatchNorm1d(norm.weight.numel()), norm.state_dict())


def gin(model: GraphGIN, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    edges, _ = remove_self_loops(edges)  # PyG adds the node itself to a loop it has
    layers = [x]
    for conv, norm in zip(model.convs, model.norms, strict=True):
        theirs = pyg.GINConv(nn.Identity(), eps=0.0, train_eps=False)
        theirs.nn = nn.Sequential(  # only now, for PyG draws new weights for what it is given
            plain(conv.first), norm_like(conv.norm), nn.ReLU(), plain(conv.second)
        )
        layers.append(norm_like(norm)(theirs(layers[-1], edges)).relu())
    pairs = zip(model.predictions, layers, strict=True)
    return sum(plain(linear)(pyg.global_add_pool(layer, batch_index)) for linear, layer in pairs)


def plain(linear: nn.Linear) -> nn.Linear:
    return loaded(nn.Linear(*linear.weight.mT.shape), linear.state_dict())


def gfn(model: GraphGFN, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    for linear, norm in zip(model.linears, model.norms, strict=True):
        x = norm_like(norm)(plain(linear)(x)).relu()
    pooled = plain(model.graph_linear)(pyg.global_add_pool(x, batch_index))
    return model.prediction(norm_like(model.graph_norm)(pooled).relu())


def structure_free(model: StructureFree, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    if model.vertex is not None:
        x = plain(model.vertex)(x).relu()
    y = plain(model.pooled)(pyg.global_add_pool(x, batch_index)).relu()
    for linear in model.linears:
        y = linear(y).relu()
    return model.prediction(y)


REFERENCES = {
    GraphGCN: gcn,
    GraphSAGE: sage,
    GraphGAT: gat,
    GraphGCAPS: gcaps,
    GraphDGCNN: dgcnn,
    GraphTopK: topk,
    GraphSAGPool: sagpool,
    GraphDiffPool: diffpool,
    GraphUGformer: ugformer,
    GraphCapsGNN: capsgnn,
    GraphGIN: gin,
    GraphGFN: gfn,
    StructureFree: structure_free,
}
