"""A training that lives in a folder: it can be stopped, resumed, and leaves a bundle."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch_geometric.data import Data

from quatgraph import config as configs
from quatgraph.errors import Mistake
from quatgraph.presets import protocols
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.problem import load_data
from quatgraph.tasks.node.run import DIVERGED, Member, bundle_of, members_of, merit, run
from quatgraph.training.bundle import load_bundle, save_bundle
from quatgraph.training.checkpoint import has_checkpoint, remove_checkpoint
from quatgraph.training.record import RunRecord, append_records, read_records
from quatgraph.training.runtime import NO_DEADLINE, Deadline, ensure_folder

RECORDS = "records.jsonl"
SCALED = {
    "none": "as they are",
    "row": "each row scaled to sum 1",
    "standard": "each column standardised",
}


@dataclass(frozen=True, slots=True)
class Job:
    """What a finished training left."""

    folder: Path
    records: list[RunRecord]
    chosen: RunRecord
    """The run in the bundle: the best on validation data."""
    configs: int
    """Configurations among which it was chosen."""
    scaling: str
    """What was done to the features, in words; empty for a graph without."""


def default_candidates(config: NodeConfig, fixed: Container[str] = ()) -> list[NodeConfig]:
    """The few settings that are tried on a person's own graph; validation data decides.

    Args:
        fixed: Settings, as ``train.lr``, that stay as they are.
    """
    values = configs.to_dict(config)
    grid = {key: tried for key, tried in protocols("node")["own"].items() if key not in fixed}
    return [configs.build(NodeConfig, made) for made in configs.expand_grid(values, grid)]


def train_in_folder(
    candidates: Sequence[NodeConfig],
    folder: Path,
    *,
    device: torch.device,
    data: Data | None = None,
    resume: bool = False,
    deadline: Deadline = NO_DEADLINE,
    progress: Callable[[str, int, int], None] = lambda title, done, total: None,
) -> Job:
    """Trains every candidate on every split and seed; the best on validation data is the bundle.

    Args:
        candidates: Configurations that share their data.
        data: The graph, if it is not the one the configurations name.
        resume: Whether to go on where an earlier call with the same candidates stopped.

    Raises:
        Paused: The deadline passed; ``resume`` goes on from there.
    """
    data = data or load_data(candidates[0].data)
    ensure_folder(folder)
    records_at = folder / RECORDS
    done = read_records(records_at) if records_at.exists() else []
    if not resume and (done or has_checkpoint(folder)):
        raise Mistake(f"{folder} holds a training already: choose another folder, or resume it")
    members = [member for config in candidates for member in members_of(config, data)]
    finished = {(r.config_digest, r.split, r.seed): r for r in done}
    same_data = all(r.data_digest == data.digest for r in done)
    if not same_data or not finished.keys() <= {_key(member) for member in members}:
        raise Mistake(
            f"{folder} holds a training with other settings or data: choose another folder"
        )
    missing = [member for member in members if _key(member) not in finished]
    best = max((merit(r.metrics) for r in done), default=DIVERGED)
    for outcome in run(
        missing,
        data,
        device=device,
        keep_curves=len(members) <= 30,
        checkpoint=lambda _: folder,
        resume=resume,
        deadline=deadline,
        progress=progress,
    ):
        index = outcome.best()
        if merit(outcome.records[index].metrics) > best:
            best = merit(outcome.records[index].metrics)
            save_bundle(folder, bundle_of(outcome, index, data))
        append_records(records_at, outcome.records)
        remove_checkpoint(folder)
        done = done + outcome.records
    if best == DIVERGED:
        raise Mistake("every run diverged: lower train.lr, and choose another folder")
    chosen = max(done, key=lambda r: merit(r.metrics))
    scaling = load_bundle(folder, task="node").card["scaling"]
    return Job(folder, done, chosen, len(candidates), SCALED[scaling["kind"]] if scaling else "")


def _key(member: Member) -> tuple[str, int, int]:
    return configs.digest(member.config.identity()), member.split, member.seed
