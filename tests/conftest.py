"""What a test needs of its surroundings: said here once, by marker."""

import os
import signal
import sys
from importlib.util import find_spec

import pytest
from hypothesis import settings

settings.register_profile("quatgraph", deadline=None, derandomize=True)
settings.load_profile("quatgraph")
# A shell lets its background jobs ignore Ctrl-C, `nohup` lets them ignore that the terminal closes,
# and so would all that tests start.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _same_numbers_one_thread() -> None:
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
        torch.set_num_threads(1)  # the tests' tensors are small: more threads wait for each other


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    realdata = [item for item in items if item.get_closest_marker("realdata")]
    if realdata and not os.environ.get("QUATGRAPH_DATA"):
        _skip(realdata, "QUATGRAPH_DATA is not set")
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and not _cuda():
        _skip(gpu, "no CUDA device")
    if find_spec("triton") is None:
        kernels = [item for item in items if item.get_closest_marker("kernels")]
        _skip(kernels, "needs Triton: make test-kernels")


def _skip(items: list[pytest.Item], reason: str) -> None:
    for item in items:
        item.add_marker(pytest.mark.skip(reason=reason))


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()
