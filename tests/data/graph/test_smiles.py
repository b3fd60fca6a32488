"""Molecules as SMILES."""

import sys
from pathlib import Path

import pytest
from molecules import SMILES, write_molecules

from quatgraph.data.formats import infer_task
from quatgraph.data.graph import from_any, read
from quatgraph.data.graph.smiles import MAX_LENGTH, from_smiles
from quatgraph.errors import UserError


def test_a_table_of_molecules_is_read(tmp_path: Path) -> None:
    path = write_molecules(tmp_path / "molecules.csv")
    assert infer_task(path) == "graph"
    graphs = read(path)
    assert graphs.graph_ids == list(SMILES)
    assert graphs.label_names == ["nitrogen", "none of it"]
    assert graphs.tag_names == ["C", "N", "O"]
    assert graphs.edge_tag_names == ["aromatic", "double", "single", "triple"]
    labelled = {graphs.graph_ids[place] for place in range(len(graphs)) if graphs.y[place] == 0}
    has_nitrogen = {
        name
        for place, name in enumerate(graphs.graph_ids)
        if (graphs.select([place]).tags == graphs.tag_names.index("N")).any()
    }
    assert labelled == has_nitrogen


def test_atoms_and_bonds_are_those_of_the_molecule() -> None:
    graphs = from_smiles(["[O-][N+](=O)c1ccccc1"], labels_needed=False)
    assert [graphs.tag_names[tag] for tag in graphs.tags] == ["O", "N", "O", *["C"] * 6]
    assert graphs.attributes is not None
    # Charge, hydrogens, aromatic, in a ring.
    assert graphs.attributes[[0, 1, 3, 4]].tolist() == [
        [-1, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 1, 1],
        [0, 1, 1, 1],
    ]
    assert graphs.edge_tags is not None
    bonds = [graphs.edge_tag_names[tag] for tag in graphs.edge_tags.tolist()]
    assert sorted(bonds) == sorted(2 * ["double", "single", "single", *["aromatic"] * 6])
    assert from_smiles(["C"], labels_needed=False).edge_index.numel() == 0


def test_columns_may_have_any_names(tmp_path: Path) -> None:
    path = write_molecules(tmp_path / "table.csv", "structure", "class")
    graphs = read(path, smiles="structure", label="class")
    assert graphs.digest == read(write_molecules(tmp_path / "usual.csv")).digest
    with pytest.raises(UserError, match=r"has no column 'struct'; did you mean 'structure'"):
        read(path, smiles="struct")
    with pytest.raises(
        UserError, match=r"has no column 'label', its columns are 'id', 'structure'"
    ):
        read(path, smiles="structure")
    assert len(read(path, smiles="structure", labels_needed=False)) == len(SMILES)
    with pytest.raises(UserError, match="is not graph data"):
        read(path)


def test_scaffolds_are_groups_on_request(tmp_path: Path) -> None:
    path = write_molecules(tmp_path / "molecules.csv")
    assert read(path).groups is None
    graphs = read(path, group="scaffold")
    assert graphs.groups is not None
    group = dict(zip(graphs.graph_ids, graphs.groups.tolist(), strict=True))
    assert group["aspirin"] == group["toluene"] == group["nitrobenzene"]
    assert group["aspirin"] != group["naphthalene"]
    assert group["ethanol"] != group["propane"]  # without a scaffold, each on its own
    lines = path.read_text().splitlines()
    own = [f"{line},{'scaffold' if not place else 'x'}" for place, line in enumerate(lines)]
    path.write_text("\n".join(own))
    column = read(path, group="scaffold").groups
    assert column is not None
    assert not column.any()


def test_splits_and_unused_columns_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "molecules.csv"
    path.write_text("SMILES,label,split,weight\nC,a,train,1\nN,b,train,2\nO,a,test,3\n")
    graphs = read(path)
    assert graphs.parts is not None
    assert graphs.parts.tolist() == [0, 0, 2]
    assert any("not used: 'weight'" in note for note in graphs.notes)


@pytest.mark.parametrize(
    ("smiles", "words"),
    [
        (
            "CC(C)(C)(C)C",
            r"line 3: .*Explicit valence for atom # 1 C, 5, is greater than permitted",
        ),
        ("c1ccccc", r"line 3: 'c1ccccc' is no molecule, rdkit cannot read it"),
        ("c1cccc1", r"line 3: 'c1cccc1' is no molecule, Can't kekulize mol"),
        ("", r"line 3 has no SMILES"),
        ("C" * (MAX_LENGTH + 1), r"line 3 is a SMILES of 10,001 characters; at most 10,000"),
    ],
)
def test_a_smiles_that_is_no_molecule_is_named(
    smiles: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "molecules.csv"
    path.write_text(f"smiles,label\nC,a\n{smiles},b\n")
    with pytest.raises(UserError, match=words):
        read(path)
    assert capfd.readouterr().err == ""


def test_a_list_of_smiles_takes_a_list_of_labels() -> None:
    graphs = from_any(["CCO", "CCN", "CCC"], labels=[0, 1, 0])
    assert graphs.graph_ids == ["CCO", "CCN", "CCC"]
    assert (graphs.y.tolist(), graphs.label_type) == ([0, 1, 0], "int")
    assert from_any(["CCO", "CCO"], labels=[0, 1]).graph_ids == ["0", "1"]
    with pytest.raises(UserError, match="there are 2 SMILES but 1 labels"):
        from_any(["CCO", "CCN"], labels=[0])
    with pytest.raises(UserError, match="SMILES 2 is a int; give molecules as SMILES"):
        from_any(["CCO", 3], labels=[0, 1])
    with pytest.raises(UserError, match="SMILES 2 has half a character; write it in UTF-8"):
        from_any(["CCO", "C\ud800"], labels=[0, 1])


def test_without_rdkit_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(
        UserError, match=r"needs rdkit; install it with pip install 'quatgraph\[mol"
    ):
        read(write_molecules(tmp_path / "molecules.csv"))


def test_other_formats_have_no_column_of_smiles(tmp_path: Path) -> None:
    path = tmp_path / "graphs.jsonl"
    path.write_text('{"edges": [[0, 1]], "label": 0}\n')
    with pytest.raises(UserError, match=r"has no columns, so data\.smiles=x names none"):
        read(path, smiles="x")


def test_all_that_is_no_molecule_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "molecules.csv"
    path.write_text("smiles,label\nC,a\nc1ccccc,b\nCC,b\n,a\nC(C,a\n")
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path} line 3: 'c1ccccc' is no molecule, rdkit cannot read it; correct it or remove it; "
        f"likewise 2 more molecules: {path} line 5, {path} line 6"
    )
    with pytest.raises(UserError, match=r"likewise 1 more molecule: SMILES 3$"):
        from_any(["c1cc", "C", "C("], labels=[0, 1, 0])
