"""Triples of names: rows, arrays, frames, and tables with columns of any name."""

import numpy as np
import pytest

from quatgraph.data.link import Triples, from_names, read
from quatgraph.errors import UserError

FACTS = [("a", "knows", "b"), ("b", "knows", "c"), ("c", "likes", "a"), ("a", "likes", "c")]
COLUMNS = {"head": "who", "relation": "does", "tail": "whom"}


def facts_of(graph: Triples) -> set[tuple[str, str, str]]:
    rows = [row for part in (graph.train, graph.valid, graph.test) for row in part.tolist()]
    ends, kinds = graph.entities, graph.relations
    return {(ends[head], kinds[relation], ends[tail]) for head, relation, tail in rows}


def frame(library: str, names: tuple[str, ...] = ("head", "relation", "tail")):
    module = pytest.importorskip(library)
    return module.DataFrame(dict(zip(names, zip(*FACTS, strict=True), strict=True)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_its_triples_in_columns_by_name(library):
    graph = from_names(frame(library, ("tail", "relation", "head")))
    assert facts_of(graph) == {(tail, relation, head) for head, relation, tail in FACTS}
    assert "'head' as head, 'relation' as relation, 'tail' as tail" in graph.notes[0]
    chosen = from_names(frame(library, ("who", "does", "whom")), columns=COLUMNS)
    assert facts_of(chosen) == set(FACTS)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_three_columns_of_unknown_names_are_read_by_place(library):
    graph = from_names(frame(library, ("x", "y", "z")))
    assert facts_of(graph) == set(FACTS)
    assert graph.notes[0] == (
        "the columns of the frame are read by place: 'x' as head, 'y' as relation, 'z' as tail"
    )


def test_a_frame_and_an_array_give_the_triples_of_a_list():
    pandas = pytest.importorskip("pandas")
    same = [from_names(FACTS), from_names(np.array(FACTS)), from_names(frame("pandas"))]
    same += [from_names(np.array(FACTS, dtype=object)), from_names(pandas.DataFrame(FACTS))]
    assert len({graph.digest for graph in same}) == 1


def test_a_frame_that_holds_no_triples_is_refused():
    pandas = pytest.importorskip("pandas")
    whole = frame("pandas")
    with pytest.raises(UserError, match=r"^row 1 .* of the frame has no tail; fill it in or leave"):
        from_names(whole.assign(tail=["b", None, "a", "c"]))
    with pytest.raises(UserError, match=r"^row 0 .* of the frame has \[1\] in column 'relation'"):
        from_names(whole.assign(relation=[[1], "x", "y", "z"]))
    with pytest.raises(UserError, match="the frame has the columns 'a' where head, relation and"):
        from_names(pandas.DataFrame({"a": ["x"]}))
    with pytest.raises(UserError, match=r"^the frame has no triples"):
        from_names(whole.iloc[:0])
    with pytest.raises(UserError, match="the frame has two columns named 'head'"):
        from_names(pandas.concat([whole, whole[["head"]]], axis=1))
    with pytest.raises(UserError, match="no column 'heads'; did you mean 'head'"):
        from_names(whole, columns={"head": "heads"})


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_other_tables_give_the_triples_of_a_list(tmp_path, suffix):
    whole, path = frame("pandas", ("who", "does", "whom")), tmp_path / f"facts{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        whole.to_parquet(path)
    else:
        whole.to_json(path, orient="records", lines=suffix == ".jsonl")
    assert facts_of(read(path, columns=COLUMNS)) == set(FACTS)
    (tmp_path / "folder").mkdir()
    path.rename(tmp_path / "folder" / f"train{suffix}")
    assert facts_of(read(tmp_path / "folder", columns=COLUMNS)) == set(FACTS)


def test_columns_of_a_table_are_named_in_any_order_beside_others(tmp_path):
    path = tmp_path / "facts.csv"
    path.write_text("when,whom,does,who\n" + "".join(f"1,{t},{r},{h}\n" for h, r, t in FACTS))
    graph = read(path, columns=COLUMNS)
    assert facts_of(graph) == set(FACTS)
    assert graph.notes[0] == (
        f"the columns of {path} are read by name: 'who' as head, 'does' as relation, 'whom' as "
        "tail; not used: 'when'"
    )


def test_columns_that_are_not_named_keep_their_usual_names_or_are_the_remaining_ones(tmp_path):
    path = tmp_path / "facts.csv"
    lines = "".join(f"{h},{r},{t}\n" for h, r, t in FACTS)
    for first, columns in {
        "x,relation,tail": {"head": "x"},
        "head,y,tail": {"relation": "y"},
        "a,b,c": {"tail": "c", "head": "a"},
        "tail,relation,head": {"head": "tail", "tail": "head"},
    }.items():
        path.write_text(f"{first}\n{lines}")
        assert facts_of(read(path, columns=columns)) == set(FACTS)


@pytest.mark.parametrize(
    ("columns", "header", "words"),
    [
        ({"head": "wo"}, None, "facts.csv has no column 'wo'; did you mean 'who'?"),
        ({"head": "who"}, None, "4 columns where 3 are needed.*data.relation and data.tail"),
        ({"head": "who", "tail": "who"}, None, "name the same column; name one for each"),
        ({"head": "who"}, False, "data.header=false says that .*facts.csv does not name"),
    ],
)
def test_columns_that_cannot_be_selected_are_refused(tmp_path, columns, header, words):
    path = tmp_path / "facts.csv"
    path.write_text("when,who,what,whom\n1,a,b,c\n")
    with pytest.raises(UserError, match=words):
        read(path, columns=columns, header=header)
