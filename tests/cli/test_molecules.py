"""Molecules as commands: trained from a table, predicted from SMILES, explained by atom."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import assert_user_error, call
from molecules import SMILES, write_molecules

import quatgraph
from quatgraph.data.graph.smiles import from_smiles

EDGES = {"qgnn": True, "gin": True, "gcn": False}
"""Whether a model uses labels of edges."""
MOLECULE = "Cn1cnc2c1c(=O)n(C)c(=O)n2C"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of QGNN, GIN and WL, all with labels of edges, and GCN."""
    folder = tmp_path_factory.mktemp("molecules")
    settings = ["train.epochs=2", "data.num_folds=3", "data.group=scaffold"]
    given = [word for one in settings for word in ("--set", one)]
    table = write_molecules(folder / "molecules.csv")
    for name in ("qgnn", "gin", "wl", "gcn"):
        given += ["--only", name]
    result = call(
        "train",
        "graph",
        "--data",
        str(table),
        *given,
        "--device",
        "cpu",
        "--out",
        str(folder / "m"),
    )
    assert result.exit_code == 0, result.stderr
    assert "edge labels are ignored by gcn" in result.stderr
    assert "edges: 4 labels" in result.stdout
    return folder / "m"


def rows_of(result: Any) -> list[dict[str, str]]:
    assert result.exit_code == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


def test_smiles_and_tables_of_smiles_get_the_same_predictions(model: Path, tmp_path: Path) -> None:
    assert len(rows_of(call("predict", str(model)))) == len(SMILES)
    asked = rows_of(call("predict", str(model), "--smiles", MOLECULE, "--smiles", "CCO"))
    assert [row["id"] for row in asked] == [MOLECULE, "CCO"]
    (tmp_path / "new.csv").write_text(f"id,smiles\na,{MOLECULE}\nb,CCO\n")
    table = rows_of(call("predict", str(model), str(tmp_path / "new.csv")))
    assert [row | {"id": ""} for row in table] == [row | {"id": ""} for row in asked]
    recomputed = call("evaluate", str(model))
    assert recomputed.exit_code == 0, recomputed.stdout


def test_an_explanation_names_the_atoms(model: Path) -> None:
    result = call("predict", str(model), "--smiles", "CCO", "--explain", "--json")
    row = json.loads(result.stdout)
    assert set(row["support"]) == {"C:0", "C:1", "O:2"}
    predictor = quatgraph.load(model, device="cpu")
    whole = predictor.predict(smiles="CCO")
    assert whole.ids == predictor.predict(smiles=["CCO"]).ids == ["CCO"]
    chosen = int(whole.probabilities[0].argmax())
    # Without the oxygen, by hand; the carbon's features stay.
    graphs = from_smiles(["CCO"], labels_needed=False)
    assert graphs.attributes is not None
    assert graphs.edge_tags is not None
    pair = from_smiles(["CC"], labels_needed=False)
    left = type(pair)(
        **{key: getattr(pair, key) for key in pair.__dataclass_fields__}
        | {"attributes": graphs.attributes[:2]}
    )
    without = predictor.predict(left).probabilities[0, chosen]
    drop = float(whole.probabilities[0, chosen] - without)
    assert row["support"]["O:2"] == pytest.approx(drop, abs=1e-5)
    shown = call("predict", str(model), "--smiles", "CCO", "--explain").stdout
    assert shown.startswith("class ")
    assert "node  support" in shown


def test_unseen_atoms_and_bonds_are_reported(model: Path) -> None:
    result = call("predict", str(model), "--smiles", "[U]#C", "--smiles", "[NH3]->[Fe]")
    assert result.exit_code == 0
    assert (
        "training never saw the tag 'Fe', 'U': such a node counts as one without" in result.stderr
    )
    assert "training never saw the edge label 'dative': such an edge counts as" in result.stderr


def test_mistakes_in_queries_are_one_sentence(model: Path, tmp_path: Path) -> None:
    assert_user_error(call("predict", str(model), "--smiles", "c1cc"), "'c1cc' is no molecule")
    path = tmp_path / "plain.jsonl"
    numbers = [[0, 0, 0, 0]] * 2
    line = {"edges": [[0, 1]], "node_labels": ["C", "O"], "node_features": numbers}
    path.write_text(json.dumps(line))
    assert_user_error(call("predict", str(model), str(path)), "the graphs have no edge labels")
    path.write_text(json.dumps(line | {"edge_labels": ["single"]}))
    assert len(rows_of(call("predict", str(model), str(path)))) == 1
    assert_user_error(
        call("predict", str(model), str(path), "--smiles", "CCO"), "give graphs or SMILES, not both"
    )


def test_labels_of_edges_matter_to_the_models_that_use_them(model: Path) -> None:
    predictor = quatgraph.load(model, device="cpu")
    graphs = from_smiles(["CC=O"], labels_needed=False)
    assert graphs.edge_tags is not None
    swapped = type(graphs)(
        **{key: getattr(graphs, key) for key in graphs.__dataclass_fields__}
        | {"edge_tags": 1 - graphs.edge_tags}
    )
    changed = {}
    for place, member in enumerate(predictor.members):
        before, after = (predictor.embed(one, member=place).vectors for one in (graphs, swapped))
        same = torch.equal(torch.as_tensor(before), torch.as_tensor(after))
        changed[member.config.model.name] = not same
    assert {name: changed.get(name, expected) for name, expected in EDGES.items()} == EDGES
