"""`quatgraph embed`: the vectors of a bundle as a file."""

import csv
import json
from pathlib import Path

import numpy as np
import portfolios
import pyarrow.parquet
import pytest
import torch
from commands import assert_user_error, call

from quatgraph.predictors import load


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return portfolios.text(tmp_path_factory.mktemp("text") / "data")[0][0]


@pytest.fixture(scope="module")
def triples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return portfolios.link(tmp_path_factory.mktemp("link") / "data")[0][0]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return portfolios.node(tmp_path_factory.mktemp("node") / "data")[0][0]


def test_an_array_has_its_ids_beside_it(nodes: Path, tmp_path: Path) -> None:
    result = call("embed", str(nodes), "--out", str(tmp_path / "v.npy"), "--device", "cpu")
    found = load(nodes, device="cpu").embed()
    vectors = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, found.vectors.numpy())
    assert (tmp_path / "v.ids.txt").read_text().splitlines() == found.ids
    assert result.stdout == (
        f"24 vectors of {vectors.shape[1]} numbers in {tmp_path / 'v.npy'}, their ids in "
        f"{tmp_path / 'v.ids.txt'}\n"
    )


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
def test_the_suffix_decides_the_format(suffix: str, nodes: Path, tmp_path: Path) -> None:
    out = tmp_path / f"v{suffix}"
    result = call("embed", str(nodes), "--node", "n3", "--node", "n1", "--out", str(out))
    assert result.exit_code == 0, result.stderr
    match suffix:
        case ".csv" | ".tsv":
            lines = out.read_text().splitlines()
            rows = list(csv.DictReader(lines, delimiter="," if suffix == ".csv" else "\t"))
        case ".jsonl":
            rows = [json.loads(line) for line in out.read_text().splitlines()]
        case ".json":
            rows = json.loads(out.read_text())
        case _:
            rows = pyarrow.parquet.read_table(out).to_pylist()
    found = load(nodes, device="cpu").embed(nodes=["n3", "n1"])
    assert [row.pop("id") for row in rows] == ["n3", "n1"]
    is_list = suffix in (".json", ".jsonl")
    vectors = [row["vector"] if is_list else list(row.values()) for row in rows]
    numbers = torch.tensor([[float(value) for value in vector] for vector in vectors])
    torch.testing.assert_close(numbers, found.vectors)


def test_new_texts_and_documents_are_embedded(texts: Path, tmp_path: Path) -> None:
    out, model = tmp_path / "v.npy", load(texts, device="cpu")
    for arguments, expected in (
        (["a lovely film", "two\nlines"], model.embed(["a lovely film", "two\nlines"])),
        (["a lovely film", "--member", "1"], model.embed("a lovely film", member=1)),
        (["--document", "7"], model.embed(ids=["7"])),
    ):
        result = call("embed", str(texts), *arguments, "--out", str(out), "--device", "cpu")
        assert result.exit_code == 0, result.stderr
        np.testing.assert_array_equal(np.load(out, allow_pickle=False), expected.vectors.numpy())
        assert len((tmp_path / "v.ids.txt").read_text().splitlines()) == len(expected.ids)


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ([], {}),
        (["--entity", "city 1"], {"names": ["city 1"]}),
        (["--relation", "knows"], {"kind": "relations", "names": ["knows"]}),
        (["--relations"], {"kind": "relations"}),
    ],
)
def test_entities_and_relations_are_embedded(
    options: list[str], query: dict[str, object], triples: Path, tmp_path: Path
) -> None:
    out = tmp_path / "v.npy"
    assert call("embed", str(triples), *options, "--out", str(out)).exit_code == 0
    expected = load(triples, device="cpu").embed(**query)
    np.testing.assert_allclose(np.load(out, allow_pickle=False), expected.vectors, rtol=1e-6)


def test_mistakes_are_one_sentence(
    nodes: Path, triples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--out", str(tmp_path / "v.npy")]
    assert_user_error(call("embed", str(nodes)), "say where to write the vectors: --out")
    assert_user_error(
        call("embed", str(nodes), "--out", str(tmp_path / "v.xlsx")), "v.xlsx", ".csv", ".npy"
    )
    assert_user_error(call("embed", str(nodes), "--node", "n99", *out), "no node 'n99'")
    assert_user_error(call("embed", str(nodes), "--member", "5", *out), "from 0 to 1, got 5")
    assert_user_error(
        call("embed", str(nodes), "--entity", "x", *out), "--entity is an option for link models"
    )
    assert_user_error(call("embed", str(nodes), "a", "b", *out), "leave out 'b'")
    assert_user_error(call("embed", str(triples), "data.tsv", *out), "holds its triples")
    assert_user_error(
        call("embed", str(triples), "--entity", "city 1", "--relations", *out), "choose one"
    )
    assert_user_error(call("embed", str(triples), "--entity", "citty 1", *out), "did you mean")
    assert not list(tmp_path.iterdir())
