"""Triples from files."""

import gzip
import lzma
from pathlib import Path

import pytest
import torch

from quatgraph.data.formats import infer_task
from quatgraph.data.link import READERS, from_names, read
from quatgraph.data.link.triples import Triples
from quatgraph.errors import UserError

TRAIN = "a\tis\tb\nb\tis\tc\nc\tof\ta\n"


def write(folder: Path, **texts: str) -> Path:
    """A folder with a ``.tsv`` file for each text."""
    for name, text in texts.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    return folder


def facts(triples: Triples, part: str) -> list[tuple[str, str, str]]:
    return [
        (triples.entities[head], triples.relations[relation], triples.entities[tail])
        for head, relation, tail in getattr(triples, part).tolist()
    ]


def test_a_folder_gives_its_parts(tmp_path):
    triples = read(write(tmp_path, train=TRAIN, valid="a\tof\tc\n", test="b\tof\ta\n"))
    assert triples.name == tmp_path.name
    assert facts(triples, "train") == [("a", "is", "b"), ("b", "is", "c"), ("c", "of", "a")]
    assert facts(triples, "valid") == [("a", "of", "c")]
    assert facts(triples, "test") == [("b", "of", "a")]
    assert triples.notes == []
    assert triples.entity_labels == triples.entities == ["a", "b", "c"]


def test_parts_may_have_other_formats_names_and_packings(tmp_path):
    plain = read(write(tmp_path, train=TRAIN, valid="a\tof\tc\n", test="b\tof\ta\n"))
    other = tmp_path / "other"
    other.mkdir()
    comma = TRAIN.replace("\t", ",")
    (other / "train.csv.xz").write_bytes(lzma.compress(comma.encode()))
    (other / "dev.txt.gz").write_bytes(gzip.compress(b"subject\tpredicate\tobject\na\tof\tc\n"))
    (other / "test.txt").write_bytes(b"\xef\xbb\xbfb\tof\ta\r\n")
    again = read(other)
    assert again.digest == plain.digest
    assert again.notes == [
        f"the columns of {other / 'dev.txt.gz'} are read by name: 'subject' as head, "
        "'predicate' as relation, 'object' as tail",
        "the split 'dev' is read as valid",
    ]


def test_one_file_is_split_and_nothing_in_the_parts_is_new(tmp_path):
    ends = [f"e{number}" for number in range(20)]
    lines = [f"{a}\tr{len(a + b) % 3}\t{b}" for a in ends for b in ends]
    file = tmp_path / "mine.tsv.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    triples = read(file)
    assert triples.name == "mine"
    assert [len(part) for part in (triples.train, triples.valid, triples.test)] == [360, 20, 20]
    assert triples.train[:, [0, 2]].unique().numel() == 20
    assert triples.notes == [
        f"20 for valid and 20 for test were drawn from the triples of {file} with seed 0"
    ]
    assert read(file).digest == triples.digest != read(file, split_seed=1).digest


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("a\tis\tb\n", [1, 0, 0]),
        ("a\tis\tb\nb\tis\ta\n", [1, 1, 0]),
        ("a\tis\tb\nb\tis\ta\na\tof\tb\nb\tof\ta\n", [2, 1, 1]),
        ("a\tis\tb\nc\tis\td\ne\tof\tf\n", [3, 0, 0]),
    ],
)
def test_a_tiny_graph_keeps_what_training_needs(text, sizes, tmp_path):
    triples = read(write(tmp_path, train=text))
    assert [len(part) for part in (triples.train, triples.valid, triples.test)] == sizes


def test_a_missing_valid_part_is_drawn_and_the_test_part_stays(tmp_path):
    write(tmp_path, train=TRAIN + "a\tis\tc\nb\tof\ta\n", test="a\tof\ta\n")
    triples = read(tmp_path)
    assert facts(triples, "test") == [("a", "of", "a")]
    assert (len(triples.train), len(triples.valid)) == (4, 1)


