"""Training on sampled neighbours: which configurations sample, and their mini-batches."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quatgraph.adjacency import SPARSE_BELOW, Adjacency
from quatgraph.errors import UserError
from quatgraph.hops import Hops
from quatgraph.models.node import MODELS
from quatgraph.ops.random import BATCHES, epoch_draws, random_order
from quatgraph.sampling import NeighborSampler
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.training.runtime import available_memory

if TYPE_CHECKING:
    from torch_geometric.data import Data

FAN_OUT, DEEPER = (15, 10, 5), 2
"""Neighbours by hop, and those of further hops, where nobody chooses."""
FITTING = 2 / 3
"""The share of the memory that a step on the whole graph may take."""
TOLD_FROM = 1 << 30
"""Bytes of such a step from which on it is told that the whole graph is trained on."""


def step_numbers(config: NodeConfig, nodes: int, stored: int, entries: int, weights: int) -> int:
    """An estimate of the numbers that a member holds in training on the whole graph.

    Args:
        stored: Numbers of the features; non-zero ones if they are sparse.
        entries: Entries of the matrix.
        weights: Weights of the model.
    """
    copies = 4 if config.model.trains_on_four_copies else 1
    activations = config.model.num_activations(nodes, entries)
    # Weights, gradients, Adam's two moments, the best weights, and views.
    return 4 * copies * stored + activations + 6 * weights


def fan_out(config: NodeConfig) -> list[int]:
    """Neighbours to draw for a node by hop; refuses a model that does not sample, and a list of the
    wrong length."""
    name, hops, given = config.model.name, config.model.hops, config.train.num_neighbors
    assert config.train.samples
    if not hops:
        able = [name for name, model in MODELS.items() if model.Options(name=name).hops]
        raise UserError(
            f"{name} does not train on sampled neighbours: choose one of {', '.join(able)}, or set "
            "train.num_neighbors=0"
        )
    numbers = list(given) if isinstance(given, tuple) else [int(given)] * hops
    if len(numbers) != hops:
        raise UserError(
            f"train.num_neighbors has {len(numbers)} numbers, but {name} with model.num_layers="
            f"{getattr(config.model, 'num_layers', 1)} sums over neighbours {hops} times: give "
            f"{hops}, or one number without brackets for all hops"
        )
    return numbers


def settle(
    candidates: Sequence[NodeConfig], data: "Data", device: torch.device
) -> tuple[list[NodeConfig], list[str]]:
    """Decides which candidates train on sampled neighbours, and tells why.

    Where nobody has chosen, those do whose step on the whole graph would take more than
    :data:`FITTING` of the memory. Of several candidates, those that cannot sample as chosen are
    left out.
    """
    size, memory = _Size.of(data), available_memory(device)
    found, refused, notes = list[NodeConfig](), list[UserError](), list[str]()
    sampled, whole = dict[str, int](), dict[str, int]()
    for config in candidates:
        needed = size.bytes_of(config)
        if config.train.samples:
            try:
                _check(config, data)
            except UserError as mistake:
                refused.append(mistake)
                continue
        elif _may_sample(config, data) and needed > FITTING * memory:
            drawn = (*FAN_OUT, *[DEEPER] * config.model.hops)[: config.model.hops]
            config = replace(config, train=replace(config.train, num_neighbors=drawn))
            sampled[f"{config.model.name} {list(drawn)}"] = needed
        if not config.train.samples and needed > TOLD_FROM:
            whole[config.model.name] = max(needed, whole.get(config.model.name, 0))
        found.append(config)
    if not found:
        raise refused[0]
    for reason, count in Counter(map(str, refused)).items():
        notes.append(f"left out {count} of {len(candidates)} configurations: {reason}")
    if sampled:
        notes.append(
            f"{', '.join(sampled)}: trained on so many sampled neighbours by hop, because the "
            f"whole graph takes about {_gib(max(sampled.values()))} and {device.type} has "
            f"{_gib(memory)}; choose with train.num_neighbors"
        )
    elif any(config.train.samples for config in found):
        notes.append("trained on sampled neighbours, as train.num_neighbors says")
    if any(config.train.samples for config in found):
        config = next(config for config in found if config.train.samples)
        notes[-1] += f"; {_describe_epoch(config, data)}"
    if whole:
        each = ", ".join(f"{name} about {_gib(needed)}" for name, needed in whole.items())
        notes.append(
            f"trained on the whole graph: {each} of {_gib(memory)}; train.num_neighbors samples "
            "neighbours instead"
        )
    return found, notes


def _may_sample(config: NodeConfig, data: "Data") -> bool:
    """Whether sampling is chosen for a configuration where the whole graph does not fit."""
    train = config.train
    able = config.model.hops > 0 and data.x is not None and train.optimizer != "nesterov"
    return able and train.num_neighbors == "auto"


def _check(config: NodeConfig, data: "Data") -> None:
    fan_out(config)
    if data.x is None:
        raise UserError(
            "a graph without features is trained on whole: leave train.num_neighbors out"
        )


def _describe_epoch(config: NodeConfig, data: "Data") -> str:
    nodes = int(data.train_mask[:, 0].sum())
    steps = -(-nodes // config.train.batch_size)
    return f"an epoch has {steps:,} steps for {nodes:,} training nodes, and runs train in turn"


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"


@dataclass(frozen=True, slots=True)
class _Size:
    """The sizes that determine the memory of a training run."""

    nodes: int
    entries: int
    features: int
    stored: int
    classes: int

    @classmethod
    def of(cls, data: "Data") -> "_Size":
        nodes, x = int(data.num_nodes), data.x
        features = stored = nodes  # one-hot
        if x is not None:
            features, stored = x.size(1), int(x.count_nonzero())
            if stored >= SPARSE_BELOW * x.numel():
                stored = x.numel()
        return cls(nodes, data.num_edges + nodes, features, stored, len(data.label_names))

    def bytes_of(self, config: NodeConfig) -> int:
        with torch.device("meta"):
            kind = MODELS[config.model.name]
            model = kind.from_options(config.model, self.features, self.classes)
            weights = sum(p.numel() for p in model.parameters())
        return 4 * step_numbers(config, self.nodes, self.stored, self.entries, weights)


@dataclass(frozen=True, slots=True, eq=False)
class NodeBatch:
    """A mini-batch of training nodes and their sampled neighbourhood."""

    seeds: Tensor
    """The nodes to classify, -1 for padding, ``(B,)``: the rows of the last matrix."""
    hops: Hops

    def tensors(self) -> list[Tensor]:
        return [self.seeds, *self.hops.tensors()]


class NodeBatches:
    """The mini-batches of one run: its training nodes, shuffled in each epoch and split into equal
    parts, with neighbours sampled in each step. On a GPU they are padded to a few shapes.

    Args:
        matrix: The matrix of the whole graph, with self-loops.
        num_neighbors: Number of neighbours to sample per hop.
        nodes: The training nodes.
        batch_size: Maximum number of training nodes in a step.
        seed: The key of the run's random draws.
    """

    max_loaded = 1
    draws_late = True

    def __init__(
        self,
        matrix: Adjacency,
        num_neighbors: Sequence[int],
        nodes: Tensor,
        batch_size: int,
        seed: int,
    ) -> None:
        self.matrix, self.nodes = matrix, nodes
        self.steps = -(-len(nodes) // batch_size)
        self.seed = torch.tensor([seed], device=nodes.device)
        self.sampler = NeighborSampler.of(matrix, num_neighbors, seed=seed)
        self.padded = nodes.is_cuda
        self.epoch, self.drawn, self.shapes = 0, list[Tensor](), list[Hashable]()
        self.buffers: dict[Hashable, NodeBatch] = {}

    def draw(self, epoch: int) -> Sequence[Hashable]:
        order = random_order(epoch_draws(self.seed, epoch), BATCHES, len(self.nodes))[0]
        self.epoch = epoch
        self.drawn = list(self.nodes.index_select(0, order).tensor_split(self.steps))
        self.shapes = [None] * self.steps  # known once the neighbours are drawn
        return self.shapes

    def load(self, step: int, count: int) -> Sequence[NodeBatch]:
        seeds = self.drawn[step]
        sample = self.sampler.sample(seeds, self.epoch * self.steps + step)
        hops = Hops.of(self.matrix, sample)
        if not self.padded:
            return (NodeBatch(seeds, hops),)
        hops = hops.padded()
        rows = seeds.new_full((hops.matrices[-1].shape[0],), -1)
        rows[: len(seeds)] = seeds
        batch = NodeBatch(rows, hops)
        self.shapes[step] = hops.sizes
        held = self.buffers.setdefault(hops.sizes, batch)
        for buffer, value in zip(held.tensors(), batch.tensors(), strict=True):
            buffer.copy_(value)
        return (held,)
