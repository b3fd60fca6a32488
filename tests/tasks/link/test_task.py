"""How knowledge-graph completion trains: independence of members, selection, what is learned."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from cities import CPU, WITHOUT_RELATION_QUERY, bits, cities, config_of, problem_of, varied
from on_cpu import train_in_folder
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from quatgraph.adjacency import Adjacency
from quatgraph.data.link import Triples
from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.models.link import MODELS
from quatgraph.ops import one_vs_all
from quatgraph.tasks.ensembles import group_by_shape
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.batches import QueryBatches, expand_triples
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.problem import Problem
from quatgraph.tasks.task import Member
from quatgraph.training.bundle import load_bundle
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline


@pytest.fixture(scope="module")
def triples() -> Triples:
    return cities()


def test_a_config_is_run_with_every_seed(triples: Triples) -> None:
    pairs = [(m.split, m.seed) for m in LINK.members(config_of(seeds=3), triples)]
    assert pairs == [(0, 0), (0, 1), (0, 2)]


@pytest.fixture
def same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and dropout masks that are the same for every member and every training."""

    def in_turn(self: QueryBatches, epoch: int) -> list[int]:
        self.order = turn(self.order.size(1)).to(self.order).expand_as(self.order)
        shape = len(self.order), len(self.sizes) * self.triples_per_step
        self.triple_order = (torch.arange(shape[1]) % max(1, self.num_triples)).expand(shape)
        return self.sizes

    def masked(self: QuaternionDropout, x: Tensor, tiles: int, rows: Tensor | None) -> Tensor:
        random = torch.arange(x.numel(), device=x.device) * 0.6180339887 % 1
        return x * (random.view(x.shape) >= self.rate) / (1 - self.rate)

    monkeypatch.setattr(QueryBatches, "draw", in_turn)
    monkeypatch.setattr(QuaternionDropout, "_dropout", masked)


def turn(count: int) -> Tensor:
    return torch.arange(count).flip(0)


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def in_double(problem: Problem) -> Problem:
    def widen(tensor: Tensor) -> Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    return dataclasses.replace(
        problem,
        graph=pytree.tree_map_only(torch.Tensor, widen, problem.graph),
        entity_share=problem.entity_share.double(),
        relation_share=problem.relation_share.double(),
    )


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_a_member_among_others_equals_the_same_member_alone(
    triples: Triples, name: str, loss: str
) -> None:
    same = {"model.name": name, "train.loss": loss, "train.epochs": 3, "model.decoder": "complex"}
    varying = [
        {"train.lr": 0.02, "model.dropout": 0.0, "train.n3": 0.0},
        {"train.lr": 0.005, "model.dropout": 0.3, "train.n3": 0.01},
        {"train.lr": 0.01, "model.dropout": 0.5, "train.n3": 0.1, "train.weight_decay": 0.01},
    ]
    if name not in WITHOUT_RELATION_QUERY:
        varying[1]["train.relation_weight"] = 0.5
    members = [Member(config_of(**same, **own), 0, seed) for seed, own in enumerate(varying)]
    assert len(group_by_shape(LINK, members)) == 1
    problem = in_double(problem_of(triples, **same))
    ensemble = LINK.train(members, problem, LINK.plan(members))
    for index, member in enumerate(members):
        alone = LINK.train([member], problem, LINK.plan([member]))
        for key, curve in alone.curves.items():
            torch.testing.assert_close(ensemble.curves[key][:, index], curve[:, 0])
        for key, value in alone.metrics.items():
            torch.testing.assert_close(ensemble.metrics[key][index], value[0])
        for key, weight in alone.weights.items():
            torch.testing.assert_close(ensemble.weights[key][index], weight[0])


