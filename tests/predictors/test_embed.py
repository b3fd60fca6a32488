"""The vectors of a bundle: what its prediction layers take, member by member."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import portfolios
import pytest
import torch

from quatgraph.errors import UserError
from quatgraph.predictors import Predictor, load
from quatgraph.predictors.embeddings import Embeddings

MAKE: dict[str, Callable[[Path], tuple[list[Path], list[int]]]] = {
    "node": portfolios.node,
    "graph": portfolios.graph,
    "link": portfolios.link,
    "text": portfolios.text,
}
SOME: dict[str, dict[str, Any]] = {
    "node": {"nodes": ["n7", "n3"]},
    "graph": {"ids": ["chain-7", "ring-4"]},
    "link": {"names": ["city 1", "PERSON 3"]},
    "text": {"ids": ["7", "3"]},
}


@pytest.fixture(scope="module", params=MAKE)
def bundle(request: Any, tmp_path_factory: Any) -> tuple[str, Predictor, list[Predictor], Any]:
    paths, weights = MAKE[request.param](tmp_path_factory.mktemp(request.param) / "data")
    whole, *alone = (load(path, device="cpu") for path in paths)
    return request.param, whole, alone, torch.tensor(weights) / sum(weights)


def test_members_are_side_by_side_scaled_by_the_root_of_their_share(bundle: Any) -> None:
    _, whole, alone, shares = bundle
    found = whole.embed()
    assert found.vectors.dtype == torch.float32
    assert len(found.ids) == len(found.vectors)
    parts = [math.sqrt(s) * one.embed().vectors for s, one in zip(shares, alone, strict=True)]
    torch.testing.assert_close(found.vectors, torch.cat(parts, dim=1))
    for place, one in enumerate(alone):
        torch.testing.assert_close(whole.embed(member=place).vectors, one.embed().vectors)
    # A squared distance is the weighted mean of the members' own.
    first, second = found.vectors[:2]
    own = [one.embed().vectors[:2].diff(dim=0).square().sum() for one in alone]
    expected = sum(share * distance for share, distance in zip(shares, own, strict=True))
    torch.testing.assert_close((first - second).square().sum(), expected)


def test_some_items_have_the_vectors_they_have_among_all(bundle: Any) -> None:
    task, whole, _, _ = bundle
    everything, some = whole.embed(), whole.embed(**SOME[task])
    assert len(some.ids) == 2
    places = [everything.ids.index(name) for name in some.ids]
    torch.testing.assert_close(some.vectors, everything.vectors[places])


def test_an_unknown_member_and_an_unknown_name_are_refused(bundle: Any) -> None:
    task, whole, alone, _ = bundle
    with pytest.raises(UserError, match=f"member must be from 0 to {len(alone) - 1}, got 9"):
        whole.embed(member=9)
    key = next(iter(SOME[task]))
    with pytest.raises(UserError, match="nobody"):
        whole.embed(**{key: ["nobody"]})


def test_a_linear_map_of_a_members_vectors_gives_its_logits(bundle: Any) -> None:
    task, whole, _, _ = bundle
    if task not in ("graph", "text"):
        return
    vectors = whole.embed(member=0).vectors
    layer = whole.members[0].model.readout
    if task == "graph":
        logits = vectors @ layer.weight.T + layer.bias.sum(dim=0)
    else:
        logits = layer.prediction(vectors)
    data = whole._load_training_data()
    expected = whole._logits(whole.members[:1], data, range(len(data)))[0]
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-4)


def test_new_data_is_embedded_too(tmp_path: Path) -> None:
    paths, _ = portfolios.text(tmp_path / "data")
    model = load(paths[0], device="cpu")
    found = model.embed(["a lovely film", "dull zyx"])
    assert found.ids == ["a lovely film", "dull zyx"]
    assert len(found.vectors) == 2
    assert model.embed("zyx").notes
    torch.testing.assert_close(model.embed("a lovely film").vectors, found.vectors[:1])


def test_relations_have_vectors_without_their_inverses(tmp_path: Path) -> None:
    paths, _ = portfolios.link(tmp_path / "data")
    model = load(paths[1], device="cpu")
    found = model.embed("relations")
    assert found.ids == model.triples.relations
    torch.testing.assert_close(found.vectors, model.members[0].model.decoder.relations[:3].detach())
    assert model.embed("relations", names=["KNOWS"]).ids == ["knows"]
    with pytest.raises(UserError, match="kind must be one of entities, relations, got 'tails'"):
        model.embed("tails")


def test_vectors_are_rows_and_a_table() -> None:
    found = Embeddings(["a", "b"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert list(found.rows()) == [
        {"id": "a", "v0": 1.0, "v1": 2.0},
        {"id": "b", "v0": 3.0, "v1": 4.0},
    ]
    assert found.to_pandas()["v1"].tolist() == [2.0, 4.0]
    assert repr(found) == "Embeddings(2 vectors of 2 numbers)"


def test_vectors_that_are_not_finite_are_refused() -> None:
    with pytest.raises(UserError, match="'b' is not a finite number"):
        Embeddings(["a", "b"], torch.tensor([[1.0], [torch.inf]]))
