"""Where a training runs, for how long, and where it reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from quatgraph.training.runtime import NO_DEADLINE, Deadline


@dataclass(frozen=True, slots=True)
class Context:
    """What decides no number: the device aside, results do not depend on it."""

    device: torch.device
    deadline: Deadline = NO_DEADLINE
    """When to stop with a checkpoint."""
    resume: bool = False
    """Whether to continue from checkpoints."""
    overwrite: bool = False
    """Whether to replace an earlier training: its records after the first epoch, its model only by
    a new one."""
    estimate: bool = False
    """Whether to time a few epochs of each of several ensembles first, and log how long all of
    them take."""
    cluster: Mapping[str, int] | None = None
    """What an ensemble takes of a Ray cluster, ``num_cpus`` and ``num_gpus``, if such a cluster is
    to train; see :func:`quatgraph.tasks.cluster.connect`."""
    progress: Callable[[str, int, int], None] = lambda title, done, total: None
    """Called with what is trained, the epochs done and the total."""
    log: Callable[[str], None] = lambda message: None
    """Called with messages for the user: notes on the data, long training times, diverged runs."""
