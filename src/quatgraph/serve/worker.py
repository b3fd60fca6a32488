"""The worker: one thread runs torch, and waiting requests become one batch."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MAX_BATCH = 32
"""Requests that are answered together, at most."""
MAX_WAITING = 1024
"""Requests that may wait; further ones are refused."""

Run = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers several requests at once: a result or an exception for each."""


class BusyError(Exception):
    """Too many requests are waiting."""


@dataclass(slots=True, eq=False)
class _Job:
    run: Run
    request: Any
    future: "asyncio.Future[Any]"


class Worker:
    """Runs jobs in its own thread. Jobs that arrive while a batch runs form the next batch, up to
    :data:`MAX_BATCH`; no job waits for a timer."""

    def __init__(self) -> None:
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._stopped = self._waking = False
        self.counts = {"batches": 0, "batched_requests": 0}
        """Batches that ran, and the requests in them."""
        self._thread = threading.Thread(target=self._work, name="quatgraph-worker", daemon=True)
        self._thread.start()

    async def submit(self, run: Run, request: Any) -> Any:
        """The result of a request. Requests with an equal ``run`` may share a call of it."""
        if len(self._jobs) >= MAX_WAITING:
            raise BusyError
        loop = asyncio.get_running_loop()
        job = _Job(run, request, loop.create_future())
        with self._changed:
            self._jobs.append(job)
        if not self._waking:
            # Wakes the thread once the loop has read what else has arrived.
            self._waking = True
            loop.call_soon(self._wake)
        return await job.future

    def _wake(self) -> None:
        self._waking = False
        with self._changed:
            self._changed.notify()

    def stop(self, seconds: float | None = None) -> None:
        """Ends the thread after the jobs that wait; after some seconds, no longer waits for it."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(seconds)

    def _work(self) -> None:
        while batch := self._next():
            self.counts["batches"] += 1
            self.counts["batched_requests"] += len(batch)
            try:
                results = batch[0].run([job.request for job in batch])
            except Exception as error:
                results = [error] * len(batch)
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                # One call for all of them: each wakes the event loop.
                batch[0].future.get_loop().call_soon_threadsafe(_deliver, batch, results)

    def _next(self) -> list[_Job]:
        """The jobs that run next; none after the end."""
        with self._changed:
            while not self._jobs:
                if self._stopped:
                    return []
                self._changed.wait()
            run, batch, left = self._jobs[0].run, list[_Job](), deque[_Job]()
            for job in self._jobs:
                if job.future.cancelled():  # its client has gone, or its time is up
                    continue
                fits = len(batch) < MAX_BATCH and job.run == run
                (batch if fits else left).append(job)
            self._jobs = left
        return batch or self._next()


def _deliver(batch: Sequence[_Job], results: Sequence[Any]) -> None:
    for job, result in zip(batch, results, strict=True):
        if job.future.done():
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
