"""The paper's tasks: what decides a number of each, and how its models are trained."""

from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.link import LINK
from quatgraph.tasks.node import NODE
from quatgraph.tasks.task import AnyTask
from quatgraph.tasks.text import TEXT

TASKS: dict[str, AnyTask] = {
    "node": NODE,
    "graph": GRAPH,
    "link": LINK,
    "text": TEXT,
}
