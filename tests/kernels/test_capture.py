"""A training step and an evaluation can be captured as CUDA graphs: they never wait for the device
nor copy from the host.

No GPU is needed. A training is prepared on the CPU, then all its tensors become tensors without
memory, which count as CUDA tensors: to read one, or to make one whose size depends on another's
numbers, is an error, and so is any operation on a tensor that stayed on the CPU. Kernels are not
launched.
"""

import gc
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import pytest
import settings
import torch
from cities import SMALL, WITHOUT_RELATION_QUERY, cities
from launches import INTERPRETED
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from quatgraph.ops import one_vs_all
from quatgraph.tasks import TASKS
from quatgraph.training import loop
from quatgraph.training.loop import Plan
from quatgraph.training.schedule import Plateau

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(INTERPRETED, reason="nothing is interpreted"),
]
DATA = {"node": "karate", "graph": "cycles", "text": "snippets"}
# torch's fused LSTM cell needs biases where it computes sizes only.
MODELS = [(task, name) for task, one in TASKS.items() for name in one.models if name != "bilstm"]


class _Captured(Exception):  # noqa: N818
    """Ends the training, whose first step is all that is looked at."""


class OnDevice(TorchDispatchMode):
    """Refuses operations on the CPU, and copies from there."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        made = func(*args, **(kwargs or {}))
        tensors = [t for t in tree_leaves((args, kwargs, made)) if isinstance(t, Tensor)]
        assert all(t.device.type == "meta" for t in tensors), f"{func} on the CPU"
        assert func is not torch.ops.aten.lift_fresh.default, "a copy from the host"
        return made


def move(*roots: object) -> None:
    """Replaces all tensors that objects hold, directly or not, by such without memory, those of
    float32 by the default type."""
    seen, found, left = set(), [], list(roots)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType)):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            found += [one] if one.device.type == "cpu" else []
        elif isinstance(one, FunctionType):  # not the globals of its module
            left.extend((one.__closure__, one.__defaults__, one.__dict__))
        else:
            left.extend(gc.get_referents(one))
    for one in found:
        dtype = None if one.dtype == torch.float32 else one.dtype
        empty = torch.empty_strided(one.shape, one.stride(), dtype=dtype, device="meta")
        if isinstance(one, torch.nn.Parameter):
            empty = torch.nn.Parameter(empty)
        torch.utils.swap_tensors(one, empty)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors without memory count as CUDA tensors, and kernels do nothing."""
    from triton.runtime.jit import JITFunction

    def launch(kernel: object, *args: object, **options: object) -> None:
        pass

    monkeypatch.setattr(JITFunction, "run", launch)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    is_cuda = property(lambda tensor: tensor.device.type == "meta")
    monkeypatch.setattr(torch.Tensor, "is_cuda", is_cuda)
    monkeypatch.setitem(one_vs_all._TILE_NUMBERS, "meta", one_vs_all._TILE_NUMBERS["cuda"])


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(torch.float32)


def capture(
    ensemble: Any, optimizer: Any, *, loss: Any, evaluate: Any, batches: Any, plan: Plan
) -> None:
    """Stands for ``fit``: does once what a GPU captures."""
    ensemble.train()
    batches.draw(0)
    loaded = batches.load(0, 1)
    move(ensemble, optimizer, loss, evaluate, batches, loaded)
    plan = replace(plan, plateau=Plateau(0.5, 1), patience=2, select="best-valid")
    run = loop._Run(ensemble, optimizer, loss, evaluate, batches, plan)
    with OnDevice():
        for _ in range(2):
            run._train_on(loaded)
            run._evaluate_once()
    raise _Captured


def assert_captured(task: Any, config: Any, data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asserts that the first step of a training can be captured."""
    members = task.members(config, data)[:2]
    problem = task.prepare(data, config, torch.device("cpu"))
    monkeypatch.setattr(f"quatgraph.tasks.{task.name}.task.fit", capture)
    with pytest.raises(_Captured):
        task.train(members, problem, task.plan(members))


# Options beside the defaults that change what a step computes.
VARIANTS = {
    "textqgnn": {"lift": "learned", "pooling": "mean-plus-max", "word_dropout": 0.3},
    "texting": {"pooling": "mean-plus-max", "word_dropout": 0.3, "bias": True},
}


@pytest.mark.usefixtures("device", "dtype")
@pytest.mark.parametrize("model", list(VARIANTS))
def test_nor_do_variants_of_text_models(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"model.name": model, "data.name": DATA["text"]}
    values |= {f"model.{key}": value for key, value in VARIANTS[model].items()}
    task: Any = TASKS["text"]
    config = settings.built(task.config, values)
    assert_captured(task, config, task.load(config), monkeypatch)


@pytest.mark.usefixtures("device", "dtype")
@pytest.mark.parametrize("pooling", ["mean", "max", "set"])
@pytest.mark.parametrize("model", ["qgnn", "gcn", "gin", "structure-free"])
def test_nor_do_poolings_of_graphs_and_virtual_nodes(
    model: str, pooling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"model.name": model, "data.name": DATA["graph"], "model.pooling": pooling}
    if model != "structure-free":
        values["model.virtual_node"] = True
    task: Any = TASKS["graph"]
    config = settings.built(task.config, values)
    assert_captured(task, config, task.load(config), monkeypatch)


@pytest.mark.usefixtures("device", "dtype")
@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
@pytest.mark.parametrize(("name", "model"), MODELS)
def test_a_step_and_an_evaluation_never_wait_for_the_device(
    name: str, model: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: Any = TASKS[name]
    values = {"model.name": model, "train.optimizer": optimizer, "train.clip": 1.0}
    if name == "link":
        data: Any = cities()
        values |= {"train.loss": "kvsall", "train.n3": 0.01}
        if model not in WITHOUT_RELATION_QUERY:
            values["train.relation_weight"] = 0.5
        config = settings.built(task.config, values, SMALL)
    else:
        values |= {"data.name": DATA[name], "train.class_weights": "balanced"}
        config = settings.built(task.config, values)
        data = task.load(config)
    assert_captured(task, config, data, monkeypatch)
