"""Small and odd knowledge graphs, and settings that do not fit them, from the command line."""

from pathlib import Path

import pytest
from commands import assert_user_error, call

from quatgraph.models.link import MODELS

RING = "".join(f"n{k}\tnext\tn{(k + step) % 8}\n" for k in range(8) for step in (1, 2))
SHORT = ["--set", "train.epochs=2", "--set", "train.lr=0.01", "--device", "cpu", "--out", "m"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ring.tsv").write_text(RING)


def train(data: str, **settings: object) -> object:
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return call("train", "link", "--data", data, *SHORT, *chosen)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_one_relation(name: str) -> None:
    assert train("ring.tsv", **{"model.name": name, "model.dim_quats": 5}).exit_code == 0


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_a_relation_that_occurs_once(name: str) -> None:
    Path("ring.tsv").write_text(RING + "n0\tonce\tn4\n")
    assert train("ring.tsv", **{"model.name": name, "model.dim_quats": 5}).exit_code == 0
    predicted = call("predict", "m", "--head", "n0", "--relation", "once", "--device", "cpu")
    assert predicted.exit_code == 0
    assert "train" in predicted.stdout


@pytest.mark.parametrize("name", MODELS)
def test_every_model_ranks_an_entity_that_only_validation_has(name: str) -> None:
    Path("graph").mkdir()
    Path("graph/train.tsv").write_text(RING)
    Path("graph/valid.tsv").write_text("new\tnext\tn0\nn0\tnext\tn5\n")
    Path("graph/test.tsv").write_text("n0\tnext\tn3\n")
    trained = train("graph", **{"model.name": name, "model.dim_quats": 5})
    assert trained.exit_code == 0
    assert "valid.tsv, the first in line 1, has an entity or a relation that no" in trained.stderr
    predicted = call("predict", "m", "--head", "new", "--relation", "next", "--device", "cpu")
    assert "no training triple has 'new': predictions for it are guesses" in predicted.stderr


@pytest.mark.parametrize(
    ("name", "decoder"), [("conve", None), ("sacn", "convtranse"), ("compgcn", "conve")]
)
def test_a_convolution_needs_inverse_relations(name: str, decoder: str | None) -> None:
    chosen = {"model.name": name, "model.dim_quats": 16, "data.reciprocal": "false"}
    found = train("ring.tsv", **chosen | ({} if decoder is None else {"model.decoder": decoder}))
    assert_user_error(found, "inverse relation: set data.reciprocal=true", notes=True)


@pytest.mark.parametrize(
    ("settings", "widths"),
    [
        ({"model.name": "conve", "model.dim_quats": 1}, "8, 12, 16 (model.dim_quats=2)"),
        (
            {"model.name": "compgcn", "model.decoder": "conve", "model.dim_quats": 3},
            "28, 32, 36 (model.dim_quats=7)",
        ),
    ],
)
def test_a_width_without_an_image_names_those_that_have_one(
    settings: dict[str, object], widths: str
) -> None:
    found = train("ring.tsv", **settings)
    assert_user_error(found, f"the next widths that do are {widths}", notes=True)
    first = int(widths.partition("=")[2].rstrip(")"))
    assert train("ring.tsv", **settings | {"model.dim_quats": first}).exit_code == 0


def test_a_height_that_does_not_divide_names_those_that_do() -> None:
    found = train("ring.tsv", **{"model.name": "conve", "model.dim_quats": 5, "model.height": 3})
    assert_user_error(found, "the height can be 2, 4, 5", notes=True)