def test_repeated_and_shared_triples_are_reported(tmp_path):
    write(tmp_path, train=TRAIN + TRAIN + "a\tis\t b\n", valid="b\tis\tc\n", test="c\tof\ta\n" * 2)
    triples = read(tmp_path)
    assert [len(part) for part in (triples.train, triples.valid, triples.test)] == [3, 1, 1]
    train, valid, test = (tmp_path / f"{part}.tsv" for part in ("train", "valid", "test"))
    assert triples.notes == [
        f"{train} repeats 4 triples; each counts once",
        f"{test} repeats 1 triple; each counts once",
        f"1 triple of {valid} is in {train} too, "
        "which makes valid results look better than they are",
        f"1 triple of {test} is in {train} too, which makes test results look better than they are",
    ]


def test_unseen_names_are_refused_dropped_or_kept(tmp_path):
    write(tmp_path, train=TRAIN, valid="a\tis\tc\n", test="a\tis\ta\nx\tis\ty\nb\tis\tx\n")
    with pytest.raises(
        UserError,
        match=r"test.tsv line 2: no training triple has the entities 'x', 'y' of this part; "
        r"add training triples, or leave such triples out with unseen='drop'",
    ):
        read(tmp_path, unseen="refuse")
    dropped = read(tmp_path, unseen="drop")
    assert facts(dropped, "test") == [("a", "is", "a")]
    assert dropped.entities == ["a", "b", "c"]
    assert dropped.notes == [
        f"2 triples of {tmp_path / 'test.tsv'} left out for an entity or a relation that no "
        "training triple has"
    ]
    kept = read(tmp_path)
    assert kept.entities == ["a", "b", "c", "x", "y"]
    assert facts(kept, "test") == [("a", "is", "a"), ("x", "is", "y"), ("b", "is", "x")]
    assert kept.notes == [
        f"2 triples of {tmp_path / 'test.tsv'}, the first in line 2, have an entity or a relation "
        "that no training triple has; they are kept, and test metrics are reported apart for seen "
        "and unseen ones (--set data.unseen=drop leaves them out)"
    ]
    write(tmp_path, test="a\tby\tb\n")
    with pytest.raises(UserError, match="line 1: no training triple has the relation 'by'"):
        read(tmp_path, unseen="refuse")
    with pytest.raises(UserError, match="unseen must be one of refuse, drop, keep; did you mean"):
        read(tmp_path, unseen="dropp")


