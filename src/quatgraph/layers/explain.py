"""Edge masks of PyG's explainers.

An explainer looks for ``MessagePassing`` modules, sets a mask on each, and expects the module to
multiply its messages by it. Our layers are none, so each of them yields one that holds its mask.
Explainers that replace or watch the messages themselves (GraphMask, attention, PGExplainer) find
none here.
"""

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.layers.linear import Edges


class Explainable(nn.Module):
    """A module that aggregates once over the edges of a graph, which PyG's explainers can mask.

    :meth:`named_modules`, and so ``modules()``, also yields the holder of its edge mask once PyG is
    loaded. The holder is neither a submodule nor part of the state.
    """

    _mask_holder: Any = None

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        memo = set() if memo is None else memo
        yield from super().named_modules(memo, prefix, remove_duplicate)
        if "torch_geometric.explain" not in sys.modules:
            return
        if self._mask_holder is None:
            object.__setattr__(self, "_mask_holder", _holder_type()())  # not a submodule
        if not remove_duplicate or self._mask_holder not in memo:
            memo.add(self._mask_holder)
            yield f"{prefix}.edge_mask" if prefix else "edge_mask", self._mask_holder

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_mask_holder"}

    def mask_edges(self, matrix: Adjacency, edges: Edges, *, self_loops: bool) -> Adjacency:
        """The matrix with its entries multiplied by the mask that an explainer has set, if any.

        As in PyG, self-loops that were added keep their weight, and degrees are those of the whole
        graph.

        Args:
            matrix: Prepared from ``edges`` alone, so that its entries are in the same order.
            edges: The ``edge_index`` that the explainer masks; a prepared graph is not masked.
            self_loops: Whether self-loops were added.
        """
        factors = self.edge_factors(matrix, edges, self_loops=self_loops)
        return matrix if factors is None else matrix.with_weight(matrix.weight * factors)

    def edge_factors(self, matrix: Adjacency, edges: Edges, *, self_loops: bool) -> Tensor | None:
        """The factor of each entry's message, ``(E,)``, if an explainer has set a mask and the
        matrix was prepared from an ``edge_index``."""
        holder = self._mask_holder
        if holder is None or not holder.explain or not isinstance(edges, Tensor):
            return None
        if edges.layout != torch.strided:
            raise UserError("an explainer masks the edges of an edge_index, not a sparse matrix")
        mask = holder._edge_mask
        mask = mask.sigmoid() if holder._apply_sigmoid else mask
        sender, receiver = edges.unbind()
        if self_loops:
            mask = torch.where(sender == receiver, 1, mask)
        factors = Adjacency.from_edge_index(edges, matrix.shape[0], mask, self_loops=self_loops)
        return factors.weight


@cache
def _holder_type() -> Any:
    from torch_geometric.nn import MessagePassing

    class EdgeMask(MessagePassing):
        """Holds what an explainer sets on a layer; it sends no messages itself."""

        explain: bool | None = None  # a property of MessagePassing that inspects its methods
        flow = "source_to_target"

        def __init__(self) -> None:
            nn.Module.__init__(self)  # MessagePassing's takes a thousand times as long
            self._edge_mask: Tensor | None = None
            self._loop_mask: Tensor | None = None
            self._apply_sigmoid = True

    return EdgeMask
