"""Node classification: one graph, some labelled nodes, any number of splits and seeds at once."""

from quatgraph.tasks.node.task import NodeTask

NODE = NodeTask()
