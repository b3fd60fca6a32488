"""Knowledge-graph completion: triples whose head or tail is predicted; any number of seeds."""

from quatgraph.tasks.link.task import LinkTask

LINK = LinkTask()
