"""Settings by dotted keys, as tests write them."""

from collections.abc import Mapping
from typing import Any, TypeVar

from quatgraph import config as configs

Config = TypeVar("Config")


def built(config: type[Config], settings: Mapping[str, Any]) -> Config:
    """A config with settings as ``train.lr``, the others as they are."""
    (values,) = configs.expand_grid({}, {key: [value] for key, value in settings.items()})
    return configs.build(config, values)
