"""How the tables of a graph are read."""

from collections.abc import Sequence
from dataclasses import dataclass

from quatgraph.data.encoding import Encoding


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How the tables of a graph are read.

    Attributes:
        directed: Whether an edge goes from its first node to its second only.
        split_seed: Seed of the split that is drawn if the tables give none.
        missing: Labels that count as missing, like an empty one.
        labels_needed: Whether to refuse a graph that cannot be trained on. Prediction needs no
            labels.
        id: The column of the node ids; this and the columns below are found by their usual names
            where empty.
        label: The column of the labels.
        split: The column that says train, valid or test.
        source: The column of the edges' first nodes.
        target: The column of the edges' second nodes.
        weight: The column of the edges' weights.
        encoding: How the columns of the training data became features; None learns it anew.
    """

    directed: bool = False
    split_seed: int = 0
    missing: Sequence[str] = ()
    labels_needed: bool = True
    id: str = ""
    label: str = ""
    split: str = ""
    source: str = ""
    target: str = ""
    weight: str = ""
    encoding: Encoding | None = None


DEFAULTS = ReadOptions()
