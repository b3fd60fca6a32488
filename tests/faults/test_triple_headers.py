"""The first line of triples: names of columns by their roles, a triple, or refused."""

from pathlib import Path

import pytest
from commands import assert_user_error, call

from quatgraph.data.link import Triples, from_names, read
from quatgraph.errors import UserError
from quatgraph.predictors.queries import OPEN, parse_queries

FACTS = [(f"person {k}", ("knows", "likes")[k % 2], f"person {(k + 3) % 12}") for k in range(12)]


def written(path: Path, header: str, rows: list[tuple[str, ...]] = FACTS, mark: str = ",") -> Path:
    lines = [header, *(mark.join(row) for row in rows)] if header else map(mark.join, rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def facts_of(triples: Triples) -> set[tuple[str, str, str]]:
    ends, kinds = triples.entities, triples.relations
    parts = (triples.train, triples.valid, triples.test)
    return {(ends[h], kinds[r], ends[t]) for part in parts for h, r, t in part.tolist()}


@pytest.mark.parametrize(
    "header",
    [
        "source,type,target",
        "entity1,rel,entity2",
        "Subject,Predicate,Object",
        "head_id,relation_type,tail_id",
        "from,edge,to",
        "s,p,o",
        "node1,edge_type,node2",
    ],
)
def test_names_of_roles_are_never_learned(header: str, tmp_path: Path) -> None:
    triples = read(written(tmp_path / "facts.csv", header))
    assert facts_of(triples) == set(FACTS)
    head, relation, tail = header.split(",")
    assert triples.notes[0] == (
        f"the columns of {tmp_path / 'facts.csv'} are read by name: {head!r} as head, "
        f"{relation!r} as relation, {tail!r} as tail"
    )


@pytest.mark.parametrize("mark", [",", "\t", ";"])
@pytest.mark.parametrize("quotes", [False, True])
def test_columns_are_read_by_name_in_any_order_and_others_are_not(
    mark: str, quotes: bool, tmp_path: Path
) -> None:
    rows = [(str(k), t, r, "x y", h) for k, (h, r, t) in enumerate(FACTS)]
    names = ("id", "target", "type", "note", "source")
    if quotes:
        rows = [tuple(f'"{cell}"' for cell in row) for row in rows]
    triples = read(written(tmp_path / "facts.csv", mark.join(names), rows, mark))
    assert facts_of(triples) == set(FACTS)
    assert triples.notes[0].endswith(
        "'source' as head, 'type' as relation, 'target' as tail; not used: 'id', 'note'"
    )


def test_a_line_of_another_width_than_the_header_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "facts.csv", "id,head,relation,tail", [("1", "a", "is", "b"), ("2",)])
    with pytest.raises(UserError, match="line 3 has 1 column where 4 are needed"):
        read(path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("head,source,relation,tail", "names the head twice, as 'head' and 'source'; rename or"),
        ("head,relation,type,tail", "names the relation twice, as 'relation' and 'type'"),
        ("one,two,three,four", "4 columns where 3 are needed; leave out the others, or name three"),
    ],
)
def test_a_header_of_too_much_is_refused(header: str, words: str, tmp_path: Path) -> None:
    rows = [(*fact, "x") for fact in FACTS]
    with pytest.raises(UserError, match=words):
        read(written(tmp_path / "facts.csv", header, rows))


def test_a_first_line_that_may_be_both_is_refused_until_it_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "facts.csv", "wer,wie,wen")
    with pytest.raises(UserError) as result:
        read(path)
    assert str(result.value) == (
        f"{path} line 1 may be a triple or column names: 'wer', 'wie', 'wen' do not occur anywhere "
        "else; use --set data.header=false or --set data.header=true (in Python header=False or "
        "header=True), or name the columns head, relation and tail"
    )
    assert facts_of(read(path, header=True)) == set(FACTS)
    assert read(path, header=True).notes[0] == (
        f"the first line of {path} is read as column names, and the columns by place: 'wer' as "
        "head, 'wie' as relation, 'wen' as tail"
    )
    assert facts_of(read(path, header=False)) == {*FACTS, ("wer", "wie", "wen")}


@pytest.mark.parametrize(
    "first",
    [("person 3", "met", "a dog"), ("a cat", "met", "person 3"), ("a cat", "likes", "fish")],
)
def test_a_first_triple_of_which_one_name_comes_again_is_a_triple(
    first: tuple[str, str, str], tmp_path: Path
) -> None:
    rows = [first, *FACTS]
    path = written(tmp_path / "facts.csv", "", rows)
    triples = read(path)
    assert facts_of(triples) == set(rows)
    known = {name for fact in FACTS for name in fact}
    once = " and ".join(repr(name) for name in first if name not in known)
    note = (
        f"{path} line 1 is read as a triple: {', '.join(map(repr, first))}, though {once} do not "
        "occur anywhere else; --set data.header=true if it names columns"
    )
    assert triples.notes[0] == note
    assert note not in read(path, header=False).notes
    assert facts_of(read(path, header=True)) == set(FACTS)


