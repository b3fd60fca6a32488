"""Trains the members of a bundle again, on all labels."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.files import lock_folder
from quatgraph.tasks.runs import bundle_of, run
from quatgraph.tasks.task import ConfigT, DataT, Member, ProblemT, Task
from quatgraph.training.bundle import Bundle, load_bundle, save_bundle
from quatgraph.training.context import Context

KEPT = ("metrics", "selection", "temperature", "smoothing", "key")
"""What a card keeps: measured before the refit, on held-out data."""


def refit(
    task: Task[ConfigT, DataT, ProblemT],
    folder: Path,
    context: Context,
    data: DataT | None = None,
) -> None:
    """Trains the configurations of a bundle again on all labels, those of validation and test data
    too, and replaces its members.

    Each configuration is trained once, for as many epochs as were selected before (on average over
    splits and seeds), and keeps its weight. The reported metrics stay those of the members before.

    Args:
        data: The task's data; by default what the bundle's configurations name.
    """
    with lock_folder(folder):
        card = load_bundle(folder, task=task.name).card
        if card.get("refit"):
            return
        chosen: dict[str, list[configs.Values]] = {}
        for entry in card["members"]:
            identity = configs.build(task.config, entry["config"]).identity()
            chosen.setdefault(configs.digest(identity), []).append(entry)
        members: list[Member[ConfigT]] = []
        for entries in chosen.values():
            config = configs.build(task.config, entries[0]["config"])
            epochs = max(1, round(fmean(entry["epoch"] for entry in entries)))
            train = replace(config.train, epochs=epochs, select="last", labels="all")
            members.append(Member(replace(config, train=train), 0, 0))
        weights = [sum(entry["weight"] for entry in entries) for entries in chosen.values()]
        data = task.load_for([member.config for member in members]) if data is None else data
        picks = []
        for outcome in run(task, members, data, replace(context, resume=False, estimate=False)):
            for index, member in enumerate(outcome.members):
                if outcome.divergence[index]:
                    raise UserError(
                        f"training on all labels diverged ({outcome.divergence[index]}); {folder} "
                        "keeps the model that was trained before"
                    )
                picks.append((outcome, index, weights[members.index(member)]))
        made = bundle_of(task, picks, data)
        kept = {key: card[key] for key in KEPT if key in card}
        save_bundle(folder, Bundle(made.card | kept | {"refit": True}, made.tensors))
