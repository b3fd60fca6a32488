"""Settings by dotted keys, as tests write them."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from quatgraph import config as configs

Config = TypeVar("Config")
OF_SOME = ("model.decoder", "model.learned_vectors", "model.dropout", "model.num_layers")


def built(
    config: type[Config], values: Mapping[str, Any], small: Mapping[str, Any] | None = None
) -> Config:
    """A config with settings as ``train.lr``, the others as they are.

    Args:
        small: Settings for all models of a task: those that a model does not read are left out, and
            so are the values of :data:`OF_SOME`.
    """
    chosen = dict(values)
    if small is not None:
        for_some = {key: chosen.pop(key) for key in OF_SOME if key in chosen}
        chosen = readable(config, {**small, **for_some}, values) | chosen
    (nested,) = configs.expand_grid({}, {key: [value] for key, value in chosen.items()})
    return configs.build(config, nested)


def readable(config: Any, small: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that the model which the values name reads."""
    (field,) = (field for field in dataclasses.fields(config) if field.name == "model")
    default = field.default_factory()
    name = values.get("model.name", small.get("model.name", default.name))
    options = field.metadata["models"][name].Options if "models" in field.metadata else default
    known = {f"model.{field.name}" for field in dataclasses.fields(options)}
    return {k: v for k, v in small.items() if not k.startswith("model.") or k in known}
