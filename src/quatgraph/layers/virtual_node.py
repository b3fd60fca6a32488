"""A virtual node that is connected to all nodes of a graph."""

from torch import Tensor, nn

from quatgraph.blocks import spread
from quatgraph.layers.linear import Matrix, QuaternionLinear
from quatgraph.layers.pooling import mean_over_nodes
from quatgraph.ops.activation import ACTIVATIONS, Activation


class VirtualNode(nn.Module):
    r"""One step of a virtual node, which receives the mean of a graph's nodes and sends to all:

    .. math::
        \mathbf{u}'_{\mathcal G} = g\Big(\mathbf{W} \otimes \Big(\mathbf{u}_{\mathcal G} +
        \frac{1}{n} \sum_{v \in \mathcal G} \mathbf{h}_v\Big) + \mathbf{b}\Big), \qquad
        \mathbf{h}'_v = \mathbf{h}_v + \mathbf{u}'_{\mathcal G}

    A sum would grow with the number n of nodes, which ranges over three orders of magnitude.

    Args:
        width: Real width of the vectors.
        activation: g, applied to each component.
        linear: The class of the layer that holds :math:`\mathbf{W}`.

    Shape:
        - h: ``(N, width)``
        - pool: ``(G, N)``, the nodes of each graph, sorted by graph with padding last
        - before: :math:`\mathbf{u}`, ``(G, width)``; None for zero
        - output: :math:`\mathbf{h}'` and :math:`\mathbf{u}'`
        - with several members, all of these and the parameters have a leading ``M``
    """

    def __init__(
        self,
        width: int,
        activation: Activation = "relu",
        linear: type[nn.Module] = QuaternionLinear,
    ) -> None:
        super().__init__()
        self.linear = linear(width, width, bias=True)
        self.activation = ACTIVATIONS[activation]

    def forward(
        self, h: Tensor, pool: Matrix, before: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        mean = mean_over_nodes(h, pool)
        after = self.activation(self.linear(mean if before is None else before + mean))
        return h + spread(pool, after), after
