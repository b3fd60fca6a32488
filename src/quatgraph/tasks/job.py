"""A training that lives in a folder: it can be stopped, resumed, and leaves a bundle."""

import os
import stat
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from quatgraph import config as configs
from quatgraph.errors import Mistake
from quatgraph.files import locked, remove_leftovers, unwritable
from quatgraph.presets import protocols
from quatgraph.tasks.overflow import ADVICE
from quatgraph.tasks.runs import DIVERGED, Outcome, bundle_key_of, bundle_of, merit, run
from quatgraph.tasks.task import Config, Member, Task
from quatgraph.training.bundle import BUNDLE, bundle_key, load_bundle, save_bundle
from quatgraph.training.checkpoint import CHECKPOINT, has_checkpoint, load_state, remove_checkpoint
from quatgraph.training.record import RunRecord, append_records, read_records
from quatgraph.training.runtime import NO_DEADLINE, Deadline

RECORDS = "records.jsonl"
FILES = (RECORDS, CHECKPOINT, *BUNDLE)
"""What a training writes."""
CURVES = 64
"""Runs of a folder whose curves are kept; more would make large records of little use."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a finished training left."""

    folder: Path
    records: list[RunRecord]
    chosen: RunRecord
    """Of the best configuration the run that is best on validation data: the one in the bundle, or
    one of those in it."""
    kept: int
    """Runs in the bundle."""
    configs: int
    """Configurations among which it was chosen."""
    settled: dict[str, Any]
    """The settings in which those differed, as ``train.lr``, with the values that were chosen."""
    metrics: dict[str, float]
    """Those of the bundle."""
    said: list[str]
    """What the task has to say of the bundle, in sentences."""

    @property
    def healthy(self) -> list[RunRecord]:
        """The runs that did not diverge."""
        return healthy(self.records)


def default_candidates(task: Task, config: Config, fixed: Container[str] = ()) -> list[Any]:
    """The few settings that are tried on a person's own data; validation data decides.

    Args:
        fixed: Settings, as ``train.lr``, that stay as they are.
    """
    values = configs.to_dict(config)
    grid = configs.without(configs.read_by(values, protocols(task.name)["own"]), fixed)
    return [configs.build(task.config, made) for made in configs.expand_grid(values, grid)]


def holds_training(folder: Path) -> bool:
    """Whether there is a training in a folder, begun or finished."""
    return (folder / RECORDS).exists() or has_checkpoint(folder)


