"""The choice between kernels and plain torch."""

import threading

import pytest
import torch

from quatgraph.errors import UserError
from quatgraph.ops import backend
from quatgraph.ops.backend import TRITON_INSTALLED, chosen_backend, use_triton


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv("QUATGRAPH_BACKEND", raising=False)


def test_plain_torch_serves_the_cpu():
    assert chosen_backend() == "auto"
    assert not use_triton(torch.zeros(1))


def test_a_block_forces_a_backend_and_the_innermost_wins():
    with backend("torch"):
        assert chosen_backend() == "torch"
        with backend("triton"):
            assert chosen_backend() == "triton"
        assert chosen_backend() == "torch"
    assert chosen_backend() == "auto"


def test_the_variable_forces_a_backend_unless_a_block_does(monkeypatch):
    monkeypatch.setenv("QUATGRAPH_BACKEND", "triton")
    assert chosen_backend() == "triton"
    with backend("torch"):
        assert chosen_backend() == "torch"


def test_a_block_also_holds_in_the_threads_that_run_a_gpu_backward():
    seen = []
    with backend("torch"):
        thread = threading.Thread(target=lambda: seen.append(chosen_backend()))
        thread.start()
        thread.join()
    assert seen == ["torch"]


def test_an_unknown_name_in_the_variable_is_a_mistake(monkeypatch):
    monkeypatch.setenv("QUATGRAPH_BACKEND", "tritn")
    with pytest.raises(UserError, match="auto, torch or triton, got 'tritn'"):
        use_triton(torch.zeros(1))


def test_the_kernels_cannot_be_forced_on_the_cpu():
    with backend("triton"), pytest.raises(UserError, match="needs Triton and CUDA"):
        use_triton(torch.zeros(1))


@pytest.mark.gpu
def test_the_kernels_serve_the_gpu_where_triton_is_installed():
    x = torch.zeros(1, device="cuda")
    assert use_triton(x) == TRITON_INSTALLED
    assert not use_triton(x, torch.zeros(1))
    with backend("torch"):
        assert not use_triton(x)
