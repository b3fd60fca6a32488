"""The popularity baseline: entities ranked by how often each answers a relation."""

import torch
from torch.nn.functional import one_hot

from quatgraph.data.link import with_inverses
from quatgraph.ops import Ranks
from quatgraph.tasks.link.evaluation import rank_candidates
from quatgraph.tasks.link.problem import Problem


def rank_by_popularity(problem: Problem, part: str) -> Ranks:
    """Ranks the true entities of a part by how often each answers the query's relation in
    training."""
    entities, relations = problem.num_entities, 2 * problem.triples.num_relations
    _, relation, answer = with_inverses(problem.triples.train, relations // 2).unbind(1)
    counts = torch.bincount(relation * entities + answer, minlength=relations * entities)
    candidates = counts.view(relations, entities).mT.float().to(problem.device)
    queries = problem.parts[part]
    query = one_hot(queries.relation, relations).to(candidates.dtype)
    return rank_candidates(query, candidates, queries)