def train_in_folder(
    task: Task,
    candidates: Sequence[Config],
    folder: Path,
    *,
    device: torch.device,
    data: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    deadline: Deadline = NO_DEADLINE,
    progress: Callable[[str, int, int], None] = lambda title, done, total: None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Job:
    """Trains every candidate on every split and seed; validation data chooses the bundle.

    The configuration is that with the best mean over its runs, for one run's validation part may be
    a few items that it gets right by luck. Its best run is kept, or all of them, as the task says.
    (Of a configuration that memory forces into several ensembles, each part counts by itself.)

    Args:
        candidates: Configurations of the task that share their data.
        folder: Locked while it trains, so that no other training writes there.
        data: The task's data, if it is not what the configurations name.
        resume: Whether to go on where an earlier call with the same candidates stopped.
        overwrite: Whether to replace the :data:`FILES` that are there, once the first epoch is
            done.
        progress: As that of :func:`quatgraph.tasks.runs.run`; ``tell`` likewise.

    Raises:
        Paused: The deadline passed; ``resume`` goes on from there.
    """
    if resume and overwrite:
        raise Mistake("--resume continues a training and --overwrite replaces it: choose one")
    with locked(folder):
        there = [name for name in FILES if os.path.lexists(folder / name)]
        if there and not (resume or overwrite):
            raise Mistake(
                f"{folder} already holds {', '.join(there)}: choose another folder, continue the "
                "training with --resume (resume=True), or replace these files with --overwrite "
                "(overwrite=True)"
            )
        for name in FILES:
            remove_leftovers(folder / name)
            if name in there and not (folder / name).is_file():
                raise Mistake(
                    f"{folder / name} is not a file: move it away, or choose another folder"
                )
        data = task.load(candidates[0]) if data is None else data
        tried = _tried(task, candidates)
        if not task.validates(candidates[0], data):
            epoch = ["train.select=last"] * (candidates[0].train.select == "best-valid")
            if unset := [*epoch, *tried]:
                raise Mistake(
                    f"there is no validation data to choose by: set {' and '.join(unset)} yourself"
                )
        members = [member for config in candidates for member in task.members(config, data)]
        if overwrite:
            _keep_data(candidates[0], [folder / name for name in there])
        done = _resumed(folder, members, data) if resume else []
        if resume and not holds_training(folder):
            tell(f"{folder} holds nothing to resume: training from the beginning")
        for note in data.notes:
            tell(note)
        finished = {(r.config_digest, r.split, r.seed) for r in done}
        missing = [member for member in members if _key(member) not in finished]
        best = max((group.merit for group in _groups(done)), default=DIVERGED)
        diverged: dict[str, str] = {}
        replaced, modes = there if overwrite else [], dict[Path, int]()

        def advance(title: str, epochs: int, total: int) -> None:
            while replaced:  # only now, so that nothing is lost if the training cannot begin
                path = folder / replaced.pop(0)
                modes[path] = stat.S_IMODE(path.stat().st_mode)
                _remove(path)
            progress(title, epochs, total)

        for outcome in run(
            task,
            missing,
            data,
            device=device,
            keep_curves=len(members) <= CURVES,
            checkpoint=lambda _: folder,
            resume=resume,
            deadline=deadline,
            progress=advance,
            tell=tell,
        ):
            diverged |= _diverged(outcome, tried)
            group = best_group(outcome.records)
            if group.merit > best:
                best = group.merit
                kept = group.healthy if task.answers_together else [group.best]
                picks = [(outcome, outcome.records.index(record), 1) for record in kept]
                save_bundle(folder, bundle_of(task, picks, data))
            append_records(folder / RECORDS, outcome.records)
            remove_checkpoint(folder)
            done = done + outcome.records
        if best == DIVERGED:
            _remove(folder / RECORDS)  # so that the next training can have the folder
            why = task.explain_overflow(data, task.prepare(data, candidates[0], device))
            raise Mistake(_every_run_diverged(diverged, why))
        if diverged:
            tell(_some_runs_diverged(diverged, len(done)))
        for path, mode in modes.items():  # what replaces a private file is private too
            if path.exists():
                path.chmod(mode)
        return _job(task, candidates, folder, done, tried)


def _job(
    task: Task,
    candidates: Sequence[Config],
    folder: Path,
    done: list[RunRecord],
    tried: Sequence[str],
) -> Job:
    try:
        card = load_bundle(folder, task=task.name).card
    except Mistake as mistake:  # every run is on record, so nothing would write it again
        raise Mistake(
            f"{folder} has runs on record but no whole bundle: train again in another folder or "
            "with --overwrite"
        ) from mistake
    winner = best_group(done)
    chosen = winner.best
    return Job(
        folder=folder,
        records=done,
        chosen=chosen,
        kept=len(winner.healthy) if task.answers_together else 1,
        configs=len(candidates),
        settled={key: configs.flatten(chosen.config)[key] for key in tried},
        metrics=card["metrics"],
        said=task.said(card),
    )


def _resumed(folder: Path, members: Sequence[Member], data: Any) -> list[RunRecord]:
    """The finished runs among the members; a folder that holds anything else is refused."""
    done = read_records(folder / RECORDS) if (folder / RECORDS).exists() else []
    wanted = {_key(member) for member in members}
    same = all(r.data_digest == data.digest for r in done)
    same = same and {(r.config_digest, r.split, r.seed) for r in done} <= wanted
    if any(os.path.lexists(folder / name) for name in BUNDLE):
        own = {bundle_key_of(digest, data.digest) for digest, _, _ in wanted}
        same = same and bundle_key(folder) in own
    if not same:
        raise Mistake(
            f"{folder} holds a training with other settings or data, or a damaged model: choose "
            "another folder, or replace it with --overwrite"
        )
    state = load_state(folder)
    if state is not None and state["key"].split()[0] in {record.ensemble for record in done}:
        remove_checkpoint(folder)  # of an ensemble that is on record: one killed just after that
    return done


def _keep_data(config: Config, files: Sequence[Path]) -> None:
    """Refuses to replace the file that is trained on."""
    source = getattr(config.data, "path", None)
    if source and Path(source).resolve() in [path.resolve() for path in files]:
        raise Mistake(f"{source} is the data and would be replaced: choose another folder")


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one configuration that were trained together."""

    runs: list[RunRecord]

    @property
    def merit(self) -> tuple[float, float]:
        """The mean of theirs."""
        accuracies, losses = zip(*(merit(r.metrics) for r in self.runs), strict=True)
        return fmean(accuracies), fmean(losses)

    @property
    def healthy(self) -> list[RunRecord]:
        return healthy(self.runs)

    @property
    def best(self) -> RunRecord:
        return max(self.runs, key=lambda r: merit(r.metrics))


def best_group(records: Sequence[RunRecord]) -> Group:
    """The runs among which the bundle is chosen."""
    return max(_groups(records), key=lambda group: group.merit)


def _groups(records: Sequence[RunRecord]) -> list[Group]:
    runs: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        runs.setdefault((record.ensemble, record.config_digest), []).append(record)
    return [Group(group) for group in runs.values()]


def healthy(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Those that did not diverge."""
    return [record for record in records if merit(record.metrics) != DIVERGED]


def _diverged(outcome: Outcome, tried: Sequence[str]) -> dict[str, str]:
    """What diverged, by the name of each run that did: its settings, split and seed."""
    found = {}
    for member, why in zip(outcome.members, outcome.divergence, strict=True):
        if why:
            flat = configs.flatten(member.config.identity())
            chosen = [f"{key}={_number(flat[key])}" for key in dict.fromkeys(("train.lr", *tried))]
            found[f"{', '.join(chosen)}, split {member.split}, seed {member.seed}"] = why
    return found


def _number(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value


def _every_run_diverged(diverged: Mapping[str, str], cause: str) -> str:
    """The sentence, with what is wrong with the data, or else with one of the runs."""
    if cause:
        return f"every run diverged, because {cause}, {ADVICE}; nothing was saved"
    named = "".join(f"; {why} ({name})" for name, why in list(diverged.items())[:1])
    return f"every run diverged: lower train.lr{named}; nothing was saved"


def _some_runs_diverged(diverged: Mapping[str, str], runs: int) -> str:
    name, why = next(iter(diverged.items()))
    more = f", and {len(diverged) - 1} more" if len(diverged) > 1 else ""
    return (
        f"{len(diverged)} of {runs} runs diverged and {'is' if len(diverged) == 1 else 'are'} left "
        f"out: {name} ({why}){more}"
    )


def _key(member: Member) -> tuple[str, int, int]:
    return configs.digest(member.config.identity()), member.split, member.seed


def _tried(task: Task, candidates: Sequence[Config]) -> list[str]:
    """The settings in which the candidates differ; those that may vary in an ensemble first."""
    first, *others = (configs.flatten(config.identity()) for config in candidates)
    keys = dict.fromkeys((*(key for key in task.varying if key in first), *first))
    return [key for key in keys if any(other[key] != first[key] for other in others)]
