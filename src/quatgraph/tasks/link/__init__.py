"""Knowledge-graph completion: triples, of which head or tail is asked for; any number of seeds."""

from quatgraph.models.link import MODELS
from quatgraph.tasks.link.config import VARYING, LinkConfig
from quatgraph.tasks.link.problem import build_model, load_triples, prepare
from quatgraph.tasks.link.task import (
    card,
    kept,
    members_at_once,
    members_of,
    plan_of,
    train,
)
from quatgraph.tasks.task import Task

LINK = Task(
    name="link",
    config=LinkConfig,
    varying=VARYING,
    models=MODELS,
    load=lambda config: load_triples(config.data),
    members=members_of,
    prepare=prepare,
    build=build_model,
    train=train,
    plan=plan_of,
    members_at_once=members_at_once,
    card=card,
    validates=lambda config, triples: len(triples.valid) > 0,
    kept=kept,
    told=("mrr", "hits@10"),
)
