"""Text classification: documents as graphs of their words; any number of seeds at once."""

from quatgraph.tasks.text.task import TextTask

TEXT = TextTask()
