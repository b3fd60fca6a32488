"""Trains runs of knowledge-graph completion of one shape as one ensemble."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from quatgraph.data.link import Triples
from quatgraph.errors import Mistake
from quatgraph.ops import one_vs_all_bce, one_vs_all_cross_entropy
from quatgraph.ops.one_vs_all import tile_size
from quatgraph.tasks.link.batches import QueryBatches
from quatgraph.tasks.link.classification import classified
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.evaluation import ranked, ranks_of, told
from quatgraph.tasks.link.problem import Problem, build_model
from quatgraph.tasks.runs import MERIT, learners, num_parameters
from quatgraph.tasks.task import Member
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.ranking import ranking_metrics
from quatgraph.training.runtime import at_most_threads, factors_rounded, total_memory

PRODUCTS = {"float32": None, "tf32": None, "bfloat16": torch.bfloat16}
"""What training rounds the factors of scores and of sums over neighbours to."""


def members_of(config: LinkConfig, triples: Triples) -> list[Member]:
    """One run per seed: a knowledge graph comes with one split."""
    return [Member(config, 0, seed) for seed in range(config.seeds)]


def plan_of(members: Sequence[Member], **others: Any) -> Plan:
    """The plan of an ensemble."""
    train = members[0].config.train
    chooses = train.select == "best-valid"
    return Plan(
        epochs=train.epochs,
        select=train.select,
        monitor=MERIT,
        patience=train.patience if chooses else None,
        evaluate_every=train.evaluate_every if chooses else train.epochs,
        **others,
    )


def train(
    members: Sequence[Member],
    problem: Problem,
    plan: Plan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fit:
    """Trains runs of one shape as one ensemble; see :func:`quatgraph.tasks.runs.together`.

    Validation questions are ranked on the way; the test questions once, by the selected weights.
    """
    config = members[0].config
    fitted = _in_pieces(lambda room: _train(members, problem, plan, progress, room))
    with factors_rounded(to="float32"):
        return _in_pieces(lambda room: _tested(fitted, config, problem, room))


def _in_pieces(work: Callable[[int], Fit]) -> Fit:
    """Does the work; where memory does not suffice, again with scores in smaller pieces."""
    for room in ROOMS:
        try:
            return work(room)
        except torch.OutOfMemoryError:
            pass  # what the failed try held is free once this block is left
        torch.cuda.empty_cache()
    raise Mistake(
        "the device is out of memory even in small pieces: "
        "lower model.dim_quats or train.batch_size, or train fewer seeds"
    )


ROOMS = (1, 4, 16, 64)
"""How many times smaller than usual the pieces are in which scores exist, tried one by one."""


def _train(
    members: Sequence[Member],
    problem: Problem,
    plan: Plan,
    progress: Callable[[int, int], None],
    room: int,
) -> Fit:
    config, device = members[0].config, problem.device
    ensemble, optimizer = learners(members, build_model, problem, device)
    batches = QueryBatches(problem.training, config.train.batch_size, [m.key for m in members])
    losses = Losses(members, problem, room)
    adjacency = problem.adjacency.with_product_dtype(PRODUCTS[config.train.precision])

    def loss() -> Tensor:
        head, relation, positives = batches.batch()
        query, candidates = ensemble(adjacency, head, relation, in_dims=(None, 0, 0))
        value = losses.of(query, candidates, positives)
        if losses.n3 is None:
            return value
        return value + losses.penalty(candidates, ensemble.stacked()["decoder.relations"])

    valid = problem.parts["valid"]

    def evaluate() -> Metrics:
        with factors_rounded(to="float32"):
            query, candidates = ensemble(problem.adjacency, valid.head, valid.relation)
            metrics = ranking_metrics(ranked(query, candidates, valid, _numbers(room)))
        return {f"valid/{name}": value for name, value in metrics.items()} | {
            MERIT: metrics[config.train.monitor]
        }

    with (
        factors_rounded(to=config.train.precision),
        at_most_threads(_useful_threads(members, problem)),
    ):
        return fit(
            ensemble,
            optimizer,
            loss=loss,
            evaluate=evaluate,
            plan=plan,
            batches=batches,
            progress=progress,
        )


def _numbers(room: int) -> int | None:
    """Scores that exist at once in an evaluation; None for what suits the device."""
    return None if room == 1 else (1 << 26) // room


class Losses:
    """The loss of a batch and the N3 penalty, of each member."""

    def __init__(self, members: Sequence[Member], problem: Problem, room: int = 1) -> None:
        config, entities = members[0].config, problem.num_entities
        self.train, self.problem = config.train, problem
        self.components, self.width = config.model.components, config.model.width
        self.floor = 1 / entities if config.train.floor == "uniform" else 0.0
        self.tile = None
        if room > 1:
            rows = len(members) * config.train.batch_size
            self.tile = max(1, tile_size(rows, entities, problem.device) // room)
        factors = [m.config.train.n3 for m in members]
        self.n3 = torch.tensor(factors, device=problem.device) if any(factors) else None

    def of(self, query: Tensor, candidates: Tensor, positives: Any) -> Tensor:
        """The loss, ``(M,)``, of queries ``(M, B, D)`` against candidates ``(M, E, D)``."""
        train = self.train
        how: dict[str, Any] = {"product_dtype": PRODUCTS[train.precision], "tile": self.tile}
        if train.loss == "softmax":
            return one_vs_all_cross_entropy(query, candidates, positives, **how)
        return one_vs_all_bce(
            query, candidates, positives, smoothing=train.smoothing, floor=self.floor, **how
        )

    def penalty(self, candidates: Tensor, relations: Tensor) -> Tensor:
        r"""N3, ``(M,)``: the mean over all that is learned of :math:`|\mathbf{h}|^3 +
        |\mathbf{v}_r|^3 + |\mathbf{t}|^3`, not over a batch only: the same on average, at no
        more cost.

        Shape:
            - candidates: ``(M, E, D)``, of which the entities' vectors come first
            - relations: ``(M, R, D)``
        """
        assert self.n3 is not None
        entities = self._cubes(candidates[..., : self.width]) @ self.problem.entity_share
        return self.n3 * (entities + self._cubes(relations) @ self.problem.relation_share)

    def _cubes(self, vectors: Tensor) -> Tensor:
        """The sum of the cubes of the absolute values of a vector's numbers."""
        parts = vectors.unflatten(-1, (self.components, -1))
        squares = parts.square().sum(dim=-2)
        return (squares * (squares + 1e-20).sqrt()).sum(dim=-1)


