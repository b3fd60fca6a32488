"""Metrics of graph classifiers, computed in chunks that fit into memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quatgraph.metrics.classification import MASKED_METRICS, Metric, by_class, macro_f1
from quatgraph.ops.cross_entropy import smoothed_cross_entropy
from quatgraph.tasks.graph.batches import Capacity, Collection, assemble, look_up_sizes
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.selection import SELECTION_SCORE, score_epoch
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.loop import Metrics

SORTED_METRICS = ("roc-auc", "average-precision")
"""Metrics that take the scores of all graphs of a part at once."""


@dataclass(frozen=True, slots=True)
class EvaluationChunk:
    graphs: Tensor
    """Indices, -1 for none, ``(M, B)``."""
    capacity: Capacity
    parts: dict[str, Tensor]
    """Which of them belong to each part, as 0 or 1, ``(M, B)``."""


def build_chunks(
    collection: Collection,
    parts: Sequence[Mapping[str, Tensor]],
    names: Sequence[str],
    max_nodes: int,
    *,
    by_entry: bool = False,
    dense: int = 0,
) -> list[EvaluationChunk]:
    """Splits the graphs of some parts into chunks of at most ``max_nodes`` nodes a member.

    Large graphs come first, so that the chunks of all members are about equally large. A graph
    above the limit is a chunk of its own.

    Args:
        parts: The indices of the graphs of each part, for each member.
        by_entry: Whether the model has values of its own for entries of the adjacency matrix, at
            most eight per node.
        dense: In how many dimensions each graph of a chunk takes the space of the largest: 1 for a
            model with dense batches of nodes, 2 for one with pairs of nodes.
    """
    device = collection.labels.device
    sizes, entries = collection.num_nodes.cpu(), collection.num_entries.cpu()
    members = [[part[name] for name in names] for part in parts]
    width = max(sum(len(part) for part in member) for member in members)
    graphs = torch.full((len(members), width), -1)
    part_ids = torch.full((len(members), width), -1)
    for m, member in enumerate(members):
        own = torch.cat(member)
        own_parts = torch.cat([torch.full((len(part),), n) for n, part in enumerate(member)])
        order = sizes[own].argsort(descending=True, stable=True)
        graphs[m, : len(own)], part_ids[m, : len(own)] = own[order], own_parts[order]

    def needed(sizes: Tensor, begin: int) -> Tensor:
        """The capacity needed for the graphs from ``begin`` on, after each of them."""
        return look_up_sizes(sizes, graphs[:, begin:]).cumsum(dim=1).amax(dim=0)

    chunks, begin = [], 0
    while begin < width:
        nodes, edges = needed(sizes, begin), needed(entries, begin)
        fits = nodes <= max_nodes
        if by_entry:
            fits &= edges <= 8 * max_nodes
        largest = int(look_up_sizes(sizes, graphs[:, begin]).max())  # the first is the largest
        if dense:
            fits &= largest**dense * torch.arange(1, len(fits) + 1) <= max_nodes
        count = max(1, int(fits.sum()))
        end = begin + count
        masks = {
            name: (part_ids[:, begin:end] == n).float().to(device) for n, name in enumerate(names)
        }
        capacity = Capacity(
            int(nodes[count - 1]),
            int(edges[count - 1]) if by_entry else None,
            largest if dense else None,
        )
        chunks.append(EvaluationChunk(graphs[:, begin:end].to(device), capacity, masks))
        begin = end
    return chunks


def max_nodes_per_chunk(num_members: int, config: GraphConfig, device: torch.device) -> int:
    """Nodes of a member in a chunk: little of a GPU's memory, or what fits a CPU's cache."""
    numbers = 1 << 28 if device.type == "cuda" else 1 << 21
    return max(1, numbers // (num_members * config.model.width))


def compute_metrics(
    ensemble: Ensemble,
    collection: Collection,
    chunks: Sequence[EvaluationChunk],
    metric: Metric = "accuracy",
    *,
    with_f1: bool = False,
) -> Metrics:
    """Accuracy and loss of each member on each part, NaN on an empty one, perhaps the macro-F1; the
    metric that selects and, if validation data is among the parts, the selection score."""
    totals: dict[str, dict[str, Tensor]] = {part: {} for part in chunks[0].parts}
    with_f1 |= metric == "macro-f1"
    scored: list[tuple[Tensor, Tensor]] = []
    for chunk in chunks:
        batch = assemble(collection, chunk.graphs, chunk.capacity)
        logits, labels = batch.through(ensemble, batch.features), batch.labels.clamp(min=0)
        predicted = logits.argmax(dim=-1)
        found = {
            "accuracy": (predicted == labels).float(),
            "loss": smoothed_cross_entropy(logits, labels, 0.0),
            "count": torch.ones_like(labels, dtype=torch.float),
        }
        if with_f1:
            found["agreed"], found["named"] = by_class(predicted, labels, logits.size(-1))
        if metric in SORTED_METRICS:
            scored.append((logits.double().log_softmax(dim=-1), labels))
        for part, mask in chunk.parts.items():
            for name, values in found.items():
                # Not a product: a NaN of another part must not spread to this one.
                own = mask.view(*mask.shape, *[1] * (values.dim() - mask.dim())) > 0
                counted = torch.where(own, values, 0).sum(dim=1)
                totals[part][name] = totals[part].get(name, 0) + counted
    metrics = {
        f"{part}/{name}": total[name] / total["count"]
        for part, total in totals.items()
        for name in ("accuracy", "loss")
    }
    for part, total in totals.items() if with_f1 else ():
        metrics[f"{part}/macro-f1"] = macro_f1(total["agreed"], total["named"])
    if scored:
        scores, all_labels = (torch.cat(pieces, dim=1) for pieces in zip(*scored, strict=True))
        for part in totals:
            mask = torch.cat([chunk.parts[part] for chunk in chunks], dim=1)
            metrics[f"{part}/{metric}"] = MASKED_METRICS[metric](scores, all_labels, mask)
    if "valid" in totals:
        metrics[SELECTION_SCORE] = score_epoch(metrics[f"valid/{metric}"], metrics["valid/loss"])
    return metrics


@torch.no_grad()
def compute_outputs(
    ensemble: Ensemble, collection: Collection, chunks: Sequence[EvaluationChunk]
) -> list[dict[str, Tensor]]:
    """The logits of each member on each part, with labels; see
    :attr:`quatgraph.training.loop.Fit.outputs`. The graphs of a part are in ascending order."""
    ensemble.eval()
    found = []
    for chunk in chunks:
        batch = assemble(collection, chunk.graphs, chunk.capacity)
        logits = batch.through(ensemble, batch.features)
        parts = {part: (mask > 0).cpu() for part, mask in chunk.parts.items()}
        found.append((chunk.graphs.cpu(), logits.cpu(), parts))
    labels = collection.labels.cpu()
    outputs: list[dict[str, Tensor]] = []
    for member in range(ensemble.num_members):
        own: dict[str, Tensor] = {}
        for part in chunks[0].parts:
            graphs = torch.cat([g[member, parts[part][member]] for g, _, parts in found])
            logits = torch.cat([out[member, parts[part][member]] for _, out, parts in found])
            order = graphs.argsort()
            own |= {f"{part}/logits": logits[order], f"{part}/labels": labels[graphs[order]]}
        outputs.append(own)
    return outputs
