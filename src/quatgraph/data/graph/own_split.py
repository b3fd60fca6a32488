"""Splits and groups that the source of graphs gives them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from quatgraph.data.graph.collection import Graphs
from quatgraph.data.group_splits import encode_groups
from quatgraph.data.io.messages import count_noun
from quatgraph.data.labels import missing_hint
from quatgraph.data.splits import PARTS, SPLIT_WORDS, part_numbers, spelling_notes
from quatgraph.errors import UserError


def with_own_split(
    graphs: Graphs, splits: Sequence[str], groups: Sequence[str], at: Callable[[int], str]
) -> Graphs:
    """The graphs with the split and the group that their source names for each, empty for none."""
    parts = part_numbers(splits, SPLIT_WORDS, at) if any(splits) else None
    graphs.notes.extend(spelling_notes(splits))
    return replace(
        graphs,
        parts=None if parts is None else torch.tensor(parts, dtype=torch.long),
        groups=encode_groups(groups) if any(groups) else None,
    )


def check_own_split(graphs: Graphs, where: str) -> None:
    """Refuses a split that cannot be trained on or tested with; adds notes."""
    if graphs.groups is not None and graphs.parts is None:
        count = count_noun(len(graphs.groups.unique()), "group")
        graphs.notes.append(f"{where} has {count} of graphs, which the folds keep whole")
    if graphs.parts is None:
        return
    parts = torch.where(graphs.y >= 0, graphs.parts, -1)
    labels = {part: graphs.y[parts == place] for place, part in enumerate(PARTS)}
    for part in ("train", "test"):
        if not len(labels[part]):
            raise UserError(
                f"{where} has no labelled graph for the {part} part of its split; mark some as "
                f"{part}, or leave out the split"
            )
    if len(labels["train"].unique()) < 2:
        name = graphs.label_names[int(labels["train"][0])]
        raise UserError(
            f"all training graphs in {where} have the class {name!r}; mark graphs of another class "
            "as train"
        )
    sizes = ", ".join(f"{len(own):,} for {part}" for part, own in labels.items() if len(own))
    drawn = "" if len(labels["valid"]) else "; a part of those for train is held out for validation"
    graphs.notes.append(f"{where} gives its own split instead of folds: {sizes}{drawn}")
    if unused := int(((graphs.parts < 0) & (graphs.y >= 0)).sum()):
        verb = "is" if unused == 1 else "are"
        graphs.notes.append(
            f"{count_noun(unused, 'labelled graph')} {verb} in no part of the split"
        )
    counts = [labels[part].bincount(minlength=graphs.num_classes) for part in ("train", "test")]
    for name, trained, tested in zip(graphs.label_names, *counts, strict=True):
        if not trained:
            graphs.notes.append(
                f"the class {name!r} has no training graph in {where}: its graphs, "
                f"{100 * int(tested) / len(labels['test']):.1f} % of the test graphs, count as "
                f"errors{missing_hint(name)}"
            )
