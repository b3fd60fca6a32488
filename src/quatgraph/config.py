"""Typed configuration: dataclasses in code, TOML presets on disk, nothing in between."""

import copy
import dataclasses
import datetime
import hashlib
import itertools
import json
import math
import re
import tomllib
import types
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from quatgraph.errors import Mistake, did_you_mean

Config = TypeVar("Config")
Values = dict[str, Any]
"""Settings as nested dictionaries, as TOML and JSON hold them."""

_DOTTED = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_PLAIN_WORD = re.compile(r"[^\s\"'\[\]{}=#]+")


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file, before they are checked against a config."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise Mistake(f"{path} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise Mistake(f"{path} is not UTF-8 text: byte {error.start} cannot be read") from error
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from error


def build(
    config: type[Config], values: dict[str, Any], under: str = "", whole: Any = None
) -> Config:
    """Makes a config, nested ones too; refuses unknown keys and values of another type.

    Args:
        config: A dataclass; its field types may be nested dataclasses, ``int``, ``float``,
            ``bool``, ``str``, ``Literal`` and ``X | None``. TOML has no null, so the text
            ``"none"`` stands for ``None`` where it could mean nothing else. A field whose metadata
            has ``models`` holds the options of the model that its ``name`` says, of the class
            ``models[name].Options``.
        values: As read from TOML; a field that is not named keeps its default.
        under: Prefix of the keys in messages, as ``"train."``.
        whole: The kinds of all sections; for messages.
    """
    kinds = _kinds(config, values, under)
    if whole is None:
        whole = {key: _kinds(kind) for key, kind in kinds.items() if dataclasses.is_dataclass(kind)}
    made = {}
    for key, value in values.items():
        if key not in kinds:
            raise Mistake(f"unknown key {under + key!r}{_hint(key, kinds, under, whole)}")
        made[key] = _convert(value, kinds[key], under + key, whole)
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        needed = field.default is dataclasses.MISSING is field.default_factory
        if needed and field.init and field.name not in made:
            kind = _described(kinds[field.name])
            raise Mistake(f"the key {under + field.name!r} is missing; set it to {kind}")
    try:
        return config(**made)
    except ValueError as error:
        raise Mistake(str(error)) from error


def override(values: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """A copy of ``values`` with every ``"a.b=c"`` applied, later ones last.

    The value is read as TOML; a plain word that is not TOML stands for itself, as do several with
    commas between them.

    Example:
        >>> override({"train": {"lr": 0.1, "epochs": 5}}, ["train.lr=0.2", "dataset=cora"])
        {'train': {'lr': 0.2, 'epochs': 5}, 'dataset': 'cora'}
    """
    values = copy.deepcopy(values)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not _DOTTED.fullmatch(key.strip()):
            raise Mistake(f"cannot read {assignment!r}; write it as key=value, as in train.lr=0.1")
        _put(values, key.strip(), _parsed(text.strip(), assignment))
    return values


def with_model(config: Any, values: dict[str, Any], name: str | None) -> dict[str, Any]:
    """The values with another model: without the settings that it does not read; as they are where
    no name, or the same one, is given."""
    (field,) = (field for field in dataclasses.fields(config) if "models" in field.metadata)
    before, models = values.get(field.name, {}), field.metadata["models"]
    if name is None or name == before.get("name") or name not in models:
        return values
    known = {own.name for own in dataclasses.fields(models[name].Options)}
    kept = {key: value for key, value in before.items() if key in known}
    return values | {field.name: kept | {"name": name}}


def check(config: Any, under: str, **kinds: Sequence[str]) -> None:
    """Refuses a config whose numbers are not of their kinds: settings by kind, see ``_BOUNDS``; one
    that is None is of every kind.

    Args:
        under: Where the config stands in a file, as ``train``; empty for the whole.
    """
    for kind, keys in kinds.items():
        said, holds = _BOUNDS[kind]
        for key in keys:
            value = getattr(config, key)
            if value is not None and not holds(value):
                name = f"{under}.{key}" if under else key
                raise ValueError(f"{name} must {said}, got {value}")


_BOUNDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "counts": ("be at least 1", lambda value: value >= 1),
    "positive": ("be positive", lambda value: value > 0),
    "not_negative": ("not be negative", lambda value: value >= 0),
    "rates": ("be in [0, 1)", lambda value: 0 <= value < 1),
}


