"""Graph classification: many graphs, each with a class; any number of folds and seeds at once."""

from quatgraph.models.graph import MODELS
from quatgraph.tasks.graph.config import VARYING, GraphConfig
from quatgraph.tasks.graph.problem import build_model, load_graphs, prepare
from quatgraph.tasks.graph.task import (
    card,
    curves_of,
    members_at_once,
    members_of,
    plan_of,
    said,
    train,
)
from quatgraph.tasks.task import Task

GRAPH = Task(
    name="graph",
    config=GraphConfig,
    varying=VARYING,
    models=MODELS,
    load=lambda config: load_graphs(config.data),
    members=members_of,
    prepare=prepare,
    build=build_model,
    train=train,
    plan=plan_of,
    members_at_once=members_at_once,
    card=card,
    validates=lambda config, graphs: config.data.validation > 0,
    answers_together=True,
    said=said,
    explain_overflow=lambda graphs, problem: problem.features.explain_overflow(graphs),
    curves=curves_of,
)
