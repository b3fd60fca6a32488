"""Metrics of node classifiers that take sorting, on the nodes of a part alone."""

from dataclasses import dataclass

from torch import Tensor

from quatgraph.metrics.classification import MASKED_METRICS, Metric


@dataclass(frozen=True, slots=True)
class PartNodes:
    """The nodes of a part of each member's split, padded to the same number K."""

    nodes: Tensor
    """Indices, ``(M, K)``."""
    filled: Tensor
    """1, or 0 for padding, ``(M, K)``."""

    @classmethod
    def of(cls, mask: Tensor) -> "PartNodes":
        """The nodes of a mask of 0 and 1, ``(M, N)``; waits for the device."""
        largest = int(mask.sum(dim=1).max())
        nodes = mask.argsort(dim=1, descending=True, stable=True)[:, :largest]
        return cls(nodes, mask.gather(1, nodes))

    def measure(self, metric: Metric, logits: Tensor, labels: Tensor) -> Tensor:
        """A metric of each member, ``(M,)``, without waiting for the device.

        Shape:
            - logits: ``(M, N, C)``
            - labels: ``(N,)``
        """
        rows = self.nodes.unsqueeze(-1).expand(-1, -1, logits.size(-1))
        scores = logits.gather(1, rows).double().log_softmax(dim=-1)
        return MASKED_METRICS[metric](scores, labels[self.nodes], self.filled)
