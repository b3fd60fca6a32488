"""Files of triples as numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.link import parts as triple_files
from quatgraph.data.link.parts import (
    Numbering,
    Part,
    Parts,
    draw_parts,
    read_parts,
    spare_triples,
)
from quatgraph.errors import UserError

graphs = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)),
    min_size=1,
    max_size=60,
    unique=True,
)


def parsed(*texts: str | bytes, header: bool | None = None) -> Parts:
    names = ("train", "valid", "test")
    contents = {
        name: (f"{name}.tsv", text.encode() if isinstance(text, str) else text)
        for name, text in zip(names, texts, strict=False)
    }
    return read_parts(contents, header=header)


def named(parts: Parts, part: str = "train") -> list[tuple[str, str, str]]:
    """The triples of a part in words."""
    ends, kinds = parts.entities, parts.relations
    rows = parts.by_name[part].triples.tolist()
    return [(ends[head], kinds[relation], ends[tail]) for head, relation, tail in rows]


def test_parts_share_sorted_entities_and_relations():
    parts = parsed("b\tlikes\ta\n b \thates\tc\n", "d,likes,a\n")
    assert parts.entities == ["a", "b", "c", "d"]
    assert parts.relations == ["hates", "likes"]
    assert parts.by_name["train"].triples.tolist() == [[1, 1, 0], [1, 0, 2]]
    assert parts.by_name["valid"].triples.tolist() == [[3, 1, 0]]
    assert parts.by_name["train"].triples.dtype == np.int64


@pytest.mark.parametrize(
    ("first", "row"),
    [
        ("head\trelation\ttail", "a\tis\tb"),
        ("Subject,Predicate,Object", "a,is,b"),
        ("h;r;t", "a;is;b"),
        ('"head_id","relation_id","tail_id"', 'a,is,"b"'),
        ("source\ttarget\trel", "a\tb\tis"),
        ("object\tproperty\tsubject", "b\tis\ta"),
    ],
)
def test_a_line_of_column_names_is_known_and_says_the_order(first, row):
    parts = parsed(f"{first}\n{row}\n")
    assert named(parts) == [("a", "is", "b")]
    assert parts.by_name["train"].header
    assert parts.by_name["train"].at(0) == "train.tsv line 2"
    with_names = parsed(f"{first}\n{row}\n", header=False)
    assert len(named(with_names)) == 2
    assert not with_names.by_name["train"].header


def test_other_column_names_are_skipped_with_header():
    text = "wer\twie\twen\na\tis\tb\n"
    assert named(parsed(text)) == [("wer", "wie", "wen"), ("a", "is", "b")]
    assert named(parsed(text, header=True)) == [("a", "is", "b")]
    assert named(parsed("a\tp\ts\n")) == [("a", "p", "s")]


def test_names_that_no_triple_has_can_be_left_out():
    parts = parsed("c\tis\ta\nb\tof\ta\n")
    kept = {"train": parts.by_name["train"].take(np.array([True, False]))}
    less = Parts(kept, parts.entities, parts.relations).without_unused()
    assert (less.entities, less.relations) == (["a", "c"], ["is"])
    assert named(less) == [("c", "is", "a")]
    assert parts.without_unused().entities == parts.entities


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "train.tsv has no triples; write one per line: head, relation, tail"),
        ("\n \n", "train.tsv has no triples"),
        ("head\trelation\ttail\n", "train.tsv has no triples"),
        ("a\tis\tb\n\na\t \tb\n", "train.tsv line 3 has an empty relation; fill it in"),
        ("a\tis\tb\n\tis\tb\n", "train.tsv line 2 has an empty head"),
        ('"a",is,""\n', "train.tsv line 1 has an empty tail"),
        ("a\tis\tb\na\tis\n", "train.tsv line 2 has 2 columns where 3 are needed"),
        (b"h\tr\tt\na\tis\t\xfc\n", "train.tsv line 2 is not UTF-8 text"),
    ],
)
def test_what_is_no_triple_is_refused_with_its_line(text, message):
    with pytest.raises(UserError, match=message):
        parsed(text)


def test_a_graph_that_cannot_be_numbered_is_refused():
    triple_files.check_size(2**30, 3)
    with pytest.raises(
        UserError, match="4,294,967,296 entities and 1 relations, which is too large"
    ):
        triple_files.check_size(2**32, 1)


def test_names_are_numbered_as_they_come_and_sorted_in_the_end():
    numbering = Numbering()
    first, again = numbering.encode(["b", "c", "b"]), numbering.encode(["a", "b"])
    assert [*first, *again] == [0, 1, 0, 2, 0]
    names, place = numbering.sort()
    assert names == ["a", "b", "c"]
    assert place[[*first, *again]].tolist() == [1, 2, 1, 0, 1]


def as_parts(triples: np.ndarray) -> Parts:
    part = Part("f", triples, np.arange(1, len(triples) + 1))
    return Parts({"train": part}, [f"e{n}" for n in range(7)], [f"r{n}" for n in range(3)])


@given(graphs, st.integers(0, 5))
def test_nothing_in_valid_and_test_is_new_and_nothing_is_lost(rows, seed):
    triples = np.array(rows)
    parts = draw_parts(as_parts(triples), seed)
    drawn = {key: part.triples for key, part in parts.by_name.items()}
    train = drawn["train"]
    together = np.concatenate(list(drawn.values()))
    assert sorted(map(tuple, together.tolist())) == sorted(rows)
    assert set(train[:, [0, 2]].flat) == set(triples[:, [0, 2]].flat)
    assert set(train[:, 1]) == set(triples[:, 1])
    for part in parts.by_name.values():
        assert np.array_equal(triples[part.lines - 1], part.triples)
        assert (np.diff(part.lines) > 0).all()
    spare = len(spare_triples(triples, seed))
    share = max(1, int(len(rows) * 0.05 + 0.5))
    assert len(drawn["valid"]) == min(share, -(-spare // 2))
    assert len(drawn["test"]) == min(share, spare // 2)


@given(graphs, st.integers(0, 5))
def test_all_spare_triples_may_go_together(rows, seed):
    triples = np.array(rows)
    left = np.delete(triples, spare_triples(triples, seed), axis=0)
    assert set(left[:, [0, 2]].flat) == set(triples[:, [0, 2]].flat)
    assert set(left[:, 1]) == set(triples[:, 1])


def test_a_large_graph_gives_its_share_and_another_seed_another_one():
    random = np.random.default_rng(0)
    triples = np.unique(random.integers(0, [7, 3, 7], size=(2000, 3)), axis=0)
    parts = [draw_parts(as_parts(triples), seed) for seed in (0, 0, 1)]
    share = int(len(triples) * 0.05 + 0.5)
    sizes = [len(parts[0].by_name[key]) for key in ("train", "valid", "test")]
    assert sizes == [len(triples) - 2 * share, share, share]
    first, again, other = (part.by_name["test"].lines.tolist() for part in parts)
    assert first == again != other
    assert parts[0].notes == [
        f"{share} for valid and {share} for test were drawn from the triples of f with seed 0"
    ]


@pytest.mark.parametrize("missing", [(), ("valid",), ("test",)])
def test_only_what_is_missing_is_drawn(missing):
    whole = as_parts(np.array([[0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1]]))
    train = whole.by_name["train"]
    given_parts = {key: train for key in ("train", "valid", "test") if key not in missing}
    drawn = draw_parts(Parts(given_parts, whole.entities, whole.relations), 0)
    assert len(drawn.by_name["train"]) == 5 - len(missing)
    for key in {"valid", "test"} - set(missing):
        assert drawn.by_name[key] is train
