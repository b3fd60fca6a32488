"""The input features of nodes, encoded for new graphs as for the training graphs."""

from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.codes import Codes
from quatgraph.data.graph.collection import Graphs
from quatgraph.data.scaling import Scaling
from quatgraph.errors import UserError
from quatgraph.tasks.overflow import SUSPICIOUS, find_beyond, refuse_beyond

Kind = Literal["tags", "degrees"]


@dataclass(frozen=True, slots=True)
class NodeFeatures:
    """A one-hot code of each node's tag or degree, and the node's real attributes, if any.

    Attributes:
        kind: What is encoded.
        names: The tag or degree of each code, in order; degrees ascend.
        scaling: The scaling of the real attributes; None if there are none.
    """

    kind: Kind
    names: tuple[str, ...]
    scaling: Scaling | None

    @classmethod
    def fit(cls, graphs: Graphs, kind: Literal["auto", "tags", "degrees"]) -> Self:
        """Fits tags and the scaling of attributes to all graphs, test folds included, without
        labels.

        ``auto`` encodes tags, or degrees if all nodes have the same tag.
        """
        if kind == "auto":
            kind = "tags" if graphs.num_tags > 1 else "degrees"
        coded = graphs if kind == "tags" else graphs.with_degrees_as_tags()
        known = graphs.attributes
        return cls(
            kind, tuple(coded.tag_names), None if known is None else Scaling.fit(known, "standard")
        )

    def of(self, graphs: Graphs) -> Codes | Tensor:
        """Encodes all nodes: as codes, or with attributes as a dense matrix.

        An unknown tag gives a row of zeros, an unknown degree counts as the nearest known one.
        """
        code, known = self._encode(graphs)
        if (graphs.attributes is None) != (self.scaling is None):
            has, had = ("no", "") if graphs.attributes is None else ("", "no ")
            raise UserError(
                f"the graphs have {has or 'some'} node attributes, but the model was trained with "
                f"{had or 'some '}node attributes; give graphs like those it was trained on"
            )
        if graphs.attributes is None or self.scaling is None:
            return Codes(code, known.float(), len(self.names))
        one_hot = torch.zeros(graphs.num_nodes, len(self.names))
        one_hot.scatter_(1, code.long()[:, None], known.float()[:, None])
        attributes = self.scaling.apply(graphs.attributes)
        refuse_beyond(attributes, partial(_describe_attribute, graphs))
        return torch.cat((one_hot, attributes), dim=1)

    def explain_overflow(self, graphs: Graphs) -> str:
        """See :meth:`quatgraph.tasks.task.Task.explain_overflow`."""
        if graphs.attributes is None or self.scaling is None:
            return ""
        place = find_beyond(self.scaling.apply(graphs.attributes), SUSPICIOUS)
        return _describe_attribute(graphs, *place) if place else ""

    def unknown(self, graphs: Graphs) -> list[str]:
        """The tags or degrees of the graphs' nodes that training never saw, in order."""
        if self.kind == "degrees":
            used = [str(degree) for degree in graphs.degrees.unique().tolist()]
        else:
            used = [graphs.tag_names[tag] for tag in graphs.tags.unique().tolist()]
        seen = set(self.names)
        return [name for name in used if name not in seen]

    def to_dict(self) -> configs.Values:
        scaling = None if self.scaling is None else self.scaling.to_dict()
        return {"kind": self.kind, "names": list(self.names), "scaling": scaling}

    @classmethod
    def from_dict(cls, values: configs.Values) -> Self:
        scaling = values["scaling"]
        scaling = None if scaling is None else Scaling.from_dict(scaling)
        return cls(values["kind"], tuple(values["names"]), scaling)

    def _encode(self, graphs: Graphs) -> tuple[Tensor, Tensor]:
        """The code of each node, int32, and whether training saw it."""
        if self.kind == "degrees":
            seen = torch.tensor([int(name) for name in self.names])
            above = torch.searchsorted(seen, graphs.degrees).clamp(max=len(seen) - 1)
            below = (above - 1).clamp(min=0)
            nearer = (graphs.degrees - seen[below]) < (seen[above] - graphs.degrees)
            code = torch.where(nearer & (graphs.degrees >= seen[below]), below, above)
            return code.int(), torch.ones_like(code, dtype=torch.bool)
        places = {name: place for place, name in enumerate(self.names)}
        mapped = torch.tensor([places.get(name, -1) for name in graphs.tag_names])
        code = mapped[graphs.tags]
        return code.clamp(min=0).int(), code >= 0


def _describe_attribute(graphs: Graphs, row: int, column: int) -> str:
    assert graphs.attributes is not None
    graph = int(torch.searchsorted(graphs.node_ptr, row, right=True)) - 1
    node, value = row - int(graphs.node_ptr[graph]), float(graphs.attributes[row, column])
    return (
        f"graph {graphs.graph_ids[graph]!r} has {value:g} in column {column + 1} of the features "
        f"of its node {node}"
    )
