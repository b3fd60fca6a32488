"""The hyperparameters of a task as Markdown, for ``docs/settings.md``."""

from collections.abc import Sequence

from quatgraph.reproduce.render import markdown_table
from quatgraph.settings import Setting, describe_settings
from quatgraph.tasks.task import AnyTask

HEADER = ("setting", "default", "value", "meaning")


def render_settings(task: AnyTask) -> str:
    """A table of what all models of a task share, and one of the options of each model."""
    shared = [s for s in describe_settings(task.config) if not s.key.startswith("model.")]
    blocks = [_render_table(shared)]
    for name in task.models:
        own = [s for s in describe_settings(task.config, name) if s.key.startswith("model.")]
        blocks += [f"Model `{name}`:", _render_table([s for s in own if s.key != "model.name"])]
    return "\n\n".join(blocks)


def _render_table(settings: Sequence[Setting]) -> str:
    rows = (
        (
            f"`{setting.key}`",
            f"`{setting.default}`",
            ", ".join(filter(None, (setting.type, setting.bounds))),
            setting.meaning.replace("|", "\\|"),
        )
        for setting in settings
    )
    return markdown_table(HEADER, rows)
