"""A folder with a small graph of one's own: pets, of which a feature tells cats from dogs."""

import csv
from pathlib import Path

NAMES = [f"{name}-{k}" for k in range(8) for name in ("ann", "bob", "eve")]


def written(folder: Path) -> Path:
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "size", "noise"])
        for place, name in enumerate(NAMES):
            label = ("cat", "dog")[place % 2]
            writer.writerow([name, label, 1 + 4 * (place % 2), place % 5])
    edges = [(name, NAMES[(place + 2) % len(NAMES)]) for place, name in enumerate(NAMES)]
    (folder / "edges.csv").write_text("".join(f"{a},{b}\n" for a, b in edges))
    return folder
