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
from sampled import DATA as DATA_TO_SAMPLE
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from quatgraph.data.node import from_data
from quatgraph.ops import one_vs_all
from quatgraph.tasks import TASKS
from quatgraph.tasks.link.sharded import ShardedLinkTask
from quatgraph.tasks.node.sampled import NodeBatches
from quatgraph.training import loop
from quatgraph.training.launch import Launch
from quatgraph.training.loop import Plan
from quatgraph.training.schedule import Plateau

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(INTERPRETED, reason="nothing is interpreted"),
]
DATA = {"node": "karate", "graph": "cycles", "text": "snippets"}
# torch's fused LSTM cell needs biases where it computes sizes only.
MODELS = [(task, name) for task, one in TASKS.items() for name in one.models if name != "bilstm"]


def hops_of(model: Any) -> int:
    return int(model.Options(name="").hops)


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


@pytest.mark.usefixtures("device", "dtype")
@pytest.mark.parametrize("model", [n for n, m in TASKS["node"].models.items() if hops_of(m)])
def test_nor_does_a_step_on_sampled_neighbours(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task: Any = TASKS["node"]
    values = {"model.name": model, "data.path": "made", "train.num_neighbors": 2}
    values |= {"train.batch_size": 8, "model.num_layers": 2, "train.class_weights": "balanced"}
    made = NodeBatches.__init__

    def padded(self: NodeBatches, *args: Any) -> None:
        made(self, *args)
        self.padded = True  # as on a GPU

    monkeypatch.setattr(NodeBatches, "__init__", padded)
    config = settings.built(task.config, values)
    graph = DATA_TO_SAMPLE.clone()
    del graph.train_mask  # a split is drawn
    graph.x, graph.edge_weight = graph.x.float(), graph.edge_weight.float()
    assert_captured(task, config, from_data(graph), monkeypatch)


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
@pytest.mark.parametrize("model", ["embeddings", "tucker"])
def test_nor_does_a_step_on_a_rank(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"model.name": model, "train.loss": "softmax", "train.n3": 0.01, "train.clip": 1.0}
    values |= {"train.relation_weight": 0.5, "model.entity_dropout": 0.1}
    config = settings.built(TASKS["link"].config, values, SMALL)
    assert_captured(ShardedLinkTask(Launch(0, 1, 0)), config, cities(), monkeypatch)


@pytest.mark.usefixtures("device", "dtype")
@pytest.mark.parametrize("pooling", ["mean", "max", "set"])
@pytest.mark.parametrize("model", ["qgnn", "gcn", "gin", "structure-free"])
def test_nor_do_poolings_of_graphs_virtual_nodes_and_perceptrons(
    model: str, pooling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"model.name": model, "data.name": DATA["graph"], "model.pooling": pooling}
    if model != "structure-free":
        values["model.virtual_node"] = True
    if model in ("qgnn", "gcn"):
        values["model.head"] = "perceptron"
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
