"""Features of entities from the command line: files, notes and mistakes."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from cities import CITIES, ENTITIES, PEOPLE, write_cities
from commands import assert_user_error, call

SHORT = ["--set", "train.epochs=3", "--set", "model.dim_quats=2", "--device", "cpu"]
SIMQGNN = ["--set", "model.name=simqgnn", "--set", "train.lr=0.01"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TABLE = "entity,kind,size\n" + "".join(
    f"{name},{name.split()[0]},{number}\n" for number, name in enumerate(ENTITIES)
)


@pytest.fixture
def towns(tmp_path: Path) -> Path:
    """A folder with the parts of a knowledge graph and a table of its entities."""
    folder = write_cities(tmp_path / "towns")
    (folder / "entities.csv").write_text(TABLE)
    return folder


def last_object(result: Any) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def card(folder: str) -> Any:
    return json.loads((Path(folder) / "card.json").read_text())


@pytest.mark.usefixtures("towns")
def test_features_are_trained_evaluated_predicted_and_embedded() -> None:
    trained = call("train", "link", "--data", "towns", *SHORT, *SIMQGNN, "--out", "m")
    assert trained.exit_code == 0
    assert trained.stderr == (
        "quatgraph: towns/entities.csv: text columns are one-hot encoded: 'kind' (2 categories)\n"
    ).replace("towns", str(Path("towns").resolve()))
    assert card("m")["features"] == ["kind=city", "kind=person", "size"]
    assert call("evaluate", "m", "--device", "cpu").exit_code == 0
    for query in (["--head", "person 1", "--relation", "knows", "--explain"], ["--missing"]):
        assert call("predict", "m", *query, "--top", "2", "--device", "cpu").exit_code == 0
    embedded = call("embed", "m", "--out", "e.npy", "--device", "cpu")
    assert "30 vectors of 8 numbers" in embedded.stdout


@pytest.mark.usefixtures("towns")
def test_a_refit_and_a_resumed_training_keep_the_features() -> None:
    first = ["train", "link", "--data", "towns", *SHORT, *SIMQGNN]
    whole = last_object(call(*first, "--out", "whole", "--json"))
    assert "stopped after 1 of 3" in call(*first, "--out", "m", "--max-minutes", "1e-9").stdout
    resumed = last_object(call(*first, "--out", "m", "--resume", "--json"))
    assert resumed["metrics"] == whole["metrics"]
    refitted = call(*first, "--out", "m", "--resume", "--refit")
    assert "then trained again on all labels" in refitted.stdout
    assert card("m")["features"] == ["kind=city", "kind=person", "size"]
    assert call("predict", "m", "--head", "city 1", "--relation", "knows").exit_code == 0


def test_a_table_elsewhere_is_named_by_a_setting(towns: Path) -> None:
    (towns / "entities.csv").unlink()
    with gzip.open("about.tsv.gz", "wt") as stream:
        stream.write("who\tage\n" + "".join(f"{name}\t{name[-1]}\n" for name in ENTITIES))
    named = ["--set", "data.entities=about.tsv.gz", "--set", "data.entity=who"]
    trained = call("train", "link", "--data", "towns", *SHORT, *SIMQGNN, *named, "--out", "m")
    assert trained.exit_code == 0
    assert card("m")["features"] == ["age"]
    searched = call("search", "link", "--data", "towns", *SHORT, *SIMQGNN, *named, "--out", "s")
    assert searched.exit_code == 0


@pytest.mark.usefixtures("towns")
@pytest.mark.parametrize("name", ["embeddings", "conve", "tucker", "rescal"])
def test_a_model_that_takes_none_refuses_and_trains_without(name: str) -> None:
    chosen = ["train", "link", "--data", "towns", *SHORT, "--set", f"model.name={name}"]
    chosen += ["--set", "train.lr=0.01", "--out", "m"]
    assert_user_error(call(*chosen), f"the model {name} takes no features of", notes=True)
    assert call(*chosen, "--set", "data.entities=none").exit_code == 0
    assert card("m")["features"] == []


@pytest.mark.usefixtures("towns")
def test_the_portfolio_says_which_models_do_without() -> None:
    trained = call("train", "link", "--data", "towns", *SHORT, "--out", "m")
    assert trained.exit_code == 0
    assert "trained without the features of entities" in trained.stderr


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", ["entities.csv has no labels; write an id and a label per line, or remove it"]),
        ("entity,kind,size\n", ["entities.csv lists no entities; add a line for each"]),
        ("who,kind,size\n" + TABLE.partition("\n")[2], ["no column of entity names", "'who'"]),
        (
            TABLE + "city 0,city,2\n",
            ["line 32 repeats the entity 'city 0' of", "line 27", "'entity'"],
        ),
        (TABLE + ",city,2\n", ["line 32 has no entity in column 'entity'"]),
        (TABLE + "Rome,city\n", ["line 32 has 2 cells but the first line has 3"]),
        (TABLE.replace("city 0,city,25", "city 0,city,inf"), ["line 27", "'inf'", "'size'"]),
        (TABLE.replace("city 0,city,25", "city 0,city,1e99"), ["line 27", "'1e99'", "'size'"]),
        (TABLE.replace("city 0,city,25", "city 0,city,2_5"), ["line 27", "'2_5'", "'size'"]),
        (TABLE.replace("size", "kind"), ["two columns named 'kind'"]),
        (TABLE.replace("size", ""), ["column 3 of", "has no name"]),
        (TABLE.replace("city 0", '"city 0'), ["is not valid CSV"]),
        ("entity,kind,size\nRome,city,3\n", ["names none of the 30 entities", "'Rome'"]),
    ],
)
def test_a_table_that_cannot_be_read_names_file_line_and_column(
    table: str, words: list[str], towns: Path
) -> None:
    (towns / "entities.csv").write_text(table)
    found = call("train", "link", "--data", "towns", *SHORT, *SIMQGNN, "--out", "m")
    assert_user_error(found, "entities.csv", *words)
    assert not Path("m").exists()


def test_missing_cells_and_lacking_rows_are_told(towns: Path) -> None:
    lines = TABLE.replace("person 3,person,3", "person 3,,").splitlines()[: PEOPLE + CITIES]
    (towns / "entities.csv").write_text("\n".join([*lines, "Rome,city,1", ""]))
    trained = call("train", "link", "--data", "towns", *SHORT, *SIMQGNN, "--out", "m")
    assert trained.exit_code == 0
    for note in (
        "1 row of entities that are in no triple left out",
        "has no row for 1 of 30 entities; their features are zeros",
        "missing numbers become the median of their column: 'size' (1 row)",
        "missing categories become zeros: 'kind' (1 row)",
    ):
        assert note in trained.stderr


@pytest.mark.usefixtures("towns")
def test_models_with_and_without_features_are_compared() -> None:
    chosen = ["train", "link", "--data", "towns", *SHORT, *SIMQGNN]
    assert call(*chosen, "--out", "with").exit_code == 0
    assert call(*chosen, "--set", "data.entities=none", "--out", "without").exit_code == 0
    compared = call("compare", "with", "without", "--device", "cpu")
    assert compared.exit_code == 0, compared.stderr
    assert "test MRR over 6 shared test triples of towns" in compared.stdout
