"""A training in a folder: it can be stopped and resumed, and leaves a bundle."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.files import lock_folder, remove_leftovers, unwritable
from quatgraph.tasks.config import Config
from quatgraph.tasks.ensembles import Problems, key_of_member, key_of_record, training_order
from quatgraph.tasks.overflow import ADVICE
from quatgraph.tasks.portfolio import Bundler
from quatgraph.tasks.refit import discard_refit, finish_refit
from quatgraph.tasks.runs import Outcome, bundle_key_of, train_ensembles
from quatgraph.tasks.selection import choose_by_validation, drop_diverged, select_group
from quatgraph.tasks.stored import RECORDS, RunStore
from quatgraph.tasks.task import AnyTask, Card, ConfigT, Dataset, DataT, Member, ProblemT, Task
from quatgraph.training.bundle import (
    BUNDLE,
    Bundle,
    bundle_key,
    load_bundle,
    restore_nan,
    save_bundle,
)
from quatgraph.training.checkpoint import CHECKPOINT, has_checkpoint
from quatgraph.training.context import Context
from quatgraph.training.loop import Paused
from quatgraph.training.record import RunRecord

FILES = (RECORDS, CHECKPOINT, *BUNDLE)
"""The files that a training writes."""
CURVES = 64
"""The most runs of a training for which records hold curves; more would make large files."""


@dataclass(frozen=True, slots=True)
class Job:
    """The result of a finished training."""

    folder: Path
    records: list[RunRecord]
    chosen: RunRecord
    """The best run on validation data, of the configuration with the best mean."""
    members: list[Card]
    """The entries of the bundle's members in its card."""
    num_configs: int
    """Number of configurations tried."""
    chosen_settings: configs.Values
    """The settings in which these differed, as ``train.lr``, with the chosen values."""
    metrics: dict[str, float]
    """The metrics of the bundle."""
    summary: list[str]
    """Sentences about the bundle; see :meth:`quatgraph.tasks.task.Task.summarize`."""
    smoothed: bool
    """Whether the bundle smooths its predictions over the graph."""
    selection: list[Card]
    """If runs were combined: for each split and seed, the metrics of the ``single`` best run and of
    the ``combination``; see :meth:`quatgraph.tasks.portfolio.Bundler.bundle_combination`."""
    notes: list[str]
    """Messages for the user: what was inferred from the data, and which runs diverged."""

    @property
    def results(self) -> list[Card]:
        """The ``selection``; where no runs were combined, with the run or runs of each split that
        are best on its validation data in both places.

        Each split uses what is best on its own validation data. The members of the bundle are
        selected by the mean over splits, whose data include other splits' test data.
        """
        return self.selection or [
            {"split": run.split, "seed": run.seed}
            | dict.fromkeys(("single", "combination"), run.metrics)
            for run in choose_by_validation(self.healthy)
        ]

    @property
    def num_bundled(self) -> int:
        """Number of runs in the bundle."""
        return len(self.members)

    @property
    def selects_several(self) -> bool:
        """Whether the bundle combines several configurations."""
        return len({configs.digest(member["config"]) for member in self.members}) > 1

    @property
    def shares(self) -> dict[str, float]:
        """The share of each model in the bundle's predictions, by its name."""
        total = sum(member["weight"] for member in self.members)
        shares: dict[str, float] = {}
        for member in self.members:
            name = member["config"]["model"]["name"]
            shares[name] = shares.get(name, 0.0) + member["weight"] / total
        return shares

    @property
    def healthy(self) -> list[RunRecord]:
        """The runs that did not diverge."""
        return drop_diverged(self.records)


def holds_training(folder: Path) -> bool:
    """Whether a folder holds a training, finished or not."""
    return (folder / RECORDS).exists() or has_checkpoint(folder)


def has_bundle(folder: Path) -> bool:
    """Whether a training has left a model, which is not that of a training it replaces."""
    return (folder / RECORDS).exists() and all((folder / name).exists() for name in BUNDLE)


