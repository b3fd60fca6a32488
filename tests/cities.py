"""People and cities: a small knowledge graph in which what is asked follows from what is known."""

import dataclasses
from pathlib import Path
from typing import Any

import settings
import torch
from on_cpu import run
from torch import Tensor

from quatgraph.data.link import Triples
from quatgraph.data.link.features import compress
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.problem import Problem
from quatgraph.tasks.runs import Outcome
from quatgraph.tasks.task import Member
from quatgraph.training.loop import Fit

CPU = torch.device("cpu")
CITIES, PEOPLE = 5, 25
ENTITIES = [f"person {i}" for i in range(PEOPLE)] + [f"city {i}" for i in range(CITIES)]
RELATIONS = ["knows", "lives in", "works in"]
SMALL: dict[str, Any] = {
    "data.path": "here",
    "model.decoder": "distmult",
    "model.dim_quats": 2,
    "model.dropout": 0.0,
    "train.epochs": 4,
    "train.batch_size": 16,
    "train.lr": 0.02,
    "train.loss": "bce",
    "train.monitor": "hits@10",
    "train.evaluate_every": 1,
    "train.patience": None,
}


def config_of(**values: Any) -> LinkConfig:
    return settings.built(LinkConfig, values, SMALL)


def cities() -> Triples:
    """All live and work in the same city and know the next who does. Where every fourth person
    lives is asked for in valid, and where those after them work in test."""
    person = torch.arange(PEOPLE)
    city = PEOPLE + person % CITIES
    knows = _triples(person, 0, (person + CITIES) % PEOPLE)
    lives, works = _triples(person, 1, city), _triples(person, 2, city)
    valid, test = person % 4 == 0, person % 4 == 1
    return Triples(
        name="cities",
        train=torch.cat((knows, lives[~valid], works[~test])),
        valid=lives[valid],
        test=works[test],
        entities=ENTITIES,
        relations=RELATIONS,
        entity_labels=ENTITIES,
        relation_labels=RELATIONS,
    )


def part_rows(triples: Triples, part: str) -> str:
    """The triples of a part as lines of a file."""
    ends, kinds = triples.entities, triples.relations
    numbers = getattr(triples, part).tolist()
    return "".join(f"{ends[h]}\t{kinds[r]}\t{ends[t]}\n" for h, r, t in numbers)


def write_cities(folder: Path) -> Path:
    """Makes a folder with the parts of :func:`cities`."""
    folder.mkdir()
    for part in ("train", "valid", "test"):
        (folder / f"{part}.tsv").write_text(part_rows(cities(), part))
    return folder


def with_negatives(triples: Triples) -> Triples:
    """The same with the next city as the wrong one of each that is asked for."""
    step = torch.tensor([0, 0, 1])
    valid, test = (
        torch.where(part + step == len(ENTITIES), PEOPLE, part + step)
        for part in (triples.valid, triples.test)
    )
    return dataclasses.replace(triples, valid_negatives=valid, test_negatives=test)


def problem_of(triples: Triples, **values: Any) -> Problem:
    return LINK.prepare(triples, config_of(**values), CPU)


def outcome_of(members: list[Member], data: Triples, **others: Any) -> Outcome:
    (outcome,) = run(LINK, members, data, **others)
    return outcome


def _triples(head: Tensor, relation: int, tail: Tensor) -> Tensor:
    return torch.stack((head, torch.full_like(head, relation), tail), dim=1)


def bits(fitted: Fit) -> dict[str, list[Any]]:
    held = {**fitted.weights, **fitted.curves, **fitted.metrics, "epoch": fitted.best_epoch}
    return {name: value.cpu().tolist() for name, value in held.items()}


WITHOUT_RELATION_QUERY = ("conve", "sacn")
"""Models whose decoder cannot predict relations."""


def varied(**values: Any) -> list[Member]:
    """Three members of an ensemble that differ in all that may vary."""
    ways = ((0.02, 0.0, 0.0, 0.0), (0.01, 0.3, 0.01, 0.5), (0.005, 0.5, 0.1, 0.1))
    names = ["train.lr", "model.dropout", "train.n3"]
    if values.get("model.name") not in WITHOUT_RELATION_QUERY:
        names.append("train.relation_weight")
    return [
        Member(config_of(**values, **dict(zip(names, way, strict=False))), 0, seed)
        for seed, way in enumerate(ways)
    ]


def with_features(triples: Triples, *, sparse: bool = True, scale: float = 1.0) -> Triples:
    """The same with features of all entities but the first: person or city, and perhaps noise."""
    count = triples.num_entities
    x = torch.zeros(count, 12 if sparse else 4)
    x[torch.arange(count), (torch.arange(count) >= PEOPLE).long()] = scale
    if not sparse:
        x += torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    x[0] = 0
    names = [f"x{column}" for column in range(x.size(1))]
    return dataclasses.replace(triples, features=compress(x), feature_names=names)


def without_first_city(triples: Triples) -> Triples:
    """The same without training triples of the first city."""
    first = (triples.train == PEOPLE)[:, [0, 2]].any(dim=1)
    return dataclasses.replace(triples, train=triples.train[~first])
