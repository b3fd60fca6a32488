"""What people use instead of quatgraph, as a careful practitioner would: small grids, choices on
validation data, early stopping. Models are those of scikit-learn, PyG and, for triples, ours.

:data:`RIVALS` lists them by task. Each is a function of a :class:`Case`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool, global_mean_pool
from torch_geometric.nn.models import GCN, GIN, MLP, GraphSAGE

from quatgraph import config as configs
from quatgraph.data.graph.collection import Graphs
from quatgraph.data.splits import PARTS
from quatgraph.tasks import TASKS
from quatgraph.tasks.graph.problem import folds_of, split_fold
from quatgraph.tasks.runs import run
from quatgraph.tasks.text.problem import split_indices as split_texts
from quatgraph.training.context import Context

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""scikit-learn's C."""
EPOCHS, PATIENCE = 200, 40


class Score(NamedTuple):
    """A metric on validation and on test data; only the first may choose anything."""

    valid: float
    test: float


Scores = Mapping[str, Score]
Parts = Mapping[str, NDArray[np.int64]]
"""Indices of the train, valid and test items."""


class Case(NamedTuple):
    """Data with one split."""

    task: str
    config: Any
    data: Any
    parts: Parts
    """Empty for triples, which have a file per part."""


def load_case(task: str, values: configs.Values) -> Case:
    """Loads data as the task reads it."""
    config = configs.build(TASKS[task].config, values)
    data = TASKS[task].load(config)
    parts: Mapping[str, Tensor] = {}
    if task == "node":
        masks = (data.train_mask, data.val_mask, data.test_mask)
        parts = {p: mask[:, 0].nonzero().flatten() for p, mask in zip(PARTS, masks, strict=True)}
    if task == "graph":
        (fold,) = folds_of(data, config.data)
        parts = split_fold(data, fold, config.data, 0)
    if task == "text":
        parts = split_texts(data.documents, config.data, 0)
    return Case(task, config, data, {part: places.numpy() for part, places in parts.items()})


def best(scores: Sequence[Score]) -> Score:
    """The first score with the best validation metric."""
    return max(scores, key=lambda score: score.valid)


def _linear(kind: str, x: Any, y: NDArray[np.int64], parts: Parts) -> Score:
    """A linear model with the penalty that is best on validation data."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    scores = []
    for penalty in PENALTIES:
        if kind == "logistic":
            model = LogisticRegression(C=penalty, max_iter=300)
        else:
            model = LinearSVC(C=penalty, max_iter=3_000)
        scores.append(_fitted(model, x, y, parts))
    return best(scores)


def _fitted(model: Any, x: Any, y: NDArray[np.int64], parts: Parts) -> Score:
    model.fit(x[parts["train"]], y[parts["train"]])
    return Score(*(model.score(x[parts[part]], y[parts[part]]) for part in PARTS[1:]))


# --- nodes


def _linear_nodes(case: Case) -> Score:
    _, x = _node_features(case.data)
    return _linear("logistic", x, case.data.y.numpy(), case.parts)


def _network_nodes(network: Any, case: Case) -> Score:
    graph = case.data
    x, _ = _node_features(graph)
    found = []
    for dropout, decay in product((0.2, 0.5), (5e-4, 5e-3)):
        torch.manual_seed(0)
        options = {"in_channels": x.size(1), "hidden_channels": 64, "num_layers": 2}
        model = network(**options, out_channels=len(graph.label_names), dropout=dropout)
        edges = () if network is MLP else (graph.edge_index,)
        found.append(_train_nodes(model, (x, *edges), graph.y, case.parts, decay))
    return best(found)


def _node_features(graph: Data) -> tuple[Tensor, NDArray[np.float64]]:
    """Features for networks, and for a linear model: word counts with rows of length 1, columns
    standardised otherwise; without features a node's number, and its links."""
    from sklearn.preprocessing import StandardScaler, normalize

    if graph.x is None:
        links = torch.zeros(graph.num_nodes, graph.num_nodes)
        links[graph.edge_index[0], graph.edge_index[1]] = 1.0
        return torch.eye(graph.num_nodes), links.numpy()
    x = graph.x.numpy()
    words = (x >= 0).all() and (x > 0).mean() < 0.5
    scaled = normalize(x) if words else StandardScaler().fit_transform(x)
    return torch.from_numpy(scaled).float(), scaled


