"""The input features of nodes and edges, encoded for new graphs as for the training graphs."""

from collections.abc import Sequence
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
        codes = self.codes(graphs)
        if (graphs.attributes is None) != (self.scaling is None):
            has, had = ("no", "") if graphs.attributes is None else ("", "no ")
            raise UserError(
                f"the graphs have {has or 'some'} node attributes, but the model was trained with "
                f"{had or 'some '}node attributes; give graphs like those it was trained on"
            )
        if graphs.attributes is None or self.scaling is None:
            return codes
        attributes = self.scaling.apply(graphs.attributes)
        refuse_beyond(attributes, partial(_describe_attribute, graphs))
        return torch.cat((_one_hot(codes), attributes), dim=1)

    def codes(self, graphs: Graphs) -> Codes:
        """Encodes the tags or degrees of all nodes, as in :meth:`of`."""
        code, known = self._encode(graphs)
        return Codes(code, known.float(), len(self.names))

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
        return _look_up(self.names, graphs.tag_names, graphs.tags)


@dataclass(frozen=True, slots=True)
class EdgeFeatures:
    """A one-hot code of each edge's label, and the edge's real features; either or both.

    Attributes:
        names: The label of each code, in order; empty without labels.
        scaling: The scaling of the real features; None if there are none.
    """

    names: tuple[str, ...]
    scaling: Scaling | None

    @classmethod
    def fit(cls, graphs: Graphs) -> Self | None:
        """Fits labels and the scaling of features to all graphs; None without either."""
        known = graphs.edge_attributes
        if graphs.edge_tags is None and known is None:
            return None
        scaling = None if known is None else Scaling.fit(known, "standard")
        return cls(tuple(graphs.edge_tag_names), scaling)

    @property
    def num_features(self) -> int:
        return len(self.names) + (0 if self.scaling is None else self.scaling.width)

    def of(self, graphs: Graphs) -> Codes | Tensor:
        """Encodes all edges: as codes, or with real features as a dense matrix. An unknown label
        gives a row of zeros."""
        self.check(graphs)
        parts: list[Tensor] = []
        if self.names:
            tags = graphs.edge_tags
            code, known = _look_up(
                self.names, graphs.edge_tag_names, torch.empty(0).long() if tags is None else tags
            )
            codes = Codes(code, known.float(), len(self.names))
            if self.scaling is None:
                return codes
            parts.append(_one_hot(codes))
        if self.scaling is not None:
            attributes = graphs.edge_attributes
            if attributes is None:
                attributes = torch.empty(0, self.scaling.width)
            scaled = self.scaling.apply(attributes)
            refuse_beyond(scaled, partial(_describe_edge_feature, graphs))
            parts.append(scaled)
        return torch.cat(parts, dim=1)

    def unknown(self, graphs: Graphs) -> list[str]:
        """The labels of the graphs' edges that training never saw, in order."""
        if not self.names or graphs.edge_tags is None:
            return []
        used = [graphs.edge_tag_names[tag] for tag in graphs.edge_tags.unique().tolist()]
        return [name for name in used if name not in self.names]

    def to_dict(self) -> configs.Values:
        scaling = None if self.scaling is None else self.scaling.to_dict()
        return {"names": list(self.names), "scaling": scaling}

    @classmethod
    def from_dict(cls, values: configs.Values) -> Self:
        scaling = values["scaling"]
        return cls(tuple(values["names"]), None if scaling is None else Scaling.from_dict(scaling))

    def check(self, graphs: Graphs) -> None:
        """Refuses edges that lack what the model was trained with."""
        if not graphs.edge_index.size(1):
            return
        labels = self.names and graphs.edge_tags is None
        if labels or (self.scaling is not None and graphs.edge_attributes is None):
            what = "labels" if labels else "features"
            raise UserError(
                f"the graphs have no edge {what}, but the model was trained with edge {what}; give "
                "graphs like those it was trained on"
            )
        if self.scaling is not None and graphs.edge_attributes is not None:
            width = graphs.edge_attributes.size(1)
            if width != self.scaling.width:
                raise UserError(
                    f"an edge of the graphs has {width} features, but the model was trained with "
                    f"{self.scaling.width}; give graphs like those it was trained on"
                )


def _look_up(names: Sequence[str], tag_names: Sequence[str], tags: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each tag in ``names``, int32, and whether it is there."""
    places = {name: place for place, name in enumerate(names)}
    mapped = torch.tensor([places.get(name, -1) for name in tag_names], dtype=torch.long)
    code = mapped[tags]
    return code.clamp(min=0).int(), code >= 0


def _one_hot(codes: Codes) -> Tensor:
    matrix = torch.zeros(codes.shape)
    return matrix.scatter_(1, codes.code.long()[:, None], codes.weight[:, None])


def _describe_edge_feature(graphs: Graphs, row: int, column: int) -> str:
    assert graphs.edge_attributes is not None
    graph = int(torch.searchsorted(graphs.edge_ptr, row, right=True)) - 1
    ends = (graphs.edge_index[:, row] - graphs.node_ptr[graph]).tolist()
    value = float(graphs.edge_attributes[row, column])
    return (
        f"graph {graphs.graph_ids[graph]!r} has {value:g} in column {column + 1} of the features "
        f"of its edge {ends}"
    )


def _describe_attribute(graphs: Graphs, row: int, column: int) -> str:
    assert graphs.attributes is not None
    graph = int(torch.searchsorted(graphs.node_ptr, row, right=True)) - 1
    node, value = row - int(graphs.node_ptr[graph]), float(graphs.attributes[row, column])
    return (
        f"graph {graphs.graph_ids[graph]!r} has {value:g} in column {column + 1} of the features "
        f"of its node {node}"
    )
