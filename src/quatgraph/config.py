"""Typed configuration: dataclasses in code, TOML presets on disk."""

import copy
import dataclasses
import datetime
import hashlib
import json
import math
import re
import sys
import tomllib
import types
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from quatgraph.errors import UserError, did_you_mean

Config = TypeVar("Config")
Values = dict[str, Any]
"""Settings as nested dictionaries, as TOML and JSON hold them."""

_DOTTED = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_PLAIN_WORD = re.compile(r"[^\s\"'\[\]{}=#]+")
_PLAIN_TEXT = re.compile(r"[^\s\"'\[{][^\x00-\x1f]*")


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file as nested dictionaries."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte {error.start} cannot be read") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def build(
    config: type[Config], values: dict[str, Any], under: str = "", sections: Any = None
) -> Config:
    """Builds a config from nested dictionaries; rejects unknown keys and values of a wrong type.

    Args:
        config: A dataclass; its field types may be nested dataclasses, ``int``, ``float``,
            ``bool``, ``str``, ``tuple[int, ...]``, ``Literal`` and ``X | None``. TOML has no null,
            so ``"none"`` means ``None`` where it is unambiguous. A field with ``models`` in its
            metadata holds the options of ``name``, an instance of ``models[name].Options``.
        values: As read from TOML; missing fields keep their defaults.
        under: Prefix of the keys in messages, for example ``"train."``.
        sections: The field types of all sections, for suggestions.
    """
    types_ = _field_types(config, values, under)
    if sections is None:
        nested = {key: kind for key, kind in types_.items() if dataclasses.is_dataclass(kind)}
        sections = {key: _field_types(kind) for key, kind in nested.items()}
    fields = {}
    for key, value in values.items():
        if key not in types_:
            raise UserError(
                f"unknown key {under + key!r}{_suggest_key(key, types_, under, sections)}"
            )
        fields[key] = _convert(value, types_[key], under + key, sections)
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        needed = field.default is dataclasses.MISSING is field.default_factory
        if needed and field.init and field.name not in fields:
            expected = describe_type(types_[field.name])
            raise UserError(f"the key {under + field.name!r} is missing; set it to {expected}")
    try:
        return config(**fields)
    except ValueError as error:
        raise UserError(str(error)) from error


