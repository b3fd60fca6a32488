"""Trainings compared with a port of the released code, in one process.

The port follows the structure of the released code, not its text: one model at a time, eager
operations, dense features in four copies, batches assembled on the host and copied to the device,
and text graphs padded to the largest. ``docs/fidelity.md`` has the details. The models have as many
weights as ours.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.measure import shortened, training_seconds
from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix
from quatgraph.codes import Codes
from quatgraph.presets import parts
from quatgraph.tasks import TASKS
from quatgraph.tasks.graph.batches import Collection
from quatgraph.tasks.graph.problem import split_indices as graph_parts
from quatgraph.tasks.text.problem import split_indices as text_parts

CASES: dict[str, list[tuple[str, int, int, int, list[str]]]] = {
    "cpu": [
        ("node/cora-qgnn", 1, 10, 5, []),
        ("graph/mutag-qgnn", 1, 2, 2, []),
        ("link/codex-s-simqgnn", 1, 2, 2, []),
        ("text/mr-textqgnn", 1, 1, 1, ["train.batch_size=256"]),
    ],
    "cuda": [
        ("node/cora-qgnn", 10, 100, 20, []),
        ("graph/mutag-qgnn", 1, 20, 3, []),
        ("graph/proteins-qgnn", 1, 4, 1, []),
        ("link/codex-s-simqgnn", 1, 100, 5, []),
        ("link/codex-m-simqgnn", 1, 10, 1, []),
        ("text/mr-textqgnn", 10, 4, 3, []),
    ],
}
"""Presets, seeds, our epochs, epochs of the port, and settings that override those of both. A batch
of 4,096 padded texts does not fit into the memory of every machine."""

FULL_PRECISION = "float32"
"""The precision of the port, except for graphs, which are float64."""

Epoch = Callable[[], float]
"""Trains a model for an epoch and returns the last loss."""
Port = Callable[[Any, Any, torch.device], tuple[nn.Module, Epoch]]
"""``(config, problem, device)``: the model and its training; the problem is on the CPU."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for name, seeds, epochs, few, settings in CASES[device.type]:
        config = shortened(name, epochs, *settings, seeds=seeds)
        yield from _compare(name, config, settings, few, device)


def _compare(
    name: str, config: Any, settings: list[str], few: int, device: torch.device
) -> Iterator[dict[str, Any]]:
    """Time per epoch of a run: in an ensemble, alone, and in the port."""
    task_name, dataset, method = parts(name)
    task = TASKS[task_name]
    data = task.load(config)
    members = task.members(config, data)
    counts = dict.fromkeys((len(members), 1))
    shares = {_variant(n): _share(task, members[:n], data, device) for n in counts}
    if (
        device.type == "cuda"
        and getattr(config.train, "precision", FULL_PRECISION) != FULL_PRECISION
    ):
        exact = replace(config, train=replace(config.train, precision=FULL_PRECISION))
        alone = task.members(exact, data)[:1]
        shares[f"{_variant(1)}, {FULL_PRECISION}"] = _share(task, alone, data, device)
    _, epoch = PORTS[task_name](config, task.prepare(data, config, torch.device("cpu")), device)
    shares["port of the released code"] = _seconds(epoch, few)
    first = next(iter(shares.values()))
    for variant, seconds in shares.items():
        yield {
            "case": ", ".join((dataset, method, *settings)),
            "work": "training epoch per run",
            "variant": variant,
            "ms": round(1e3 * seconds, 4),
            "ratio": round(seconds / first, 2),
        }


def _variant(count: int) -> str:
    return "quatgraph, single run" if count == 1 else f"quatgraph, ensemble of {count}"


def _share(task: Any, members: Sequence[Any], data: Any, device: torch.device) -> float:
    epochs = members[0].config.train.epochs
    return training_seconds(task, members, data, device) / epochs / len(members)


def _seconds(epoch: Epoch, count: int) -> float:
    """The mean time of an epoch after a warm-up epoch; reading the loss synchronises the host."""
    epoch()
    start = time.perf_counter()
    for _ in range(count):
        epoch()
    return (time.perf_counter() - start) / count


