"""The paper's tasks; each says what decides a number, and how its models are trained."""

from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.link import LINK
from quatgraph.tasks.node import NODE
from quatgraph.tasks.task import Task
from quatgraph.tasks.text import TEXT

TASKS: dict[str, Task] = {
    "node": NODE,
    "graph": GRAPH,
    "link": LINK,
    "text": TEXT,
}
