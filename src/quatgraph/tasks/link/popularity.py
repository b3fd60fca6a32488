"""What guessing is worth: answers by how often each is one, whatever is asked about."""

import torch
from torch.nn.functional import one_hot

from quatgraph.data.link import with_inverses
from quatgraph.ops import Ranks
from quatgraph.tasks.link.evaluation import ranked
from quatgraph.tasks.link.problem import Problem


def ranks_by_popularity(problem: Problem, part: str) -> Ranks:
    """The ranks of the right answers of a part, if entities are ordered by how often each answers
    the question's relation in training."""
    entities, relations = problem.num_entities, 2 * problem.triples.num_relations
    _, relation, answer = with_inverses(problem.triples.train, relations // 2).unbind(1)
    counts = torch.bincount(relation * entities + answer, minlength=relations * entities)
    candidates = counts.view(relations, entities).mT.float().to(problem.device)
    questions = problem.parts[part]
    query = one_hot(questions.relation, relations).to(candidates.dtype)
    return ranked(query, candidates, questions)