def train_in_folder(
    task: Task[ConfigT, DataT, ProblemT],
    candidates: Sequence[ConfigT],
    folder: Path,
    context: Context,
    *,
    data: DataT | None = None,
    combine: bool = False,
) -> Job:
    """Trains every candidate on every split and seed, and bundles the best on validation data.

    The chosen configuration is the one with the best mean; see
    :func:`quatgraph.tasks.selection.select_group`. The bundle holds its best run, or all of them if
    the task averages runs. If runs are to be combined, it holds the members that
    :func:`quatgraph.tasks.portfolio.combine_runs` selects.

    Args:
        candidates: Configurations of the task that share their data.
        folder: Locked during the training, so that no other training writes there.
        context: With ``resume`` it continues an earlier call with the same candidates; with
            ``overwrite`` it replaces the :data:`FILES` of an earlier training.
        data: The task's data; by default what the configurations name.
        combine: Whether the bundle may hold several configurations, combined and calibrated.

    Raises:
        Paused: The deadline passed; ``resume`` continues from there. The bundle is made of the
            runs that are trained by then, if there are any.
    """
    if context.resume and context.overwrite:
        raise UserError("--resume continues a training and --overwrite replaces it: choose one")
    with lock_folder(folder):
        found = _find_files(folder, replaceable=context.resume or context.overwrite)
        replaced = [folder / name for name in found if context.overwrite]
        if context.resume:
            finish_refit(folder)
        data = task.load_for(candidates) if data is None else data
        candidates, notes = task.settle(candidates, data, context.device)
        varied = _varied_settings(task, candidates)
        _check_validation(task, candidates[0], data, varied)
        members = [member for config in candidates for member in task.members(config, data)]
        _check_data_is_kept(candidates[0], replaced)
        store = RunStore(task, folder, with_outputs=combine)
        done = _read_done(store, members, data) if context.resume else []
        if context.resume and not holds_training(folder):
            context.log(f"{folder} holds nothing to resume: training from the beginning")
        for note in notes:
            context.log(note)
        finished = set(map(key_of_record, done))
        is_whole = all(key_of_member(member) in finished for member in members)
        if combine and not is_whole and drop_diverged(done) and not store.holds_runs:
            raise UserError(
                f"{folder} holds a finished training of fewer models or seeds, which cannot be "
                "extended: choose another folder, or replace it with --overwrite"
            )
        places = training_order(task, members)
        bundler = Bundler(task, store, members, data, combine)
        # A combination that an earlier pause has left stays until there is a new one.
        is_combined = bool(drop_diverged(done)) and _holds_paused_combination(folder)
        diverged: dict[str, str] = {}
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in replaced}
        outdated: list[Callable[[], None]] = [
            partial(_remove, path) for path in modes if path.name not in BUNDLE
        ]
        if not context.resume:
            outdated += [store.remove_runs, partial(discard_refit, folder)]

        def advance(title: str, epochs: int, total: int) -> None:
            while outdated:  # only now: nothing is lost if the training cannot start
                outdated.pop()()
            context.progress(title, epochs, total)

        def save(bundle: Bundle | None) -> bool:
            if bundle is None:
                return False
            for path in filter(Path.is_symlink, modes):
                _remove(path)  # a new file takes its place, not that of its target
            save_bundle(folder, bundle)
            return True

        problems = Problems(task, data, context.device)
        outcomes = train_ensembles(
            problems,
            problems.make_ensembles(members, finished),
            replace(context, progress=advance),
            checkpoint=lambda _: folder,
        )
        try:
            for outcome in outcomes:
                if len(members) <= CURVES:
                    outcome = outcome.with_curves()
                diverged |= _describe_diverged(outcome, varied)
                store.save_runs(outcome, data)
                before, done = done, done + outcome.records
                done.sort(key=lambda record: places[key_of_record(record)])
                if not is_combined and _improves(bundler, before, done):
                    save(bundler.bundle_best(done))
                store.save_records(outcome)
                bundler.drop_runs(done)
                del outcome  # and with it the weights, before the next ones are trained
        except Paused:
            save(bundler.bundle_combination(done, context.device))
            raise
        if not drop_diverged(done):
            _remove(folder / RECORDS)  # so that the next training can use the folder
            cause = task.explain_overflow(data, problems.prepare(candidates[0]))
            raise UserError(_explain_all_diverged(diverged, cause))
        if not save(bundler.bundle_combination(done, context.device)):
            _mark_finished(folder)
        store.remove_runs()
        if diverged:
            notes.append(_explain_some_diverged(diverged, len(done)))
            context.log(notes[-1])
        for path, mode in modes.items():  # a private file stays private
            if path.exists():
                path.chmod(mode)
        return _make_job(task, folder, done, varied, len(candidates), notes)


def _find_files(folder: Path, *, replaceable: bool) -> list[str]:
    """The files of an earlier training, if they may be replaced or continued."""
    found = [name for name in FILES if os.path.lexists(folder / name)]
    if found and not replaceable:
        raise UserError(
            f"{folder} already holds {', '.join(found)}: choose another folder, continue the "
            "training with --resume (resume=True), or replace these files with --overwrite "
            "(overwrite=True)"
        )
    for name in FILES:
        remove_leftovers(folder / name)
        if name in found and not (folder / name).is_file():
            raise UserError(
                f"{folder / name} is not a file: move it away, or choose another folder"
            )
    return found


def _check_validation(task: AnyTask, config: Config, data: Dataset, varied: Sequence[str]) -> None:
    """Checks that there is validation data, if anything is to be selected by it."""
    if task.has_validation(config, data):
        return
    epoch = ["train.select=last"] * (config.train.select == "best-valid")
    one = "choose a model with --only and " * ("model.name" in varied)
    if unset := [*epoch, *(key for key in varied if not one or key.startswith("train."))]:
        raise UserError(
            f"there is no validation data to choose by: {one}set {' and '.join(unset)} yourself"
        )


