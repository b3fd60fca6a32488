"""Text classification: documents as graphs of their words; any number of seeds at once."""

from quatgraph.models.text import MODELS
from quatgraph.tasks.task import Task
from quatgraph.tasks.text.config import VARYING, TextConfig
from quatgraph.tasks.text.problem import build_model, explain_overflow, load_corpus, prepare
from quatgraph.tasks.text.task import (
    card,
    kept,
    members_at_once,
    members_of,
    plan_of,
    said,
    train,
)

TEXT = Task(
    name="text",
    config=TextConfig,
    varying=VARYING,
    models=MODELS,
    load=load_corpus,
    members=members_of,
    prepare=prepare,
    build=build_model,
    train=train,
    plan=plan_of,
    members_at_once=members_at_once,
    card=card,
    said=said,
    kept=kept,
    explain_overflow=explain_overflow,
    told=("accuracy", "macro-f1"),
)
