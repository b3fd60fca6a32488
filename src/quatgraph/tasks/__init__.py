"""The paper's tasks; each says what decides a number, and how to run it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from quatgraph import config as configs
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.problem import load_data
from quatgraph.tasks.node.run import Outcome, members_of, run


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    config: type[NodeConfig]
    load: Callable[[NodeConfig], Any]
    """Reads the dataset of a config."""
    members: Callable[[NodeConfig, Any], list[Any]]
    """The runs of a config: its splits and seeds."""
    run: Callable[..., Iterator[Outcome]]
    """Trains runs and yields each finished ensemble."""

    def build(self, values: dict[str, Any]) -> NodeConfig:
        return configs.build(self.config, values)


TASKS: dict[str, Task] = {
    "node": Task("node", NodeConfig, lambda config: load_data(config.data), members_of, run),
}
