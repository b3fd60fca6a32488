"""Trains the members of a bundle again, on all labels."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.files import lock_folder
from quatgraph.tasks.ensembles import Problems, key_of_member, key_of_record
from quatgraph.tasks.runs import Outcome, train_ensembles
from quatgraph.tasks.stored import RunStore, merge_runs, remove_folder
from quatgraph.tasks.task import Card, ConfigT, DataT, Member, ProblemT, Task
from quatgraph.training.bundle import Bundle, load_bundle, save_bundle
from quatgraph.training.context import Context

KEPT = ("metrics", "selection", "temperature", "smoothing", "key")
"""What a card keeps: measured before the refit, on held-out data."""
REFIT = ".quatgraph-refit"
"""The folder of a refit, below that of the training, until its bundle replaces the old one: a
checkpoint, records and trained runs, at last the new bundle."""


def finish_refit(folder: Path) -> None:
    """Replaces a bundle by the one that a refit has left beside it, if that is whole."""
    try:
        made = load_bundle(folder / REFIT)
    except UserError:  # there is none, or it is not finished
        return
    save_bundle(folder, made)
    discard_refit(folder)


def discard_refit(folder: Path) -> None:
    """Removes what a refit has left beside the bundle."""
    remove_folder(folder / REFIT)


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
        context: With ``resume`` it continues an earlier call.
        data: The task's data; by default what the bundle's configurations name.

    Raises:
        Paused: The deadline passed; ``resume`` continues from there. The bundle is the old one.
    """
    with lock_folder(folder):
        if context.resume:
            finish_refit(folder)
        card = load_bundle(folder, task=task.name).card
        if card.get("refit") or not context.resume:
            discard_refit(folder)
        if card.get("refit"):
            return
        earlier: dict[str, list[Card]] = {}
        for entry in card["members"]:
            identity = configs.build(task.config, entry["config"]).identity()
            earlier.setdefault(configs.digest(identity), []).append(entry)
        members = [_member_on_all_labels(task, entries) for entries in earlier.values()]
        data = task.load_for([member.config for member in members]) if data is None else data
        if data.digest != card["data"]["digest"]:
            raise UserError(
                f"the data of {data.name!r} is no longer what the model was trained on: restore it"
            )
        store = RunStore(task, folder / REFIT)
        done = store.read_records()
        problems = Problems(task, data, context.device)
        outcomes = train_ensembles(
            problems,
            problems.make_ensembles(members, set(map(key_of_record, done))),
            replace(context, estimate=False),
            checkpoint=lambda _: store.folder,
        )
        for outcome in outcomes:
            _check_divergence(outcome, folder)
            store.save_runs(outcome, data)
            store.save_records(outcome)
            done = done + outcome.records
            del outcome  # and with it the weights, before the next ones are trained
        by_key = {key_of_record(record): record for record in done}
        stored = store.load_runs([by_key[key_of_member(member)] for member in members])
        weights = [sum(entry["weight"] for entry in entries) for entries in earlier.values()]
        made = merge_runs(list(zip(stored, weights, strict=True)))
        for entry, entries in zip(made.card["members"], earlier.values(), strict=True):
            entry["metrics"] = entries[0]["metrics"]  # not those on labels that it learned from
        kept = {key: card[key] for key in KEPT if key in card}
        # First beside the model: if the process is killed, one of both is whole.
        save_bundle(store.folder, Bundle(made.card | kept | {"refit": True}, made.tensors))
        finish_refit(folder)


def _member_on_all_labels(
    task: Task[ConfigT, DataT, ProblemT], entries: list[Card]
) -> Member[ConfigT]:
    """The run of a configuration that learns from all labels, from its members' entries."""
    config = configs.build(task.config, entries[0]["config"])
    epochs = max(1, round(fmean(entry["epoch"] for entry in entries)))
    train = replace(config.train, epochs=epochs, select="last", labels="all", plateau_factor=1.0)
    return Member(replace(config, train=train), 0, 0)


def _check_divergence(outcome: Outcome[ConfigT, ProblemT], folder: Path) -> None:
    """Gives up if a run diverged."""
    for why in filter(None, outcome.divergence):
        discard_refit(folder)
        raise UserError(
            f"training on all labels diverged ({why}); {folder} keeps the model that was trained "
            "before"
        )
