"""The compared models for graphs out of PyG's and torch's parts, with the weights of ours."""

from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from capsule_loops import capsgnn
from pyg_readouts import Virtual, by_layers, jumped, loaded, pool
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
    GraphIEGN,
    GraphPPGN,
    GraphSAGE,
    GraphSAGPool,
    GraphTopK,
    GraphUGformer,
    StructureFree,
)


def reference(model: nn.Module, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    return REFERENCES[type(model)](model, x, edges, batch_index)


def gcn(model: GraphGCN, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    layers, h, virtual = list[Tensor](), x, Virtual(model, batch_index)
    for conv in model.convs:
        theirs = pyg.GCNConv(*conv.linear.weight.mT.shape, bias=False)
        layers.append(loaded(theirs, {"lin.weight": conv.linear.weight})(h, edges).relu())
        h = virtual.add(layers[-1])
    return by_layers(model, x, layers, batch_index)


def sage(model: GraphSAGE, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    layers, h = list[Tensor](), x
    for conv in model.convs:
        weights = {
            "lin_l.weight": conv.neighbours.weight,
            "lin_l.bias": conv.own.bias,
            "lin_r.weight": conv.own.weight,
        }
        h = loaded(pyg.SAGEConv(*conv.own.weight.mT.shape), weights)(h, edges).relu()
        layers.append(h)
    return by_layers(model, x, layers, batch_index)


def gat(model: GraphGAT, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    layers, h = list[Tensor](), x
    for conv in model.convs:
        weights = {
            "lin.weight": conv.linear.weight,
            "att_src": conv.att_src[None],
            "att_dst": conv.att_dst[None],
            "bias": conv.bias,
        }
        theirs = pyg.GATConv(conv.linear.in_features, conv.att_src.size(1), conv.heads)
        h = F.elu(loaded(theirs, weights)(h, edges))
        layers.append(h)
    return by_layers(model, x, layers, batch_index)


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
    layers, first, virtual = list[Tensor](), x, Virtual(model, batch_index)
    for conv, norm in zip(model.convs, model.norms, strict=True):
        theirs = pyg.GINConv(nn.Identity(), eps=0.0, train_eps=False)
        theirs.nn = nn.Sequential(  # only now, for PyG draws new weights for what it is given
            plain(conv.first), norm_like(conv.norm), nn.ReLU(), plain(conv.second)
        )
        layers.append(norm_like(norm)(theirs(x, edges)).relu())
        x = virtual.add(layers[-1])
    layers = [first, *jumped(model.attention, layers)]
    pooled = [pool(*pair, batch_index) for pair in zip(model.poolings, layers, strict=True)]
    pairs = zip(model.predictions, pooled, strict=True)
    return sum(plain(linear)(vectors) for linear, vectors in pairs)


def iegn(model: GraphIEGN, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    rows = []
    for y in pair_inputs(x, edges, batch_index):
        for layer in model.layers:
            y = sum_of_operations(layer, y).relu()
        rows.append(max_of_pairs(y))
    y = torch.stack(rows)
    for linear in (model.first, model.second):
        y = plain(linear)(y).relu()
    return plain(model.prediction)(y)


def sum_of_operations(layer: nn.Module, x: Tensor) -> Tensor:
    """The 15 operations on matrices ``(n, n, C)``, entry by entry, each with its coefficients."""
    n, width = len(x), layer.own.weight.size(0)
    from_nodes = layer.nodes.weight.unflatten(0, (3, width)).unflatten(2, (3, -1))
    from_graphs = layer.graphs.weight.unflatten(0, (2, width)).unflatten(2, (2, -1))
    on_row, on_column, on_diagonal = from_nodes.movedim(2, 1)  # each of diagonal, rows, columns
    everywhere, along_diagonal = from_graphs.movedim(2, 1)  # each of diagonal, all entries
    bias, diagonal_bias = layer.graphs.bias.chunk(2)
    trace, total = sum(x[k, k] for k in range(n)) / n, x.sum(dim=(0, 1)) / n**2
    stats = [(x[k, k], x[k].sum(dim=0) / n, x[:, k].sum(dim=0) / n) for k in range(n)]
    y = x.new_zeros(n, n, width)
    for i in range(n):
        for j in range(n):
            terms = [layer.own.weight @ x[i, j], layer.transposed.weight @ x[j, i], bias]
            terms += [w @ s for w, s in zip(on_row, stats[i], strict=True)]
            terms += [w @ s for w, s in zip(on_column, stats[j], strict=True)]
            terms += [w @ s for w, s in zip(everywhere, (trace, total), strict=True)]
            if i == j:
                terms += [w @ s for w, s in zip(on_diagonal, stats[i], strict=True)]
                terms += [w @ s for w, s in zip(along_diagonal, (trace, total), strict=True)]
                terms.append(diagonal_bias)
            y[i, j] = sum(terms)
    return y


def ppgn(model: GraphPPGN, x: Tensor, edges: Tensor, batch_index: Tensor) -> Tensor:
    rows = []
    for y in pair_inputs(x, edges, batch_index):
        maxima = []
        for block in model.layers:
            left, right = y, y
            for one, other in zip(block.left, block.right, strict=True):
                left, right = plain(one)(left).relu(), plain(other)(right).relu()
            product = torch.einsum("ikc,kjc->ijc", left, right)
            y = (plain(block.own)(y) + product @ block.product.weight.mT).relu()
            maxima.append(max_of_pairs(y))
        rows.append(torch.cat(maxima))
    return plain(model.prediction)(torch.stack(rows))


def pair_inputs(x: Tensor, edges: Tensor, batch_index: Tensor) -> list[Tensor]:
    """The input ``(n, n, 1 + F)`` of each graph."""
    found = []
    for graph in range(int(batch_index.max()) + 1):
        own = batch_index == graph
        begin, n = int(own.nonzero()[0]), int(own.sum())
        y = x.new_zeros(n, n, 1 + x.size(1))
        for sender, receiver in edges.mT[own[edges[0]]].tolist():
            y[receiver - begin, sender - begin] = 1
        degree = y[..., 0].sum(dim=1)
        for i in range(n):
            for j in range(n):
                if y[i, j, 0]:
                    y[i, j] /= (max(degree[i], 1) * max(degree[j], 1)) ** 0.5
            y[i, i, 1:] += x[begin + i]
        found.append(y)
    return found


def max_of_pairs(y: Tensor) -> Tensor:
    n = len(y)
    others = [y[i, j] for i in range(n) for j in range(n) if i != j] or [torch.zeros_like(y[0, 0])]
    on_diagonal = torch.stack([y[i, i] for i in range(n)])
    return torch.cat((on_diagonal.amax(dim=0), torch.stack(others).amax(dim=0)))


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
    y = plain(model.pooled)(pool(model.pooling, x, batch_index)).relu()
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
    GraphIEGN: iegn,
    GraphPPGN: ppgn,
    GraphGFN: gfn,
    StructureFree: structure_free,
}