def _train_nodes(
    model: nn.Module, inputs: Sequence[Tensor], y: Tensor, parts: Parts, decay: float
) -> Score:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=decay)
    train, valid, test = (torch.from_numpy(parts[part]) for part in PARTS)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(*inputs)[train], y[train]).backward()
        optimizer.step()

    def evaluate() -> tuple[float, Score]:
        logits = model(*inputs)
        right = (logits.argmax(dim=1) == y).float()
        loss = F.cross_entropy(logits[valid], y[valid])
        return float(loss), Score(float(right[valid].mean()), float(right[test].mean()))

    return _stopped_early(model, step, evaluate)


def _stopped_early(
    model: nn.Module, step: Callable[[], None], evaluate: Callable[[], tuple[float, Score]]
) -> Score:
    """Trains until validation stops improving; the epoch with the best accuracy, then loss."""
    chosen, when = (-1.0, 0.0, Score(-1.0, 0.0)), 0
    for epoch in range(EPOCHS):
        model.train()
        step()
        model.eval()
        with torch.no_grad():
            loss, score = evaluate()
        if (score.valid, -loss) > chosen[:2]:
            chosen, when = (score.valid, -loss, score), epoch
        if epoch - when >= PATIENCE:
            break
    return chosen[2]


# --- graphs


def _network_graphs(network: Any, pool: Any, case: Case) -> Score:
    graphs, parts = case.data, case.parts
    batches = {part: _batch(graphs, parts[part]) for part in PARTS}
    torch.manual_seed(0)
    model = _Pooled(network, pool, batches["train"].num_features, graphs.num_classes)
    return _train_graphs(model, graphs, parts, batches)


def weisfeiler_lehman(graphs: Graphs, rounds: int) -> list[Tensor]:
    """How often each colour occurs in each graph after each round of refinement, ``(G, colours)``.

    The first colour of a node is its tag; the next its colour with those of its neighbours, sorted.
    """
    colours = graphs.tags.tolist()
    neighbours: list[list[int]] = [[] for _ in colours]
    for node, other in graphs.edge_index.T.tolist():
        neighbours[node].append(other)
    graph_of = torch.arange(len(graphs)).repeat_interleave(graphs.node_ptr.diff())
    counts = []
    for turn in range(rounds + 1):
        if turn:
            signatures = [
                (colours[node], *sorted(colours[other] for other in others))
                for node, others in enumerate(neighbours)
            ]
            number = {name: place for place, name in enumerate(dict.fromkeys(signatures))}
            colours = [number[name] for name in signatures]
        places = torch.stack((graph_of, torch.tensor(colours)))
        ones = torch.ones(len(colours), dtype=torch.float64)
        counts.append(torch.sparse_coo_tensor(places, ones, check_invariants=True).coalesce())
    return counts


def _kernel_machine(case: Case) -> Score:
    """An SVM on the kernel; validation data chooses the rounds, the penalty, and whether the
    kernel is a cosine."""
    from sklearn.svm import SVC

    graphs, parts = case.data, case.parts
    kernel = np.zeros((len(graphs), len(graphs)))
    y, scores = graphs.y.numpy(), []
    for counts in weisfeiler_lehman(graphs, rounds=5):
        kernel = kernel + (counts @ counts.T).to_dense().numpy()
        lengths = np.sqrt(kernel.diagonal())
        for values, penalties in (
            (kernel / lengths[:, None] / lengths, (0.1, 1.0, 10.0, 100.0, 1_000.0)),
            (kernel / kernel.diagonal().mean(), (0.1, 1.0, 10.0, 100.0)),
        ):
            for penalty in penalties:
                machine = SVC(kernel="precomputed", C=penalty, max_iter=100_000)
                train = parts["train"]
                machine.fit(values[np.ix_(train, train)], y[train])
                tested = (values[np.ix_(parts[part], train)] for part in PARTS[1:])
                labels = (y[parts[part]] for part in PARTS[1:])
                scores.append(Score(*map(machine.score, tested, labels)))
    return best(scores)


def _batch(graphs: Graphs, places: NDArray[np.int64]) -> Batch:
    """Graphs as PyG has them: one-hot tags or degrees, and attributes."""
    coded = graphs if graphs.num_tags > 1 else graphs.with_degrees_as_tags()
    chosen = coded.select(torch.from_numpy(places))
    x = F.one_hot(chosen.tags, len(coded.tag_names)).float()
    if chosen.attributes is not None:
        x = torch.cat((x, chosen.attributes), dim=1)
    sizes = chosen.node_ptr.diff()
    batch = torch.arange(len(chosen)).repeat_interleave(sizes)
    return Data(x=x, edge_index=chosen.edge_index, batch=batch, y=chosen.y)


class _Pooled(nn.Module):
    """A network, the sum or mean over the nodes of each graph, and a linear map."""

    def __init__(self, network: Any, pool: Any, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.network = network(in_channels, 64, num_layers=3, norm="batch_norm")
        self.pool = pool
        self.prediction = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, num_classes))

    def forward(self, data: Data) -> Tensor:
        hidden = self.network(data.x, data.edge_index)
        return self.prediction(self.pool(hidden, data.batch))