@pytest.mark.parametrize("name", ["simqgnn", "relqgnn"])
@pytest.mark.parametrize(
    ("precision", "rounded"), [("float32", None), ("tf32", None), ("bfloat16", torch.bfloat16)]
)
def test_only_training_rounds_sums_over_neighbours(
    triples: Triples,
    name: str,
    precision: str,
    rounded: torch.dtype | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, matmul = set(), Adjacency.__matmul__

    def watched(self: Adjacency, x: Tensor) -> Tensor:
        seen.add((torch.is_grad_enabled(), self.product_dtype))
        return matmul(self, x)

    values = {"model.name": name, "train.precision": precision, "train.epochs": 2}
    members, problem = [Member(config_of(**values), 0, 0)], problem_of(triples, **values)
    monkeypatch.setattr(Adjacency, "__matmul__", watched)
    LINK.train(members, problem, LINK.plan(members))
    assert seen == {(True, rounded), (False, None)}


def cubes(vectors: Tensor, components: int) -> Tensor:
    return vectors.unflatten(-1, (components, -1)).norm(dim=-2).pow(3).sum()


def loss_by_hand(
    model: nn.Module, problem: Problem, config: LinkConfig, rows: Tensor, triples: Tensor
) -> Tensor:
    """The loss of some queries with the whole matrix of their labels, and N3 triple by triple."""
    queries, settings = problem.training, config.train
    head, relation = queries.pairs[rows].unbind(1)
    facts = expand_triples(queries)[triples]
    ends = facts[:, ::2] if settings.relation_weight else None
    query, candidates, *relations = model(problem.graph, head, relation, ends)
    right = torch.zeros(len(rows), problem.num_entities)
    for place, row in enumerate(rows.tolist()):
        right[place, queries.tails[queries.ptr[row] : queries.ptr[row + 1]]] = 1
    scores = query @ candidates.mT
    if settings.loss == "softmax":
        loss = -(scores.log_softmax(dim=1) * right).sum() / right.sum()
    else:
        target = (1 - settings.smoothing) * right + 1 / problem.num_entities
        loss = F.binary_cross_entropy_with_logits(scores, target)
    pairs = queries.pairs.repeat_interleave(queries.ptr.diff(), dim=0)
    entities = candidates[:, : 4 * config.model.dim_quats]
    three = (
        entities[pairs[:, 0]],
        model.decoder.relations[pairs[:, 1]],
        entities[queries.tails],
    )
    n3 = sum(cubes(vectors, model.decoder.components) for vectors in three)
    loss = loss + settings.n3 * n3 / len(queries.tails)
    if not relations:
        return loss
    scores = relations[0] @ relations[1].mT
    return loss + settings.relation_weight * F.cross_entropy(scores, facts[:, 1])


@pytest.mark.usefixtures("same_draws", "double")
@pytest.mark.parametrize(
    ("name", "decoder", "loss", "reciprocal"),
    [
        ("simqgnn", "distmult", "bce", True),
        ("simrgcn", "quate", "softmax", True),
        ("embeddings", "complex", "bce", False),
        ("embeddings", "transe", "softmax", True),
        ("conve", "", "bce", True),
        ("rescal", "", "softmax", False),
        ("tucker", "", "bce", False),
    ],
)
def test_a_training_is_that_by_hand(
    triples: Triples, name: str, decoder: str, loss: str, reciprocal: bool
) -> None:
    values = {
        "model.name": name,
        "model.decoder": decoder,
        "model.dropout": 0.3,
        "data.reciprocal": reciprocal,
        "train.loss": loss,
        "train.n3": 0.02,
        "train.relation_weight": 0.3 * (reciprocal and name not in WITHOUT_RELATION_QUERY),
        "train.weight_decay": 0.001,
        "train.epochs": 3,
        "train.select": "last",
    }
    config = config_of(**values)
    problem = in_double(problem_of(triples, **values))
    members = [Member(config, 0, 7)]
    fitted = LINK.train(members, problem, LINK.plan(members))

    torch.manual_seed(7)
    model = LINK.build(config, problem).train()
    adam = torch.optim.Adam(
        model.parameters(), lr=config.train.lr, weight_decay=config.train.weight_decay
    )
    batches = turn(len(problem.training)).split(config.train.batch_size)
    count = len(problem.training.tails)
    share = -(-count // len(batches))
    triples = (torch.arange(share * len(batches)) % count).split(share)
    for _ in range(3):
        for rows, facts in zip(batches, triples, strict=True):
            adam.zero_grad()
            loss_by_hand(model, problem, config, rows, facts).backward()
            nn.utils.clip_grad_norm_(model.parameters(), config.train.clip)
            adam.step()
    for key, value in model.state_dict().items():
        torch.testing.assert_close(fitted.weights[key][0], value, rtol=1e-5, atol=1e-7)


def test_two_trainings_with_one_seed_are_equal_bit_for_bit(triples: Triples) -> None:
    members, problem = varied(), problem_of(triples)
    others = [dataclasses.replace(member, seed=member.seed + 9) for member in members]
    first, again, other = (
        bits(LINK.train(some, problem, LINK.plan(some))) for some in (members, members, others)
    )
    assert first == again
    assert first != other


def test_a_resumed_training_equals_the_uninterrupted_one_bit_for_bit(
    triples: Triples, tmp_path: Path
) -> None:
    candidates = [member.config for member in varied()]

    def trained(name: str, **others: Any) -> list[Any]:
        job = train_in_folder(LINK, candidates, tmp_path / name, data=triples, **others)
        return [(r.config_digest, r.best_epoch, r.metrics, r.curves) for r in job.records]

    whole = trained("whole")
    for done in (1, 2, 3):
        with pytest.raises(Paused, match=f"stopped after {done} of 4 epochs"):
            trained("parts", resume=done > 1, deadline=Deadline(0))
    assert trained("parts", resume=True) == whole
    first, second = (load_bundle(tmp_path / name) for name in ("whole", "parts"))
    assert first.card["sha256"] == second.card["sha256"]


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor that any operation gave has."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        sizes = [one.numel() for one in pytree.tree_leaves(made) if isinstance(one, Tensor)]
        self.numbers = max(self.numbers, *sizes, 0)
        return made


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("loss", ["bce", "softmax", "kvsall"])
def test_no_tensor_has_a_number_per_query_and_entity(
    name: str, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, queries, tile = 5_000, 64, 128
    monkeypatch.setitem(one_vs_all._TILE_NUMBERS, "cpu", queries * tile)
    names = [str(entity) for entity in range(count)]
    person = torch.arange(40)
    knows = torch.stack((person, person % 2, person + 40), dim=1)
    some = dataclasses.replace(
        cities(), train=knows, valid=knows[:2], test=knows[2:4], entities=names, entity_labels=names
    )
    values = {"model.name": name, "train.loss": loss, "train.epochs": 1}
    config = config_of(**values, **{"train.batch_size": queries})
    problem = LINK.prepare(some, config, CPU)
    members = LINK.members(config, some)
    with Largest() as largest:
        LINK.train(members, problem, LINK.plan(members))
    assert queries * tile <= largest.numbers < queries * count / 2


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("relations", [1, 2])
def test_one_relation_or_one_that_is_seen_once_is_enough(name: str, relations: int) -> None:
    whole = cities()
    knows = whole.train[whole.train[:, 1] == 0]
    lives = torch.tensor([[0, 1, 25]])[: relations - 1]
    kinds = ["knows", "lives in"][:relations]
    some = dataclasses.replace(
        whole,
        train=torch.cat((knows[4:], lives)),
        valid=knows[:2],
        test=torch.cat((knows[2:4], lives[:, [2, 1, 0]])),
        relations=kinds,
        relation_labels=kinds,
    )
    config = config_of(**{"model.name": name, "train.epochs": 2})
    members = LINK.members(config, some)
    fitted = LINK.train(members, LINK.prepare(some, config, CPU), LINK.plan(members))
    assert all(value.isfinite().all() for value in fitted.weights.values())
    assert 0 < fitted.metrics["test/mrr"].item() <= 1


CUDA = torch.device("cuda")


@pytest.fixture
def _three_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six steps of one shape are two replays of three, and the seventh is one of its own."""
    monkeypatch.setattr(QueryBatches, "max_loaded", 3)


@pytest.mark.gpu
@pytest.mark.usefixtures("_three_at_once")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_captured_steps_equal_eager_ones_bit_for_bit(
    triples: Triples, name: str, loss: str
) -> None:
    members = varied(**{"model.name": name, "train.loss": loss, "train.epochs": 6})
    problem = LINK.prepare(triples, members[0].config, CUDA)
    captured, eager = (
        LINK.train(members, problem, dataclasses.replace(LINK.plan(members), capture=capture))
        for capture in (True, False)
    )
    assert bits(captured) == bits(eager)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_an_ensemble_on_a_gpu_repeats_bit_for_bit(triples: Triples, precision: str) -> None:
    members = varied(**{"train.precision": precision, "train.epochs": 6})
    problem = LINK.prepare(triples, members[0].config, CUDA)
    first, again = (LINK.train(members, problem, LINK.plan(members)) for _ in range(2))
    assert bits(first) == bits(again)


@pytest.mark.gpu
@pytest.mark.usefixtures("_three_at_once")
def test_a_resumed_training_on_a_gpu_equals_the_uninterrupted_one(
    triples: Triples, tmp_path: Path
) -> None:
    members = varied()
    problem = LINK.prepare(triples, members[0].config, CUDA)
    whole = LINK.train(members, problem, LINK.plan(members))
    paused = dataclasses.replace(
        LINK.plan(members), checkpoint=tmp_path, resume=True, deadline=Deadline(0)
    )
    for _ in range(3):
        with pytest.raises(Paused):
            LINK.train(members, problem, paused)
    assert bits(LINK.train(members, problem, paused)) == bits(whole)


@pytest.mark.gpu
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("loss", ["bce", "softmax", "kvsall"])
def test_a_gpu_learns_what_a_cpu_learns(triples: Triples, name: str, loss: str) -> None:
    members = varied(**{"model.name": name, "train.loss": loss})
    here, there = (
        LINK.train(
            members, in_double(LINK.prepare(triples, members[0].config, device)), LINK.plan(members)
        )
        for device in (CPU, CUDA)
    )
    for key, value in (here.weights | here.curves | here.metrics).items():
        found = (there.weights | there.curves | there.metrics)[key].cpu()
        torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-6)
