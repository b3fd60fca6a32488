"""Graph classification: many graphs, each with a class; any number of folds and seeds at once."""

from quatgraph.tasks.graph.task import GraphTask

GRAPH = GraphTask()