def check_source(data: Any) -> None:
    """Refuses the config of data that is neither named nor at a path, or both."""
    if bool(data.name) == bool(data.path):
        raise Mistake("give either data.name, a dataset of the catalog, or data.path, your files")


def to_dict(config: Any) -> dict[str, Any]:
    """A config as nested plain values, ready for JSON; :func:`build` reads it back."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def identity(config: Any) -> dict[str, Any]:
    """What two runs must share to be runs of one configuration: all of it but how many runs there
    are, and where data is. What is there counts: records hold its digest."""
    values = to_dict(config)
    del values["seeds"]
    values["data"]["path"] = ""
    if values["data"].get("missing") == "":
        del values["data"]["missing"]  # as in records that are older than the setting
    return values


def digest(config: Any) -> str:
    """Sixteen hex digits that name a config, or the dict of one, by its values.

    Two configs that :func:`build` made equal agree, however their files were written.
    """
    text = json.dumps(_plain(config), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def flatten(values: dict[str, Any]) -> dict[str, Any]:
    """Nested values under dotted keys.

    Example:
        >>> flatten({"train": {"lr": 0.1}, "seeds": 2})
        {'train.lr': 0.1, 'seeds': 2}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat |= {f"{key}.{below}": inner for below, inner in flatten(value).items()}
        else:
            flat[key] = value
    return flat