def _train_graphs(
    model: nn.Module, graphs: Graphs, parts: Parts, batches: Mapping[str, Data]
) -> Score:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-4)
    draw = torch.Generator().manual_seed(0)
    train = torch.from_numpy(parts["train"])

    def step() -> None:
        for places in train[torch.randperm(len(train), generator=draw)].split(64):
            if len(places) > 1:  # one graph has no batch statistics worth the name
                data = _batch(graphs, places.numpy())
                optimizer.zero_grad()
                F.cross_entropy(model(data), data.y).backward()
                optimizer.step()

    def evaluate() -> tuple[float, Score]:
        logits = {part: model(batches[part]) for part in PARTS[1:]}
        right = [
            float((logits[part].argmax(dim=1) == batches[part].y).float().mean())
            for part in PARTS[1:]
        ]
        return float(F.cross_entropy(logits["valid"], batches["valid"].y)), Score(*right)

    return _stopped_early(model, step, evaluate)


# --- triples and texts


def _embeddings(decoder: str, penalties: Sequence[float], case: Case) -> Score:
    """Vectors without dropout; validation data chooses the N3 penalty."""
    model = {"name": "embeddings", "decoder": decoder, "dim_quats": 50}
    values = {
        "model": model | {"dropout": 0.0, "norm": False},
        "train": {"lr": 0.01, "clip": None},
    }
    return best(_ours(case, values, {"train.n3": penalties}, "mrr"))


def _linear_texts(kind: str, vectorizer: str, case: Case) -> Score:
    """A linear model of words, perhaps with bigrams."""
    from sklearn.feature_extraction import text

    documents, found = case.data.documents, []
    texts = [documents.words(place) for place in range(len(documents))]
    train = [texts[place] for place in case.parts["train"]]
    options = {"sublinear_tf": True} if vectorizer == "TfidfVectorizer" else {"binary": True}
    for longest in (1, 2):
        made = getattr(text, vectorizer)(analyzer=_Words(longest), **options).fit(train)
        found.append(_linear(kind, made.transform(texts), documents.y.numpy(), case.parts))
    return best(found)


def _fasttext(case: Case) -> Score:
    values = {"model": {"name": "fasttext", "bigrams": 1 << 16}}
    return best(_ours(case, values, {"train.lr": [0.01, 0.05]}, "accuracy"))


class _Words:
    """The words of a text, and its bigrams if ``longest`` is 2."""

    def __init__(self, longest: int) -> None:
        self.longest = longest

    def __call__(self, words: Sequence[str]) -> list[str]:
        pairs = [" ".join(pair) for pair in pairwise(words)]
        return [*words, *pairs[: len(pairs) * (self.longest - 1)]]


def _ours(
    case: Case, values: configs.Values, grid: dict[str, Sequence[Any]], metric: str
) -> list[Score]:
    """A baseline that is a model of this package, with each setting of a grid."""
    task: Any = TASKS[case.task]
    values = values | {"data": {"path": case.config.data.path}}
    base = configs.to_dict(configs.build(task.config, values))
    tried = [configs.build(task.config, made) for made in configs.expand_grid(base, grid)]
    members = [member for config in tried for member in task.members(config, case.data)]
    outcomes = run(task, members, case.data, Context(torch.device("cpu")))
    found = [record.metrics for outcome in outcomes for record in outcome.records]
    return [Score(metrics[f"valid/{metric}"], metrics[f"test/{metric}"]) for metrics in found]


RIVALS: dict[str, dict[str, Callable[[Case], Score]]] = {
    "node": {
        "logistic regression": _linear_nodes,
        "MLP": partial(_network_nodes, MLP),
        "GCN": partial(_network_nodes, GCN),
        "GraphSAGE": partial(_network_nodes, GraphSAGE),
    },
    "graph": {
        "WL + SVM": _kernel_machine,
        "GCN": partial(_network_graphs, GCN, global_mean_pool),
        "GIN": partial(_network_graphs, GIN, global_add_pool),
    },
    "link": {
        "ComplEx-N3": partial(_embeddings, "complex", [1e-3, 1e-2, 5e-2]),
        "DistMult": partial(_embeddings, "distmult", [0.0, 1e-2]),
    },
    "text": {
        "TF-IDF + SVM": partial(_linear_texts, "svm", "TfidfVectorizer"),
        "logistic regression": partial(_linear_texts, "logistic", "CountVectorizer"),
        "fastText": _fasttext,
    },
}
