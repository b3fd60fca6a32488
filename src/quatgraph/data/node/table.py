"""A table of nodes as a graph: ids, labels, splits and features by columns.

The columns of ids, labels and splits are those that the options name, or those with a usual name.
All other columns are features, see :mod:`quatgraph.data.encoding`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from quatgraph.data.encoding import Encoding, encode
from quatgraph.data.io.frame import INDEX, Frame
from quatgraph.data.io.messages import quote_some
from quatgraph.data.labels import encode_labels, label_notes
from quatgraph.data.node.assembly import as_columns, complete_data
from quatgraph.data.node.edges import Edges
from quatgraph.data.node.options import ReadOptions
from quatgraph.data.splits import (
    SPLIT_WORDS,
    check_classes,
    check_split,
    drawn_note,
    part_numbers,
    spelling_notes,
    stratified_split,
)
from quatgraph.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from torch_geometric.data import Data

USUAL_COLUMNS = {
    "id": ("id", "node", "node_id", "nodeid"),
    "label": ("label", "class", "y", "target"),
    "split": ("split",),
}
"""Usual names of the columns, in lower case; the first one needs no note."""
Features = tuple[Tensor, list[str]]
"""Features ``(N, F)`` and their names, which may be none."""


@dataclass(frozen=True, slots=True)
class NodeTable:
    """A table of nodes with the columns of its ids, labels and splits."""

    frame: Frame
    roles: Mapping[str, str]
    """The column of each role that has one."""
    index: dict[str, int]
    """The number of each node by its id."""
    notes: list[str]

    @classmethod
    def from_frame(cls, frame: Frame, options: ReadOptions) -> "NodeTable":
        """Finds the columns; a table without ids, or with an id twice, is a :class:`UserError`."""
        roles, notes = _find_roles(frame, options)
        return cls(frame, roles, _number_nodes(frame, roles["id"]), notes)

    @property
    def feature_columns(self) -> list[str]:
        """The columns of no role."""
        used = {INDEX, *self.roles.values()}
        return [name for name in self.frame.columns if name not in used]

    def assemble(
        self, edges: Edges, options: ReadOptions, *, name: str, features: Features | None = None
    ) -> "Data":
        """The graph of the table and its edges; ``features`` replaces those of the columns."""
        encoding: Encoding | None = None
        notes = [*self.notes]
        if features is None:
            x, feature_names, encoding = self._encode(options, notes)
        else:
            x, feature_names = features
        words = self._words("label") or [""] * len(self.index)
        codes, label_names = encode_labels(words, options.missing)
        y = torch.from_numpy(codes)
        if options.labels_needed and not label_names:
            column = self.roles["label"]
            raise UserError(
                f"no node in {self.frame.where} has a label; fill in the column {column!r}"
            )
        masks = stratified_split(y, options.split_seed)
        where = self.frame.where
        if split := self._words("split"):
            part = torch.tensor(part_numbers(split, SPLIT_WORDS, self.frame.at))
            masks = part == 0, part == 1, part == 2
            split_notes = spelling_notes(split)
        else:
            sizes = [int(mask.sum()) for mask in masks]
            split_notes = [drawn_note(sizes, "nodes", where, options.split_seed)]
            if options.labels_needed:
                check_classes(y, label_names, "nodes")
        masks = as_columns(masks)
        if options.labels_needed:
            split_notes += check_split(y, masks, label_names, where=f"the split of {where}")
        notes += edges.notes
        if options.labels_needed:
            notes += [*split_notes, *label_notes(words, options.missing, ("node", "nodes"))]
        from torch_geometric.data import Data

        graph = Data(
            name=name,
            x=x,
            y=y,
            edge_index=edges.index,
            edge_weight=edges.weight,
            label_names=label_names,
            label_values=self._label_values(words, label_names),
            directed=options.directed,
            node_ids=list(self.index),
            feature_names=feature_names,
            encoding=encoding,
            notes=notes,
        )
        return complete_data(graph, masks)

    def _encode(
        self, options: ReadOptions, notes: list[str]
    ) -> tuple[Tensor | None, list[str], Encoding | None]:
        columns = self.feature_columns
        if options.encoding is not None:
            if not columns:
                return None, [], None
            _refuse_lacking(columns, options.encoding)
        encoded = encode(self.frame, columns, options.encoding)
        notes += encoded.notes
        return torch.from_numpy(encoded.x), encoded.encoding.feature_names, encoded.encoding

    def _words(self, role: str) -> list[str]:
        """The cells of a role; none if there is no such column."""
        return self.frame.words(self.roles[role]) if role in self.roles else []

    def _label_values(self, words: list[str], names: list[str]) -> list[Any]:
        """The label of each class as the table holds it: a number of a frame stays a number."""
        if "label" not in self.roles:
            return list(names)
        cells = self.frame.columns[self.roles["label"]]
        values: list[Any] = cells if isinstance(cells, list) else cells.tolist()
        first = dict(zip(reversed(words), reversed(values), strict=True))
        return [first[name] for name in names]


def _find_roles(frame: Frame, options: ReadOptions) -> tuple[dict[str, str], list[str]]:
    """The column of each role, and notes on those that were inferred."""
    set_ = {"id": options.id, "label": options.label, "split": options.split}
    needed = ("id", "label") if options.labels_needed else ("id",)
    # Another label column of the training data was a feature, and stays one.
    taken = {name for name in set_.values() if name}
    taken |= {column.name for column in options.encoding.columns} if options.encoding else set()
    roles: dict[str, str] = {}
    notes, inferred = [], []
    for role, name in set_.items():
        found = name or _find_usual(frame, role, taken, training=options.labels_needed)
        if found is not None and found in frame.columns:
            roles[role] = found
            if not name and found != role:
                inferred.append(f"{found!r} as {role}")
        elif name and (role in needed or options.labels_needed):
            hint = did_you_mean(name, frame.names) or f"; its columns are {quote_some(frame.names)}"
            raise UserError(f"{frame.where} has no column {name!r}, which data.{role} names{hint}")
        elif role == "id" and INDEX in frame.columns:
            roles["id"] = INDEX
            notes.append(f"{frame.where} has no column 'id'; its unnamed index holds the ids")
        elif role in needed:
            raise _lacks(frame, role, training=options.labels_needed)
    if INDEX in frame.columns and roles["id"] != INDEX and frame.delimiter:
        notes.append(f"{frame.where}: the first column has no name and is left out")
    if inferred:
        notes.append(f"the columns of {frame.where} are read by name: {', '.join(inferred)}")
    lookalikes = [
        name
        for name in frame.columns
        if name.casefold() in ("label", "class") and name not in roles.values()
    ]
    if lookalikes and options.encoding is None and "label" in roles:
        notes.append(
            f"{frame.where}: the label is {roles['label']!r}, and the features include "
            f"{quote_some(lookalikes)}; remove a column that tells the label"
        )
    return roles, notes


def _find_usual(frame: Frame, role: str, taken: set[str], *, training: bool) -> str | None:
    """The column with a usual name for a role; two of them are a :class:`UserError`."""
    free = [name for name in frame.columns if name not in taken]
    if role in free:
        return role
    for words in ((role,), USUAL_COLUMNS[role]):
        found = [name for name in free if name.casefold() in words]
        if len(found) > 1:
            remedy = f"choose one with {_setting(role)}" if training else "rename all but one"
            raise UserError(
                f"{frame.where} has the columns {quote_some(found)}, and each may be the {role}; "
                f"{remedy}"
            )
        if found:
            return found[0]
    return None


def _setting(role: str) -> str:
    return f"data.{role} (on the command line: --set data.{role}=NAME)"


def _lacks(frame: Frame, role: str, *, training: bool) -> UserError:
    found = ", ".join(frame.names[:8]) + (", ..." if len(frame.names) > 8 else "")
    return UserError(
        f"{frame.where} has no column {role!r}, its columns are {found}; name one of them "
        f"{role!r}{f', or choose it with {_setting(role)}' * training}"
    )


def _number_nodes(frame: Frame, column: str) -> dict[str, int]:
    at: Callable[[int], str] = frame.at
    index: dict[str, int] = {}
    for number, node in enumerate(frame.words(column)):
        if not node:
            raise UserError(f"{at(number)} has no id; give every node one")
        if node in index:
            raise UserError(
                f"{at(number)} repeats the node id {node!r} of {at(index[node])}; list each node "
                "once"
            )
        index[node] = number
    if not index:
        raise UserError(f"{frame.where} lists no nodes; add a line for each")
    return index


def _refuse_lacking(columns: list[str], encoding: Encoding) -> None:
    """Refuses a table without a column of the training data."""
    lacking = [column.name for column in encoding.columns if column.name not in columns]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        hint = did_you_mean(lacking[0], columns) or "; add it"
        raise UserError(
            f"the graph lacks the feature {lacking[0]!r}{more} of the training data{hint}"
        )
