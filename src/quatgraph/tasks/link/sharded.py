"""Knowledge-graph completion on several ranks, each holding a part of the entities.

The first rank trains like a single process. Whenever it trains an ensemble, it notifies the other
ranks, which train their part with the same code; see :mod:`quatgraph.ops.shards`. They write
nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from quatgraph import config as configs
from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.ops import Shards
from quatgraph.tasks.combination import TrainedRun
from quatgraph.tasks.ensembles import Problems
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.pool import RankingPool
from quatgraph.tasks.link.problem import Problem
from quatgraph.tasks.link.task import LinkTask
from quatgraph.tasks.task import Member
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.launch import Launch, share
from quatgraph.training.loop import Fit, Paused, Plan
from quatgraph.training.optim import MemberOptimizer
from quatgraph.training.ranks import Ranks
from quatgraph.training.runtime import matmul_precision


class ShardedLinkTask(LinkTask):
    """The link task on one of several ranks."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._trains = False

    def prepare(self, data: Triples, config: LinkConfig, device: torch.device) -> Problem:
        rank, size = self.launch.rank, self.launch.world_size
        return replace(
            super().prepare(data, config, device), shards=Shards(data.num_entities, rank, size)
        )

    def num_parameters(self, config: LinkConfig, problem: Problem) -> int:
        return super().num_parameters(config, replace(problem, shards=None))

    def build_ensemble(
        self, members: Sequence[Member[LinkConfig]], problem: Problem
    ) -> tuple[Ensemble, MemberOptimizer]:
        ensemble, optimizer = super().build_ensemble(members, problem)
        assert problem.shards is not None
        ranks = Ranks(problem.shards, members[0].config.model.width, ensemble.flat.size(1))
        ensemble.ranks, optimizer.count_squares = ranks, ranks.count_squares
        return ensemble, optimizer

    def train(self, members: Sequence[Member[LinkConfig]], problem: Problem, plan: Plan) -> Fit:
        """Trains with the other ranks. On the first one the result has all weights, in main
        memory."""
        if self.launch.rank == 0:
            share({"members": _pack(members), "plan": _pack_plan(plan)})
        self._trains = True
        # A step waits for other ranks: it is no CUDA graph.
        fitted = self._fit(members, problem, replace(plan, capture=False), 1)
        with matmul_precision("float32"):
            fitted = self._test(fitted, members[0].config, problem, 1)
        assert problem.shards is not None
        ranks = Ranks(problem.shards, members[0].config.model.width, 0)
        whole = fitted.weights | {"entities": ranks.whole(fitted.weights["entities"])}
        self._trains = False
        return replace(fitted, weights=whole)

    def follow(self, data: Triples, device: torch.device) -> int:
        """Trains what the first rank trains, until that is done; returns its exit code."""
        problems = Problems(self, data, device)
        while "exit" not in (call := share(None)):
            members = [
                Member(configs.build(LinkConfig, one["config"]), one["split"], one["seed"])
                for one in call["members"]
            ]
            own = self.plan(members)
            given = call["plan"] | {"checkpoint": call["plan"]["checkpoint"] and Path()}
            try:
                self.train(members, problems.prepare(members[0].config), replace(own, **given))
            except Paused:
                self._trains = False
        return int(call["exit"])

    @contextmanager
    def leading(self) -> Iterator[None]:
        """A block of the first rank, whose end the others follow."""
        code = 1
        try:
            yield
            code = 0
        except UserError:
            code = 2
            raise
        except Paused:
            self._trains, code = False, 0
            raise
        finally:
            if not self._trains:  # else they wait for something else, and see this rank end
                share({"exit": code})

    def pool(self, runs: Sequence[TrainedRun], data: Triples, device: torch.device) -> RankingPool:
        return LinkTask().pool(runs, data, device)


def _pack(members: Sequence[Member[LinkConfig]]) -> list[configs.Values]:
    return [
        {"config": configs.to_dict(one.config), "split": one.split, "seed": one.seed}
        for one in members
    ]


def _pack_plan(plan: Plan) -> configs.Values:
    """What a plan has beside that of its members."""
    return {
        "epochs": plan.epochs,
        "resume": plan.resume,
        "key": plan.key,
        "save_every": plan.save_every,
        "checkpoint": plan.checkpoint is not None,
    }
