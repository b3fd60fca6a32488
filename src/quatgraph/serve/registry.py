"""The models that a service holds, loaded one by one in the background."""

import gc
import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quatgraph.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from quatgraph.serve.answers import Answers

LOGGER = logging.getLogger("quatgraph.serve")
State = Literal["loading", "ready", "failed"]


class UnavailableError(Exception):
    """The model is still loading, or failed to load."""


class NotFoundError(Exception):
    """Nothing has this name."""


@dataclass(eq=False)
class Model:
    """A named model."""

    name: str
    path: Path
    device: str = "auto"
    state: State = "loading"
    error: str = ""
    task: str = ""
    loaded: "Answers | None" = None

    @property
    def answers(self) -> "Answers":
        """What answers; refuses while the model loads."""
        if self.state == "failed":
            raise UnavailableError(f"{self.name} could not be loaded: {self.error}")
        if self.loaded is None:
            raise UnavailableError(f"{self.name} is still loading; ask again in a moment")
        return self.loaded

    def load(self) -> None:
        """Loads the model; a mistake is kept for those who ask."""
        from quatgraph.serve.answers import open_answers

        try:
            self.loaded = open_answers(self.path, self.device)
            self.task = self.loaded.task
            self.state = "ready"
        except Exception as error:
            self.state = "failed"
            if isinstance(error, UserError):
                self.error = str(error)
                LOGGER.error("%s could not be loaded: %s", self.name, self.error)
            else:
                self.error = "an error inside quatgraph, which the service's log describes"
                LOGGER.exception("%s could not be loaded", self.name)

    def summary(self) -> dict[str, Any]:
        """An entry of the list of models."""
        about = self.loaded.summary() if self.loaded is not None else {}
        return {
            "name": self.name,
            "state": self.state,
            "error": self.error,
            "task": self.task,
            "data": about.get("data", ""),
            "methods": about.get("methods", []),
            "metrics": about.get("metrics", {}),
        }


@dataclass(eq=False)
class Registry:
    """Models by name."""

    models: dict[str, Model] = field(default_factory=dict)

    @classmethod
    def open(cls, paths: Sequence[Path], device: str = "auto") -> "Registry":
        """Names the models after their folders, and checks what can be checked at once."""
        registry = cls()
        for path in paths:
            name = path.resolve().name
            if name in registry.models and registry.models[name].path.resolve() == path.resolve():
                raise UserError(f"{path} is given twice; give each model once")
            if name in registry.models:
                raise UserError(
                    f"two models are called {name!r}: rename the folder {path}, since a folder's "
                    "name is the model's"
                )
            registry.models[name] = Model(name, path, device, task=_read_task(path))
        return registry

    def find(self, name: str) -> Model:
        """A model by its name."""
        if name not in self.models:
            names = list(self.models)
            hint = did_you_mean(name, names) or f"; there is {', '.join(names) or 'none'}"
            raise NotFoundError(f"there is no model {name!r}{hint}")
        return self.models[name]

    def load_in_background(self) -> threading.Thread:
        """Loads all models in a thread of its own."""

        def load() -> None:
            import torch

            # One core is for the event loop.
            torch.set_num_threads(max(1, torch.get_num_threads() - 1))
            for model in self.models.values():
                model.load()
            # What is loaded stays: without it, a collection does not hold up requests.
            gc.collect()
            gc.freeze()

        thread = threading.Thread(target=load, name="quatgraph-loader", daemon=True)
        thread.start()
        return thread


def _read_task(path: Path) -> str:
    """The task on a bundle's card, before its tensors are read; loading checks the rest."""
    if not path.is_dir():
        raise UserError(f"there is no bundle {path}; give the folder that a training wrote")
    card = path / "card.json"
    if not card.is_file():
        raise UserError(f"{path} is not a bundle: it has no {card.name}")
    try:
        found = json.loads(card.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""  # loading says what is wrong
    return str(found.get("task", "")) if isinstance(found, dict) else ""