def expand_grid(values: dict[str, Any], grid: dict[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the grid's values over ``values``, the last key running fastest.

    Keys are dotted, or nested as TOML nests them; each holds the list of values to try. Several in
    one, with spaces between them, change together: their values are lists of as many.

    Example:
        >>> expand_grid({"seeds": 2}, {"lr": [1, 2], "decay": [0]})
        [{'seeds': 2, 'lr': 1, 'decay': 0}, {'seeds': 2, 'lr': 2, 'decay': 0}]
        >>> expand_grid({}, {"lr epochs": [[1, 20], [2, 10]]})
        [{'lr': 1, 'epochs': 20}, {'lr': 2, 'epochs': 10}]
    """
    axes = flatten(grid)
    for key, choices in axes.items():
        if not isinstance(choices, list) or not choices:
            raise Mistake(
                f"the grid's {key} must be a list of values to try, got {_shown(choices)}"
            )
    expanded = []
    for combination in itertools.product(*axes.values()):
        point = copy.deepcopy(values)
        for axis, value in zip(axes, combination, strict=True):
            keys = axis.split()
            values_of = value if len(keys) > 1 else [value]
            for key, one in zip(keys, values_of, strict=True):
                _put(point, key, copy.deepcopy(one))
        expanded.append(point)
    return expanded


def settings_of(grid: Iterable[str]) -> list[str]:
    """The settings that a grid changes, those that change together one by one."""
    return [key for axis in grid for key in axis.split()]


def read_by(values: dict[str, Any], grid: dict[str, Any]) -> dict[str, Any]:
    """The grid but for settings that the values of a config lack, as its model does not read them.

    Example:
        >>> read_by({"train": {"lr": 0.1}}, {"train.lr": [1, 2], "model.heads": [4, 8]})
        {'train.lr': [1, 2]}
    """
    known = flatten(values)
    return {axis: tried for axis, tried in grid.items() if all(k in known for k in axis.split())}


def without(grid: dict[str, Any], *settings: Container[str]) -> dict[str, Any]:
    """The grid but for what changes any of these settings."""
    return {
        axis: tried
        for axis, tried in grid.items()
        if not any(key in some for key in axis.split() for some in settings)
    }


def _kinds(config: Any, values: Mapping[str, Any] | None = None, under: str = "") -> dict[str, Any]:
    """The type of each field; that of a model's options is the one that the values name."""
    hints, values = get_type_hints(config), values or {}
    kinds = {field.name: hints[field.name] for field in dataclasses.fields(config) if field.init}
    for field in dataclasses.fields(config):
        if (models := field.metadata.get("models")) and field.name in kinds:
            section = values.get(field.name, {})
            default: Any = field.default_factory
            name = section.get("name", default().name) if isinstance(section, dict) else None
            if isinstance(section, dict) and name not in models:
                where = f"{under}{field.name}.name"
                known = ", ".join(map(repr, models))
                hint = did_you_mean(str(name), models)
                raise Mistake(f"{where} must be one of {known}, got {_shown(name)}{hint}")
            kinds[field.name] = models[name].Options if name else type(default())
    return kinds


def _hint(key: str, kinds: dict[str, Any], under: str, whole: Any) -> str:
    """Where the key may have been meant: in another table, under a close name, or a known one."""
    for section, others in whole.items():
        if key in others:
            return f"; did you mean '{section}.{key}'?"
    if close := did_you_mean(key, kinds, under):
        return close
    known = ", ".join(under + name for name in kinds)
    models = get_args(kinds["name"]) if get_origin(kinds.get("name")) is Literal else ()
    return f"; {f'the model {models[0]!r} reads' if models else 'known keys are'} {known}"


def _convert(value: Any, kind: Any, name: str, whole: Any) -> Any:
    """``value`` as ``kind``, or a Mistake that calls it ``name``."""
    options = _options(kind)
    for option in options:
        if dataclasses.is_dataclass(option) and isinstance(value, dict):
            return build(option, value, f"{name}.", whole)  # type: ignore[arg-type]
        if get_origin(option) is Literal:
            # By type too: True equals 1, but is not the choice 1.
            if any(value == choice and type(value) is type(choice) for choice in get_args(option)):
                return value
        elif type(value) is option and option is not float:
            return value  # not isinstance: True is not a number of epochs
    if float in options and type(value) in (int, float):
        return _finite(value, name)
    if types.NoneType in options and value == "none":
        return None
    raise Mistake(f"{name} must be {_described(kind)}, got {_shown(value)}")


def _finite(value: int | float, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Mistake(f"{name} must be a finite number, got {value}")
    return number


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _described(kind: Any) -> str:
    """A type in plain words."""
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        types.NoneType: "none",
    }
    options = _options(kind)
    if len(options) > 1:
        return " or ".join(_described(option) for option in options)
    if get_origin(kind) is Literal:
        choices = ", ".join(_shown(choice) for choice in get_args(kind))
        return f"one of {choices}" if len(get_args(kind)) > 1 else choices
    if dataclasses.is_dataclass(kind):
        return f"a table with the keys {', '.join(_kinds(kind))}"
    return words[kind]


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _parsed(text: str, assignment: str) -> Any:
    """A value of ``--set``, as TOML or as the word it is."""
    try:
        # Alone on its line: a second line would be a second key.
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else None
    except tomllib.TOMLDecodeError:
        value = None
    # No setting is a date, infinite or NaN, but a file or a label may be called so.
    infinite = isinstance(value, float) and not math.isfinite(value)
    if value is not None and not infinite and not isinstance(value, datetime.date | datetime.time):
        return value
    if _PLAIN_WORD.fullmatch(text):
        return text
    raise Mistake(f"cannot read the value in {assignment!r}; put text between quotes")


def _put(values: dict[str, Any], dotted: str, value: Any) -> None:
    *path, last = dotted.split(".")
    for depth, key in enumerate(path, 1):
        below = values.setdefault(key, {})
        if not isinstance(below, dict):
            above = ".".join(path[:depth])
            raise Mistake(f"cannot set {dotted!r}: {above!r} is a single value, not a table")
        values = below
    values[last] = value


def _plain(value: Any) -> Any:
    return to_dict(value) if dataclasses.is_dataclass(value) else value
