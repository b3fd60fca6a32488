"""The description of a bundle, for the web page and the API."""

from itertools import islice
from pathlib import Path
from typing import Any

from quatgraph import config as configs
from quatgraph.serve.schemas import DATA, options_of
from quatgraph.tasks.stored import RECORDS
from quatgraph.training.record import RunRecord, read_records

LISTED = 1000
"""Relations or classes that a description names, at most."""
CURVES = 8
"""Members whose learning curves a description holds, at most."""


def describe_bundle(predictor: Any, path: Path) -> dict[str, Any]:
    """The card of a model, without its many names."""
    card = predictor.card
    members = [
        {
            "method": entry["config"]["model"]["name"],
            "split": entry["split"],
            "seed": entry["seed"],
            "epoch": entry.get("epoch"),
            "weight": entry["weight"],
            "parameters": entry.get("parameters"),
            "metrics": entry.get("metrics", {}),
            "settings": configs.flatten(entry["config"]),
        }
        for entry in card["members"]
    ]
    return {
        "task": card["task"],
        "data": card["data"],
        "sizes": _sizes(predictor),
        "classes": list(getattr(predictor, "classes", []))[:LISTED],
        "relations": card.get("relation_labels", [])[:LISTED],
        "metrics": card["metrics"],
        "members": members,
        "refitted": bool(card.get("refit")),
        "temperature": card.get("temperature"),
        "smoothing": card.get("smoothing"),
        "notes": predictor.notes,
        "environment": card.get("environment", {}),
        "finished": card.get("finished", ""),
        "curves": _curves(card, path),
        "options": [
            {"name": one.name, "help": one.help, "default": one.default}
            for one in options_of(card["task"])
        ],
        "data_option": DATA[card["task"]][0] if card["task"] in DATA else None,
    }


def _sizes(predictor: Any) -> dict[str, int]:
    """How much data the model knows, as far as its bundle says."""
    card = predictor.card
    names = {
        "entities": "entities",
        "relations": "relations",
        "labels": "classes",
        "words": "words",
    }
    sizes = {shown: len(card[key]) for key, shown in names.items() if key in card}
    if hasattr(predictor, "triples"):
        for part in ("train", "valid", "test"):
            sizes[part] = len(getattr(predictor.triples, part))
    return sizes


def _curves(card: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """The learning curves of the members, out of the records beside the bundle."""
    file = path / RECORDS
    records = read_records(file) if file.is_file() else []
    members = [(m["split"], m["seed"], configs.flatten(m["config"])) for m in card["members"]]

    def is_member(record: RunRecord) -> bool:
        """By the settings on record, which leave out defaults; ``data`` differs in a bundle."""
        own = configs.flatten({key: record.config[key] for key in ("model", "train")})
        return any(
            (record.split, record.seed) == (split, seed)
            and all(settings.get(key) == value for key, value in own.items())
            for split, seed, settings in members
        )

    chosen = (record for record in records if record.curves and is_member(record))
    return [curve_of(record) for record in islice(chosen, CURVES)]


def curve_of(record: RunRecord) -> dict[str, Any]:
    """The learning curves of a run, and the epoch that was selected."""
    length = max(map(len, record.curves.values()), default=0)
    return {
        "method": record.method,
        "split": record.split,
        "seed": record.seed,
        "epochs": record.curve_epochs or list(range(1, length + 1)),
        "selected": record.best_epoch,
        "values": record.curves,
    }
