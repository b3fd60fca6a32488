"""Hyperparameters as keyword arguments: ``lr=0.01`` for ``train.lr=0.01``."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypedDict, cast

import torch

from quatgraph import config as configs
from quatgraph.callbacks import Callback
from quatgraph.data.io.files import to_plain
from quatgraph.errors import UserError, did_you_mean
from quatgraph.tasks.class_weights import format_class_weights
from quatgraph.tasks.task import AnyTask


class TrainOptions(TypedDict, total=False):
    """Options that all training functions take by keyword, besides the hyperparameters."""

    device: str | torch.device
    """``auto``, ``cpu``, ``cuda`` or ``cuda:N``, or a device of torch; ``auto`` by default."""
    resume: bool
    """Whether to continue a training that the folder holds."""
    overwrite: bool
    """Whether to replace a training that the folder holds."""
    progress: bool
    """Whether to print notes, and to show a progress bar on a terminal or in a notebook."""
    callback: Callback | None
    """Called with the progress; see :mod:`quatgraph.callbacks`."""
    refit: bool
    """Whether to train the chosen members again, on all labels; the metrics are from before."""


_SYNONYMS = {
    "class_weight": "class_weights",
    "hidden_channels": "hidden_quats",
    "learning_rate": "lr",
    "max_iter": "epochs",
    "verbose": "progress",
}
"""Names in other libraries."""
_FLAGS = [name for name, kind in TrainOptions.__annotations__.items() if kind is bool]


def split_keywords(
    task: AnyTask, keywords: Mapping[str, object]
) -> tuple[TrainOptions, configs.Values]:
    """Separates the options of a training from its settings, which it returns nested.

    A setting is the name of a field of any section, ``model`` for the name of the model, or a
    dotted key. A value may be of NumPy's types; ``class_weights`` may be a dictionary, or None.

    Example:
        >>> from quatgraph.tasks.node import NODE
        >>> split_keywords(NODE, {"device": "cpu", "lr": 0.1, "model": "gcn"})
        ({'device': 'cpu'}, {'train': {'lr': 0.1}, 'model': {'name': 'gcn'}})
    """
    known, default = _known_settings(task), task.config().model.name
    chosen = keywords.get("model", keywords.get("model.name", default))
    own = known.get(chosen, known[default])  # building the configuration refuses another name
    options: dict[str, object] = {}
    settings: configs.Values = {}
    for name, value in keywords.items():
        if name in TrainOptions.__annotations__:
            if name in _FLAGS and not isinstance(value, bool):
                raise UserError(f"{name} must be True or False, got {value!r}")
            if name == "callback" and not (value is None or callable(value)):
                raise UserError(f"callback must be a function of an event, got {value!r}")
            options[name] = value
            continue
        key = name if name in own.values() else own.get(name)
        if key is None:
            raise UserError(_explain_unknown(name, own, known))
        section, _, field = key.rpartition(".")
        plain = to_plain(value)
        if key == "train.class_weights" and not isinstance(plain, str):
            plain = format_class_weights(plain)
        (settings.setdefault(section, {}) if section else settings)[field] = plain
    return cast(TrainOptions, options), settings


def apply_settings(task: AnyTask, config: Any, settings: configs.Values) -> Any:
    """The configuration with some settings replaced; of another model with its own options."""
    values = configs.to_dict(task.config() if config is None else config)
    other = settings.get("model", {}).get("name")
    values = configs.replace_model(task.config, values, other)
    for key, given in settings.items():
        values[key] = values[key] | given if isinstance(given, dict) else given
    return configs.build(task.config, values)


def _known_settings(task: AnyTask) -> dict[object, dict[str, str]]:
    """For each model the settings by their short names, with dotted keys."""
    default = task.config()
    (field,) = (field for field in dataclasses.fields(default) if "models" in field.metadata)
    shared = {"seeds": "seeds", "model": "model.name"}
    for section in ("train", "data"):
        names = [field.name for field in configs.user_fields(getattr(default, section))]
        shared |= {name: f"{section}.{name}" for name in names if name not in ("name", "path")}
    known: dict[object, dict[str, str]] = {}
    for name, model in field.metadata["models"].items():
        names = [own.name for own in dataclasses.fields(model.Options) if own.name != "name"]
        known[name] = {own: f"model.{own}" for own in names} | shared
    return known


def _explain_unknown(
    name: str, own: Mapping[str, str], known: Mapping[object, Mapping[str, str]]
) -> str:
    models = [repr(model) for model, others in known.items() if name in others]
    if models:
        plural = "s" * (len(models) > 1)
        return f"{name!r} is an option of the model{plural} {', '.join(models)}: set model too"
    names = [*TrainOptions.__annotations__, *own]
    hint = did_you_mean(_SYNONYMS.get(name, name), names) or f"; choose from {', '.join(names)}"
    return f"unknown option {name!r}{hint}"
