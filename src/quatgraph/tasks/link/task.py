"""The task of knowledge-graph completion."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.data import link as source
from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.metrics.ranking import ranking_metrics
from quatgraph.models.link import MODELS, GraphModel, build_model
from quatgraph.tasks.combination import TrainedRun
from quatgraph.tasks.link.batches import Batch, QueryBatches, look_up
from quatgraph.tasks.link.classification import classification_metrics
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.evaluation import (
    SEEN,
    find_seen,
    rank_candidates,
    rank_part,
    summarize_ranks,
)
from quatgraph.tasks.link.losses import PRODUCT_DTYPES, Losses
from quatgraph.tasks.link.pool import RankingPool
from quatgraph.tasks.link.problem import Problem, build_problem, with_all_triples
from quatgraph.tasks.selection import SELECTION_SCORE
from quatgraph.tasks.task import Card, Member, Task
from quatgraph.training.loop import Fit, Metrics, Plan, fit
from quatgraph.training.runtime import limit_threads, matmul_precision, total_memory

CPU_NUMBERS = 1 << 20
"""Numbers of all entities' vectors, over all members, that a CPU still handles well together."""
DIVISORS = (1, 4, 16, 64)
"""How many times smaller than usual tiles of scores are; tried in turn until memory suffices."""


class LinkTask(Task[LinkConfig, Triples, Problem]):
    name = "link"
    config = LinkConfig
    varying = (
        "model.dropout",
        "train.lr",
        "train.weight_decay",
        "train.n3",
        "train.relation_weight",
    )
    models = MODELS
    reported_metrics = ("mrr", "hits@10")
    bags_selection = False  # measured for classifiers only

    def load(self, config: LinkConfig, *, labels_needed: bool = True) -> Triples:
        settings = config.data
        configs.check_source(settings)
        if settings.name:
            return source.read_entities(source.load(settings.name), settings.entity_source)
        return source.read(
            Path(settings.path),
            header=settings.header,
            split_seed=settings.split_seed,
            unseen=settings.unseen,
            columns=settings.columns,
            entities=settings.entity_source,
        )

    def check_candidates(self, candidates: Sequence[LinkConfig], data: Triples) -> list[str]:
        """Reports the models that take no features; refuses them if there are no others."""
        if data.features is None:
            return []
        used = dict.fromkeys(config.model.name for config in candidates)
        without = [name for name in used if not issubclass(MODELS[name], GraphModel)]
        if not without:
            return []
        names = ", ".join(without)
        if len(without) < len(used):
            return [f"trained without the features of entities, which they do not take: {names}"]
        which = f"the models {names} take" if len(without) > 1 else f"the model {names} takes"
        takers = [name for name, model in MODELS.items() if issubclass(model, GraphModel)]
        raise UserError(
            f"{which} no features of entities; choose one of {', '.join(takers)}, or leave the "
            "features out with --set data.entities=none"
        )

    def has_validation(self, config: LinkConfig, data: Triples) -> bool:
        return len(data.valid) > 0

    def prepare(self, data: Triples, config: LinkConfig, device: torch.device) -> Problem:
        problem = build_problem(data, config.model.graph, config.data.reciprocal, device)
        return with_all_triples(problem) if config.train.labels == "all" else problem

    def build(self, config: LinkConfig, problem: Problem) -> nn.Module:
        reciprocal, shards = config.data.reciprocal, problem.shards
        return build_model(config.model, problem.triples, reciprocal=reciprocal, shards=shards)

    def train(self, members: Sequence[Member[LinkConfig]], problem: Problem, plan: Plan) -> Fit:
        """Validation triples are ranked during the training; test triples once, by the selected
        weights."""
        fitted = _with_less_memory(lambda divisor: self._fit(members, problem, plan, divisor))
        with matmul_precision("float32"):
            return _with_less_memory(
                lambda divisor: self._test(fitted, members[0].config, problem, divisor)
            )

    def _fit(
        self, members: Sequence[Member[LinkConfig]], problem: Problem, plan: Plan, divisor: int
    ) -> Fit:
        config = members[0].config
        ensemble, optimizer = self.build_ensemble(members, problem)
        losses = Losses(members, problem, divisor)
        batches = QueryBatches(
            problem.training,
            config.train.batch_size,
            [member.key for member in members],
            with_triples=losses.relation_weight is not None,
        )
        graph = problem.graph
        if graph is not None:
            graph = graph.with_product_dtype(PRODUCT_DTYPES[config.train.precision])
        valid = problem.parts["valid"]

        def loss(batch: Batch) -> Tensor:
            head, relation, positives = look_up(problem.training, batch.rows)
            inputs = head, relation, losses.ends(batch.triples)
            dims = tuple(None if one is None else 0 for one in inputs)
            query, candidates, *relations = ensemble(graph, *inputs, in_dims=(None, *dims))
            value = losses.score_loss(query, candidates, positives)
            if batch.triples is not None:
                value = value + losses.relation_loss(relations, batch.triples)
            if losses.n3 is None:
                return value
            return value + losses.penalty(candidates, ensemble.stacked()["decoder.relations"])

        def evaluate() -> Metrics:
            with matmul_precision("float32"):
                query, candidates = ensemble(problem.graph, valid.head, valid.relation)
                limit, shards = _max_scores(divisor), problem.shards
                ranks = rank_candidates(query, candidates, valid, limit, shards)
                metrics = ranking_metrics(ranks)
            return {f"valid/{name}": value for name, value in metrics.items()} | {
                SELECTION_SCORE: metrics[config.train.monitor]
            }

        with (
            matmul_precision(config.train.precision),
            limit_threads(_useful_threads(members, problem)),
        ):
            return fit(
                ensemble, optimizer, loss=loss, evaluate=evaluate, batches=batches, plan=plan
            )

    def _test(self, fitted: Fit, config: LinkConfig, problem: Problem, divisor: int) -> Fit:
        """Adds the test metrics of the selected weights."""
        model = self.build(config, problem).to(problem.device).eval()
        found: list[dict[str, float]] = []
        for member in range(len(fitted.best_epoch)):
            state = {name: fitted.weights[name][member] for name in model.state_dict()}
            model.load_state_dict(state)
            ranks = rank_part(model, problem, "test", _max_scores(divisor))
            metrics = summarize_ranks(ranks, "test", find_seen(problem, "test"))
            found.append(metrics | classification_metrics(model, problem))
        tests = {name: torch.tensor([one[name] for one in found]) for name in found[0]}
        return dataclasses.replace(fitted, metrics=fitted.metrics | tests)

    def pool(self, runs: Sequence[TrainedRun], data: Triples, device: torch.device) -> RankingPool:
        models = []
        for one in runs:
            problem = self.prepare(data, one.config, device)
            model = self.build(one.config, problem)
            model.load_state_dict(dict(one.state))
            models.append((model.to(device).eval(), problem))
        return RankingPool(models, runs[0].config.train.monitor)

    def max_members(self, problem: Problem, config: LinkConfig) -> int:
        vectors = problem.num_own * config.model.width
        training, batch = problem.training, config.train.batch_size
        queries = batch + 2 * len(problem.triples.valid)
        if config.train.relation_weight:
            queries += len(training.tails) * batch // max(1, len(training))
        messages = getattr(problem.graph, "num_messages", 0)
        activations = config.model.num_activations(problem.num_own, queries, messages)
        memory, device = total_memory(problem.device), problem.device.type
        # Weights, gradients, Adam's two moments, the best weights, and views.
        elsewhere = config.model.width * (problem.num_entities - problem.num_own)
        weights = self.num_parameters(config, problem) - elsewhere
        held = 4 * (6 * weights + activations)
        if held > 0.9 * memory:
            raise UserError(
                f"{problem.num_own:,} entities of {config.model.dim_quats} quaternions take "
                f"about {held / 2**30:.0f} GiB in training, which {device} does not have: "
                "lower model.dim_quats"
            )
        fitting = memory / 3 / held
        if device == "cpu":
            fitting = min(fitting, CPU_NUMBERS / vectors)
        return max(1, int(fitting))

    def card(self, config: LinkConfig, data: Triples, problem: Problem) -> Card:
        """The names of entities, relations and features, so that a bundle predicts without the
        data."""
        return {
            "features": data.feature_names,
            "entities": data.entities,
            "relations": data.relations,
            "entity_labels": data.entity_labels,
            "relation_labels": data.relation_labels,
        }

    def summarize(self, card: Card) -> list[str]:
        """Reports the MRR apart where test triples have names that training never saw."""
        metrics = card["metrics"]
        mrr = {
            kind: f"{metrics[key]:.3f}".removeprefix("0")
            for kind in SEEN
            if (key := f"test-{kind}/mrr") in metrics
        }
        if not mrr:
            return []
        apart = ", ".join(f"{kind} in training {value}" for kind, value in mrr.items())
        return [f"test MRR by whether all names of a triple were {apart}"]

    def bundled_tensors(self, data: Triples, chosen: Sequence[LinkConfig]) -> dict[str, Tensor]:
        """The triples, so that a bundle filters known ones without the data, and the features of
        entities."""
        parts = {
            "train": data.train,
            "valid": data.valid,
            "test": data.test,
            "valid_negatives": data.valid_negatives,
            "test_negatives": data.test_negatives,
        }
        triples = {name: part.int() for name, part in parts.items() if part is not None}
        return triples | source.pack_features(data.features)


def _with_less_memory(work: Callable[[int], Fit]) -> Fit:
    """Calls the work with each of :data:`DIVISORS` until memory suffices."""
    for divisor in DIVISORS:
        try:
            return work(divisor)
        except torch.OutOfMemoryError:
            pass  # the memory of the failed attempt is freed when this block ends
        torch.cuda.empty_cache()
    raise UserError(
        "the device is out of memory even in small pieces: "
        "lower model.dim_quats or train.batch_size, or train fewer seeds"
    )


def _max_scores(divisor: int) -> int | None:
    """Scores that an evaluation holds at once; None for what suits the device."""
    return None if divisor == 1 else (1 << 26) // divisor


def _useful_threads(members: Sequence[Member[LinkConfig]], problem: Problem) -> int:
    """CPU threads that a step keeps busy: one, and one more per billion operations of its matrix
    products."""
    config = members[0].config
    scores = len(members) * config.train.batch_size * problem.num_own
    return 1 + int(6 * scores * config.model.width / 1e9)
