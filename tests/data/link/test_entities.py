"""Tables of entities: names, labels and features by columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from quatgraph.adjacency import Adjacency
from quatgraph.data import link
from quatgraph.data.io.frame import Frame
from quatgraph.data.link import EntitySource, Triples, add_entities, from_names
from quatgraph.errors import UserError


def triples_of(*names: str) -> Triples:
    """A ring of entities, and one in no training triple."""
    ring = from_names([(a, "next", b) for a, b in zip(names, names[1:] + names[:1], strict=True)])
    train = torch.cat((ring.train, ring.valid, ring.test))
    return Triples("ring", train, train[:0], train[:0], [*ring.entities, "zoe"], ["next"],
                   [*ring.entities, "zoe"], ["next"])  # fmt: skip


RING = triples_of("ann", "bob", "cid", "dan")


def frame_of(**columns: Any) -> Frame:
    return Frame("t", columns, lambda row: f"t line {row + 2}", ",")


def dense_of(triples: Triples) -> torch.Tensor:
    x = triples.features
    assert x is not None
    return x.to_dense() if isinstance(x, Adjacency) else x


def test_numbers_are_standardized_by_the_entities_of_training_triples():
    ages = {"zoe": 99.0, "dan": 4.0, "bob": 2.0, "ann": 1.0, "cid": 3.5}
    made = add_entities(RING, frame_of(entity=[*ages], age=[str(age) for age in ages.values()]))
    known = np.array([[ages[name]] for name in RING.entities[:4]])
    theirs = StandardScaler().fit(known)
    expected = theirs.transform([[ages[name]] for name in RING.entities])
    torch.testing.assert_close(dense_of(made), torch.from_numpy(expected).float())
    assert made.feature_names == ["age"]
    assert made.notes == []


def test_many_columns_of_numbers_weigh_as_much_as_one():
    cells = ["1", "2", "3", "5"]
    one, four = (
        add_entities(RING, frame_of(id=RING.entities[:4], **dict.fromkeys(names, cells)))
        for names in ("a", "abcd")
    )
    norms = [dense_of(made).square().sum(dim=1) for made in (one, four)]
    torch.testing.assert_close(*norms)


def test_categories_and_booleans_are_ones_and_zeros():
    kinds, known = ["cat", "dog", "cat", "cat", "bat"], ["yes", "no", "", "yes", "no"]
    made = add_entities(RING, frame_of(id=RING.entities, kind=kinds, known=known))
    assert made.feature_names == ["kind=cat", "kind=dog", "known"]
    assert dense_of(made).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1], [1, 0, 1], [0, 0, 0]]
    assert made.notes == [
        "t: text columns are one-hot encoded: 'kind' (2 categories)",
        "t: missing numbers become the median of their column: 'known' (1 row)",
        "t: categories that the training data lacks become zeros: 'kind' ('bat' in 1 row)",
    ]


def test_lacking_and_unknown_entities_are_reported():
    made = add_entities(RING, frame_of(id=["bob", "eve", "cid"], age=["1", "9", "3"]))
    assert dense_of(made).flatten().tolist() == [0, -1, 1, 0, 0]
    assert made.notes == [
        "t: 1 row of entities that are in no triple left out",
        "t has no row for 3 of 5 entities; their features are zeros",
    ]


def test_the_column_of_names_is_the_usual_one_that_names_entities():
    columns = {"id": ["0", "1"], "qid": ["ann", "bob"], "name": ["Ann", "Bob"], "age": ["1", "2"]}
    made = add_entities(RING, frame_of(**columns))
    assert made.feature_names == ["age"]
    assert made.entity_labels == ["Ann", "Bob", "cid", "dan", "zoe"]
    assert made.notes[:2] == [
        "t: the column 'qid' holds the names of entities",
        "t: other names of entities are not used: 'id'",
    ]
    other = frame_of(who=["ann", "bob"], age=["1", "2"])
    assert add_entities(RING, other, "who").feature_names == ["age"]


def test_labels_alone_are_no_features():
    made = add_entities(RING, frame_of(id=["ann", "bob"], label=["Ann", ""]))
    assert made.features is None
    assert made.entity_labels[:2] == ["Ann", "bob"]
    kept = add_entities(RING, frame_of(id=["ann"], label=["A"], age=["1"]), with_features=False)
    assert (kept.features, kept.entity_labels[0]) == (None, "A")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"who": ["ann"], "age": ["1"]},
            r"no column of entity names, its columns are 'who', 'age'",
        ),
        ({"id": [], "age": []}, "t lists no entities; add a line for each"),
        ({"id": ["eve"], "age": ["1"]}, r"names none of the 5 entities .*'id' has 'eve'"),
        ({"id": ["ann", ""], "age": ["1", "2"]}, "t line 3 has no entity in column 'id'"),
        (
            {"id": ["ann", "bob", "ann"], "age": ["1", "2", "3"]},
            "t line 4 repeats the entity 'ann' of t line 2 in column 'id'",
        ),
        ({"id": ["ann", "bob"], "age": ["1", "inf"]}, "t line 3 has 'inf' in column 'age'"),
        ({"id": ["ann", "bob", "cid"], "age": ["1", "2", "3x"]}, "t line 4 has '3x' in column"),
        ({"id": ["zoe"], "age": ["1"]}, "no row for an entity of a training triple"),
        ({"id": ["ann", "bob"], "age": ["", ""]}, "no column that can be a feature; .*'age'"),
        ({"id": ["ann"]}, "t has names but no other column"),
        (
            {"id": ["ann", "bob", "zoe"], "age": ["1", "1.0000001", "1e38"]},
            "t line 4 has a number in column 'age' that is too far",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_a_mistake(columns, message):
    with pytest.raises(UserError, match=message):
        add_entities(RING, frame_of(**columns))


def test_a_column_that_is_not_there_gets_a_suggestion():
    with pytest.raises(UserError, match=r"no column 'Whom', which data.entity names.*'who'"):
        add_entities(RING, frame_of(who=["ann"], age=["1"]), "Whom")


def written(folder: Path, entities: str, name: str = "entities.csv") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "train.tsv").write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\na\tr\tc\n")
    (folder / name).write_text(entities)
    return folder


@pytest.mark.parametrize("text", ["entity,age\na,1\nb,2\n", "id,label,age\na,A,1\nb,B,2\n"])
def test_a_folder_may_hold_a_table_of_features(text, tmp_path):
    made = link.read(written(tmp_path, text))
    assert made.feature_names == ["age"]
    assert made.entity_labels[0] == ("A" if "label" in text else "a")
    plain = link.read(tmp_path, entities=EntitySource("none"))
    assert (plain.features, plain.entity_labels) == (None, made.entity_labels)


@pytest.mark.parametrize("text", ["a,Anna\nb,Ben\n", "id,label\na,Anna\n", "id,name\na,Anna\n"])
def test_a_list_of_labels_stays_one(text, tmp_path):
    made = link.read(written(tmp_path, text))
    assert (made.features, made.entity_labels[0]) == (None, "Anna")


def test_two_columns_with_unusual_names_are_labels_with_a_note_on_features(tmp_path):
    folder = written(tmp_path, "who,age\na,1\nb,2\n")
    made = link.read(folder)
    assert (made.features, made.entity_labels[:2]) == (None, ["1", "2"])
    (note,) = [note for note in made.notes if "list of ids and labels" in note]
    assert "'age' is a feature, set data.entity=who" in note
    assert link.read(folder, entities=EntitySource("", "who")).feature_names == ["age"]
    plain = link.read(written(tmp_path, "a,Anna\nb,Ben\n"))
    assert not [note for note in plain.notes if "list of ids" in note]


def test_a_table_elsewhere_replaces_that_of_the_folder(tmp_path):
    folder = written(tmp_path / "graph", "entity,age\na,1\nb,2\n")
    (tmp_path / "other.jsonl").write_text('{"who": "a", "size": 1}\n{"who": "b", "size": 3}\n')
    made = link.read(folder, entities=EntitySource(str(tmp_path / "other.jsonl"), "who"))
    assert made.feature_names == ["size"]
    single = link.read(folder / "train.tsv", entities=EntitySource(str(folder / "entities.csv")))
    assert single.feature_names == ["age"]


@pytest.mark.parametrize(
    ("path", "message"),
    [("nowhere.csv", "no file"), ("", "is no table"), ("a.xlsx", "is no table")],
)
def test_a_table_that_is_not_there_is_a_mistake(path, message, tmp_path):
    written(tmp_path / "graph", "a,Anna\n")
    with pytest.raises(UserError, match=message):
        link.read(tmp_path / "graph", entities=EntitySource(str(tmp_path / path)))


def test_a_list_of_labels_whose_column_is_named_is_read_as_a_table(tmp_path):
    folder = written(tmp_path, "id,label\na,Anna\n")
    assert link.read(folder, entities=EntitySource("", "id")).entity_labels[0] == "Anna"
    with pytest.raises(UserError, match=r"no column 'who', which data.entity names"):
        link.read(folder, entities=EntitySource("", "who"))


def test_a_column_of_no_table_is_a_mistake(tmp_path):
    folder = written(tmp_path, "", "notes.txt")
    with pytest.raises(UserError, match=r"'who' of a table of entities, but there is none"):
        link.read(folder, entities=EntitySource("", "who"))
