"""The training losses of knowledge-graph completion."""

from collections.abc import Sequence

import torch
from torch import Tensor

from quatgraph.ops import (
    Positives,
    k_vs_all_cross_entropy,
    one_vs_all_bce,
    one_vs_all_cross_entropy,
)
from quatgraph.ops.one_vs_all import tile_size
from quatgraph.tasks.link.batches import expand_triples
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.problem import Problem
from quatgraph.tasks.task import Member

PRODUCT_DTYPES = {"float32": None, "tf32": None, "bfloat16": torch.bfloat16}
"""The type to which training rounds the factors of scores and of sums over neighbours."""


class Losses:
    """The loss of a batch and the N3 penalty, of each member. Tiles of scores are ``divisor`` times
    smaller than usual."""

    def __init__(
        self, members: Sequence[Member[LinkConfig]], problem: Problem, divisor: int = 1
    ) -> None:
        config, entities = members[0].config, problem.num_entities
        self.train, self.problem, self.shards = config.train, problem, problem.shards
        self.components, self.width = config.model.components, config.model.width
        self.floor = 1 / entities if config.train.floor == "uniform" else 0.0
        self.tile = None
        if divisor > 1:
            rows = len(members) * config.train.batch_size
            self.tile = max(1, tile_size(rows, problem.num_own, problem.device) // divisor)
        settings = [member.config.train for member in members]
        self.n3 = self._weights([train.n3 for train in settings])
        self.relation_weight = self._weights([train.relation_weight for train in settings])
        if self.relation_weight is not None:
            self.triples = expand_triples(problem.training)
            self.truth = self.triples[:, 1].contiguous()
            self.triple_ptr = torch.arange(len(self.triples) + 1, device=problem.device)

    def _weights(self, values: Sequence[float]) -> Tensor | None:
        """The weight of a term for each member, ``(M,)``; None if no member has it."""
        return torch.tensor(values, device=self.problem.device) if any(values) else None

    def ends(self, triples: Tensor | None) -> Tensor | None:
        """The heads and tails of training triples, ``(M, T) -> (M, T, 2)``."""
        if triples is None:
            return None
        found = self.triples[:, ::2].index_select(0, triples.flatten())
        return found.view(*triples.shape, 2)

    def score_loss(self, query: Tensor, candidates: Tensor, positives: Positives) -> Tensor:
        """The loss, ``(M,)``, of queries ``(M, B, D)`` against candidates ``(M, E, D)``."""
        train, dtype = self.train, PRODUCT_DTYPES[self.train.precision]
        if train.loss == "softmax":
            return one_vs_all_cross_entropy(
                query,
                candidates,
                positives,
                product_dtype=dtype,
                tile=self.tile,
                shards=self.shards,
            )
        targets_loss = one_vs_all_bce if train.loss == "bce" else k_vs_all_cross_entropy
        return targets_loss(
            query,
            candidates,
            positives,
            smoothing=train.smoothing,
            floor=self.floor,
            product_dtype=dtype,
            tile=self.tile,
            shards=self.shards,
        )

    def relation_loss(self, vectors: Sequence[Tensor], triples: Tensor) -> Tensor:
        """The weighted loss of the relations of triples ``(M, T)``, ``(M,)``.

        Args:
            vectors: Query vectors ``(M, T, D)``, and the candidate vectors of all relations, with
                inverse ones, ``(M, 2R, D)``.
        """
        assert self.relation_weight is not None
        query, candidates = vectors
        truth = Positives(self.triple_ptr, self.truth, triples)
        dtype = PRODUCT_DTYPES[self.train.precision]
        loss = one_vs_all_cross_entropy(query, candidates, truth, product_dtype=dtype)
        return self.relation_weight * loss

    def penalty(self, candidates: Tensor, relations: Tensor) -> Tensor:
        r"""N3, ``(M,)``: the mean of :math:`|\mathbf{h}|^3 + |\mathbf{v}_r|^3 + |\mathbf{t}|^3`
        over all training triples, not just a batch: the same in expectation, at no more cost.

        Shape:
            - candidates: ``(M, E, D)``, of which the entities' vectors come first
            - relations: ``(M, R, D)``
        """
        assert self.n3 is not None
        cubes, share = self._cubes(candidates[..., : self.width]), self.problem.entity_share
        if self.shards:
            entities = self.shards.sum(cubes @ share[self.shards.first : self.shards.last])
        else:
            entities = cubes @ share
        return self.n3 * (entities + self._cubes(relations) @ self.problem.relation_share)

    def _cubes(self, vectors: Tensor) -> Tensor:
        """The sum of the cubes of the absolute values of a vector's numbers."""
        parts = vectors.unflatten(-1, (self.components, -1))
        squares = parts.square().sum(dim=-2)
        return (squares * (squares + 1e-20).sqrt()).sum(dim=-1)
