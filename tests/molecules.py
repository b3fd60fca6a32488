"""Well-known molecules, for tests; whether one contains nitrogen is its label."""

from pathlib import Path

SMILES = {
    "aspirin": "CC(=O)Oc1ccccc1C(=O)O",
    "caffeine": "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "ethanol": "CCO",
    "benzene": "c1ccccc1",
    "paracetamol": "CC(=O)Nc1ccc(O)cc1",
    "ibuprofen": "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
    "nicotine": "CN1CCCC1c1cccnc1",
    "glucose": "OCC1OC(O)C(O)C(O)C1O",
    "glycine": "NCC(=O)O",
    "alanine": "CC(N)C(=O)O",
    "acetone": "CC(C)=O",
    "toluene": "Cc1ccccc1",
    "phenol": "Oc1ccccc1",
    "aniline": "Nc1ccccc1",
    "pyridine": "c1ccncc1",
    "naphthalene": "c1ccc2ccccc2c1",
    "indole": "c1ccc2[nH]ccc2c1",
    "adenine": "Nc1ncnc2[nH]cnc12",
    "vanillin": "COc1cc(C=O)ccc1O",
    "menthol": "CC1CCC(C(C)C)C(O)C1",
    "dopamine": "NCCc1ccc(O)c(O)c1",
    "acetic acid": "CC(=O)O",
    "urea": "NC(N)=O",
    "acetonitrile": "CC#N",
    "propane": "CCC",
    "butadiene": "C=CC=C",
    "acetylene": "C#C",
    "citric acid": "OC(=O)CC(O)(CC(=O)O)C(=O)O",
    "melatonin": "COc1ccc2[nH]cc(CCNC(C)=O)c2c1",
    "nitrobenzene": "[O-][N+](=O)c1ccccc1",
}


def write_molecules(path: Path, smiles: str = "smiles", label: str = "label") -> Path:
    """A table of all molecules."""
    lines = [f"id,{smiles},{label}"]
    for name, one in SMILES.items():
        lines.append(f"{name},{one},{'nitrogen' if 'n' in one.lower() else 'none of it'}")
    path.write_text("\n".join(lines) + "\n")
    return path
