"""Models by name, loaded in the background."""

import shutil
from pathlib import Path

import pytest
import reviews
from portfolios import bundled
from services import ask, refused, service

from quatgraph.errors import UserError
from quatgraph.serve import answers
from quatgraph.serve.registry import Model, NotFoundError, Registry, UnavailableError
from quatgraph.tasks import TASKS


def test_models_are_called_like_their_folders(
    bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bundles["node"])
    registry = Registry.open([Path(), bundles["link"]])
    assert {name: model.task for name, model in registry.models.items()} == {
        "node": "node",
        "link": "link",
    }
    assert registry.find("node").path == Path()
    with pytest.raises(NotFoundError, match="there is no model 'nod'; did you mean 'node'"):
        registry.find("nod")
    with pytest.raises(NotFoundError, match="there is no model 'zzz'; there is node, link"):
        registry.find("zzz")


def test_two_models_cannot_share_a_name(bundles: dict[str, Path], tmp_path: Path) -> None:
    other = Path(shutil.copytree(bundles["node"], tmp_path / "node"))
    with pytest.raises(UserError, match="two models are called 'node': rename the folder"):
        Registry.open([bundles["node"], other])


def test_a_folder_must_be_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no bundle .*missing"):
        Registry.open([tmp_path / "missing"])
    with pytest.raises(UserError, match=r"is not a bundle: it has no card\.json"):
        Registry.open([tmp_path])


def test_a_model_that_loads_asks_for_patience(bundles: dict[str, Path]) -> None:
    model = Registry.open([bundles["text"]], "cpu").find("text")
    assert (model.state, model.task) == ("loading", "text")
    with pytest.raises(UnavailableError, match="text is still loading; ask again in a moment"):
        _ = model.answers
    model.load()
    assert model.answers.task == "text"


def test_a_damaged_bundle_fails_alone(
    bundles: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = Path(shutil.copytree(bundles["node"], tmp_path / "damaged"))
    (damaged / "card.json").write_text("{")
    with service([damaged, bundles["link"]]) as client:
        assert ask(client, "/healthz")["models"] == {"damaged": "failed", "link": "ready"}
        status, sentence = refused(client, "/api/models/damaged/predict", {"nodes": ["n1"]})
        assert (status, sentence.startswith("damaged could not be loaded: ")) == (503, True)
        listed = ask(client, "/api/models")["models"][0]
        assert (listed["state"], listed["error"]) == ("failed", sentence.partition(": ")[2])
        example = ask(client, "/api/models/link")["example"]
        assert ask(client, "/api/models/link/predict", example)["answers"]
    assert sentence in caplog.text


def test_an_error_of_ours_while_loading_is_logged_and_holds_up_no_other_model(
    bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model("text", bundles["text"], "cpu")
    monkeypatch.setattr(answers, "open_answers", lambda *_: next(iter(())))
    model.load()
    assert model.state == "failed"
    assert "the service's log describes" in model.error
    assert "StopIteration" in caplog.text


def test_texts_of_a_word_each_make_an_example_too(tmp_path: Path) -> None:
    rows = [(word, "ab"[place % 2]) for place, word in enumerate(reviews.KNOWN)]
    path = reviews.written(tmp_path / "words.csv", rows)
    config = reviews.config_of(**{"data.path": str(path), "model.name": "fasttext"})
    bundle = bundled("text", [(config, 1)], TASKS["text"].load(config), tmp_path)[0]
    with service([bundle]) as client:
        example = ask(client, "/api/models/all")["example"]
        assert ask(client, "/api/models/all/predict", example)["answers"]
