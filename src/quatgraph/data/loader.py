"""Mini-batches of the nodes of a large graph."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler
from torch_geometric.data import Data

from quatgraph.errors import UserError
from quatgraph.ops.random import BATCHES, epoch_draws, random_order
from quatgraph.sampling import NeighborSampler


class NeighborLoader(DataLoader[Data]):
    """Mini-batches of nodes with sampled neighbours, for any model. Works like PyG's
    ``NeighborLoader``, but needs no compiled library.

    A mini-batch is a PyG ``Data`` with the sampled graph: node features and labels, edge
    attributes, ``n_id``, ``e_id``, ``input_id`` (the positions in ``input_nodes``) and
    ``batch_size``. Its first ``batch_size`` nodes are those to predict. The samples of an epoch
    depend only on the seed and the epoch number, not on the workers.

    Args:
        data: The whole graph.
        num_neighbors: Maximum number of edges to sample per node, for each layer of the model; -1
            for all.
        input_nodes: The nodes to predict, as ids or as a mask; all by default.
        batch_size: Number of nodes to predict per mini-batch.
        shuffle: Whether to shuffle the nodes in every epoch.
        drop_last: Whether to drop the last mini-batch if it is smaller than the others.
        rescale: Whether to multiply ``edge_weight`` (1 if the graph has none) by the number of a
            receiver's edges over the number sampled. Weighted sums then equal those of the whole
            graph on average, as layers with a normalized adjacency need.
        seed: Seed of the order and the samples.
        others: As in :class:`torch.utils.data.DataLoader`, such as ``num_workers``; without
            ``sampler`` and ``batch_sampler``.

    Example:
        >>> data = Data(x=torch.randn(4, 8), edge_index=torch.tensor([[1, 2, 3], [0, 0, 1]]))
        >>> for batch in NeighborLoader(data, num_neighbors=[2, 2], batch_size=2):
        ...     print(batch.batch_size, batch.x.shape[1])
        2 8
        2 8
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        *,
        input_nodes: Tensor | None = None,
        batch_size: int = 1024,
        shuffle: bool = False,
        drop_last: bool = False,
        rescale: bool = False,
        seed: int = 0,
        **others: Any,
    ) -> None:
        if batch_size < 1:
            raise UserError(f"batch_size must be at least 1, got {batch_size}")
        for name in ("sampler", "batch_sampler"):
            if name in others:
                raise UserError(
                    f"{name} does not go with sampled neighbours; choose the nodes with "
                    "input_nodes, batch_size and shuffle"
                )
        if data.get("edge_index") is None:
            raise UserError("neighbours are sampled along edges: set data.edge_index")
        nodes = torch.arange(data.num_nodes) if input_nodes is None else input_nodes
        if nodes.dtype == torch.bool:
            if nodes.shape != (data.num_nodes,):
                raise UserError(
                    f"a mask must have an entry for each of the {data.num_nodes} nodes, got the "
                    f"shape {tuple(nodes.shape)}; of several splits take one column"
                )
            nodes = nodes.nonzero().flatten()
        whole, rest = divmod(len(nodes), batch_size)
        self._steps = _Steps(whole + (rest > 0 and not drop_last))
        options = self._steps.num_batches, shuffle, rescale, seed
        batches = _Batches(data, num_neighbors, nodes, batch_size, options)
        super().__init__(batches, batch_size=None, sampler=self._steps, **others)

    def __iter__(self) -> Any:
        self._steps.epoch += 1
        return super().__iter__()


class _Steps(Sampler[int]):
    """The numbers of an epoch's mini-batches, counted on from epoch to epoch."""

    def __init__(self, num_batches: int) -> None:
        self.num_batches, self.epoch = num_batches, -1

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[int]:
        start = self.epoch * self.num_batches
        return iter(range(start, start + self.num_batches))


class _Batches(Dataset[Data]):
    """The mini-batches of all epochs, indexed by number."""

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        nodes: Tensor,
        batch_size: int,
        options: tuple[int, bool, bool, int],
    ) -> None:
        self.num_batches, self.shuffle, self.rescale, seed = options
        self.seed = torch.tensor([seed])
        self.data, self.nodes, self.batch_size = data, nodes, batch_size
        self.sampler = NeighborSampler(data.edge_index, data.num_nodes, num_neighbors, seed=seed)
        self._order = 0, self._draw_order(0)

    def __getitem__(self, step: int) -> Data:
        epoch, batch = divmod(step, self.num_batches)
        if self._order[0] != epoch:
            self._order = epoch, self._draw_order(epoch)
        chosen = self._order[1][batch * self.batch_size : (batch + 1) * self.batch_size]
        sample = self.sampler.sample(self.nodes[chosen], step)
        made = Data(num_nodes=len(sample.n_id))
        for key, value in self.data:
            if key in ("edge_index", "num_nodes"):
                continue
            if self.data.is_node_attr(key):
                value = self._select(key, value, sample.n_id)
            elif self.data.is_edge_attr(key):
                value = self._select(key, value, sample.e_id)
            made[key] = value
        if self.rescale:
            given = made.get("edge_weight")
            made.edge_weight = sample.scale if given is None else given * sample.scale
        made.edge_index, made.n_id, made.e_id = sample.edge_index, sample.n_id, sample.e_id
        made.input_id, made.batch_size = chosen, len(chosen)
        made.num_sampled_nodes = sample.num_sampled_nodes
        made.num_sampled_edges = sample.num_sampled_edges
        return made

    def _select(self, key: str, value: Any, ids: Tensor) -> Any:
        """What some nodes or edges have of an attribute, a tensor or a list."""
        if isinstance(value, Tensor):
            return value.index_select(self.data.__cat_dim__(key, value), ids)
        return [value[place] for place in ids.tolist()]

    def _draw_order(self, epoch: int) -> Tensor:
        if not self.shuffle:
            return torch.arange(len(self.nodes))
        return random_order(epoch_draws(self.seed, epoch), BATCHES, len(self.nodes))[0]
