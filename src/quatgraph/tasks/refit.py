"""Trains the members of a bundle again, on all labels."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
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


REFIT = "refit"
"""The folder of the new bundle, below that of the training, until it replaces the old one."""


def finish_refit(folder: Path) -> None:
    """Replaces a bundle by the one that a refit has left beside it, if that is whole."""
    made = folder / REFIT
    if not made.is_dir():
        return
    with suppress(UserError):  # killed while it was written: the old model is whole
        save_bundle(folder, load_bundle(made))
    rmtree(made)


def refit(
    task: Task[ConfigT, DataT, ProblemT],
    folder: Path,
    context: Context,
    data: DataT | None = None,
) -> None:
    """Trains the configurations of a bundle again on all labels, those of validation and test data
    too, and replaces its members.

    Each configuration is trained once, for as many epochs as were selected before (on average over
    splits and seeds) at a constant learning rate, and keeps its weight. The reported metrics stay
    those of the members before.

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
            train = replace(
                config.train, epochs=epochs, select="last", labels="all", plateau_factor=1.0
            )
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
        earlier = list(chosen.values())
        for entry, (outcome, index, _) in zip(made.card["members"], picks, strict=True):
            # Not those on labels that it learned from.
            entry["metrics"] = earlier[members.index(outcome.members[index])][0]["metrics"]
        # First beside the model: if the process is killed, one of both is whole.
        save_bundle(folder / REFIT, Bundle(made.card | kept | {"refit": True}, made.tensors))
        finish_refit(folder)