class _Product(nn.Module):
    """Multiplies by a quaternion matrix."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4, width // 4, size // 4))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return x @ hamilton_matrix(self.weight).mT


def _sparse(places: Tensor, weight: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_coo_tensor(places, weight, shape, check_invariants=False)


def _places(adjacency: Adjacency) -> Tensor:
    return torch.stack((adjacency.receiver, adjacency.sender)).long()


def _coo(adjacency: Adjacency, device: torch.device) -> Tensor:
    made = _sparse(_places(adjacency), adjacency.weight, adjacency.shape)
    return made.coalesce().to(device)


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, config: Any) -> float:
    optimizer.zero_grad()
    loss.backward()
    if (clip := getattr(config.train, "clip", None)) is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.item()


def _adam(model: nn.Module, config: Any) -> torch.optim.Optimizer:
    decay = getattr(config.train, "weight_decay", 0.0)
    return torch.optim.Adam(model.parameters(), lr=config.train.lr, weight_decay=decay)


class _Nodes(nn.Module):
    def __init__(self, config: Any, features: int, classes: int) -> None:
        super().__init__()
        hidden = 4 * config.model.hidden_quats
        self.first = _Product(4 * features, hidden)
        self.prediction = nn.Linear(hidden, classes, bias=False)
        self.dropout = nn.Dropout(config.model.dropout)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        x = torch.sparse.mm(adjacency, self.first(self.dropout(x))).relu()
        return torch.sparse.mm(adjacency, self.prediction(self.dropout(x)))


def _node(config: Any, problem: Any, device: torch.device) -> tuple[nn.Module, Epoch]:
    given = problem.features
    dense = given.to_dense() if isinstance(given, Adjacency) else given
    x, adjacency = dense.tile(4).to(device), _coo(problem.adjacency, device)
    labels, part = problem.labels.to(device), problem.masks["train"][0].to(device)
    model = _Nodes(config, dense.size(1), problem.num_classes).to(device)
    optimizer = _adam(model, config)

    def epoch() -> float:
        loss = F.cross_entropy(model(x, adjacency)[part], labels[part])
        return _step(model, optimizer, loss, config)

    return model, epoch


class _Graphs(nn.Module):
    def __init__(self, config: Any, features: int, classes: int) -> None:
        super().__init__()
        settings, hidden = config.model, 4 * config.model.hidden_quats
        sizes = [4 * features, *[hidden] * (settings.num_layers - 1)]
        self.layers = nn.ModuleList(_Product(size, hidden) for size in sizes)
        self.predictions = nn.ModuleList(nn.Linear(hidden, classes) for _ in sizes)
        self.dropout = nn.Dropout(settings.dropout)
        self.pooled_dropout = nn.Dropout(settings.pooled_dropout)

    def forward(self, x: Tensor, adjacency: Tensor, pool: Tensor) -> Tensor:
        logits = []
        for layer, prediction in zip(self.layers, self.predictions, strict=True):
            x = torch.sparse.mm(adjacency, layer(self.dropout(x))).relu()
            logits.append(prediction(self.pooled_dropout(torch.sparse.mm(pool, x))))
        return torch.stack(logits).sum(dim=0)


def _graph(config: Any, problem: Any, device: torch.device) -> tuple[nn.Module, Epoch]:
    collection, train = problem.collection, graph_parts(problem, config, 0)["train"].numpy()
    size, entries = config.train.batch_size, _places(collection.adjacency)
    model = _Graphs(config, problem.num_features, problem.num_classes).double().to(device)
    optimizer, draw = _adam(model, config), np.random.default_rng(0)

    def epoch() -> float:
        last = 0.0
        for _ in range(math.ceil(len(train) / size)):
            chosen = draw.permutation(train)[:size]
            x, adjacency, pool = (g.to(device) for g in _batch(collection, entries, chosen))
            labels = collection.labels[chosen].to(device)
            log_p = model(x, adjacency, pool).log_softmax(dim=1)
            targets = torch.full_like(log_p, config.train.smoothing / (log_p.size(1) - 1))
            targets.scatter_(1, labels[:, None], 1 - config.train.smoothing)
            loss = -(targets * log_p).sum(dim=1).mean()
            last = _step(model, optimizer, loss, config)
        return last

    return model, epoch


def _batch(
    collection: Collection, entries: Tensor, chosen: np.ndarray
) -> tuple[Tensor, Tensor, Tensor]:
    """Features in four copies, the block-diagonal adjacency, and the pooling matrix of a batch.

    Args:
        entries: Row and column of each entry of the whole matrix, ``(2, E)``.
    """
    whole = collection.adjacency
    places, weights, batch, nodes, offset = [], [], [], [], 0
    for slot, graph in enumerate(chosen):
        first, last = collection.node_start[graph : graph + 2].tolist()
        own = slice(int(whole.rowptr[first]), int(whole.rowptr[last]))
        places.append(entries[:, own] - first + offset)
        weights.append(whole.weight[own])
        batch.append(torch.full((last - first,), slot))
        nodes.append(torch.arange(first, last))
        offset += last - first
    node, weight = torch.cat(nodes), torch.cat(weights).double()
    features = collection.features
    if isinstance(features, Codes):
        x = torch.zeros(offset, features.num_codes, dtype=torch.float64)
        x[torch.arange(offset), features.code[node].long()] = features.weight[node].double()
    else:
        x = features[node].double()
    pooled = torch.stack((torch.cat(batch), torch.arange(offset)))
    return (
        x.tile(4),
        _sparse(torch.cat(places, dim=1), weight, (offset, offset)),
        _sparse(pooled, torch.ones(offset).double(), (len(chosen), offset)),
    )


class _Entities(nn.Module):
    def __init__(self, config: Any, entities: int, relations: int) -> None:
        super().__init__()
        width, layers = 4 * config.model.dim_quats, config.model.num_layers
        self.entities = nn.Parameter(torch.empty(entities, width))
        self.relations = nn.Parameter(torch.empty(relations, width))
        nn.init.xavier_normal_(self.entities)
        nn.init.xavier_normal_(self.relations)
        self.layers = nn.ModuleList(_Product(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(config.model.dropout)

    def forward(self, adjacency: Tensor, head: Tensor, relation: Tensor) -> Tensor:
        x: Tensor = self.entities
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = torch.tanh(norm(torch.sparse.mm(adjacency, layer(x))))
        query = self.dropout(self.norm(x[head] * self.relations[relation]))
        return torch.sigmoid(query @ x.mT)


def _link(config: Any, problem: Any, device: torch.device) -> tuple[nn.Module, Epoch]:
    queries, size = problem.training, config.train.batch_size
    pairs, pointers, tails = (
        given.numpy() for given in (queries.pairs, queries.ptr, queries.tails)
    )
    assert isinstance(problem.graph, Adjacency)
    adjacency = _coo(problem.graph, device)
    entities = queries.num_entities
    model = _Entities(config, entities, queries.num_relations).to(device)
    optimizer, draw = _adam(model, config), np.random.default_rng(0)

    def epoch() -> float:
        last, order = 0.0, draw.permutation(len(pairs))
        for begin in range(0, len(order), size):
            some = order[begin : begin + size]
            right = np.zeros((len(some), entities), dtype=np.float32)
            for place, row in enumerate(some):
                right[place, tails[pointers[row] : pointers[row + 1]]] = 1
            targets = torch.from_numpy(right).to(device)
            targets = (1 - config.train.smoothing) * targets + 1 / entities
            head, relation = torch.from_numpy(pairs[some].T).to(device)
            loss = F.binary_cross_entropy(model(adjacency, head, relation), targets)
            last = _step(model, optimizer, loss, config)
        return last

    return model, epoch


class _Texts(nn.Module):
    def __init__(self, config: Any, dimensions: int, classes: int) -> None:
        super().__init__()
        settings, hidden = config.model, 4 * config.model.hidden_quats
        self.steps = settings.steps
        self.projection = _Product(dimensions, hidden)
        self.of_sum, self.of_own = (
            nn.ModuleList(_Product(hidden, hidden) for _ in range(3)) for _ in range(2)
        )
        self.score, self.linear = nn.Linear(hidden, 1), _Product(hidden, hidden)
        self.prediction = nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(settings.dropout)
        self.pooled_dropout = nn.Dropout(settings.pooled_dropout)

    def forward(self, x: Tensor, adjacency: Tensor, mask: Tensor) -> Tensor:
        x = mask * self.projection(self.dropout(x))
        for _ in range(self.steps):
            total = adjacency @ x
            update, reset = (
                torch.sigmoid(w(total) + u(x))
                for w, u in zip(self.of_sum[:2], self.of_own[:2], strict=True)
            )
            renewed = (self.of_sum[2](total) + self.of_own[2](reset * x)).relu()
            x = mask * ((1 - update) * x + update * renewed)
        weighed = mask * torch.sigmoid(self.score(x)) * self.linear(x).relu()
        largest = (weighed + (mask - 1) * 1e9).amax(dim=1)
        return self.prediction(self.pooled_dropout(weighed.sum(dim=1) * largest))


def _text(config: Any, problem: Any, device: torch.device) -> tuple[nn.Module, Epoch]:
    documents, size = problem.corpus.documents, config.train.batch_size
    train = text_parts(documents, config.data, 0)["train"].numpy()
    x, adjacency, mask = _padded(problem, train)
    labels = documents.y[train]
    model = _Texts(config, x.size(2), documents.num_classes).to(device)
    optimizer, draw = _adam(model, config), np.random.default_rng(0)

    def epoch() -> float:
        last, order = 0.0, draw.permutation(len(train))
        for begin in range(0, len(order), size):
            some = torch.from_numpy(order[begin : begin + size])
            given = (value[some].to(device) for value in (x, adjacency, mask))
            loss = F.cross_entropy(model(*given), labels[some].to(device))
            last = _step(model, optimizer, loss, config)
        return last

    return model, epoch


def _padded(problem: Any, chosen: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Word vectors, adjacency matrices and masks of documents, padded to the largest."""
    collection = problem.collection
    ptr = collection.node_start.tolist()
    spans = [slice(ptr[place], ptr[place + 1]) for place in chosen]
    largest = max(span.stop - span.start for span in spans)
    x = torch.zeros(len(spans), largest, problem.table.size(1))
    adjacency, mask = torch.zeros(len(spans), largest, largest), torch.zeros(len(spans), largest, 1)
    whole, words = collection.adjacency, collection.features
    entries = _places(whole)
    for place, span in enumerate(spans):
        count = span.stop - span.start
        own = slice(int(whole.rowptr[span.start]), int(whole.rowptr[span.stop]))
        row, column = entries[:, own] - span.start
        adjacency[place, row, column] = whole.weight[own]
        x[place, :count] = problem.table[words.code[span]] * words.weight[span][:, None]
        mask[place, :count] = 1
    return x, adjacency, mask


PORTS: dict[str, Port] = {"node": _node, "graph": _graph, "link": _link, "text": _text}