def override(values: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """A copy of ``values`` with every assignment ``"a.b=c"`` applied in order.

    Values are parsed as TOML. Text needs no quotes; in a list, only single words need none.

    Example:
        >>> override({"train": {"lr": 0.1, "epochs": 5}}, ["train.lr=0.2", "label=my label"])
        {'train': {'lr': 0.2, 'epochs': 5}, 'label': 'my label'}
    """
    values = copy.deepcopy(values)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not _DOTTED.fullmatch(key.strip()):
            raise UserError(
                f"cannot read {assignment!r}; write it as key=value, as in train.lr=0.1"
            )
        value = _parse_value(text.strip(), assignment, plain=_PLAIN_TEXT)
        _set_nested(values, key.strip(), value)
    return values


def merge(values: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values, with those of ``others`` in place of theirs.

    Example:
        >>> merge({"train": {"lr": 0.1, "epochs": 5}}, {"train": {"lr": 0.2}})
        {'train': {'lr': 0.2, 'epochs': 5}}
    """
    merged = dict(values)
    for key, value in others.items():
        inner = merged.get(key)
        nested = isinstance(inner, dict) and isinstance(value, Mapping)
        merged[key] = merge(inner, value) if nested else value  # type: ignore[arg-type]
    return merged


def replace_model(config: Any, values: dict[str, Any], name: str | None) -> dict[str, Any]:
    """The values with another model, without the options that it does not have or that are of
    another type.

    Returns ``values`` unchanged if ``name`` is None, unknown or the current model.
    """
    (field,) = (field for field in dataclasses.fields(config) if "models" in field.metadata)
    before, models = values.get(field.name, {}), field.metadata["models"]
    if name is None or name == before.get("name") or name not in models:
        return values
    previous = models.get(before.get("name"))
    types_before = get_type_hints(previous.Options) if previous else {}
    known = get_type_hints(models[name].Options)
    kept = {
        key: value
        for key, value in before.items()
        if key in known and known[key] == types_before.get(key, known[key])
    }
    return values | {field.name: kept | {"name": name}}


def check(config: Any, under: str, **kinds: Sequence[str]) -> None:
    """Checks the bounds of numeric fields; None is always valid.

    ``kinds`` holds the names of fields of the section ``under`` by kind of bound, see ``_BOUNDS``.
    """
    for kind, keys in kinds.items():
        requirement, holds = _BOUNDS[kind]
        for key in keys:
            value = getattr(config, key)
            if value is not None and not holds(value):
                name = f"{under}.{key}" if under else key
                raise ValueError(f"{name} must {requirement}, got {value}")


_BOUNDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "counts": ("be at least 1", lambda value: value >= 1),
    "positive": ("be positive", lambda value: value > 0),
    "not_negative": ("not be negative", lambda value: value >= 0),
    "rates": ("be in [0, 1)", lambda value: 0 <= value < 1),
}


def check_source(data: Any) -> None:
    """Checks that exactly one of ``data.name`` and ``data.path`` is set."""
    if bool(data.name) == bool(data.path):
        raise UserError(
            "set either data.name, a dataset of the catalog, or data.path, your own files"
        )


def added(default: Any) -> Any:
    """A field that older records lack: it does not identify a configuration while it has its
    default."""
    return dataclasses.field(default=default, metadata={"added": True})


def internal(default: Any) -> Any:
    """An :func:`added` field that the program sets, not the user."""
    return dataclasses.field(default=default, metadata={"added": True, "internal": True})


def user_fields(config: Any) -> list[dataclasses.Field[Any]]:
    """The fields of a section that a user may set."""
    return [field for field in dataclasses.fields(config) if "internal" not in field.metadata]


def to_dict(config: Any) -> dict[str, Any]:
    """A config as nested plain values, the inverse of :func:`build`."""
    return dataclasses.asdict(
        config, dict_factory=lambda items: {k: [*v] if type(v) is tuple else v for k, v in items}
    )


def identity(config: Any) -> dict[str, Any]:
    """The values that identify a configuration: all except the number of seeds and the data path.

    Records hold a digest of these values, so they must not change.
    """
    values = to_dict(config)
    del values["seeds"]
    values["data"]["path"] = ""
    for name, section in (("data", config.data), ("model", config.model), ("train", config.train)):
        for field in dataclasses.fields(section):
            if "added" in field.metadata and values[name][field.name] == field.default:
                del values[name][field.name]
    return values


def digest(config: Any) -> str:
    """Sixteen hex digits that identify a config, or its dictionary, by its values."""
    values = to_dict(config) if dataclasses.is_dataclass(config) else config
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
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


def expand_grid(
    values: dict[str, Any], grid: dict[str, Any], places: Iterable[int] | None = None
) -> list[dict[str, Any]]:
    """Every combination of the grid's values, applied to ``values``; the last key varies fastest.

    Keys are dotted or nested, each with a list of values; keys separated by spaces vary jointly, by
    lists with an entry per key. With ``places``, only these places of the whole list are made.

    Example:
        >>> expand_grid({"seeds": 2}, {"lr": [1, 2], "decay": [0]})
        [{'seeds': 2, 'lr': 1, 'decay': 0}, {'seeds': 2, 'lr': 2, 'decay': 0}]
        >>> expand_grid({}, {"lr epochs": [[1, 20], [2, 10]]})
        [{'lr': 1, 'epochs': 20}, {'lr': 2, 'epochs': 10}]
    """
    axes = flatten(grid)
    expanded = []
    for place in range(grid_size(grid)) if places is None else places:
        point = copy.deepcopy(values)
        combination = []
        for choices in reversed(axes.values()):
            place, digit = divmod(place, len(choices))
            combination.append(choices[digit])
        for axis, value in zip(axes, reversed(combination), strict=True):
            keys = axis.split()
            for key, one in zip(keys, value if len(keys) > 1 else [value], strict=True):
                _set_nested(point, key, copy.deepcopy(one))
        expanded.append(point)
    return expanded


def grid_size(grid: dict[str, Any]) -> int:
    """The number of combinations of a grid; each of its keys must hold a list of values."""
    axes = flatten(grid)
    for key, choices in axes.items():
        if not isinstance(choices, list) or not choices:
            raise UserError(
                f"{key} must be a list of values to search, got {_format_value(choices)}"
            )
    return math.prod(map(len, axes.values()))


def grid_keys(grid: Iterable[str]) -> list[str]:
    """The keys that a grid varies, with joint ones separated."""
    return [key for axis in grid for key in axis.split()]


def restrict_grid(
    grid: dict[str, Any], values: dict[str, Any], fixed: Container[str]
) -> dict[str, Any]:
    """The axes of a grid whose keys all occur in ``values``, and of which none is fixed.

    Example:
        >>> grid = {"train.lr": [1, 2], "train.epochs": [5], "model.heads": [4, 8]}
        >>> restrict_grid(grid, {"train": {"lr": 0.1, "epochs": 9}}, fixed=["train.epochs"])
        {'train.lr': [1, 2]}
    """
    known = flatten(values)
    return {
        axis: choices
        for axis, choices in grid.items()
        if all(key in known and key not in fixed for key in axis.split())
    }


def _field_types(
    config: Any, values: Mapping[str, Any] | None = None, under: str = ""
) -> dict[str, Any]:
    """The type of each field; for a model, the options of the model that ``values`` names."""
    hints, values = get_type_hints(config), values or {}
    types_ = {field.name: hints[field.name] for field in dataclasses.fields(config) if field.init}
    for field in dataclasses.fields(config):
        if (models := field.metadata.get("models")) and field.name in types_:
            section = values.get(field.name, {})
            default: Any = field.default_factory
            name = section.get("name", default().name) if isinstance(section, dict) else None
            if isinstance(section, dict) and name not in models:
                where = f"{under}{field.name}.name"
                known = ", ".join(map(repr, models))
                hint = did_you_mean(str(name), models)
                raise UserError(f"{where} must be one of {known}, got {_format_value(name)}{hint}")
            types_[field.name] = models[name].Options if name else type(default())
    return types_


def _suggest_key(key: str, known: dict[str, Any], under: str, sections: Any) -> str:
    """The same key in another section, a similar key, or all known keys."""
    for section, others in sections.items():
        if key in others:
            return f"; did you mean '{section}.{key}'?"
    if close := did_you_mean(key, known, under):
        return close
    names = ", ".join(under + name for name in known)
    models = get_args(known["name"]) if get_origin(known.get("name")) is Literal else ()
    return f"; {f'the model {models[0]!r} reads' if models else 'known keys are'} {names}"


def _convert(value: Any, kind: Any, name: str, sections: Any) -> Any:
    """Converts ``value`` to the type ``kind``; ``name`` is its key in messages."""
    options = type_options(kind)
    for option in options:
        if dataclasses.is_dataclass(option) and isinstance(value, dict):
            return build(option, value, f"{name}.", sections)  # type: ignore[arg-type]
        if get_origin(option) is Literal:
            # Compares types too: True equals 1.
            if any(value == choice and type(value) is type(choice) for choice in get_args(option)):
                return value
        elif type(value) is option and option is not float:
            return value  # not isinstance: True is no int here
        elif get_origin(option) is tuple and isinstance(value, list | tuple):  # noqa: SIM102
            if {*map(type, value)} <= {int}:
                return tuple(value)
    if float in options and type(value) in (int, float):
        if abs(value) > sys.float_info.max or math.isnan(value):
            raise UserError(f"{name} must be a finite number, got {value}")
        return float(value)
    if types.NoneType in options and value == "none":
        return None
    quoted = f"; put it in quotes: {name}='\"{value}\"'"
    hint = quoted * (str in options and type(value) in (int, float))
    raise UserError(f"{name} must be {describe_type(kind)}, got {_format_value(value)}{hint}")


def type_options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def describe_type(kind: Any) -> str:
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        types.NoneType: "none",
        tuple[int, ...]: "a list of whole numbers",
    }
    options = type_options(kind)
    if len(options) > 1:
        return " or ".join(describe_type(option) for option in options)
    if get_origin(kind) is Literal:
        choices = ", ".join(_format_value(choice) for choice in get_args(kind))
        return f"one of {choices}" if len(get_args(kind)) > 1 else choices
    if dataclasses.is_dataclass(kind):
        return f"a table with the keys {', '.join(_field_types(kind))}"
    return words[kind]


def _format_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _parse_value(text: str, assignment: str, plain: re.Pattern[str] = _PLAIN_WORD) -> Any:
    """Parses a value of ``--set`` as TOML, as plain text or as a list with plain words."""
    try:
        # A second line would be a second key.
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else None
    except tomllib.TOMLDecodeError:
        value = None
    # No field is a date, infinite or NaN, but a file or a label may have such a name.
    infinite = isinstance(value, float) and not math.isfinite(value)
    if value is not None and not infinite and not isinstance(value, datetime.date | datetime.time):
        return value
    if plain.fullmatch(text):
        return text
    if text.startswith("[") and text.endswith("]"):
        return [_parse_value(part.strip(), assignment) for part in text[1:-1].split(",")]
    raise UserError(f"cannot read the value in {assignment!r}; put text in quotes")


def _set_nested(values: dict[str, Any], dotted: str, value: Any) -> None:
    *path, last = dotted.split(".")
    for depth, key in enumerate(path, 1):
        section = values.setdefault(key, {})
        if not isinstance(section, dict):
            parent = ".".join(path[:depth])
            raise UserError(f"cannot set {dotted!r}: {parent!r} is a single value, not a table")
        values = section
    values[last] = value
