"""A knowledge graph as the models take it: questions, what is known, how often all occur."""

import dataclasses
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from cities import ENTITIES, cities, config_of, problem_of

from quatgraph.data.link import Triples, random_triples
from quatgraph.errors import UserError
from quatgraph.layers.decoder import DECODERS
from quatgraph.models.link import MODELS
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import DataConfig, LinkConfig
from quatgraph.tasks.link.problem import Problem

R = 3


@pytest.fixture(scope="module")
def triples() -> Triples:
    return random_triples(40, R, 400)


@pytest.mark.parametrize("values", [{}, {"name": "countries", "path": "here"}])
def test_a_config_must_name_one_source_of_data(values: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"set either data\.name, .* or data\.path"):
        LINK.load(LinkConfig(data=DataConfig(**values)))


def test_the_data_is_the_catalogs_or_a_file(tmp_path: Path) -> None:
    assert LINK.load(LinkConfig(data=DataConfig(name="countries"))).num_relations == 13
    file = tmp_path / "mine.tsv"
    file.write_text("".join(f"a{i}\tis\ta{j}\n" for i in range(9) for j in range(9)))
    drawn = [
        LINK.load(LinkConfig(data=DataConfig(path=str(file), split_seed=seed)))
        for seed in (0, 0, 1)
    ]
    assert drawn[0].entities[:2] == ["a0", "a1"]
    assert drawn[0].digest == drawn[1].digest != drawn[2].digest


def questions(triples: Triples, part: str) -> list[tuple[int, int, int]]:
    asked = getattr(triples, part).tolist()
    return [*map(tuple, asked), *((t, r + R, h) for h, r, t in asked)]


@pytest.mark.parametrize("part", ["valid", "test"])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_a_triple_is_asked_for_its_tail_and_for_its_head(
    triples: Triples, part: str, reciprocal: bool
) -> None:
    found = problem_of(triples, **{"data.reciprocal": reciprocal}).parts[part]
    asked = torch.stack((found.head, found.relation, found.truth), dim=1).tolist()
    assert list(map(tuple, asked)) == questions(triples, part)


@pytest.mark.parametrize("part", ["valid", "test"])
def test_what_is_known_of_a_question_is_what_any_part_says(triples: Triples, part: str) -> None:
    facts = {fact for name in ("train", "valid", "test") for fact in questions(triples, name)}
    found = problem_of(triples).parts[part]
    lists = [found.known[a:b].tolist() for a, b in pairwise(found.ptr.tolist())]
    for (head, relation, truth), known in zip(questions(triples, part), lists, strict=True):
        assert truth in known
        assert known == [e for e in range(40) if (head, relation, e) in facts]


def learned(triples: Triples, reciprocal: bool) -> list[tuple[int, int, int]]:
    both = questions(triples, "train")
    return both if reciprocal else both[: len(triples.train)]


@pytest.mark.parametrize("reciprocal", [True, False])
def test_all_tails_are_learned_and_all_heads_where_inverse_relations_are(
    triples: Triples, reciprocal: bool
) -> None:
    training = problem_of(triples, **{"data.reciprocal": reciprocal}).training
    pairs = training.pairs.repeat_interleave(training.ptr.diff(), dim=0)
    found = torch.cat((pairs, training.tails[:, None]), dim=1).tolist()
    assert sorted(map(tuple, found)) == sorted(learned(triples, reciprocal))
    assert training.num_relations == (2 * R if reciprocal else R)


def shares(problem: Problem) -> tuple[list[float], list[float]]:
    return problem.entity_share.tolist(), problem.relation_share.tolist()


@pytest.mark.parametrize("reciprocal", [True, False])
def test_shares_are_how_often_each_occurs_in_what_is_learned(
    triples: Triples, reciprocal: bool
) -> None:
    facts = learned(triples, reciprocal)
    entities = Counter(e for head, _, tail in facts for e in (head, tail))
    relations = Counter(relation for _, relation, _ in facts)
    of_entities, of_relations = shares(problem_of(triples, **{"data.reciprocal": reciprocal}))
    assert of_entities == pytest.approx([entities[e] / len(facts) for e in range(40)])
    rows = 2 * R if reciprocal else R
    assert of_relations == pytest.approx([relations[r] / len(facts) for r in range(rows)])
    assert sum(of_entities) == pytest.approx(2)
    assert sum(of_relations) == pytest.approx(1)


def test_a_triple_that_is_there_twice_counts_once(triples: Triples) -> None:
    twice = dataclasses.replace(triples, train=triples.train.repeat(2, 1))
    assert shares(problem_of(twice)) == shares(problem_of(triples))


def test_neighbours_are_those_of_any_training_triple_and_an_entity_itself() -> None:
    triples = cities()
    expected = torch.eye(len(ENTITIES))
    for head, _, tail in triples.train.tolist():
        expected[head, tail] = expected[tail, head] = 1
    found = problem_of(triples, **{"model.normalization": "none"}).graph.to_dense()
    assert torch.equal(found, expected)
    rows = problem_of(triples).graph.to_dense()
    torch.testing.assert_close(rows, expected / expected.sum(dim=1, keepdim=True))


WITH_DECODER = [name for name, model in MODELS.items() if hasattr(model.Options, "decoder")]
WAYS = [{"model.name": name} for name in MODELS if name not in WITH_DECODER]
WAYS += [{"model.name": n, "model.decoder": decoder} for n in WITH_DECODER for decoder in DECODERS]
ONLY_RECIPROCAL = {"conve"}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way.values()))
@pytest.mark.parametrize("reciprocal", [True, False])
def test_every_model_answers_with_every_decoder(way: dict[str, str], reciprocal: bool) -> None:
    values = {**way, "data.reciprocal": reciprocal}
    problem = problem_of(cities(), **values)
    if not reciprocal and way["model.name"] in ONLY_RECIPROCAL:
        with pytest.raises(UserError, match=r"set data\.reciprocal=true"):
            LINK.build(config_of(**values), problem)
        return
    model = LINK.build(config_of(**values), problem).eval()
    asked = problem.parts["test"]
    query, candidates = model(problem.graph, asked.head, asked.relation)
    assert (query @ candidates.mT).shape == (len(asked.truth), len(ENTITIES))
    rows = model.decoder.relations.size(0)
    assert rows == problem.relation_share.numel() == (2 * R if reciprocal else R)
