"""Node classification: one graph, some labelled nodes, any number of splits and seeds at once."""

from quatgraph.models.node import MODELS
from quatgraph.tasks.node.config import VARYING, NodeConfig
from quatgraph.tasks.node.problem import build_model, explain_overflow, load_data, prepare
from quatgraph.tasks.node.task import card, members_at_once, members_of, plan_of, said, train
from quatgraph.tasks.task import Task

NODE = Task(
    name="node",
    config=NodeConfig,
    varying=VARYING,
    models=MODELS,
    load=lambda config: load_data(config.data),
    members=members_of,
    prepare=prepare,
    build=build_model,
    train=train,
    plan=plan_of,
    members_at_once=members_at_once,
    card=card,
    said=said,
    explain_overflow=explain_overflow,
)
