"""Trains ensembles on a Ray cluster, one task each. Ray is imported only here, and only if used.

All nodes of the cluster must be trusted: Ray sends pickled objects between them.
"""

import math
import os
import platform
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from quatgraph.errors import UserError
from quatgraph.tasks import TASKS
from quatgraph.tasks.ensembles import Problems
from quatgraph.tasks.runs import LONG, Outcome, format_seconds, train_ensembles
from quatgraph.tasks.task import ConfigT, DataT, Member, ProblemT
from quatgraph.training.context import Context
from quatgraph.training.loop import Fit, Paused
from quatgraph.training.record import RunRecord
from quatgraph.training.runtime import environment, resolve_device

MAX_RETRIES = 3
"""How often an ensemble is trained again after its worker died."""
REPORT_EVERY = 1.0
"""Seconds between two reports of a worker's progress."""
CONNECT_SECONDS = 5.0
ESTIMATE_AFTER = 30.0
"""Seconds after which the remaining time is estimated."""


@contextmanager
def connect(address: str, device: str = "auto") -> Iterator[dict[str, int]]:
    """Joins a Ray cluster for a block, and yields what an ensemble takes of it; see
    :attr:`quatgraph.training.context.Context.cluster`.

    An ensemble takes one CPU, or ``OMP_NUM_THREADS`` of them, and a GPU where the cluster has any.

    Args:
        address: ``auto`` (``RAY_ADDRESS``, or the cluster of this machine), ``local`` (starts one
            on this machine) or ``HOST:PORT``.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UserError(
            "--ray needs Ray; install it with pip install 'quatgraph[cluster]'"
        ) from error
    if device not in ("auto", "cpu", "cuda"):
        raise UserError(f"Ray assigns the GPUs: use auto, cpu or cuda as device, not {device!r}")
    address = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    if address not in ("auto", "local"):
        _check_address(address)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except ConnectionError as error:
        if address in ("auto", "local"):
            raise UserError(_explain_absence(address)) from error
        raise UserError(
            f"{address} answers, but not as a Ray cluster that can be joined: check the address, "
            "and RAY_AUTH_MODE and RAY_AUTH_TOKEN if the cluster has a token"
        ) from error
    except (RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"cannot join the Ray cluster {address!r}: {reason}") from error
    try:
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own handler would end this process
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        num_gpus = max(node.get("GPU", 0) for node in nodes)
        if device == "cuda" and num_gpus < 1:
            raise UserError("the Ray cluster has no GPU: use --device cpu or auto")
        threads = torch.get_num_threads() if "OMP_NUM_THREADS" in os.environ else 1
        largest = max(1, int(max(node.get("CPU", 0) for node in nodes)))
        uses_gpu = device != "cpu" and num_gpus >= 1
        yield {"num_cpus": min(threads, largest), "num_gpus": int(uses_gpu)}
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuses an address at once that Ray would try for a minute."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UserError(f"--ray must be auto, local or HOST:PORT, got {address!r}")
    try:
        with socket.create_connection((host, int(port)), CONNECT_SECONDS) as found:
            if _speaks_http(found):
                raise UserError(f"{address} is a web server, not a Ray cluster: check the address")
    except (OSError, OverflowError) as error:
        raise UserError(_explain_absence(address)) from error


def _speaks_http(connection: socket.socket) -> bool:
    """Whether the server speaks HTTP/1; Ray would wait for minutes before giving up on it."""
    connection.settimeout(1)
    try:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return connection.recv(5) == b"HTTP/"
    except OSError:  # it closes the connection, or does not answer
        return False


def _explain_absence(address: str) -> str:
    where = "" if address == "auto" else f" at {address}"
    return (
        f"there is no Ray cluster{where}: start one with `ray start --head`, or use --ray local "
        "for this machine alone"
    )


def train_on_cluster(
    problems: Problems[ConfigT, DataT, ProblemT],
    ensembles: Sequence[list[Member[ConfigT]]],
    context: Context,
    method: str | None = None,
) -> Iterator[Outcome[ConfigT, ProblemT]]:
    """Trains ensembles on the cluster of the context, and yields each when it is done, in any
    order.

    An ensemble whose worker dies is trained again from the beginning, at most :data:`MAX_RETRIES`
    times. No checkpoints are written: ending the iteration abandons what is not done.

    Raises:
        Paused: The deadline passed.
    """
    import ray
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if not ensembles:
        return
    # On this node, so that it outlives every worker.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
    shared, resources = ray.put((problems.task.name, problems.data)), context.cluster or {}
    train = ray.remote(max_retries=MAX_RETRIES, retry_exceptions=False, **resources)(_train)
    monitor = _Monitor(problems, ensembles, context)
    pending = {}
    try:
        for number, ensemble in enumerate(ensembles):
            # References: a worker of another version could not read what they refer to.
            references = [shared, ray.put((ensemble, method))]
            report = queue, number
            pending[train.remote(environment(), references, resources, report)] = number
        while pending:
            left = context.deadline.seconds_left()
            ready, _ = ray.wait(list(pending), timeout=max(0.0, min(REPORT_EVERY, left)))
            monitor.update(queue.get_nowait_batch(queue.qsize()))
            if not ready and left <= 0:
                raise Paused(monitor.num_finished, monitor.total)
            for reference in ready:
                number = pending.pop(reference)
                fit, records, divergence = _receive(reference)
                monitor.finish(number)
                yield Outcome(ensembles[number], fit, records, problems, divergence)
                del fit, reference  # and with it the object on the cluster
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)
        queue.shutdown(force=True)


class _Monitor:
    """The progress of all ensembles."""

    def __init__(
        self,
        problems: Problems[ConfigT, DataT, ProblemT],
        ensembles: Sequence[list[Member[ConfigT]]],
        context: Context,
    ) -> None:
        runs = f"{sum(map(len, ensembles)):,} runs in {len(ensembles):,} ensembles"
        self.title = f"{problems.data.name}, {runs}"
        self.planned = [problems.task.plan(ensemble).epochs for ensemble in ensembles]
        self.total = sum(self.planned)
        self.num_finished = 0
        """The epochs of finished ensembles; those that stopped early count in full."""
        self._done = [0] * len(ensembles)
        self._context, self._start, self._is_told = context, time.monotonic(), False

    def update(self, reports: Sequence[tuple[int, int]]) -> None:
        for number, done in reports:
            self._done[number] = max(done, self._done[number])
        if not any(self._done):
            return
        done = sum(self._done)
        self._context.progress(self.title, done, self.total)
        seconds = time.monotonic() - self._start
        if not self._is_told and seconds >= ESTIMATE_AFTER:
            self._is_told = True
            left = seconds / done * (self.total - done)
            if left >= LONG:
                self._context.log(f"{self.title}: {format_seconds(left)} left")

    def finish(self, number: int) -> None:
        self.num_finished += self.planned[number]
        self.update([(number, self.planned[number])])


Result = tuple[Fit, list[RunRecord], list[str]]
"""What a worker returns: the fit on the CPU, the records, and why each run diverged."""


def _receive(reference: Any) -> Result:
    """The result of a worker; raises its error as if it had occurred here."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"a Ray worker died {MAX_RETRIES + 1} times ({reason}); what is done is kept, and the "
            "same command trains the rest"
        ) from error


