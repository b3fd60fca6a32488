"""Calls in worker processes."""

import os
import time

import pytest
import torch

from benchmarks.workers import call_all


def describe(number: int) -> tuple[int, int, int, str | None]:
    if number == 3:
        raise ValueError("three is not wanted")
    return os.getpid(), torch.get_num_threads(), number**2, os.environ.get("CUDA_VISIBLE_DEVICES")


def wait_for(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def end_abruptly(number: int) -> None:
    os._exit(number)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_call_does_not_stop_the_others(jobs: int) -> None:
    found = {}

    def collect() -> None:
        for number, result in call_all(describe, range(6), jobs=jobs):
            found[number] = result

    with pytest.raises(RuntimeError, match=r"(?s)1 calls failed.*3:.*three is not wanted"):
        collect()
    squares = {number: result[2] for number, result in found.items()}
    assert squares == {0: 0, 1: 1, 2: 4, 4: 16, 5: 25}
    here = {result[0] == os.getpid() for result in found.values()}
    assert here == {jobs == 1}
    if jobs > 1:
        assert {result[1] for result in found.values()} == {1}
        assert {result[3] for result in found.values()} == {""}


def test_workers_are_ended_at_the_deadline() -> None:
    began = time.monotonic()
    found = list(call_all(wait_for, [0.01, 300.0, 0.02], jobs=2, seconds=10))
    assert sorted(result for _, result in found) == [0.01, 0.02]
    assert time.monotonic() - began < 60
    assert list(call_all(wait_for, [0.2, 300.0], seconds=0.1)) == [(0.2, 0.2)]


def test_a_killed_worker_is_reported() -> None:
    with pytest.raises(RuntimeError, match="ended with code 7"):
        list(call_all(end_abruptly, [7], jobs=2))
