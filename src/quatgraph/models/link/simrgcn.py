"""SimRGCN, the real counterpart of SimQGNN."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.models.link.simqgnn import EntityGraphOptions, SimQGNN
from quatgraph.ops.rounded_linear import rounded_linear


@dataclass(frozen=True, slots=True, kw_only=True)
class SimRGCNOptions(EntityGraphOptions):
    name: Literal["simrgcn"] = "simrgcn"


class SimRGCN(SimQGNN):
    """SimQGNN with real GCN layers of the same width, which have four times the weights."""

    Options = SimRGCNOptions

    def conv(self, width: int) -> nn.Module:
        return _RealConv(width)


class _RealConv(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        bound = width**-0.5
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        dtype, weight = adjacency.product_dtype, self.linear.weight
        return adjacency @ (self.linear(x) if dtype is None else rounded_linear(x, weight, dtype))
