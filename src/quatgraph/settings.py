"""Settings as files and as documentation: TOML in and out, and what each hyperparameter means."""

import ast
import dataclasses
import inspect
import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

from quatgraph import config as configs
from quatgraph.errors import UserError, did_you_mean

SECTIONS = ("data", "model", "train")
_SOURCE = ("name", "path")


@dataclass(frozen=True, slots=True)
class Setting:
    """A documented hyperparameter."""

    key: str
    """As in ``--set``: ``train.lr``."""
    type: str
    default: str
    """As in TOML."""
    bounds: str
    """What a number must be; empty without bounds."""
    meaning: str


def read_settings(path: Path, config: type[Any]) -> configs.Values:
    """Reads a file of settings, such as the ``best.toml`` of a search, for the configs of a task.

    The file has the sections ``data``, ``model`` and ``train``, each of which may be missing or
    incomplete. Keys, types and bounds are checked; messages name the file and the key. The data
    itself is not named in the file.

    Args:
        config: The task's class of configurations, :attr:`quatgraph.tasks.task.Task.config`.
    """
    values = configs.read_toml(path)
    for name, section in values.items():
        if name not in SECTIONS:
            known = f"; known sections are {', '.join(SECTIONS)}"
            hint = did_you_mean(name, SECTIONS) or known
            raise UserError(f"{path}: unknown section {name!r}{hint}")
        if not isinstance(section, dict):
            raise UserError(f"{path}: {name} must be a section, [{name}], with keys below it")
    for key in _SOURCE:
        if key in values.get("data", {}):
            raise UserError(f"{path}: remove data.{key}; name the data with --data")
    try:
        configs.build(config, values)
    except UserError as mistake:
        raise UserError(f"{path}: {mistake}") from mistake
    return values


def to_toml(config: Any) -> str:
    """All settings of a config except its data, seeds and protocol, for :func:`read_settings`."""
    sections = []
    for name in SECTIONS:
        section = getattr(config, name)
        lines = [
            f"{field.name} = {toml_value(getattr(section, field.name))}"
            for field in configs.user_fields(section)
            if name != "data" or field.name not in _SOURCE
        ]
        sections.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(sections) + "\n"


def toml_value(value: object) -> str:
    """A plain value as TOML, which has no null: None is ``"none"``.

    Example:
        >>> toml_value(None), toml_value(True), toml_value(5e-4), toml_value("a b")
        ('"none"', 'true', '0.0005', '"a b"')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    text = json.dumps("none" if value is None else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # the one control character that JSON allows


def field_docs(kind: type[Any]) -> dict[str, str]:
    """The doc string after each field of a dataclass; inherited where a field has none of its own.

    Python drops these strings, so they are read from the source.
    """
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            docs |= {name: text for name, text in _own_docs(base).items() if text}
    return {field.name: docs.get(field.name, "") for field in dataclasses.fields(kind)}


def _own_docs(kind: type[Any]) -> dict[str, str]:
    """The doc strings in the body of a class: of fields, and of properties that they replace."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    docs: dict[str, str] = {}
    name = ""
    for node in tree.body:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                docs[name] = " ".join(text.split())
            case ast.FunctionDef():
                docs[node.name] = " ".join((ast.get_docstring(node) or "").split())
        is_field = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        name = node.target.id if is_field else ""  # type: ignore[attr-defined]
    return docs


def describe_settings(config: type[Any], model: str | None = None) -> list[Setting]:
    """Every setting of a task's configs with a model, the default one if None."""
    example = configs.build(config, {} if model is None else {"model": {"name": model}})
    found = _describe_fields(example, "", {})
    for field in dataclasses.fields(config):
        section = getattr(example, field.name)
        if dataclasses.is_dataclass(section):
            names = tuple(field.metadata.get("models", ()))
            kinds = {"name": Literal[names]} if names else {}
            found += _describe_fields(section, f"{field.name}.", kinds)
    return found


def _describe_fields(example: Any, under: str, kinds: dict[str, Any]) -> list[Setting]:
    docs, hints = field_docs(type(example)), get_type_hints(type(example)) | kinds
    return [
        Setting(
            key=f"{under}{field.name}",
            type=configs.describe_type(hints[field.name]),
            default=toml_value(value),
            bounds=_find_bounds(example, field.name, hints[field.name]),
            meaning=docs[field.name],
        )
        for field in configs.user_fields(example)
        if not dataclasses.is_dataclass(value := getattr(example, field.name))
    ]


def _find_bounds(example: Any, name: str, kind: Any) -> str:
    """What a config requires of a number, from its own refusal of one that is out of bounds."""
    if not {int, float} & set(configs.type_options(kind)):
        return ""
    try:
        dataclasses.replace(example, **{name: -1})
    except ValueError as refusal:
        found = re.search(r" must (.*), got -1$", str(refusal))
        return re.sub(r"\bbe ", "", found[1]) if found else ""
    return ""
