"""Trained runs on disk, until a bundle is made of them."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Generic

from torch import Tensor

from quatgraph import config as configs
from quatgraph.tasks.combination import TrainedRun
from quatgraph.tasks.ensembles import RunKey, key_of_record
from quatgraph.tasks.runs import Outcome, bundle_of
from quatgraph.tasks.task import Card, ConfigT, DataT, ProblemT, Task
from quatgraph.training.bundle import Bundle, load_bundle, restore_nan, save_bundle
from quatgraph.training.checkpoint import load_checkpoint, remove_checkpoint
from quatgraph.training.record import RunRecord, append_records, read_records

RECORDS = "records.jsonl"
RUNS = ".quatgraph-runs"
"""The folder of trained runs, below that of a training, until they are bundled."""


@dataclass(frozen=True, slots=True)
class StoredRun(Generic[ConfigT]):
    """A run of a stored bundle."""

    bundle: Bundle
    index: int
    config: ConfigT

    @property
    def entry(self) -> Card:
        """Its entry in the bundle's card."""
        entry: Card = self.bundle.card["members"][self.index]
        return entry

    @property
    def digest(self) -> str:
        """The digest of its configuration."""
        return configs.digest(self.config.identity())

    def as_trained(self) -> TrainedRun:
        return TrainedRun(
            self.config,
            self.bundle.select_tensors(f"members.{self.index}"),
            self.bundle.select_tensors(f"outputs.{self.index}"),
            self.entry["split"],
        )


class RunStore(Generic[ConfigT, DataT, ProblemT]):
    """The records and trained runs of a folder. The runs of a configuration in one ensemble share a
    bundle; if an ensemble has no room for all runs of a configuration, it has several bundles.

    Args:
        with_outputs: Whether to store what classifiers predict for held-out data too, which a
            combination is selected by.
    """

    def __init__(
        self, task: Task[ConfigT, DataT, ProblemT], folder: Path, *, with_outputs: bool = False
    ) -> None:
        self.task, self.folder, self.with_outputs = task, folder, with_outputs

    @property
    def holds_runs(self) -> bool:
        """Whether there are runs that are not bundled yet."""
        return (self.folder / RUNS).is_dir()

    def read_records(self) -> list[RunRecord]:
        """The records of the folder. Removes the checkpoint of an ensemble that is on record."""
        path = self.folder / RECORDS
        done = read_records(path) if path.exists() else []
        checkpoint = load_checkpoint(self.folder)
        if checkpoint and checkpoint[1]["key"].split()[0] in {record.ensemble for record in done}:
            remove_checkpoint(self.folder)  # the process was killed just after recording it
        return done

    def save_runs(self, outcome: Outcome[ConfigT, ProblemT], data: DataT) -> None:
        """Stores the runs of an ensemble that did not diverge."""
        places: dict[Path, list[int]] = {}
        for place, (record, why) in enumerate(
            zip(outcome.records, outcome.divergence, strict=True)
        ):
            if not why:
                places.setdefault(self._path(record), []).append(place)
        for path, own in places.items():
            bundle = bundle_of(self.task, [(outcome, place, 1) for place in own], data)
            if self.with_outputs and outcome.fit.outputs:
                for number, place in enumerate(own):
                    outputs = outcome.fit.outputs[place].items()
                    bundle.tensors.update({f"outputs.{number}.{key}": v for key, v in outputs})
            save_bundle(path, bundle)

    def save_records(self, outcome: Outcome[ConfigT, ProblemT]) -> None:
        """Records the runs of an ensemble, which is then finished."""
        append_records(self.folder / RECORDS, outcome.records)
        remove_checkpoint(self.folder)

    def load_runs(self, records: Iterable[RunRecord]) -> list[StoredRun[ConfigT]]:
        """The runs of some records, in their order. Runs that are no longer stored are looked up in
        the folder's bundle; those that it does not hold either are left out."""
        wanted = {key_of_record(record): self._path(record) for record in records}
        paths = [path for path in dict.fromkeys(wanted.values()) if path.is_dir()]
        found: dict[RunKey, StoredRun[ConfigT]] = {}
        for path in [*paths, self.folder]:
            if path == self.folder and wanted.keys() <= found.keys():
                break
            bundle = load_bundle(path, task=self.task.name)
            for index, entry in enumerate(bundle.card["members"]):
                run = StoredRun(bundle, index, configs.build(self.task.config, entry["config"]))
                found.setdefault((run.digest, entry["split"], entry["seed"]), run)
        return [found[key] for key in wanted if key in found]

    def keep_runs(self, records: Iterable[RunRecord]) -> None:
        """Removes all stored runs but those of some records."""
        kept = {self._path(record) for record in records}
        for path in (self.folder / RUNS).iterdir() if self.holds_runs else ():
            if path not in kept:
                shutil.rmtree(path)

    def remove_runs(self) -> None:
        """Removes all stored runs; if the process is killed meanwhile, none of them count."""
        remove_folder(self.folder / RUNS)

    def _path(self, record: RunRecord) -> Path:
        return self.folder / RUNS / f"{record.ensemble}-{record.config_digest}"


def remove_folder(folder: Path) -> None:
    """Removes a folder, if it exists, and what an earlier call that was killed has left of it."""
    removed = folder.with_name(f"{folder.name}-removed")
    shutil.rmtree(removed, ignore_errors=True)
    if folder.is_dir():
        folder.replace(removed)
        shutil.rmtree(removed, ignore_errors=True)


def merge_runs(picks: Sequence[tuple[StoredRun[ConfigT], int]]) -> Bundle:
    """A bundle of stored runs of the same data, with their weights; its metrics are the weighted
    mean of theirs."""
    own = {"members", "metrics", "key", "environment", "finished", "format", "sha256"}
    first = picks[0][0].bundle.card
    card = {key: value for key, value in first.items() if key not in ("card_sha256", "unfinished")}
    tensors: dict[str, Tensor] = {}
    members = []
    for number, (run, weight) in enumerate(picks):
        others = {
            key: value
            for key, value in run.bundle.card.items()
            if key in card and key not in own and value != card[key]
        }
        members.append(others | run.entry | {"weight": weight})
        tensors |= {f"data.{k}": v for k, v in run.bundle.select_tensors("data").items()}
        states = run.bundle.select_tensors(f"members.{run.index}").items()
        tensors |= {f"members.{number}.{name}": value for name, value in states}
    metrics = [restore_nan(member["metrics"]) for member in members]
    weights = [weight for _, weight in picks]
    card["metrics"] = {
        name: fmean((each[name] for each in metrics), weights)
        for name in metrics[0]
        if all(name in each for each in metrics)
    }
    return Bundle(card | {"members": members}, tensors)
