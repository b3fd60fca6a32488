"""Trains one model on several ranks, started by ``torchrun``."""

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from io import StringIO
from typing import Any

import torch
import typer

from quatgraph import config as configs
from quatgraph.callbacks import progress_bar
from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.models.link import check_shardable
from quatgraph.signals import exit_code
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.sharded import ShardedLinkTask
from quatgraph.training.context import Context
from quatgraph.training.launch import Launch, share_all
from quatgraph.training.runtime import NO_DEADLINE, Deadline, environment, resolve_device

Led = tuple[ShardedLinkTask, list[LinkConfig], Triples, Context]


@contextmanager
def lead(
    choose: Callable[[], tuple[Any, list[Any]]],
    device: str,
    max_minutes: float | None,
    ray: str | None,
) -> Iterator[Led]:
    """Joins the ranks, and yields on the first one what ``train_in_folder`` takes. The others
    follow it, and end with its exit code.

    Args:
        choose: Gives the task and the configurations to train.

    Raises:
        UserError: Ranks were started with other settings, data or versions, or one of them cannot
            train. The first one says so.
    """
    launch = Launch.find()
    assert launch is not None
    with launch.joined():
        task = ShardedLinkTask(launch)
        mistake, candidates, data = "", [], None
        deadline, place = NO_DEADLINE, torch.device("cpu")
        try:
            with redirect_stderr(StringIO()) if launch.rank else nullcontext():  # notes
                candidates = _check(choose, ray)
            deadline, place = Deadline(max_minutes), resolve_device(launch.device(device))
            if place.type == "cuda":
                torch.cuda.set_device(place)
            data = task.load(candidates[0])
        except UserError as error:
            mistake = str(error)
        mistakes = filter(None, share_all(mistake and _named(launch.rank, mistake)))
        problem = next(mistakes, "")
        if not problem:
            assert data is not None
            about = _describe(candidates[0], data)
            problem = _find_difference(share_all(about), data.num_entities)
        if launch.rank:
            if problem:
                raise typer.Exit(2)
            assert data is not None
            try:
                code = task.follow(data, place)
            except KeyboardInterrupt as interrupt:  # the first rank says how to go on
                code = exit_code(interrupt)
            raise typer.Exit(code)
        if problem:
            raise UserError(problem)
        assert data is not None
        with progress_bar() as update, task.leading():
            yield task, candidates, data, Context(place, deadline, progress=update)


def _check(choose: Callable[[], tuple[Any, list[Any]]], ray: str | None) -> list[LinkConfig]:
    """The configuration to train, if ranks can."""
    task, candidates = choose()
    if ray is not None:
        raise UserError(
            "--ray and torchrun both start processes: leave out one of them (torchrun shards the "
            "entities of one model, --ray spreads many models)"
        )
    if task.name != "link":
        raise UserError(
            "torchrun shards the entities of a knowledge graph: start `quatgraph train "
            f"{task.name}` without it"
        )
    check_shardable(candidates[0].model)
    return candidates


def _named(rank: int, mistake: str) -> str:
    return f"rank {rank} on {platform.node()}: {mistake}" if rank else mistake


def _describe(config: LinkConfig, data: Triples) -> dict[str, str]:
    """What must be the same on all ranks."""
    here = environment()
    return {
        "host": platform.node(),
        "quatgraph": here["quatgraph"],
        "commit": here["commit"],
        "torch": here["torch"],
        "settings": configs.digest(config.identity()),
        "data": data.digest,
    }


def _find_difference(ranks: Sequence[dict[str, str]], entities: int) -> str:
    """What keeps ranks from training together; empty if nothing does."""
    first = ranks[0]
    for rank, one in enumerate(ranks):
        where = f"rank {rank} on {one['host']}"
        commits = {one["commit"], first["commit"]} - {"unknown"}
        if one["quatgraph"] != first["quatgraph"] or len(commits) > 1:
            names = (f"{each['quatgraph']} ({each['commit']})" for each in (one, first))
            return (
                f"{where} runs quatgraph {' instead of '.join(names)}: install the same version on "
                "every node"
            )
        if one["torch"] != first["torch"]:
            return (
                f"{where} runs torch {one['torch']} instead of {first['torch']}: install the same "
                "version on every node"
            )
        if one["settings"] != first["settings"]:
            return (
                f"{where} was started with other settings than rank 0: start all ranks with the "
                "same options"
            )
        if one["data"] != first["data"]:
            return (
                f"{where} reads other data than rank 0 (digest {one['data'][:12]} instead of "
                f"{first['data'][:12]}): give every rank the same files"
            )
    if entities < len(ranks):
        return f"{entities} entities are too few for {len(ranks)} ranks: start at most {entities}"
    return ""
