"""A training in a folder: it can be stopped and resumed, and leaves a bundle."""

import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.files import lock_folder, remove_leftovers, unwritable
from quatgraph.tasks.config import Config
from quatgraph.tasks.overflow import ADVICE
from quatgraph.tasks.portfolio import RUNS, combine_runs, has_runs, remove_runs, save_runs
from quatgraph.tasks.refit import finish_refit
from quatgraph.tasks.runs import Outcome, bundle_key_of, bundle_of, run
from quatgraph.tasks.selection import (
    DIVERGED,
    choose_by_validation,
    drop_diverged,
    select_group,
)
from quatgraph.tasks.task import AnyTask, Card, ConfigT, Dataset, DataT, Member, ProblemT, Task
from quatgraph.training.bundle import BUNDLE, bundle_key, load_bundle, save_bundle
from quatgraph.training.checkpoint import (
    CHECKPOINT,
    has_checkpoint,
    load_checkpoint,
    remove_checkpoint,
)
from quatgraph.training.context import Context
from quatgraph.training.loop import Paused
from quatgraph.training.record import RunRecord, append_records, read_records
from quatgraph.training.runtime import map_leaves

RECORDS = "records.jsonl"
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
    selection: list[Card]
    """If runs were combined: for each split and seed, the metrics of the ``single`` best run and of
    the ``combination``; see :func:`quatgraph.tasks.portfolio.combine_runs`."""
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
            {
                "split": run.split,
                "seed": run.seed,
                "single": run.metrics,
                "combination": run.metrics,
            }
            for run in choose_by_validation(self.healthy)
        ]

    @property
    def num_bundled(self) -> int:
        """Number of runs in the bundle."""
        return len(self.members)

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
        varied = _varied_settings(task, candidates)
        _check_validation(task, candidates[0], data, varied)
        members = [member for config in candidates for member in task.members(config, data)]
        _check_data_is_kept(candidates[0], replaced)
        done = _read_done(folder, members, data) if context.resume else []
        if context.resume and not holds_training(folder):
            context.log(f"{folder} holds nothing to resume: training from the beginning")
        notes = [*data.notes]
        for note in notes:
            context.log(note)
        finished = {(r.config_digest, r.split, r.seed) for r in done}
        missing = [member for member in members if _run_key(member) not in finished]
        healthy = drop_diverged(done)
        if combine and missing and not all((folder / RUNS / r.ensemble).is_dir() for r in healthy):
            raise UserError(
                f"{folder} holds a finished training of fewer models or seeds, which cannot be "
                "extended: choose another folder, or replace it with --overwrite"
            )
        best = select_group(done).score if done else DIVERGED
        diverged: dict[str, str] = {}
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in replaced}
        outdated = [path for path in modes if path.name not in BUNDLE]

        def advance(title: str, epochs: int, total: int) -> None:
            while outdated:  # only now: nothing is lost if the training cannot start
                _remove(outdated.pop(0))
                remove_runs(folder)
            context.progress(title, epochs, total)

        advancing = replace(context, progress=advance)

        def save_combination() -> None:
            made = has_runs(folder) and combine_runs(
                task, folder, [record.ensemble for record in done], data, context.device
            )
            if made:
                save_bundle(folder, made)

        def trained() -> Iterator[Outcome[ConfigT, ProblemT]]:
            try:
                yield from run(task, missing, data, advancing, checkpoint=lambda _: folder)
            except Paused:
                save_combination()
                raise

        for outcome in trained():
            if len(members) <= CURVES:
                outcome = outcome.with_curves()
            diverged |= _describe_diverged(outcome, varied)
            group = select_group(outcome.records)
            if group.score > best:
                best = group.score
                bundled = group.healthy if task.averages_runs else [group.best]
                picks = [(outcome, outcome.records.index(record), 1) for record in bundled]
                for path in filter(Path.is_symlink, modes):
                    _remove(path)  # a new file takes its place, not that of its target
                save_bundle(folder, bundle_of(task, picks, data))
            if combine:
                save_runs(folder, task, outcome, data)
            append_records(folder / RECORDS, outcome.records)
            remove_checkpoint(folder)
            done = done + outcome.records
        if best == DIVERGED:
            _remove(folder / RECORDS)  # so that the next training can use the folder
            cause = task.explain_overflow(data, task.prepare(data, candidates[0], context.device))
            raise UserError(_explain_all_diverged(diverged, cause))
        save_combination()
        remove_runs(folder)
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


def _read_done(folder: Path, members: Sequence[Member[ConfigT]], data: Dataset) -> list[RunRecord]:
    """Reads the records of a training to resume; refuses those of another training."""
    done = read_records(folder / RECORDS) if (folder / RECORDS).exists() else []
    wanted = {_run_key(member) for member in members}
    same = all(r.data_digest == data.digest for r in done)
    same = same and {(r.config_digest, r.split, r.seed) for r in done} <= wanted
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
    checkpoint = load_checkpoint(folder)
    if checkpoint and checkpoint[1]["key"].split()[0] in {record.ensemble for record in done}:
        remove_checkpoint(folder)  # the process was killed just after recording the ensemble
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
        metrics=map_leaves(card["metrics"], _restore_nan),
        summary=task.summarize(card),
        selection=map_leaves(card.get("selection", []), _restore_nan),
        notes=notes,
    )


def _restore_nan(value: object) -> object:
    """A card holds ``null`` for a metric that is not defined."""
    return math.nan if value is None else value


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


def _run_key(member: Member[ConfigT]) -> tuple[str, int, int]:
    return configs.digest(member.config.identity()), member.split, member.seed


def _varied_settings(task: AnyTask, candidates: Sequence[Config]) -> list[str]:
    """The settings in which the candidates differ; those that may vary in an ensemble first."""
    first, *others = (configs.flatten(config.identity()) for config in candidates)
    keys = dict.fromkeys((*(key for key in task.varying if key in first), *first))
    # Models read different settings: what only some of them have does not distinguish the others.
    return [
        key for key in keys if any(other.get(key, first[key]) != first[key] for other in others)
    ]