def test_labels_name_entities_and_relations(tmp_path):
    write(tmp_path, train=TRAIN, entities="a\tAnna\nc\tCéline\n", relations="id\tname\nis\tis a\n")
    (tmp_path / "relations.tsv").rename(tmp_path / "relations.txt")
    triples = read(tmp_path)
    assert triples.entity_labels == ["Anna", "b", "Céline"]
    assert triples.relation_labels == ["is a", "of"]
    assert triples.entity("anna") == 0
    entities, relations = tmp_path / "entities.tsv", tmp_path / "relations.txt"
    assert triples.notes[:2] == [
        f"{entities} has no label for 1 of 3 entities; their ids are used",
        f"{relations} has no label for 1 of 2 relations; their ids are used",
    ]
    write(tmp_path, entities="a\tAnna\nb\tBen\nc\tC\nx\tXerxes\n")
    message = f"{entities}: 1 label of entities that are in no triple left out"
    assert message in read(tmp_path).notes


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("Anna\ta\nBen\tb\n", r"entities.tsv names none of the 3 entities .*'Anna', 'Ben'"),
        ("a\n", "entities.tsv line 1 has 1 column where 2 are needed; write id, label"),
        ("a\tAnna\na\tAnne\n", "entities.tsv line 2 calls 'a' 'Anne' but an earlier line"),
        ("", "entities.tsv has no labels"),
    ],
)
def test_a_label_file_that_does_not_match_is_refused(labels, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read(write(tmp_path, train=TRAIN, entities=labels))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, "has no train.tsv, nor train.csv or train.txt$"),
        ({"trian": TRAIN}, "has no train.tsv, .*; did you mean 'trian.tsv'"),
        ({"x": TRAIN}, "has no train.tsv, nor train.csv or train.txt; it holds 'x.tsv'"),
        ({"train": ""}, "train.tsv has no triples"),
        ({"train": TRAIN, "test": "\n"}, "test.tsv has no triples"),
        ({"train": TRAIN, "valid": TRAIN, "val": TRAIN}, "has both valid.tsv and val.tsv; keep"),
        ({"train": "a\tis\n"}, "train.tsv line 1 has 2 columns"),
        ({"train": TRAIN + "a\tis\tb\t1\n"}, "train.tsv line 4 has 4 columns"),
        ({"train": TRAIN + "a\t\tb\n"}, "train.tsv line 4 has an empty relation"),
    ],
)
def test_a_folder_that_is_no_graph_is_refused(texts, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read(write(tmp_path, **texts))


def test_a_missing_path_is_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"no file or folder .*nowhere; the task link reads a folder"
    ):
        read(tmp_path / "nowhere")
    with pytest.raises(UserError, match="seed of a split must be 0 or more, got -1"):
        read(write(tmp_path, train=TRAIN), split_seed=-1)
    (tmp_path / "bad.tsv").write_bytes(b"a\tis\tb\nc\tis\t\xe9\n")
    with pytest.raises(UserError, match=r"bad\.tsv line 2 is not UTF-8 text"):
        read(tmp_path / "bad.tsv")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("a.csv.gz", True),
        ("a.TSV", True),
        ("a.txt", True),
        ("a.txt.xz", True),
        ("a.jsonl", True),
        ("a.pdf", False),
        ("a", False),
    ],
)
def test_triples_are_known_by_the_suffix_of_their_file(name, known, tmp_path):
    (tmp_path / name).touch()
    assert any(reader.matches(tmp_path / name) for reader in READERS) == known


def test_triples_are_known_by_the_files_of_their_folder(tmp_path):
    assert infer_task(write(tmp_path, train=TRAIN)) == "link"
    (tmp_path / "nodes.csv").touch()
    assert infer_task(tmp_path) == "link"
    (tmp_path / "train.tsv").unlink()
    with pytest.raises(UserError, match=r"is not link data.* it looks like node data"):
        read(tmp_path)


def test_header_can_be_set(tmp_path):
    write(tmp_path, train="wer\twie\twen\n" + TRAIN)
    assert read(tmp_path, header=True).entities == ["a", "b", "c"]
    assert "wen" in read(tmp_path, header=False).entities
    assert torch.equal(read(tmp_path).train, read(tmp_path, header=False).train)


def test_rows_of_names_are_as_their_file(tmp_path):
    rows = [(f"p{k}", "knows", f"p{(k + step) % 12}") for k in range(12) for step in (1, 2)]
    lines = "".join("\t".join(row) + "\n" for row in [*rows, rows[0]])
    triples, file = from_names(iter([*rows, rows[0]])), tmp_path / "triples.tsv"
    file.write_text(lines)
    assert triples.digest == read(file).digest
    assert triples.notes == [note.replace(str(file), "the list") for note in read(file).notes]
    assert triples.notes[0] == "the list repeats 1 triple; each counts once"
    assert from_names(rows, split_seed=1).digest != triples.digest


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there are no triples; give head, relation and tail of each"),
        (
            [("a", "is", "b"), ("a", "is")],
            r"triple 2 is \('a', 'is'\); give head, relation and tail",
        ),
        (["abc"], "triple 1 is 'abc'"),
        ([("a", "is", "b"), ("a", " ", "b")], "triple 2 has no relation; fill it in"),
    ],
)
def test_rows_that_are_no_triples_are_refused(rows, message):
    with pytest.raises(UserError, match=message):
        from_names(rows)
