"""Trainings on the CPU; options of the context are given by their own names."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from quatgraph.tasks import job, runs
from quatgraph.tasks.job import Job
from quatgraph.tasks.runs import Outcome
from quatgraph.tasks.task import Member
from quatgraph.training.context import Context

CPU = torch.device("cpu")


def context_of(options: dict[str, Any]) -> Context:
    """Takes the options of a context out of others."""
    names = [field.name for field in fields(Context)]
    return Context(**{"device": CPU} | {k: options.pop(k) for k in names if k in options})


def train_in_folder(task: Any, candidates: Sequence[Any], folder: Path, **options: Any) -> Job:
    return job.train_in_folder(task, candidates, folder, context_of(options), **options)


def run(task: Any, members: Sequence[Member], data: Any, **options: Any) -> Iterator[Outcome]:
    return runs.run(task, members, data, context_of(options), **options)


def changed(task: Any, **attributes: Any) -> Any:
    """The task with other attributes or methods."""
    other = copy.copy(task)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other
