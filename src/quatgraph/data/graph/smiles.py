"""Molecules as SMILES (extra ``[molecules]``): atoms are nodes, bonds are edges.

A table has a column ``smiles``, for training a column ``label``, and optionally ``id``, ``split``
and ``group``. A node's tag is its element, and its features are :data:`ATOM_FEATURES`. The label of
an edge is its bond: single, double, triple or aromatic. Hydrogens are counted as a feature, but are
not nodes. Stereochemistry is not used.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quatgraph.data.graph.collection import Graphs
from quatgraph.data.graph.jsonl import merge_objects
from quatgraph.data.io.columns import find_column
from quatgraph.data.io.files import is_unicode
from quatgraph.data.io.frame import read_frame
from quatgraph.data.io.messages import count_noun, list_some, quote_some
from quatgraph.data.labels import label_type, list_labels
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Mol

SCAFFOLD = "scaffold"
"""The group that stands for Bemis-Murcko scaffolds, unless the table has a column of that name."""
ALONE = "the SMILES"
"""What messages call a molecule that comes alone."""
MAX_LENGTH = 10_000
"""Characters of a SMILES, at most."""
ATOM_FEATURES: tuple[Callable[["Atom"], float], ...] = (
    lambda atom: atom.GetFormalCharge(),
    lambda atom: atom.GetTotalNumHs(),
    lambda atom: atom.GetIsAromatic(),
    lambda atom: atom.IsInRing(),
)
"""Charge, number of hydrogens, and whether an atom is aromatic and in a ring."""


def read_smiles(
    path: Path, *, missing: Sequence[str] = (), labels_needed: bool = True, **keys: str
) -> Graphs:
    """Reads a table; for the options see :func:`quatgraph.data.graph.read`."""
    frame = read_frame(path, "molecule")
    names = frame.names
    wanted = dict.fromkeys(("smiles", "label", "split", "group"), "") | keys
    by_scaffold = wanted["group"] == SCAFFOLD and SCAFFOLD not in names
    if by_scaffold:
        wanted["group"] = ""
    if not labels_needed:  # a name that the table lacks is none of ours
        wanted |= {key: "" for key, name in wanted.items() if key != "smiles" and name not in names}
    found = {key: find_column(str(path), names, name, key) for key, name in wanted.items()}
    found["id"] = find_column(str(path), names, "", "id")
    for key in ("smiles", "label") if labels_needed else ("smiles",):
        if found[key] is None:
            raise UserError(
                f"{path} has no column {key!r}, its columns are {quote_some(names) or 'none'}; "
                f"rename one of them, or select one with --set data.{key}=NAME"
            )
    cells = {key: frame.words(name) for key, name in found.items() if name is not None}
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    if not rows:
        raise UserError(f"{path} lists no molecules; give each a line")
    objects = []
    places = [frame.at(place) for place in range(len(rows))]
    molecules = _parse_all([row.pop("smiles") for row in rows], places)
    for where, row, molecule in zip(places, rows, molecules, strict=True):
        own: dict[str, Any] = {key: word for key, word in row.items() if word}
        if by_scaffold:
            own["group"] = _find_scaffold(molecule)
        objects.append((where, _to_object(molecule) | own))
    merged = merge_objects(objects, missing=missing, labels_needed=labels_needed)
    used = [name for name in found.values() if name is not None]
    unused = [name for name in names if name not in used]
    if unused and labels_needed:
        merged.notes.append(f"{path}: not used: {quote_some(unused)}")
    return replace(merged, name=path.stem)


def from_smiles(
    smiles: Sequence[str],
    labels: Iterable[object] | None = None,
    *,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
) -> Graphs:
    """Molecules from a list of SMILES, which are their ids if all differ, and of labels."""
    known = None if labels is None else list_labels(labels, "SMILES")
    if known is not None and len(known) != len(smiles):
        raise UserError(f"there are {len(smiles)} SMILES but {len(known)} labels; give one to each")
    distinct = len(set(smiles)) == len(smiles)
    objects = []
    places = [f"SMILES {n}" for n in range(1, len(smiles) + 1)] if len(smiles) > 1 else [ALONE]
    for place, molecule in enumerate(_parse_all(smiles, places)):
        value = _to_object(molecule)
        if distinct:
            value["id"] = smiles[place]
        if known is not None:
            value["label"] = known[place]
        objects.append((places[place], value))
    merged = merge_objects(objects, missing=missing, labels_needed=labels_needed)
    return replace(merged, label_type=label_type(known or ()))


def _parse_all(smiles: Sequence[object], places: Sequence[str]) -> list["Mol"]:
    """The molecules of SMILES; ``places`` they are at, for an error that names all mistakes."""
    found, mistakes = list[Any](), dict[str, UserError]()
    for one, where in zip(smiles, places, strict=True):
        try:
            found.append(parse_smiles(one, where))
        except UserError as mistake:
            if isinstance(mistake.__cause__, ImportError):
                raise
            mistakes[where] = mistake
    if not mistakes:
        return found
    first, *others = mistakes
    also = f"; likewise {count_noun(len(others), 'more molecule')}: {list_some(others)}"
    raise UserError(f"{mistakes[first]}{also * bool(others)}")


def parse_smiles(smiles: object, where: str) -> "Mol":
    """The molecule of a SMILES; ``where`` it is, for messages."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise UserError(
            "reading SMILES needs rdkit; install it with pip install 'quatgraph[molecules]'"
        ) from error
    if not isinstance(smiles, str):
        raise UserError(f"{where} is a {type(smiles).__name__}; give molecules as SMILES")
    if not smiles.strip():
        raise UserError(f"{where} has no SMILES; add it, or remove the molecule")
    if len(smiles) > MAX_LENGTH:
        raise UserError(
            f"{where} is a SMILES of {len(smiles):,} characters; at most {MAX_LENGTH:,} are read"
        )
    if not is_unicode(smiles):
        raise UserError(f"{where} has half a character; write it in UTF-8")
    silence = rdBase.BlockLogs()  # rdkit would print its reasons
    try:
        molecule: Mol | None = Chem.MolFromSmiles(smiles)
        if molecule is None:
            reason = _find_reason(Chem.MolFromSmiles(smiles, sanitize=False))
            shown = smiles if len(smiles) <= 60 else f"{smiles[:60]}..."
            raise UserError(f"{where}: {shown!r} is no molecule, {reason}; correct it or remove it")
    finally:
        del silence
    return molecule


def _find_reason(molecule: "Mol | None") -> str:
    """Why a molecule that rdkit has not checked is none; None for one that it could not read."""
    from rdkit import Chem

    if molecule is None:
        return "rdkit cannot read it"
    problems = Chem.DetectChemistryProblems(molecule)
    message = problems[0].Message() if problems else "rdkit cannot read it"
    return str(message).strip().splitlines()[0].rstrip(".")


def _to_object(molecule: "Mol") -> dict[str, Any]:
    """A molecule as JSON has graphs."""
    atoms, bonds = list(molecule.GetAtoms()), list(molecule.GetBonds())
    return {
        "edges": [[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()] for bond in bonds],
        "node_labels": [atom.GetSymbol() for atom in atoms],
        "node_features": [[float(read(atom)) for read in ATOM_FEATURES] for atom in atoms],
        "edge_labels": [str(bond.GetBondType()).lower() for bond in bonds],
    }


def _find_scaffold(molecule: "Mol") -> str | None:
    """The Bemis-Murcko scaffold; None for a molecule without rings."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    found: str = MurckoScaffold.MurckoScaffoldSmiles(mol=molecule)
    return found or None