def _useful_threads(members: Sequence[Member], problem: Problem) -> int:
    """Threads of a CPU that a step keeps busy: one, and one more for each billion operations of its
    products; more would wait for each other, the longer the more runs beside them."""
    config = members[0].config
    scores = len(members) * config.train.batch_size * problem.num_entities
    return 1 + int(6 * scores * config.model.width / 1e9)


def _tested(fitted: Fit, config: LinkConfig, problem: Problem, room: int) -> Fit:
    """The same with the metrics of the test part, by the selected weights."""
    model = build_model(config, problem).to(problem.device).eval()
    found: list[dict[str, float]] = []
    for member in range(len(fitted.best_epoch)):
        model.load_state_dict({name: fitted.weights[name][member] for name in model.state_dict()})
        ranks = ranks_of(model, problem, "test", _numbers(room))
        found.append(told(ranks, "test") | classified(model, problem))
    tests = {name: torch.tensor([one[name] for one in found]) for name in found[0]}
    return dataclasses.replace(fitted, metrics=fitted.metrics | tests)


def members_at_once(problem: Problem, config: LinkConfig, device: torch.device) -> int:
    """How many members fit into a third of the memory, by a count of what each holds.

    On a CPU fewer: beyond its cache, members trained together only hinder each other.
    """
    vectors = problem.num_entities * config.model.width
    queries = config.train.batch_size + 2 * len(problem.triples.valid)
    activations = config.model.num_activations(problem.num_entities, queries)
    # With gradient, Adam's two, and the best.
    held = 4 * (6 * num_parameters(build_model, config, problem) + activations)
    if held > 0.9 * total_memory(device):
        raise Mistake(
            f"{problem.num_entities:,} entities of {config.model.dim_quats} quaternions take about "
            f"{held / 2**30:.0f} GiB in training, which {device.type} does not have: "
            "lower model.dim_quats"
        )
    fitting = total_memory(device) / 3 / held
    if device.type == "cpu":
        fitting = min(fitting, CPU_NUMBERS / vectors)
    return max(1, int(fitting))


CPU_NUMBERS = 1 << 20
"""Numbers of all entities' vectors, over all members, that a CPU still handles well together."""


def card(config: LinkConfig, triples: Triples, problem: Problem) -> dict[str, Any]:
    """The names of entities and relations, so that a bundle predicts without the data."""
    return {
        "entities": triples.entities,
        "relations": triples.relations,
        "entity_labels": triples.entity_labels,
        "relation_labels": triples.relation_labels,
        "notes": triples.notes,
    }


def kept(triples: Triples, configs: Sequence[LinkConfig]) -> dict[str, Tensor]:
    """The triples, so that a bundle filters known ones without the data."""
    parts = {
        "train": triples.train,
        "valid": triples.valid,
        "test": triples.test,
        "valid_negatives": triples.valid_negatives,
        "test_negatives": triples.test_negatives,
    }
    return {name: part.int() for name, part in parts.items() if part is not None}