def test_a_first_triple_with_one_new_name_or_few_triples_has_no_note(tmp_path: Path) -> None:
    rows = [("a cat", "likes", "person 3"), *FACTS]
    for given in (rows, [("a cat", "likes", "fish"), *FACTS[:4]]):
        notes = read(written(tmp_path / "facts.csv", "", given)).notes
        assert not any("is read as a triple" in note for note in notes)


def test_few_triples_may_all_be_different(tmp_path: Path) -> None:
    rows = [(f"h{k}", f"r{k}", f"t{k}") for k in range(5)]
    assert facts_of(read(written(tmp_path / "facts.csv", "", rows))) == set(rows)
    assert facts_of(from_names([*rows, ("a", "b", "c")])) == {*rows, ("a", "b", "c")}


def test_names_in_the_other_files_count_but_not_their_first_lines(tmp_path: Path) -> None:
    written(tmp_path / "train.csv", "", FACTS)
    # Each is new among its own lines alone.
    rare = [(f"person {k}", "likes", f"person {k + 6}") for k in range(6)]
    written(tmp_path / "valid.csv", "", rare)
    assert len(read(tmp_path).valid) == 6
    for part, rows in (("train", FACTS), ("valid", rare)):
        written(tmp_path / f"{part}.csv", "wer,wie,wen", rows)
    with pytest.raises(UserError, match=r"train\.csv line 1 may be a triple or column names"):
        read(tmp_path)


def test_column_names_that_are_names_of_the_graph_are_refused(tmp_path: Path) -> None:
    rows = [("s", "r", "a"), ("b", "r", "o"), *FACTS]
    path = written(tmp_path / "facts.csv", "s,r,o", rows)
    with pytest.raises(
        UserError, match=r"the first line of .* may be a triple .* in other lines too"
    ):
        read(path)
    assert facts_of(read(path, header=False)) == {("s", "r", "o"), *rows}
    assert facts_of(read(path, header=True)) == set(rows)


def test_of_three_columns_two_names_are_enough_where_there_is_a_header(tmp_path: Path) -> None:
    path = written(tmp_path / "facts.csv", "target,verb,source", [(t, r, h) for h, r, t in FACTS])
    assert facts_of(read(path, header=True)) == set(FACTS)


def test_questions_are_read_by_the_same_rule(tmp_path: Path) -> None:
    graph = from_names(FACTS)
    rows = [("7", "?", "knows", "person 2"), ("8", "person 5", "likes", "")]
    notes: list[str] = []
    path = written(tmp_path / "asked.csv", "id,target,type,source", rows)
    numbers = parse_queries(path, graph, notes)
    expected = [("person 2", "knows", None), (None, "likes", "person 5")]
    assert numbers.tolist() == parse_queries(expected, graph).tolist()
    assert OPEN in numbers[0].tolist()
    assert notes == [
        f"the columns of {path} are read by name: 'source' as head, 'type' as relation, 'target' "
        "as tail; not used: 'id'"
    ]
    with pytest.raises(UserError, match="line 1: there is no entity 'wer'"):
        parse_queries(written(path, "wer,wie,wen", [("person 2", "knows", "?")]), graph)
    with pytest.raises(
        UserError, match="4 columns where 3 are needed; leave out the others, or name three"
    ):
        parse_queries(written(path, "a,b,c,d", rows), graph)


def test_the_command_line_says_it_once_and_takes_the_setting(tmp_path: Path) -> None:
    path = written(tmp_path / "facts.csv", "source,type,target")
    small = ["--set", "train.epochs=2", "--set", "model.dim_quats=1", "--device", "cpu"]
    small += ["--set", "model.decoder=distmult", "--set", "train.lr=0.1", "--set", "train.n3=0.0"]
    small += ["--set", "train.batch_size=8", "--set", "model.dropout=0.0"]
    trained = call("train", "link", "--data", str(path), "--out", str(tmp_path / "model"), *small)
    note = f"the columns of {path} are read by name: 'source' as head"
    assert trained.exit_code == 0
    assert trained.stderr.count(note) == 1
    assert note not in trained.stdout
    counted = call("data", "stats", str(path))
    assert counted.stderr.count(note) == 1
    assert "relations 2\n" in counted.stdout
    asked = written(tmp_path / "asked.csv", "target,type,source", [("?", "knows", "person 2")])
    assert (
        f"the columns of {asked} are read by name"
        in call("predict", str(tmp_path / "model"), str(asked)).stderr
    )
    written(path, "wer,wie,wen")
    assert_user_error(call("data", "stats", str(path)), "--set data.header=false")
    assert "relations 2\n" in call("data", "stats", str(path), "--set", "data.header=true").stdout