def _check_data_is_kept(config: Config, files: Sequence[Path]) -> None:
    """Refuses to replace the file that is trained on."""
    source = config.data.path
    if source and Path(source).resolve() in [path.resolve() for path in files]:
        raise UserError(f"{source} is the data and would be replaced: choose another folder")


def _improves(
    bundler: Bundler[ConfigT, DataT, ProblemT], before: list[RunRecord], after: list[RunRecord]
) -> bool:
    """Whether another configuration is the best since some runs were added."""
    old, new = bundler.rank_finished(before)[:1], bundler.rank_finished(after)[:1]
    return [group.digest for group in old] != [group.digest for group in new]


def _holds_paused_combination(folder: Path) -> bool:
    """Whether the bundle combines the configurations that were finished when a training paused."""
    try:
        return {"selection", "unfinished"} <= load_bundle(folder).card.keys()
    except UserError:  # none, or half written
        return False


def _mark_finished(folder: Path) -> None:
    """Says on the card of a bundle that its training is finished."""
    with suppress(UserError):  # which reading the result reports
        bundle = load_bundle(folder)
        if bundle.card.pop("unfinished", None):
            save_bundle(folder, bundle)


def _read_done(
    store: RunStore[ConfigT, DataT, ProblemT], members: Sequence[Member[ConfigT]], data: Dataset
) -> list[RunRecord]:
    """Reads the records of a training to resume; refuses those of another training."""
    folder, done = store.folder, store.read_records()
    wanted = set(map(key_of_member, members))
    same = all(r.data_digest == data.digest for r in done)
    same = same and set(map(key_of_record, done)) <= wanted
    # Until a run is healthy, a bundle in the folder is the one that ``overwrite`` replaces.
    awaits_bundle = holds_training(folder) and not drop_diverged(done)
    if any(os.path.lexists(folder / name) for name in BUNDLE) and not awaits_bundle:
        own = {bundle_key_of(digest, data.digest) for digest, _, _ in wanted}
        same = same and bundle_key(folder) in own
    if not same:
        raise UserError(
            f"{folder} holds a training with other settings or data, or a damaged model: choose "
            "another folder, or replace it with --overwrite"
        )
    return done


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def _make_job(
    task: AnyTask,
    folder: Path,
    records: list[RunRecord],
    varied: Sequence[str],
    num_configs: int,
    notes: list[str],
) -> Job:
    try:
        card = load_bundle(folder, task=task.name).card
    except UserError as mistake:  # all runs are on record, so nothing would write it again
        raise UserError(
            f"{folder} has runs on record but no whole bundle: train again in another folder or "
            "with --overwrite"
        ) from mistake
    group = select_group(records)
    settings = configs.flatten(group.best.config)
    return Job(
        folder=folder,
        records=records,
        chosen=group.best,
        members=card["members"],
        num_configs=num_configs,
        chosen_settings={key: settings[key] for key in varied if key in settings},
        metrics=restore_nan(card["metrics"]),
        summary=task.summarize(card),
        smoothed=bool(card.get("smoothing")),
        selection=restore_nan(card.get("selection", [])),
        notes=notes,
    )


def _describe_diverged(
    outcome: Outcome[ConfigT, ProblemT], varied: Sequence[str]
) -> dict[str, str]:
    """Why runs diverged, by their settings, split and seed."""
    reasons = {}
    for member, why in zip(outcome.members, outcome.divergence, strict=True):
        if why:
            flat = configs.flatten(member.config.identity())
            keys = [key for key in dict.fromkeys(("train.lr", *varied)) if key in flat]
            chosen = [f"{key}={_format_value(flat[key])}" for key in keys]
            reasons[f"{', '.join(chosen)}, split {member.split}, seed {member.seed}"] = why
    return reasons


def _format_value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _explain_all_diverged(diverged: Mapping[str, str], cause: str) -> str:
    """The error message, with the cause in the data, or else with one of the runs."""
    if cause:
        return f"every run diverged, because {cause}, {ADVICE}; nothing was saved"
    named = "".join(f"; {why} ({name})" for name, why in list(diverged.items())[:1])
    return f"every run diverged: lower train.lr{named}; nothing was saved"


def _explain_some_diverged(diverged: Mapping[str, str], num_runs: int) -> str:
    name, why = next(iter(diverged.items()))
    more = f", and {len(diverged) - 1} more" if len(diverged) > 1 else ""
    return (
        f"{len(diverged)} of {num_runs} runs diverged and "
        f"{'is' if len(diverged) == 1 else 'are'} left out: {name} ({why}){more}"
    )


def _varied_settings(task: AnyTask, candidates: Sequence[Config]) -> list[str]:
    """The settings in which the candidates differ; those that may vary in an ensemble first."""
    first, *others = (configs.flatten(config.identity()) for config in candidates)
    keys = dict.fromkeys((*(key for key in task.varying if key in first), *first))
    # Models read different settings: what only some of them have does not distinguish the others.
    return [
        key for key in keys if any(other.get(key, first[key]) != first[key] for other in others)
    ]