def _train(
    expected: Mapping[str, str],
    references: Sequence[Any],
    resources: Mapping[str, int],
    report: tuple[Any, int],
) -> Result:
    """Trains an ensemble, on a worker."""
    import ray

    _check_version(expected, environment())
    shared, own = references
    members, method = ray.get(own)
    torch.set_num_threads(resources["num_cpus"])
    device = resolve_device("cuda" if resources["num_gpus"] else "cpu")
    queue, number = report
    reported = -math.inf

    def progress(title: str, done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_EVERY:
            reported = time.monotonic()
            queue.put_nowait((number, done))

    context = Context(device, progress=progress)
    try:
        outcomes = train_ensembles(_load(shared, device), [members], context, method=method)
        (outcome,) = outcomes
    except KeyboardInterrupt:  # a signal to the worker: it dies, so Ray retries its task
        os._exit(1)
    weights = {k: v.detach().to("cpu", copy=True) for k, v in outcome.fit.weights.items()}
    return replace(outcome.fit, weights=weights), outcome.records, outcome.divergence


@lru_cache(maxsize=1)
def _load(shared: Any, device: torch.device) -> Problems[Any, Any, Any]:
    """The data, read once by each worker, with the problem that it prepared last."""
    import ray

    name, data = ray.get(shared)
    return Problems(TASKS[name], data, device)


def _check_version(expected: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Refuses to train with other code than that of the process that records the result."""
    commits = {expected["commit"], own["commit"]} - {"unknown"}
    if expected["quatgraph"] != own["quatgraph"] or len(commits) > 1:
        names = (f"{each['quatgraph']} ({each['commit']})" for each in (own, expected))
        raise UserError(
            f"the Ray worker on {platform.node()} runs quatgraph {' instead of '.join(names)}: "
            "install the same version on every node"
        )
