"""One thread runs everything, and what waits becomes its next batch."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

from quatgraph.serve.worker import MAX_BATCH, MAX_WAITING, BusyError, Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop()


def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), 20))


class Recorder:
    """Doubles numbers, and records batches and threads; the first batch waits for a signal."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[str] = set()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def double(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.begun.set()
        assert self.go_on.wait(10)
        self.batches.append(list(numbers))
        self.threads.add(threading.current_thread().name)
        return [ValueError(number) if number < 0 else 2 * number for number in numbers]

    async def block(self, worker: Worker) -> "asyncio.Task[Any]":
        """Keeps the thread busy with a batch of its own."""
        first = asyncio.create_task(worker.submit(self.double, 0))
        while not self.begun.is_set():
            await asyncio.sleep(0.001)
        return first


def test_what_waits_while_a_batch_runs_is_the_next_one(worker: Worker) -> None:
    recorder = Recorder()

    async def work() -> list[int]:
        first = await recorder.block(worker)
        others = [asyncio.create_task(worker.submit(recorder.double, n)) for n in range(1, 71)]
        await asyncio.sleep(0)
        recorder.go_on.set()
        return await asyncio.gather(first, *others)

    assert run(work) == [2 * number for number in range(71)]
    sizes = [len(batch) for batch in recorder.batches]
    assert sizes == [1, MAX_BATCH, MAX_BATCH, 70 - 2 * MAX_BATCH]
    assert recorder.threads == {"quatgraph-worker"}
    assert worker.counts == {"batches": 4, "batched_requests": 71}


def test_a_lone_request_waits_for_nobody(worker: Worker) -> None:
    recorder = Recorder()
    recorder.go_on.set()

    async def work() -> float:
        start = time.perf_counter()
        for number in range(50):
            assert await worker.submit(recorder.double, number) == 2 * number
        return time.perf_counter() - start

    assert run(work) < 2
    assert [len(batch) for batch in recorder.batches] == [1] * 50


def test_only_requests_of_one_kind_share_a_batch(worker: Worker) -> None:
    first, second = Recorder(), Recorder()
    second.go_on.set()

    async def work() -> list[int]:
        tasks = [await first.block(worker)]
        for number in range(1, 5):
            own = (second, first)[number % 2]
            tasks.append(asyncio.create_task(worker.submit(own.double, number)))
        await asyncio.sleep(0)
        first.go_on.set()
        return await asyncio.gather(*tasks)

    assert run(work) == [0, 2, 4, 6, 8]
    assert first.batches == [[0], [1, 3]]
    assert second.batches == [[2, 4]]


def test_an_error_is_for_the_one_who_made_it(worker: Worker) -> None:
    recorder = Recorder()

    async def work() -> list[Any]:
        tasks = [await recorder.block(worker)]
        tasks += [asyncio.create_task(worker.submit(recorder.double, n)) for n in (1, -1, 2)]
        await asyncio.sleep(0)
        recorder.go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    zero, one, failed, two = run(work)
    assert (zero, one, two) == (0, 2, 4)
    assert isinstance(failed, ValueError)


def test_the_thread_survives_a_batch_that_fails(worker: Worker) -> None:
    def fail(requests: Sequence[Any]) -> list[Any]:
        raise KeyError("x")

    async def work() -> Any:
        with pytest.raises(KeyError):
            await worker.submit(fail, 1)
        return await worker.submit(list, 7)

    assert run(work) == 7


def test_a_request_whose_client_has_gone_is_not_run(worker: Worker) -> None:
    recorder = Recorder()

    async def work() -> None:
        first = await recorder.block(worker)
        gone = asyncio.create_task(worker.submit(recorder.double, 1))
        last = asyncio.create_task(worker.submit(recorder.double, 2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        recorder.go_on.set()
        await asyncio.gather(first, last)

    run(work)
    assert recorder.batches == [[0], [2]]


def test_the_queue_is_bounded(worker: Worker) -> None:
    recorder = Recorder()

    async def work() -> None:
        first = await recorder.block(worker)
        tasks = [
            asyncio.create_task(worker.submit(recorder.double, number))
            for number in range(MAX_WAITING)
        ]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await worker.submit(recorder.double, 1)
        recorder.go_on.set()
        await asyncio.gather(first, *tasks)
        assert await worker.submit(recorder.double, 21) == 42

    run(work)


def test_stopping_finishes_what_waits(worker: Worker) -> None:
    recorder = Recorder()

    async def work() -> list[int]:
        tasks = [await recorder.block(worker)]
        tasks += [asyncio.create_task(worker.submit(recorder.double, 3))]
        await asyncio.sleep(0)
        recorder.go_on.set()
        await asyncio.get_running_loop().run_in_executor(None, worker.stop)
        return await asyncio.gather(*tasks)

    assert run(work) == [0, 6]


def test_stopping_does_not_wait_for_ever(worker: Worker) -> None:
    recorder = Recorder()

    async def work() -> None:
        task = await recorder.block(worker)
        worker.stop(0.05)
        task.cancel()

    run(work)
    recorder.go_on.set()  # its result goes nowhere: the loop has ended
