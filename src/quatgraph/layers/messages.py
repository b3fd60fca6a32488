"""Messages along edges with labels or features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.codes import Codes
from quatgraph.layers.linear import Matrix


@dataclass(frozen=True, slots=True, eq=False)
class MessageGraph:
    r"""A graph prepared for messages that depend on their edge, as in PyG's ``GINEConv``.

    .. math:: \mathbf{y}_v = a_{v,v} \, \mathbf{x}_v + \sum_{u \in \mathcal{N}_v} a_{v,u} \,
        \mathrm{ReLU}(\mathbf{x}_u + \mathbf{e}_{v,u})

    A node sends the same message along all its edges with the same label, so the number of messages
    S never exceeds the number of edges. Each message is computed once. Both halves are sparse
    products, without atomics.

    Attributes:
        senders: The sender of each message, ``(S, N)``.
        sums: The messages that each node receives, with the weights :math:`a_{v,u}`, ``(N, S)``.
        loops: The diagonal of the weights :math:`a_{v,v}`, ``(N, N)``; None if all are 1.
        features: The label or the features of each message's edge, ``(S, D)``.
    """

    senders: Matrix
    sums: Matrix
    loops: Matrix | None
    features: Codes | Tensor

    def sum_messages(self, x: Tensor, embed: Callable[[Codes | Tensor], Tensor]) -> Tensor:
        """The sums :math:`\\mathbf{y}_v`, ``(N, F) -> (N, F)``.

        Args:
            embed: Maps ``features`` to vectors of edges, ``(S, D) -> (S, F)``.
        """
        messages = (self.senders @ x + embed(self.features)).relu()
        own = x if self.loops is None else self.loops @ x
        return own + self.sums @ messages


def _flatten(graph: MessageGraph) -> tuple[list[Any], None]:
    return [graph.senders, graph.sums, graph.loops, graph.features], None


def _unflatten(children: Any, context: None) -> MessageGraph:
    return MessageGraph(*children)


pytree.register_pytree_node(MessageGraph, _flatten, _unflatten)
